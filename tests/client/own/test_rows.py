"""What a part sees is a function of its own rows: one record, replaced or added by anything, changes one part."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from tests.client.own.harness import changed, described

import hushtune as ht
from hushtune.client.own.rows import own

ONE = {"replace-one": 1, "add-remove": 1}
COUNTS = [[n, n % 3] for n in range(60)]
ODD = [
    "text",
    "a very long text indeed " * 9,
    0.5,
    -1e300,
    2**60 + 1,
    10**400,
    np.nan,
    None,
    True,
    b"\xff",
    "7",
    "",
    1j,
]


def array(records: list[Any]) -> Any:
    try:
        return np.array(records)
    except (OverflowError, UnicodeDecodeError):
        return np.array(records, dtype=object)


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: repr(odd)[:12])
def test_a_record_of_an_array(odd: Any) -> None:
    numbers = [row[0] for row in COUNTS]
    assert changed(numbers, odd, array, described, 17) == ONE
    assert changed([number + 0.25 for number in numbers], odd, array, described, 17) == ONE
    assert changed([f"name {number}" for number in numbers], odd, array, described, 17) == ONE
    assert changed([number % 2 == 0 for number in numbers], odd, array, described, 17) in (
        ONE,
        {**ONE, "replace-one": 0},
    )


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: repr(odd)[:12])
def test_a_record_of_rows(odd: Any) -> None:
    """In the features, in the label, and in lists, which keep their items as they are."""

    def look(part: Any) -> Any:
        return described(part.X), described(part.y)

    def rows(records: list[Any]) -> ht.Rows:
        return ht.Rows(array([row[:-1] for row in records]), array([row[-1] for row in records]))

    for record in ([odd, 1], [5, odd], [odd, odd]):
        assert changed(COUNTS, record, rows, look, 30) == ONE
        assert changed(COUNTS, record, lambda records: records, repr, 30) == ONE


@settings(max_examples=150)
@given(st.data())
def test_any_record_of_any_array(data: st.DataObject) -> None:
    numbers = st.one_of(st.integers(-(2**63), 2**63 - 1), st.floats(), st.booleans())
    kinds = [numbers, st.integers(0, 1), st.integers(0, 9).map(float), st.text("xyz", min_size=1)]
    records = data.draw(st.lists(data.draw(st.sampled_from(kinds)), min_size=2, max_size=30))
    anything = st.one_of(numbers, st.text(max_size=30), st.none(), st.integers(), st.just([1, 2]))
    record, at = data.draw(anything), data.draw(st.integers(0, len(records) - 1))

    def build(values: list[Any]) -> Any:
        try:
            return np.array(values)
        except (ValueError, OverflowError):
            held = np.empty(len(values), dtype=object)
            held[:] = values
            return held

    found = changed(records, record, build, described, at)
    assert max(found.values()) <= 1


@pytest.mark.parametrize("odd", [0.5, 2.0**70, np.nan, 3.0])
def test_a_record_of_a_sparse_matrix(odd: float) -> None:
    def look(part: Any) -> Any:
        return [described(values) for values in (part.data, part.indices, part.indptr)]

    for form in ("csr", "csc", "coo"):
        build = lambda rows, form=form: sparse.coo_array(np.array(rows)).asformat(form)  # noqa: E731
        assert changed(COUNTS, [odd, 0], build, look, 11) == ONE


def test_a_subject_of_another_type_changes_the_part_of_one_person() -> None:
    def rows(records: list[Any]) -> ht.Rows:
        return ht.Rows(np.ones((len(records), 1)), np.zeros(len(records)), array(records))

    def look(part: ht.Rows) -> Any:
        return described(part.X), described(part.subjects)

    people = [n // 2 for n in range(60)]
    for odd in ODD:
        assert changed(people, odd, rows, look, 60)["add-remove"] == 1


def test_what_is_neither_array_nor_table_stays_as_it_is() -> None:
    for given_rows in ([1, "a", None], {"a": 1}, "text", object()):
        assert own(given_rows) is given_rows
