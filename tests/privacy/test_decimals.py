"""Epsilons are what their shortest decimal texts name, and no rounding makes one smaller."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushtune.privacy.decimals import named, not_below

FLOATS = st.floats(min_value=0, allow_nan=False, allow_infinity=False)


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
