"""Parts of a client's rows: one record touches one part, under the relation that the parts were made for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hushtune as ht
from hushtune.client.rows import Parts

PLACES = Parts(7)
CONTENT = Parts(7, "add-remove")
SMALL = st.lists(st.integers(0, 5), min_size=1, max_size=40)


class Table:
    """As much of a pandas table as is used: rows by place, an index that must not matter, object columns."""

    def __init__(self, values: Any) -> None:
        self.values = np.array(values, dtype=object)
        self.iloc = self

    def __getitem__(self, places: Any) -> Table:
        return Table(self.values[places])

    def __len__(self) -> int:
        return len(self.values)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.values


def rows(values: list[int], subjects: list[str] | None = None) -> ht.Rows:
    x = np.array(values, dtype=float)
    return ht.Rows(x[:, None], (x > 2).astype(int), np.array(subjects) if subjects is not None else None)


def listed(data: ht.Rows, parts: Parts) -> list[list[float]]:
    return [np.asarray(part.X)[:, 0].tolist() for part in parts.of(data)]


def changed(one: list[list[float]], other: list[list[float]]) -> int:
    return sum(a != b for a, b in zip(one, other, strict=True))


@given(SMALL, st.sampled_from([PLACES, CONTENT]))
def test_parts_are_disjoint_and_whole(values: list[int], parts: Parts) -> None:
    found = listed(rows(values), parts)
    assert len(found) == 7
    assert sorted(value for part in found for value in part) == sorted(values)


@given(SMALL, st.data())
def test_a_replaced_record_touches_one_part_of_places(values: list[int], data: st.DataObject) -> None:
    at, new = data.draw(st.integers(0, len(values) - 1)), data.draw(st.integers(0, 99))
    other = [*values[:at], new, *values[at + 1 :]]
    assert changed(listed(rows(values), PLACES), listed(rows(other), PLACES)) <= 1


@given(SMALL, st.data())
def test_an_added_record_touches_one_part_by_content(values: list[int], data: st.DataObject) -> None:
    at, new = data.draw(st.integers(0, len(values))), data.draw(st.integers(0, 99))
    other = [*values[:at], new, *values[at:]]
    assert changed(listed(rows(values), CONTENT), listed(rows(other), CONTENT)) == 1


def test_the_other_way_round_more_parts_change() -> None:
    """Why there are two ways: places move when a row is added, and a replaced row's hash moves."""
    values = list(range(20))
    assert changed(listed(rows(values), PLACES), listed(rows([99, *values]), PLACES)) > 1
    replaced = [listed(rows([new, *values[1:]]), CONTENT) for new in range(100, 120)]
    assert max(changed(listed(rows(values), CONTENT), other) for other in replaced) == 2


PEOPLE = st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 9)), min_size=1, max_size=40)


@given(PEOPLE, st.sampled_from([PLACES, CONTENT]))
def test_all_rows_of_a_person_are_in_one_part(people: list[tuple[str, int]], parts: Parts) -> None:
    names, values = [name for name, _ in people], [value for _, value in people]
    homes: dict[str, set[int]] = {}
    for number, part in enumerate(parts.of(rows(values, names))):
        for name in part.subjects.tolist():
            homes.setdefault(name, set()).add(number)
    assert all(len(home) == 1 for home in homes.values())


@settings(max_examples=200)
@given(PEOPLE, st.data())
def test_a_person_who_is_replaced_or_added_touches_one_part(people: list[tuple[str, int]], data: st.DataObject) -> None:
    """All rows of one person change, in number and place too, under the same name; or a person is added anywhere."""
    listed_people = list(dict.fromkeys(name for name, _ in people))
    by_person = {name: [value for n, value in people if n == name] for name in listed_people}
    new = data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=5))

    def data_of(of: dict[str, list[int]]) -> ht.Rows:
        pairs = [(name, value) for name, values in of.items() for value in values]
        return rows([value for _, value in pairs], [name for name, _ in pairs])

    victim = data.draw(st.sampled_from(listed_people))
    replaced = {name: (new if name == victim else v) for name, v in by_person.items()}
    assert changed(listed(data_of(by_person), PLACES), listed(data_of(replaced), PLACES)) <= 1
    interleaved = [pair for pair in people if pair[0] != victim]
    for value in new:
        interleaved.insert(data.draw(st.integers(0, len(interleaved))), (victim, value))
    mixed = rows([value for _, value in interleaved], [name for name, _ in interleaved])
    original = rows([value for _, value in people], [name for name, _ in people])
    assert changed(listed(original, PLACES), listed(mixed, PLACES)) <= 1
    added = {"z": new, **by_person}
    assert changed(listed(data_of(by_person), CONTENT), listed(data_of(added), CONTENT)) == 1


def test_a_record_is_hashed_by_its_values_alone() -> None:
    """Neither an index nor a column's type, which another row may change, moves a record to another part."""
    whole = Parts(50, "add-remove")

    def homes(values: list[list[Any]]) -> dict[str, int]:
        return {str(row[0]): n for n, part in enumerate(whole.of(Table(values))) for row in part.values.tolist()}

    integers = homes([[i, "x"] for i in range(30)])
    with_a_float = homes([[99, "x"], *([float(i), "x"] for i in range(30))])
    assert all(with_a_float[f"{float(name)}"] == home for name, home in integers.items())
    plain = Parts(50, "add-remove").of(np.arange(30))
    as_floats = Parts(50, "add-remove").of(np.array([*np.arange(30), np.nan]))
    assert [p.tolist() for p in plain] == [p[~np.isnan(p)].tolist() for p in as_floats]


def test_parts_of_other_kinds_of_data() -> None:
    matrix = np.arange(40).reshape(20, 2)
    assert sorted(np.concatenate(Parts(3).of(matrix)).tolist()) == matrix.tolist()
    assert sum(len(part) for part in Parts(3).of(list(range(10)))) == 10
    assert Parts(1).of("anything at all") == ["anything at all"]


@pytest.mark.parametrize(
    ("parts", "data", "message"),
    [
        (Parts(3), object(), "needs data with `len` and `take`, but got object"),
        (Parts(3, "add-remove"), [1, 2], "needs Rows, an array or a table, but got list"),
    ],
)
def test_data_that_cannot_be_split_is_refused(parts: Parts, data: Any, message: str) -> None:
    with pytest.raises(ht.SettingError, match=message):
        parts.check(data)


def test_bad_rows_and_numbers() -> None:
    with pytest.raises(ht.SettingError, match=r"`len\(subjects\) == len\(y\)` must hold, but got 1 and 2"):
        ht.Rows([[1], [2]], [0, 1], ["a"])
    with pytest.raises(ht.SettingError, match="voters=0"):
        Parts(0)
    with pytest.raises(ht.SettingError, match="voters=10001"):
        ht.Vote(voters=10_001)


ODD = [None, "x", 2**70, 10**400, 1j, float("nan"), [1, 2], b"b", -0.0]


@pytest.mark.parametrize("odd", ODD, ids=str)
def test_one_odd_value_moves_no_other_record(odd: Any) -> None:
    """Labels in a list: neither a part by content nor one by place depends on the type of another record's label."""
    labels: list[Any] = [0, 1] * 10
    x = np.arange(20.0)[:, None]
    before, after = ht.Rows(x, labels), ht.Rows(np.vstack([x, [[99.0]]]), [*labels, odd])
    assert changed(texts(before, CONTENT), texts(after, CONTENT)) == 1
    replaced = ht.Rows(x, [*labels[:-1], odd])
    assert changed(texts(before, PLACES), texts(replaced, PLACES)) == 1
    people: list[Any] = [n // 2 for n in range(20)]
    whose = ht.Rows(x, labels, people), ht.Rows(np.vstack([x, [[99.0]]]), [*labels, 0], [*people, odd])
    assert changed(texts(whose[0], CONTENT), texts(whose[1], CONTENT)) == 1


def texts(data: ht.Rows, parts: Parts) -> list[str]:
    return [repr((np.asarray(part.X).tolist(), part.y)) for part in parts.of(data)]


def test_ragged_lists_and_no_rows_can_be_split() -> None:
    ragged = [[1, 2], [3], [4, 5, 6]]
    assert sorted(row for part in Parts(3).of(ragged) for row in part) == sorted(ragged)
    for parts in (PLACES, CONTENT):
        assert [len(part) for part in parts.of(ht.Rows(np.zeros((0, 2)), np.zeros(0)))] == [0] * 7


def test_sparse_features_count_as_rows() -> None:
    from scipy.sparse import csr_matrix

    data = ht.Rows(csr_matrix(np.eye(6)), np.arange(6))
    assert sum(part.X.shape[0] for part in PLACES.of(data)) == 6
