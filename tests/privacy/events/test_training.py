"""Private training, and the best of several: what they cost, against other ways to compute it, and an audit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.rdp import RdpAccountant
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import geom, poisson

import hushtune as ht
from hushtune.core.randomness import SimulatedRandomness, words
from hushtune.privacy.accounting import epsilon_of, rdp_of
from hushtune.privacy.events.sums import GaussianVector
from hushtune.privacy.events.training import SelectedRuns, TrainingSteps
from hushtune.testing.audits import epsilon_lower_bound

DELTA = 1e-5


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
