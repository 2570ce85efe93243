"""A record's bytes depend on its values alone: not on the type that other records give to its column."""

from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from hushtune.client.encoding import encoded


def of(*values: Any) -> list[bytes]:
    records, odd = encoded([list(values)])
    assert not odd
    return records


MOMENT = dt.datetime(2024, 3, 1, 12, 30)
ALIKE = {
    "numbers": [
        101,
        101.0,
        np.int8(101),
        np.float32(101),
        np.uint64(101),
        Decimal("101.00"),
        Fraction(202, 2),
        101 + 0j,
        "101",
        "101.0",
        " 101",
        "1.01e2",
        np.str_("101"),
        b"101",
        np.bytes_(b"101"),
        np.array(101),
        "(101+0j)",
    ],
    "fractions": [0.1, np.float64(0.1), Decimal("0.1"), Fraction(1, 10), "0.1", "0.10", ".1"],
    "truth": [True, 1, 1.0, np.True_, "True", "1"],
    "zero": [False, 0, -0.0, "-0.0", "False", Decimal("-0")],
    "beyond integers of doubles": [2**60 + 1, float(2**60), np.int64(2**60 + 1), str(2**60 + 1), str(float(2**60))],
    "beyond doubles": [10**400, "1" + "0" * 400, float("inf"), Decimal("1e400"), Fraction(10**400)],
    "missing": [
        None,
        float("nan"),
        np.float32("nan"),
        -struct.unpack(">d", b"\x7f\xf8\x00\x00\x00\x00\x00\x01")[0],
        np.datetime64("NaT"),
        np.timedelta64("NaT"),
        Decimal("NaN"),
        Decimal("sNaN"),
        np.ma.masked,
        "nan",
        "None",
        "",
    ],
    "moments": [MOMENT, MOMENT.replace(tzinfo=dt.UTC), MOMENT.astimezone(dt.timezone(dt.timedelta(hours=5)))]
    + [np.datetime64(MOMENT, unit) for unit in ("m", "s", "ms", "us", "ns")]
    + [
        MOMENT.isoformat(),
        str(MOMENT),
        "2024-03-01T07:30:00-05:00",
        "2024-03-01T12:30Z",
        str(np.datetime64(MOMENT, "ns")),
    ],
    "dates": [
        dt.date(2024, 3, 1),
        dt.datetime(2024, 3, 1),
        np.datetime64("2024-03-01"),
        np.datetime64("2024-03"),
        np.datetime64("2024-03-01", "ns"),
        "2024-03-01",
        "2024-03-01 00:00:00",
    ],
    "spans": [
        dt.timedelta(hours=2),
        np.timedelta64(2, "h"),
        np.timedelta64(7200, "s"),
        np.timedelta64(7200 * 10**9, "ns"),
    ],
    "lists": [[1, "a"], (1.0, "a"), np.array([1, "a"]), np.array([1, "a"], dtype=object), ["1", b"a"]],
    "nested": [[[1, 2], [3, 4]], np.array([[1, 2], [3, 4]]), np.array([["1", "2"], ["3", "4"]]), ([1.0, 2], (3, 4))],
    "dicts": [{"a": 1, "b": 2}, {"b": "2", "a": 1.0}],
    "sets": [{1, 2, 3}, frozenset([3, 2, 1.0])],
    "structures": [np.array([(1, "x")], dtype=[("a", int), ("b", "U9")])[0], (1.0, "x")],
}


@pytest.mark.parametrize("values", ALIKE.values(), ids=ALIKE)
def test_equal_values_are_the_same_bytes_whatever_holds_them(values: list[Any]) -> None:
    assert dict(zip(of(*values), values, strict=True)).keys() == {of(values[0])[0]}


def test_different_values_are_different_bytes() -> None:
    different = [kind[0] for kind in ALIKE.values()]
    different += ["x", "0x65", "101a", b"\xff", 1j, -101, 2**53, [101], [[101]], [], {}, "2024-03-99", "1 2"]
    different += [[[1], [2]], [[1, 2]], [[1, 2], []], ["ab", "c"], ["a", "bc"], ["abc"], np.timedelta64(1, "Y")]
    different += [
        np.datetime64("2024-03-01T00:00:00.000000000001"),
        sparse.csr_array([[1]]),
        sparse.csr_array([[0, 1]]),
    ]
    assert len(set(of(*different))) == len(different)


CELLS = st.one_of(
    st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=True), st.booleans(), st.sampled_from([-0.0, 2**53 + 1])
)


@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=8))
def test_rows_of_an_array_are_the_same_bytes_as_lists(table: list[tuple[Any, Any]]) -> None:
    plain, _ = encoded([table])
    for held in (np.array(table, dtype=float), np.array(table, dtype=object), np.array(table, dtype=float).tolist()):
        assert encoded([held])[0] == plain
    stacked = np.array([table, table], dtype=float)
    assert encoded([stacked])[0] == encoded([stacked.tolist()])[0] == encoded([stacked.astype(object)])[0]


@given(st.lists(CELLS, min_size=1, max_size=8))
def test_one_text_in_an_array_changes_the_bytes_of_no_other_record(cells: list[Any]) -> None:
    """NumPy turns all numbers into texts then."""
    numbers = np.array(cells)
    assert encoded([np.array([*numbers, "a"])])[0][:-1] == encoded([numbers])[0]
    assert encoded([np.array([*numbers, b"a"])])[0][:-1] == encoded([numbers])[0]
    assert encoded([np.array([*numbers, None])])[0][:-1] == encoded([numbers])[0]


def test_one_text_among_moments_changes_the_bytes_of_no_other_record() -> None:
    days = np.array(["2024-01-01", "2024-01-02"], dtype="M8[D]")
    fine = np.array([*days, np.datetime64("2024-01-03T00:00:00.000000001")])
    assert encoded([np.array([*days, "a"])])[0][:-1] == encoded([days])[0] == encoded([fine])[0][:-1]


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix])
def test_sparse_rows_count_by_their_entries(kind: Any, form: str) -> None:
    dense = np.array([[0, 1, 0], [2, 0, 3], [0, 0, 0]])
    plain = encoded([sparse.csr_matrix(dense)])[0]
    assert len(set(plain)) == 3
    assert encoded([kind(dense.astype(float)).asformat(form)])[0] == plain
    untidy = kind(([1.0, 0.0, 3.0, 1.5, 0.5], ([0, 0, 1, 1, 1], [1, 2, 2, 0, 0])), shape=(3, 3))
    assert encoded([untidy])[0] == plain


def test_masked_cells_are_missing_whatever_they_hide() -> None:
    hidden = [np.ma.array([[1, value]], mask=[[False, True]]) for value in (5, 6)]
    assert encoded([hidden[0]]) == encoded([hidden[1]]) == encoded([[[1, None]]])


class Plain:
    pass


class Raises:
    def __str__(self) -> str:
        raise ValueError("the text of this one cannot be had")


def test_what_has_no_content_of_its_own_is_found_and_counts_by_its_type() -> None:
    values = [1, Plain(), [2, {"a": Plain()}], Raises(), "an error at 0x7f00", Plain()]
    records, odd = encoded([values])
    assert {row: kind.rpartition(".")[2] for row, kind in odd.items()} == {
        1: "Plain",
        2: "Plain",
        3: "Raises",
        5: "Plain",
    }
    assert records[1] == records[5] == encoded([[Plain()]])[0][0]
    assert len(set(records)) == 5
