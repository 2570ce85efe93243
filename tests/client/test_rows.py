"""Parts of a client's rows: one record touches one part, under the relation that the parts were made for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hushtune as ht
from hushtune.client.rows import Parts, held_out, in_turn, repeated

PLACES = Parts(7)
CONTENT = Parts(7, "add-remove")
KEY = bytes(32)
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


class Takes:
    """Rows that are not known one by one."""

    def __len__(self) -> int:
        return 3

    def take(self, indices: Any) -> Takes:
        return self


def rows(values: list[int], subjects: list[str] | None = None) -> ht.Rows:
    x = np.array(values, dtype=float)
    return ht.Rows(x[:, None], (x > 2).astype(int), np.array(subjects) if subjects is not None else None)


def listed(data: ht.Rows, parts: Parts) -> list[list[float]]:
    return [np.asarray(part.X)[:, 0].tolist() for part in parts.of(data, KEY)]


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
    for number, part in enumerate(parts.of(rows(values, names), KEY)):
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
        return {str(row[0]): n for n, part in enumerate(whole.of(Table(values), KEY)) for row in part.values.tolist()}

    integers = homes([[i, "x"] for i in range(30)])
    with_a_float = homes([[99, "x"], *([float(i), "x"] for i in range(30))])
    assert all(with_a_float[f"{float(name)}"] == home for name, home in integers.items())
    plain = Parts(50, "add-remove").of(np.arange(30), KEY)
    as_floats = Parts(50, "add-remove").of(np.array([*np.arange(30), np.nan]), KEY)
    assert [p.tolist() for p in plain] == [p[~np.isnan(p)].tolist() for p in as_floats]


def test_parts_of_other_kinds_of_data() -> None:
    matrix = np.arange(40).reshape(20, 2)
    assert sorted(np.concatenate(Parts(3).of(matrix, KEY)).tolist()) == matrix.tolist()
    assert sum(len(part) for part in Parts(3).of(list(range(10)), KEY)) == 10
    assert Parts(1).of("anything at all", KEY) == ["anything at all"]


@pytest.mark.parametrize(
    ("parts", "data", "message"),
    [
        (Parts(3), object(), "needs rows: .*`take`, but got object"),
        (Parts(3, "add-remove"), Takes(), "needs Rows, an array, a table or a list, but got Takes"),
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
    return [repr((np.asarray(part.X).tolist(), part.y)) for part in parts.of(data, KEY)]


def test_ragged_lists_and_no_rows_can_be_split() -> None:
    ragged = [[1, 2], [3], [4, 5, 6]]
    assert sorted(row for part in Parts(3).of(ragged, KEY) for row in part) == sorted(ragged)
    for parts in (PLACES, CONTENT):
        assert [len(part) for part in parts.of(ht.Rows(np.zeros((0, 2)), np.zeros(0)), KEY)] == [0] * 7


def test_sparse_features_count_as_rows() -> None:
    from scipy.sparse import csr_matrix

    data = ht.Rows(csr_matrix(np.eye(6)), np.arange(6))
    assert sum(part.X.shape[0] for part in PLACES.of(data, KEY)) == 6


def test_who_has_no_key_cannot_tell_which_records_share_a_part() -> None:
    """By content and by subjects; places need no key, because they say nothing of a record."""
    data, people = rows(list(range(40))), rows(list(range(40)), [f"p{n}" for n in range(40)])
    other = b"another secret of another client"
    for parts, given_rows in ((CONTENT, data), (CONTENT, people), (PLACES, people)):
        mine, again, yours = (
            [part.y.tolist() for part in parts.of(given_rows, key)] for key in (KEY, bytes(32), other)
        )
        assert mine == again
        assert mine != yours


def test_a_list_of_raw_rows_is_split_by_content_too() -> None:
    lines = [f"{n},{n % 3}" for n in range(40)]
    dicts = [{"a": n, "b": str(n % 3)} for n in range(40)]
    for records in (lines, dicts):
        CONTENT.check(records)
        before = CONTENT.of(records, KEY)
        assert sorted(map(str, (record for part in before for record in part))) == sorted(map(str, records))
        assert changed(before, CONTENT.of(["odd", *records], KEY)) == 1


def test_one_text_label_moves_no_other_record() -> None:
    """NumPy turns the numbers of all other records into texts."""
    labels = [n % 7 for n in range(200)]
    x = np.arange(200.0)[:, None]
    before = CONTENT.of(ht.Rows(x, np.array(labels)), KEY)
    after = CONTENT.of(ht.Rows(np.vstack([x, [[999.0]]]), np.array([*labels, "unknown"])), KEY)
    homes = [{float(row[0]): n for n, part in enumerate(parts) for row in part.X} for parts in (before, after)]
    assert sum(homes[1][value] != home for value, home in homes[0].items()) == 0
    assert sum(part.y.dtype != np.int64 for part in after) == 1


class Scan:
    """Says nothing of its content."""


def test_an_object_without_content_is_refused_by_its_own_part_only() -> None:
    records: list[Any] = list(range(40))
    before, after = CONTENT.of(records, KEY), CONTENT.of([*records, Scan()], KEY)
    refused = [part for part in after if isinstance(part, Exception)]
    assert changed(before, after) == len(refused) == 1
    assert "must have content to be split by, but got a value of type" in str(refused[0])
    assert "0x" not in str(refused[0])
    assert not [part for part in PLACES.of([*records, Scan()], KEY) if isinstance(part, Exception)]


@given(st.lists(st.integers(0, 3), max_size=60), st.integers(0, 60))
def test_any_first_rows_have_the_labels_in_their_shares(labels: list[int], first: int) -> None:
    order = in_turn(np.array(labels, dtype=int))
    assert sorted(order) == list(range(len(labels)))
    for label in set(labels):
        mine = sum(labels[at] == label for at in order[:first])
        share = min(first, len(labels)) * labels.count(label) / len(labels)
        assert abs(mine - share) <= 1 + len(set(labels)) / 2


def test_a_labels_only_row_is_trained_on() -> None:
    data = ht.Rows(np.arange(20), np.array([1] + [0] * 19))
    for seed in range(20):
        split = held_out(data, 0.2, seed, alike=True)
        assert len(split.test) == 4
        assert 1 in split.train.y
        assert sorted([*split.train.X, *split.test.X]) == list(range(20))
    assert any(1 in held_out(data, 0.2, seed).test.y for seed in range(20))


def test_labels_in_several_columns_stay_in_their_order() -> None:
    np.testing.assert_array_equal(in_turn(np.zeros((3, 2))), [0, 1, 2])


def test_rows_are_repeated_until_they_are_enough() -> None:
    np.testing.assert_array_equal(repeated(3, 2, 4), [0, 1, 2, 0, 1, 2, 0, 1])
