"""Events that stand for many steps: what they cost, against other ways to compute it, and an audit."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.rdp import RdpAccountant
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import geom, poisson

import hushtune as ht
from hushtune.core.randomness import SimulatedRandomness, words
from hushtune.privacy.accounting import Renyi, Sums, epsilon_of, rdp_of, renyi_epsilon
from hushtune.privacy.events.registry import event_from_json, event_to_json
from hushtune.privacy.events.steps import PureTests, SelectedRuns, TrainingSteps
from hushtune.privacy.events.sums import Event, GaussianVector
from hushtune.testing.audits import epsilon_lower_bound

DELTA = 1e-5


# ---- tests of pure privacy ---------------------------------------------------------------------------


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


# ---- private training --------------------------------------------------------------------------------


@pytest.mark.parametrize(("multiplier", "rate", "steps"), [(1.0, 0.01, 100), (2.0, 1.0, 5), (0.8, 0.1, 20)])
def test_training_is_its_steps_together(multiplier: float, rate: float, steps: int) -> None:
    event, step = TrainingSteps(multiplier, rate, steps), GaussianVector(multiplier, 1.0, rate)
    assert epsilon_of((event,), DELTA) == pytest.approx(epsilon_of((step,) * steps, DELTA), rel=1e-6)
    assert event.rdp(4.0) == pytest.approx(rdp_of((step,) * steps, 4.0))
    assert epsilon_of((event, event), DELTA) == pytest.approx(epsilon_of((step,) * (2 * steps), DELTA), rel=1e-6)


def test_training_without_noise_is_bare() -> None:
    assert TrainingSteps(0.0, 0.5, 3).bare
    assert epsilon_of((TrainingSteps(0.01, 0.5, 3),), DELTA) == math.inf


# ---- the best of several runs ------------------------------------------------------------------------


def _by_dp_accounting(event: SelectedRuns, delta: float) -> float:
    step = dp_event.PoissonSampledDpEvent(event.rate, dp_event.GaussianDpEvent(event.multiplier))
    parts: list[Any] = [dp_event.SelfComposedDpEvent(step, event.steps)]
    if event.score:
        parts.append(dp_event.GaussianDpEvent(event.score))
    accountant = RdpAccountant()
    shape = math.inf if event.shape is None else event.shape
    accountant.compose(dp_event.RepeatAndSelectDpEvent(dp_event.ComposedDpEvent(parts), event.mean, shape))
    return float(accountant.get_epsilon(delta))


@pytest.mark.parametrize(
    "event",
    [
        SelectedRuns(1.0, 0.01, 1000, 10.0),
        SelectedRuns(1.0, 0.01, 1000, 10.0, 0.0),
        SelectedRuns(1.0, 0.01, 1000, 10.0, None),
        SelectedRuns(1.0, 0.01, 1000, 10.0, 1.0, 5.0),
        SelectedRuns(2.0, 1.0, 1, 5.0, 0.5),
        SelectedRuns(4.0, 1.0, 1, 1.0, 1.0),
        SelectedRuns(4.0, 1.0, 1, 100.0, None),
    ],
)
def test_the_best_of_several_runs_costs_what_dp_accounting_says(event: SelectedRuns) -> None:
    found, theirs = epsilon_of((event,), DELTA), _by_dp_accounting(event, DELTA)
    assert theirs * (1 - 1e-4) <= found <= theirs * 1.06  # orders are whole here


@pytest.mark.parametrize(
    ("event", "delta"),
    [
        (SelectedRuns(50.0, 1.0, 1, 1.5, 1.0), 1e-8),  # its best order is 256
        (SelectedRuns(1.0, 0.01, 100, 1.5, 1.0), 1e-3),  # 8.6
    ],
)
def test_the_best_order_is_found_wherever_it_lies(event: SelectedRuns, delta: float) -> None:
    assert epsilon_of((event,), delta) <= _by_dp_accounting(event, delta) * 1.06


@pytest.mark.parametrize("shape", [0.0, 1.0, 3.0, None])
def test_more_runs_and_noisy_scores_cost_more(shape: float | None) -> None:
    by_mean = [epsilon_of((SelectedRuns(4.0, 1.0, 1, mean, shape),), DELTA) for mean in (1.5, 3.0, 10.0, 100.0)]
    assert by_mean == sorted(set(by_mean))
    assert by_mean[0] > epsilon_of((TrainingSteps(4.0, 1.0, 1),), DELTA)
    public, noisy, noisier = (
        epsilon_of((SelectedRuns(4.0, 1.0, 1, 10.0, shape, score),), DELTA) for score in (0.0, 20.0, 5.0)
    )
    assert public < noisy < noisier


def test_divergences_of_selected_runs_never_fall_and_end() -> None:
    event = SelectedRuns(2.0, 0.1, 10, 5.0)
    found = [event.rdp(order) for order in (1.05, 1.5, 2.0, 2.05, 8.0, 63.0, 100.0, 1024.0)]
    assert found == sorted(found)
    assert event.rdp(2.05) == event.rdp(2.1)
    assert event.rdp(2_001.0) == math.inf
    assert SelectedRuns(0.01, 0.1, 10, 5.0).rdp(2.0) == math.inf
    assert SelectedRuns(2.0, 0.1, 10, 5.0, 1.0, 0.05).bare
    with pytest.raises(ht.SettingError, match="no known privacy loss distribution"):
        event.pld(1e-3, 1)


# ---- an audit of the best of several runs ------------------------------------------------------------

RUNS = 100_000
FALSE_ALARM = 1e-7


def _uniform(size: int, label: str) -> NDArray[np.float64]:
    return np.asarray(((words(SimulatedRandomness(7, label), size) >> np.uint64(11)) + 0.5) / 2.0**53)


def best_outputs(mean: float, shape: float | None, multiplier: float, present: bool) -> NDArray[np.float64]:
    """The best score of K runs, where a run's score is its output: present or not, plus Gaussian noise.

    If there is no run at all, the output is one that no run has.
    """
    label = f"{mean} {shape} {multiplier} {present}"
    chance = _uniform(RUNS, f"runs {label}")
    counts = (poisson.ppf(chance, mean) if shape is None else geom.ppf(chance, 1 / mean)).astype(np.int64)
    outputs = float(present) + multiplier * ndtri(_uniform(int(counts.sum()), f"noise {label}"))
    best = np.full(RUNS, -1e9)
    np.maximum.at(best, np.repeat(np.arange(RUNS), counts), outputs)
    return best


@pytest.mark.statistical
@pytest.mark.parametrize("shape", [1.0, None])
def test_the_best_run_keeps_the_claim_and_halved_noise_is_caught(shape: float | None) -> None:
    """Geometric and Poisson numbers of runs. A low best score is rarer if somebody who raises it is there.

    False alarms: 1e-7 each.
    """
    multiplier, mean, delta = 1.0, 1.5, 0.05
    claim = epsilon_of((SelectedRuns(multiplier, 1.0, 1, mean, shape),), delta)

    def audit(drawn: float) -> float:
        without, present = (-best_outputs(mean, shape, drawn, there) for there in (False, True))
        low = epsilon_lower_bound(without, present, delta, FALSE_ALARM)
        return max(low, epsilon_lower_bound(-present, -without, delta, FALSE_ALARM))

    assert 0.4 * claim < audit(multiplier) <= claim
    assert audit(multiplier / 2) > claim


# ---- as plain values ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "event",
    [
        PureTests(0.1, 19),
        PureTests(0.0),
        TrainingSteps(1.1, 0.01, 1000),
        SelectedRuns(1.1, 0.01, 1000, 10.0),
        SelectedRuns(1.1, 0.01, 1000, 10.0, None, 3.0),
    ],
)
def test_events_survive_being_written_down(event: Event) -> None:
    raw = json.loads(json.dumps(event_to_json(event)))
    assert event_from_json(raw) == event
    with pytest.raises(ht.SettingError, match="unknown or missing"):
        event_from_json({**raw, "other": 1})
    first = next(name for name in raw if name != "event")
    with pytest.raises(ht.SettingError, match="unknown or missing"):
        event_from_json({name: value for name, value in raw.items() if name != first})
    with pytest.raises(ht.SettingError, match="event must be one of"):
        event_from_json({**raw, "event": "other"})


@pytest.mark.parametrize(
    "raw",
    [
        {"event": "pure-tests", "epsilon": -0.1},
        {"event": "pure-tests", "epsilon": math.nan},
        {"event": "pure-tests", "epsilon": "0.1"},
        {"event": "pure-tests", "epsilon": True},
        {"event": "pure-tests", "epsilon": None},
        {"event": "pure-tests", "epsilon": 0.1, "times": 0},
        {"event": "pure-tests", "epsilon": 0.1, "times": -19},
        {"event": "pure-tests", "epsilon": 0.1, "times": 1.5},
        {"event": "pure-tests", "epsilon": 0.1, "times": True},
        {"event": "pure-tests", "epsilon": 0.1, "times": 2**31},
        {"event": "training-steps", "multiplier": 1.0, "rate": 0.0, "steps": 3},
        {"event": "training-steps", "multiplier": 1.0, "rate": 1.5, "steps": 3},
        {"event": "training-steps", "multiplier": "1", "rate": 0.5, "steps": 3},
        {"event": "training-steps", "multiplier": math.nan, "rate": 0.5, "steps": 3},
        {"event": "training-steps", "multiplier": 1.0, "rate": 0.5, "steps": 0},
        {"event": "selected-runs", "multiplier": 1.0, "rate": 0.5, "steps": 3, "mean": 0.5},
        {"event": "selected-runs", "multiplier": 1.0, "rate": 0.5, "steps": 3, "mean": math.inf},
        {"event": "selected-runs", "multiplier": 1.0, "rate": 0.5, "steps": 3, "mean": 5.0, "shape": -0.5},
        {"event": "selected-runs", "multiplier": 1.0, "rate": 0.5, "steps": 3, "mean": 5.0, "shape": "poisson"},
        {"event": "selected-runs", "multiplier": 1.0, "rate": 0.5, "steps": 3, "mean": 5.0, "score": -1.0},
        {"event": "selected-runs", "multiplier": 1.0, "rate": 2.0, "steps": 3, "mean": 5.0},
    ],
)
def test_bad_fields_are_refused(raw: dict[str, Any]) -> None:
    with pytest.raises(ht.SettingError):
        event_from_json(raw)
