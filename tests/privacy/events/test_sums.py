"""The bound on vectors: never below the exact divergence, near the Gaussian's, and refused where it says nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hushtune as ht
from hushtune.privacy.accounting import Budget, Renyi, Sums, best_order, epsilon_of, rdp_to_epsilon
from hushtune.privacy.bounds import AtMost, Ball, KHot
from hushtune.privacy.calibration import calibrate
from hushtune.privacy.events.registry import event_from_json, event_to_json
from hushtune.privacy.events.sums import SkellamShift, SkellamVector
from hushtune.privacy.noise.base import Noise, skellam

DELTA = 1e-5


def exact_rdp(variance: float, change: list[int], order: int) -> float:
    """The Rényi divergence of independent Skellam coordinates shifted by a vector: the sum over coordinates."""
    total = 0.0
    for shift in map(abs, change):
        reach = int(40 * math.sqrt(variance)) + 60 * order * max(shift, 1) // 10 + 400
        log_pmf = _log_pmf(variance, reach + shift)
        x = np.arange(-reach, reach + 1)
        terms = order * log_pmf[np.abs(x - shift)] + (1 - order) * log_pmf[np.abs(x)]
        total += float(np.logaddexp.reduce(terms)) / (order - 1)
    return total


def _log_pmf(variance: float, largest: int) -> np.ndarray:
    """log P(k) for k >= 0 by Bessel ratios downwards: independent of the package's own tables."""
    from scipy.special import ive

    ratio, ratios = 0.0, []
    for k in range(largest + 300, 0, -1):
        ratio = variance / (2 * k + variance * ratio)
        ratios.append(ratio)
    steps = np.log(np.array(ratios[::-1][:largest]))
    return np.concatenate([[0.0], np.cumsum(steps)]) + math.log(ive(0, variance))


@settings(max_examples=60)
@given(
    st.lists(st.integers(-6, 6), min_size=1, max_size=5).filter(any),
    st.sampled_from([0.5, 2.0, 9.0, 60.0, 400.0]),
    st.sampled_from([2, 3, 7, 20]),
)
def test_the_bound_is_never_below_the_exact_divergence(change: list[int], variance: float, order: int) -> None:
    vector = np.array(change)
    event = SkellamVector(variance, float(np.abs(vector).sum()), float(np.linalg.norm(vector)))
    assert event.rdp(order) >= exact_rdp(variance, change, order) * (1 - 1e-9)
    halved = SkellamVector(variance / 4, event.l1, event.l2)
    assert halved.rdp(order) > 3 * event.rdp(order)


def test_the_exact_divergence_here_is_that_of_a_shift_by_one() -> None:
    assert exact_rdp(30.0, [1, -1], 5) == pytest.approx(SkellamShift(30.0, 2).rdp(5), rel=1e-6)


def test_on_a_fine_grid_it_costs_what_the_gaussian_costs() -> None:
    for order in (2.0, 10.0, 50.0):
        assert SkellamVector(1e6, 2_000.0, 200.0).rdp(order) == pytest.approx(order * 200**2 / 2e6, rel=2e-3)


def test_orders_between_whole_ones_are_rounded_up() -> None:
    event = SkellamVector(50.0, 4.0, 2.0)
    assert event.rdp(3.2) == event.rdp(4.0) > event.rdp(3.0)


def test_calibrated_scales_of_a_soft_ballot() -> None:
    """100 candidates, norm 100: by the best Rényi order, within 11% of the analytic Gaussian's."""
    for epsilon, gaussian in ((0.1, 30.75), (1.0, 3.731), (3.0, 1.391)):
        privacy = ht.Privacy(epsilon, DELTA)
        noise = calibrate((Ball(100, 100),), privacy, Sums())
        assert 1.0 < noise.scale / (200 * gaussian) < 1.11
        (event,) = (Ball(100, 100).event(noise, "replace-one"),)
        assert epsilon * (1 - 1e-3) <= epsilon_of((event,), DELTA) <= epsilon
        halved = Ball(100, 100).event(Noise(noise.scale / 2), "replace-one")
        assert epsilon_of((halved,), DELTA) > 1.7 * epsilon


def test_epsilon_is_the_best_over_orders_and_mixes_with_votes() -> None:
    vector, votes = SkellamVector(4e4, 800.0, 80.0), SkellamShift(400.0, 10)
    alone = epsilon_of((vector,), DELTA)
    assert alone <= min(rdp_to_epsilon(vector.rdp(a), a, DELTA) for a in range(2, 200)) * (1 + 1e-3)
    assert alone < epsilon_of((vector, votes), DELTA) < alone + epsilon_of((votes,), DELTA) + 1
    assert epsilon_of((vector, vector), DELTA) > alone


def test_a_renyi_ledger_counts_vectors_too() -> None:
    rule = Renyi(best_order(Budget(2.0, DELTA)))
    event = Ball(100, 100).event(calibrate((Ball(100, 100),), ht.Privacy(1.0, DELTA), Sums()), "replace-one")
    assert 1.0 < rule.spent([((event,), DELTA)], DELTA).epsilon < 2.0


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ((-1.0, 4.0, 2.0), "variance"),
        ((math.nan, 4.0, 2.0), "variance"),
        ((1.0, 1.0, 2.0), "l2 <= l1"),
        ((1.0, 9.0, 2.0), "l1 <= l2"),
        ((1.0, math.inf, 2.0), "norm"),
        ((1.0, True, 1.0), "norm"),
        ((skellam.LARGEST_VARIANCE * 2, 4.0, 2.0), "variance"),
    ],
)
def test_impossible_vectors_are_refused(fields: tuple[float, float, float], message: str) -> None:
    with pytest.raises(ht.SettingError, match=message):
        SkellamVector(*fields)


def test_no_noise_costs_everything_and_no_change_nothing() -> None:
    assert epsilon_of((SkellamVector(0.0, 4.0, 2.0),), DELTA) == math.inf
    assert SkellamVector(0.0, 4.0, 2.0).rdp(3) == math.inf
    assert SkellamVector(5.0, 0.0, 0.0).rdp(3) == 0
    with pytest.raises(ht.SettingError, match="no known privacy loss distribution"):
        SkellamVector(5.0, 4.0, 2.0).pld(1e-4, 1)


def test_json_round_trip() -> None:
    event = SkellamVector(139.25, 40.5, 10.25)
    assert event_from_json(event_to_json(event)) == event


def test_relations() -> None:
    noise = Noise(20.0)
    for change, times in (("replace-one", 2), ("zero-out", 1), ("add-remove", 1)):
        event = Ball(30, 16).event(noise, change)
        assert isinstance(event, SkellamVector)
        assert (event.variance, event.l2, event.l1) == (400.0, 30.0 * times, pytest.approx(120.0 * times))
    assert AtMost(3, 100).event(noise, "replace-one") == SkellamShift(400.0, 6)
    assert AtMost(3, 100).event(noise, "add-remove") == SkellamShift(400.0, 3)
    assert AtMost(80, 100).event(noise, "replace-one") == SkellamShift(400.0, 100)  # unlike k-hot ballots
    assert KHot(80, 100).event(noise, "replace-one") == SkellamShift(400.0, 40)


@pytest.mark.parametrize("raw", ["abc", ["a"], None, 5])
def test_what_is_no_event_is_refused(raw: object) -> None:
    with pytest.raises(ht.SettingError, match="an event must have"):
        event_from_json(raw)  # type: ignore[arg-type]


def test_large_noise_takes_the_cheap_bound_and_is_continuous() -> None:
    below, above = SkellamShift(0.999e6, 10), SkellamShift(1.001e6, 10)
    assert below.rdp(20) > above.rdp(20) > below.rdp(20) * 0.99
    assert epsilon_of((SkellamVector(24_000.0, 242.4, 70.0), SkellamShift(1e10, 1)), DELTA) < 2.1


def test_too_little_epsilon_is_refused_in_the_users_words() -> None:
    with pytest.raises(ht.SettingError, match="epsilon=0.001 .* choose a larger epsilon"):
        calibrate((Ball(35, 12),), ht.Privacy(0.001, DELTA), Sums())
