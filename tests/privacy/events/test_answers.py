"""Answers to a curator's tests: what they cost, against other ways to compute it."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hushtune.privacy.accounting import Renyi, Sums, epsilon_of, rdp_of, renyi_epsilon
from hushtune.privacy.events.answers import PureTests
from hushtune.privacy.events.sums import GaussianVector

DELTA = 1e-5


def test_the_cost_of_propose_test_in_the_worst_case() -> None:
    """Ding and Wu's epsilon0 = 0.1 at granularities 0.1 and 0.01."""
    assert epsilon_of((PureTests(0.1, 19),), DELTA) == pytest.approx(1.59, abs=0.005)
    assert epsilon_of((PureTests(0.1, 199),), DELTA) == pytest.approx(6.5, abs=0.05)


def _optimal(epsilon: float, times: int, delta: float) -> float:
    """Optimal composition (Kairouz, Oh, Viswanath 2015, Theorem 3.3), by bisection."""

    def excess(total: float) -> float:
        found = 0.0
        for against in range(times + 1):
            loss = (times - 2 * against) * epsilon
            if loss > total:
                chance = (
                    math.comb(times, against) * math.exp((times - against) * epsilon) / (1 + math.exp(epsilon)) ** times
                )
                found += chance * -math.expm1(total - loss)
        return found

    low, high = 0.0, times * epsilon
    if excess(0.0) <= delta:
        return 0.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > delta else (low, middle)
    return high


@settings(max_examples=40)
@given(st.floats(0.01, 1.0), st.integers(1, 40), st.sampled_from([1e-9, 1e-5, 1e-2]))
def test_the_cost_is_that_of_optimal_composition(epsilon: float, times: int, delta: float) -> None:
    """Never below it, and above it by hardly more than the grid's step."""
    event, exact = PureTests(epsilon, times), _optimal(epsilon, times, delta)
    assume(exact < 10)
    found = epsilon_of((event,), delta)
    assert exact * (1 - 1e-9) <= found <= exact + 1.01 * event.interval()


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-5), (1.0, 1e-9), (0.279, 1e-5), (16.1, 1e-5), (30.7, 1e-5)])
def test_one_test_costs_no_more_than_its_epsilon(epsilon: float, delta: float) -> None:
    assert epsilon_of((PureTests(epsilon),), delta) <= epsilon


def test_many_at_once_are_as_many_one_by_one() -> None:
    whole = epsilon_of((PureTests(0.1, 20),), DELTA)
    assert epsilon_of((PureTests(0.1, 5),) * 4, DELTA) == pytest.approx(whole, rel=1e-4)
    assert epsilon_of((PureTests(0.1, 13), PureTests(0.1, 7)), DELTA) == pytest.approx(whole, rel=1e-3)
    assert rdp_of((PureTests(0.1, 5),) * 4, 3.5) == pytest.approx(PureTests(0.1, 20).rdp(3.5))
    assert Sums().spent([((PureTests(0.1, 5),), DELTA)] * 2, DELTA).epsilon == pytest.approx(
        2 * epsilon_of((PureTests(0.1, 5),), DELTA)
    )


def test_fewer_tests_and_smaller_ones_cost_less() -> None:
    by_times = [epsilon_of((PureTests(0.1, times),), DELTA) for times in (1, 2, 5, 19, 60, 199)]
    by_epsilon = [epsilon_of((PureTests(epsilon, 19),), DELTA) for epsilon in (0.0, 0.01, 0.1, 0.5, 2.0)]
    assert by_times == sorted(by_times)
    assert by_epsilon == sorted(by_epsilon)


@given(st.floats(0.0, 8.0), st.floats(1.01, 50.0), st.integers(1, 4))
def test_divergences_are_sums_over_all_outcomes(epsilon: float, order: float, times: int) -> None:
    """Of randomised responses, each outcome written out."""
    likely = 1 / (1 + math.exp(-epsilon))
    terms = []
    for outcome in itertools.product((True, False), repeat=times):
        one = math.prod(likely if said else 1 - likely for said in outcome)
        other = math.prod(1 - likely if said else likely for said in outcome)
        terms.append(order * math.log(one) + (1 - order) * math.log(other))
    direct = float(np.logaddexp.reduce(terms)) / (order - 1)
    assert PureTests(epsilon, times).rdp(order) == pytest.approx(direct, rel=1e-6, abs=1e-9)
    assert PureTests(epsilon, times).rdp(order) <= times * epsilon * (1 + 1e-9) + 1e-12


def test_renyi_costs_more_than_optimal_composition_and_less_than_the_sum() -> None:
    event = PureTests(0.1, 19)
    assert epsilon_of((event,), DELTA) < renyi_epsilon((event,), DELTA) < 1.9
    spent = Renyi(20.0).spent([((event,), DELTA)], DELTA)
    assert spent.epsilon >= renyi_epsilon((event,), DELTA) * (1 - 1e-9)


def test_tests_that_say_nothing_cost_nothing() -> None:
    assert epsilon_of((PureTests(0.0, 1000),), DELTA) == 0
    assert PureTests(0.0, 1000).rdp(2.0) == 0
    assert not PureTests(0.0).bare


def test_hardly_any_noise_counts_as_none() -> None:
    for epsilon in (51.0, 1e9, math.inf):
        assert PureTests(epsilon).bare
        assert epsilon_of((PureTests(epsilon),), DELTA) == math.inf
        assert PureTests(epsilon).rdp(2.0) == math.inf
    assert not PureTests(50.0).bare


def test_tests_and_noisy_sums_compose() -> None:
    """Together they cost more than either and less than the sum."""
    tests, noisy = PureTests(0.2, 10), GaussianVector(4.0, 1.0)
    both, alone = epsilon_of((tests, noisy), DELTA), [epsilon_of((event,), DELTA) for event in (tests, noisy)]
    assert max(alone) < both < sum(alone)
