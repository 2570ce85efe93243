from __future__ import annotations

import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from scipy import special

import hushtune as ht
from hushtune.privacy.accounting import (
    SAMPLER_SLACK,
    Budget,
    Renyi,
    Sums,
    best_order,
    epsilon_of,
    rdp_to_epsilon,
    rule_from_json,
    rule_to_json,
)
from hushtune.privacy.bounds import KHot
from hushtune.privacy.calibration import calibrate
from hushtune.privacy.events.registry import event_from_json, event_to_json
from hushtune.privacy.events.sums import SkellamShift

DELTA = 1e-5
PUBLISHED = {  # epsilon: analytic Gaussian standard deviations for k=5 and k=1, replace-one
    0.1: (97.24, 43.49),
    0.25: (42.01, 18.79),
    0.5: (22.24, 9.94),
    1.0: (11.80, 5.28),
    3.0: (4.40, 1.97),
}


@pytest.mark.parametrize(
    "epsilon", [pytest.param(epsilon, marks=[pytest.mark.long] * (epsilon > 1)) for epsilon in PUBLISHED]
)
def test_calibration_reaches_the_analytic_gaussian(epsilon: float) -> None:
    for k, expected in zip((5, 1), PUBLISHED[epsilon], strict=True):
        scale = calibrate((KHot(k, 100),), ht.Privacy(epsilon, DELTA), Sums()).scale
        assert scale <= expected * 1.001
        event = KHot(k, 100).event(calibrate((KHot(k, 100),), ht.Privacy(epsilon, DELTA), Sums()), "replace-one")
        assert epsilon * (1 - 1e-4) <= epsilon_of((event,), DELTA) <= epsilon


def reference_delta(variance: float, coordinates: int, epsilon: float) -> float:
    """delta(epsilon) of shifting `coordinates` Skellam coordinates by one, by direct FFT convolution of losses.

    Independent of dp-accounting: losses are rounded UP to a grid of 2e-5 for an upper bound and DOWN for a lower.
    """
    x = np.arange(-int(9 * math.sqrt(variance)) - 40, int(9 * math.sqrt(variance)) + 41)
    pmf = special.ive(np.abs(x), variance)
    loss = np.log(pmf[1:]) - np.log(pmf[:-1])  # P(x) / P(x - 1)
    step, bounds = 2e-5, []
    for rounding in (np.ceil, np.floor):
        cells = rounding(loss / step).astype(int)
        offset = cells.min()
        single = np.bincount(cells - offset, weights=pmf[1:])
        size = 1 << (len(single) * coordinates).bit_length()
        composed = np.fft.irfft(np.fft.rfft(single, size) ** coordinates, size)
        values = (np.arange(size) + coordinates * offset) * step
        gain = -np.expm1(epsilon - values[values > epsilon])
        bounds.append(float((np.maximum(composed, 0)[values > epsilon] * gain).sum()))
    upper, lower = bounds
    assert lower <= upper
    return upper


@pytest.mark.parametrize(("scale", "coordinates"), [(11.8, 10), (4.4, 10), (5.28, 2), (3.0, 6)])
def test_epsilon_agrees_with_an_independent_convolution(scale: float, coordinates: int) -> None:
    epsilon = epsilon_of((SkellamShift(scale**2, coordinates),), DELTA)
    assert reference_delta(scale**2, coordinates, epsilon * 1.001) <= DELTA
    assert reference_delta(scale**2, coordinates, epsilon * 0.998) >= DELTA


def test_the_known_figures() -> None:
    """Same variance as the analytic Gaussian: integer noise costs nothing."""
    for scale, coordinates, expected in [
        (11.80, 10, 0.9985),
        (4.40, 10, 2.966),
        (5.28, 2, 0.9708),
        (1.97, 2, 2.5023),
    ]:
        assert epsilon_of((SkellamShift(scale**2, coordinates),), DELTA) == pytest.approx(expected, rel=1e-3)


def test_large_noise_is_the_gaussian_of_dp_accounting() -> None:
    event = SkellamShift(97.24**2, 10)
    gaussian = privacy_loss_distribution.from_gaussian_mechanism(
        97.24, sensitivity=math.sqrt(10), value_discretization_interval=1e-6
    )
    assert epsilon_of((event,), DELTA) == pytest.approx(gaussian.get_epsilon_for_delta(DELTA), rel=1e-3)


def test_composition_of_equal_and_different_events() -> None:
    one, other = SkellamShift(400.0, 10), SkellamShift(100.0, 2)
    assert epsilon_of((one, one), DELTA) == pytest.approx(epsilon_of((SkellamShift(400.0, 20),), DELTA), rel=1e-4)
    both = epsilon_of((one, other), DELTA)
    assert max(epsilon_of((one,), DELTA), epsilon_of((other,), DELTA)) < both
    assert both < epsilon_of((one,), DELTA / 2) + epsilon_of((other,), DELTA / 2)


def test_monotone_in_noise_coordinates_and_delta() -> None:
    base = epsilon_of((SkellamShift(100.0, 10),), DELTA)
    assert epsilon_of((SkellamShift(110.0, 10),), DELTA) < base < epsilon_of((SkellamShift(100.0, 12),), DELTA)
    assert base < epsilon_of((SkellamShift(100.0, 10),), DELTA / 10)


def test_nothing_that_can_change_costs_nothing_and_no_noise_costs_everything() -> None:
    assert epsilon_of((), DELTA) == 0
    assert epsilon_of((SkellamShift(0.0, 0),), DELTA) == 0
    assert epsilon_of((SkellamShift(5.0, 0),), DELTA) == 0
    assert epsilon_of((SkellamShift(0.0, 1), SkellamShift(5.0, 2)), DELTA) == math.inf
    assert SkellamShift(0.0, 1).rdp(4) == math.inf
    assert SkellamShift(3.0, 0).rdp(4) == 0


def test_a_delta_below_the_samplers_distance_gives_no_guarantee() -> None:
    assert epsilon_of((SkellamShift(100.0, 2),), SAMPLER_SLACK) == math.inf


@pytest.mark.parametrize("order", [1.5, 4.0, 17.8, 64.0])
def test_rdp_is_the_renyi_divergence(order: float) -> None:
    variance = 30.0
    log_p = np.log(special.ive(np.abs(np.arange(-220, 221)), variance))
    terms = order * log_p[1:] + (1 - order) * log_p[:-1]
    expected = np.logaddexp.reduce(terms) / (order - 1)
    assert SkellamShift(variance, 10).rdp(order) == pytest.approx(10 * expected, rel=1e-6)
    gaussian = order / (2 * variance)
    assert SkellamShift(variance, 1).rdp(order) == pytest.approx(gaussian, rel=0.7)


def test_rdp_conversion_is_dp_accountings() -> None:
    for order, rdp in [(4.0, 0.5), (17.8, 0.64), (100.0, 2.0)]:
        theirs = dp_accounting.rdp.compute_epsilon([order], [rdp], DELTA)[0]
        assert rdp_to_epsilon(rdp, order, DELTA) == pytest.approx(theirs, rel=1e-9)


def test_a_renyi_filter_is_worse_for_one_run_and_better_from_two_on() -> None:
    event = KHot(5, 100).event(calibrate((KHot(5, 100),), ht.Privacy(1.0, DELTA), Sums()), "replace-one")
    one = Renyi(best_order(Budget(1.0, DELTA))).spent([((event,), DELTA)], DELTA)
    assert one.epsilon == pytest.approx(1.09, abs=0.01)
    rule = Renyi(best_order(Budget(1.6, DELTA)))
    assert rule.spent([((event,), DELTA)] * 2, DELTA).epsilon < 1.61
    assert Sums().spent([((event,), DELTA)] * 2, DELTA).epsilon == pytest.approx(2, rel=1e-4)


def test_the_order_suits_the_limit() -> None:
    limit = Budget(2.0, DELTA)
    chosen = best_order(limit)

    def fitting(order: float) -> float:
        return (limit.epsilon - rdp_to_epsilon(0.0, order, DELTA)) / order

    assert fitting(chosen) >= max(fitting(order) for order in np.linspace(1.5, 60, 200)) * (1 - 1e-4)


def test_json_round_trips() -> None:
    event = SkellamShift(139.25, 10)
    assert event_from_json(event_to_json(event)) == event
    for rule in (Sums(), Renyi(17.5)):
        assert rule_from_json(rule_to_json(rule)) == rule


@pytest.mark.parametrize(
    "raw", [{}, {"event": "magic"}, {"event": "skellam-shift"}, {"event": "skellam-shift", "x": 1}]
)
def test_unknown_events_are_refused(raw: dict[str, object]) -> None:
    with pytest.raises(ht.SettingError, match="event"):
        event_from_json(raw)
