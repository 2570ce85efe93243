"""An array's type follows from its own values, by rules that do not depend on what it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from hushtune.client.own.arrays import own_array, own_sparse


def told(values: Any) -> tuple[str, Any]:
    return values.dtype.str, values.tolist()


WHOLE, PARTLY = ("<i8", [1, 2]), ("<f8", [1.5, 2.0])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.array([1, 2]), WHOLE),
        (np.array([1.0, 2.0]), WHOLE),
        (np.array([1, 2], dtype=np.uint8), WHOLE),
        (np.array([1, 2], dtype=object), WHOLE),
        (np.array([1, 2 + 0j]), WHOLE),
        (np.array(["1", "2"]), WHOLE),
        (np.array(["1.0", "2.0"]), WHOLE),
        (np.array(["1", "2"], dtype="<U20"), WHOLE),
        (np.array([b"1", b"2"]), WHOLE),
        (np.array([True, 2], dtype=object), WHOLE),
        (np.array(["True", "2"]), WHOLE),
        (np.array([True, False]), ("<i8", [1, 0])),
        (np.array([1.5, 2]), PARTLY),
        (np.array(["1.5", "2"]), PARTLY),
        (np.array([1.5, 2], dtype=object), PARTLY),
        (np.array([1.5, 2], dtype=np.float32), PARTLY),
        (np.array([-0.0, 1.5]), ("<f8", [0.0, 1.5])),
        (np.array([2**60 + 1, 1]), ("<f8", [2.0**60, 1.0])),
        (np.array([2**60 + 1, 1], dtype=object), ("<f8", [2.0**60, 1.0])),
        (np.array([str(2**60 + 1), "1"]), ("<f8", [2.0**60, 1.0])),
        (np.array([10**400, 1], dtype=object), ("<f8", [np.inf, 1.0])),
        (np.array(["1e+22", "-inf"]), ("<f8", [1e22, -np.inf])),
        (np.array(["a", "bc"], dtype="<U9"), ("<U2", ["a", "bc"])),
        (np.array(["a", "bc"], dtype=object), ("<U2", ["a", "bc"])),
        (np.array(["a", "bc"], dtype=np.dtypes.StringDType()), ("<U2", ["a", "bc"])),
        (np.array([b"a", b"bc"], dtype="S9"), ("<U2", ["a", "bc"])),
        (np.array([b"\xff", b"\xff\xfe"], dtype="S9"), ("|S2", [b"\xff", b"\xff\xfe"])),
        (np.array(["0101", "1_0"]), ("<U4", ["0101", "1_0"])),
        (np.array([" 1", "+1", "01", "-0"]), ("<U2", [" 1", "+1", "01", "-0"])),
        (np.array(["1", "a"], dtype="<U9"), ("|O", [1, "a"])),
        (np.array([1, "a"], dtype=object), ("|O", [1, "a"])),
        (np.array([1.0, None]), ("|O", [1, None])),
        (np.array([1j, 1]), ("<c16", [1j, 1 + 0j])),
        (np.array(["2024-01-01"], dtype="M8[ns]"), ("<M8[D]", np.array(["2024-01-01"], "M8[D]").tolist())),
        (np.array(["2024-01-01", "NaT"], dtype="M8[M]"), ("<M8[D]", np.array(["2024-01-01", "NaT"], "M8[D]").tolist())),
        (np.array([60, 120], dtype="m8[us]"), ("<m8[us]", np.array([60, 120], "m8[us]").tolist())),
        (np.array([60, 120], dtype="m8[m]"), ("<m8[s]", np.array([3600, 7200], "m8[s]").tolist())),
        (
            np.array([np.datetime64("2024-01-01", "s")], dtype=object),
            ("<M8[D]", np.array(["2024-01-01"], "M8[D]").tolist()),
        ),
        (np.array([[1.0, 2.0]]), ("<i8", [[1, 2]])),
        (np.array([["1", "x"]]), ("|O", [[1, "x"]])),
        (np.zeros((0, 2), dtype="<U7"), ("<i8", [])),
    ],
)
def test_types_follow_from_values(values: Any, expected: tuple[str, Any]) -> None:
    assert told(own_array(values)) == expected
    assert told(own_array(own_array(values))) == expected


@pytest.mark.parametrize("unit", ["D", "s", "ms", "ns"])
def test_spans_of_time_held_as_objects_are_the_same_spans(unit: str) -> None:
    """One odd record makes a whole array one of objects: other parts must not see a difference."""
    spans = np.array([1, 2], dtype=f"m8[{unit}]")
    held = np.empty(3, dtype=object)
    held[:] = [*spans, "odd"]
    found, expected = own_array(held[:2]), own_array(spans)
    assert found.dtype == expected.dtype
    assert np.array_equal(found, expected)
    assert own_array(held)[0] == spans[0]


def test_missing_numbers() -> None:
    for values in (np.array([1, np.nan]), np.array(["1.0", "nan"]), np.array([1, np.nan], dtype=object)):
        assert own_array(values).tobytes() == np.array([1.0, np.nan]).tobytes()


def test_rows_held_as_objects_are_an_array_if_they_have_one_shape() -> None:
    """One row of another length makes an array of objects of all the others."""
    rows = np.empty(2, dtype=object)
    rows[:] = [[1, 2], [3, 4.0]]
    assert told(own_array(rows)) == told(own_array(np.array([[1.0, 2], [3, 4]]))) == ("<i8", [[1, 2], [3, 4]])
    rows[:] = [np.array([1.0]), np.array([2, 3])]
    assert [item.dtype.str for item in own_array(rows)] == ["<i8", "<i8"]


def test_fields_and_masks_have_types_of_their_own() -> None:
    given = np.array([(1.0, "a", 0.5)], dtype=[("x", float), ("name", "U20"), ("z", np.float32)])
    assert own_array(given).dtype == np.dtype([("x", "<i8"), ("name", "<U1"), ("z", "<f8")])
    first, second = (own_array(np.ma.array([1.0, hidden], mask=[False, True])) for hidden in (7.5, 99.0))
    assert first.data.tobytes() == second.data.tobytes()
    assert first.dtype == second.dtype == np.int64
    assert first.mask.tolist() == [False, True]


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_sparse_rows_hold_entries_only(form: str) -> None:
    found = own_sparse(sparse.csr_matrix(([1.0, 0.0, 2.0], ([0, 0, 1], [2, 0, 1])), shape=(2, 3)).asformat(form))
    assert (found.data.dtype.str, found.data.tolist()) == WHOLE
    assert (found.indices.tolist(), found.indptr.tolist(), found.indices.dtype.str) == ([2, 1], [0, 1, 2], "<i4")
    assert isinstance(found, sparse.csr_matrix)
