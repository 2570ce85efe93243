"""Epsilons are what their shortest decimal texts name, and no rounding makes one smaller."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushtune.privacy.decimals import added, named, not_below, remaining

FLOATS = st.floats(min_value=0, allow_nan=False, allow_infinity=False)
FINITE = st.floats(min_value=0, max_value=1e300)


@pytest.mark.parametrize(
    ("value", "exact"), [(0.3, Fraction(3, 10)), (1e-05, Fraction(1, 10**5)), (2.0, Fraction(2)), (0.0, Fraction(0))]
)
def test_a_float_is_what_its_shortest_text_says(value: float, exact: Fraction) -> None:
    assert named(value) == exact
    assert not_below(exact) == value


@given(FLOATS)
def test_what_a_text_names_is_the_float_again(value: float) -> None:
    assert not_below(named(value)) == value


@given(st.fractions(min_value=0, max_value=10**6))
def test_it_is_the_smallest_float_that_is_not_below(exact: Fraction) -> None:
    found = not_below(exact)
    assert named(found) >= exact
    assert found == 0 or named(math.nextafter(found, 0)) < exact


@given(FLOATS, FLOATS)
def test_sums_are_never_rounded_down(one: float, other: float) -> None:
    found = not_below(named(one) + named(other))
    assert math.isinf(found) or named(found) >= named(one) + named(other)


def test_the_ends_of_all_floats() -> None:
    assert not_below(Fraction(1, 10**400)) == 5e-324
    assert not_below(Fraction(10**400)) == math.inf
    assert not_below(Fraction(1, 10) * 3) == 0.3 != 0.1 * 3


def test_a_tenth_three_times_is_three_tenths() -> None:
    assert added([0.1, 0.1, 0.1]) == added([0.1, 0.2]) == 0.3 != 0.1 + 0.2
    assert added([]) == 0
    assert added([0.1, math.inf]) == math.inf


@given(st.lists(FINITE, max_size=9))
def test_what_is_added_up_is_the_smallest_float_that_is_not_below(costs: list[float]) -> None:
    found, exact = added(costs), sum(map(named, costs), Fraction(0))
    assert named(found) >= exact
    assert found == 0 or named(math.nextafter(found, 0)) < exact


@pytest.mark.parametrize(
    ("limit", "spent", "left"),
    [(0.3, 0.1, 0.2), (0.8, 0.1, 0.7), (1e-5, 0.0, 1e-5), (0.3, 0.3, 0.0), (1.0, math.inf, 0.0)],
)
def test_a_limit_leaves_what_its_text_says(limit: float, spent: float, left: float) -> None:
    assert remaining(limit, spent) == left


@given(FINITE, FLOATS)
def test_what_is_left_is_the_largest_that_fits(limit: float, spent: float) -> None:
    left = remaining(limit, spent)
    if spent > limit:
        assert left == 0
    else:
        assert named(spent) + named(left) <= named(limit) < named(spent) + named(math.nextafter(left, math.inf))
