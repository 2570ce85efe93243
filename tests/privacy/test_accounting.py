from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import Any

import dp_accounting
import mpmath
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from scipy import special

import hushtune as ht
from hushtune.privacy.accounting import (
    MOST_DIFFERENT,
    SAMPLER_SLACK,
    Budget,
    Renyi,
    Sums,
    best_order,
    epsilon_of,
    grid_of,
    rdp_to_epsilon,
    renyi_epsilon,
    rule_from_json,
    rule_to_json,
    with_slack,
)
from hushtune.privacy.bounds import KHot
from hushtune.privacy.calibration import calibrate, events_of
from hushtune.privacy.events import sums
from hushtune.privacy.events.answers import PureTests
from hushtune.privacy.events.registry import event_from_json, event_to_json
from hushtune.privacy.events.sums import Event, GaussianVector, SkellamShift, SkellamVector
from hushtune.privacy.events.training import SelectedRuns, TrainingSteps
from hushtune.privacy.losses import Losses
from hushtune.privacy.noise import skellam
from hushtune.privacy.noise.base import Noise

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


@pytest.mark.parametrize(
    ("scale", "epsilon"), [(103, 0.094), (46, 0.227), (24, 0.460), (12.5, 0.939), (4.7, 2.782)], ids=str
)
def test_what_the_scales_of_dp_hypes_artifact_really_cost(scale: float, epsilon: float) -> None:
    """They are said to cost .1, .25, .5, 1 and 3, with k=5 (docs/results/dp-hype.md)."""
    gaussian = privacy_loss_distribution.from_gaussian_mechanism(scale, sensitivity=math.sqrt(10))
    assert gaussian.get_epsilon_for_delta(DELTA) == pytest.approx(epsilon, abs=6e-4)
    assert epsilon_of((GaussianVector(scale, math.sqrt(10)),), DELTA) == pytest.approx(epsilon, abs=6e-4)


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


# ---- the sampler is paid for at the epsilon that is stated -----------------------------------------------


def gaussian_delta(ratio: float, epsilon: float) -> float:
    """delta(epsilon) of Gaussian noise (Balle and Wang 2018, Theorem 8), with 50 digits."""
    with mpmath.workdps(50):
        mu, e = mpmath.mpf(ratio), mpmath.mpf(epsilon)
        return float(mpmath.ncdf(mu / 2 - e / mu) - mpmath.e**e * mpmath.ncdf(-mu / 2 - e / mu))


@pytest.mark.parametrize(("delta", "ratios"), [(1e-12, (1.4, 2.0)), (1e-5, (3.4, 4.4)), (0.1, (5.4, 7.2))])
def test_the_sampler_is_paid_for_at_the_epsilon_that_is_stated(delta: float, ratios: tuple[float, float]) -> None:
    """Epsilons from 10 to 39: above, (1 + e^epsilon) 2^-60 alone is more than delta, and there is no guarantee."""
    stated = []
    for ratio in np.linspace(*ratios, 25):
        events = (GaussianVector(1.0, float(ratio)),)
        exact, renyi = epsilon_of(events, delta), renyi_epsilon(events, delta)
        for epsilon in (exact, renyi):
            if epsilon < math.inf:
                stated.append(epsilon)
                paid = (1 + math.exp(epsilon)) * 2.0**-60
                assert gaussian_delta(ratio, epsilon) + paid <= delta * (1 + 1e-9)
    assert max(stated) > 0.95 * math.log(delta / 2.0**-60)  # some are near the end
    assert epsilon_of((GaussianVector(1.0, 9.9),), delta) == math.inf


@pytest.mark.parametrize(
    ("order", "delta"), [(1.2, 0.1), (1.5, 1e-5), (1.5, 0.1), (2.0, 1e-5), (2.0, 0.1), (5.0, 1e-12)]
)
@pytest.mark.parametrize("charges", [1, 3])
def test_a_filter_pays_for_the_sampler_at_the_epsilon_that_is_stated(order: float, delta: float, charges: int) -> None:
    finite = 0
    for ratio in np.linspace(0.5, 8.0, 400):
        event = GaussianVector(1.0, float(ratio))
        epsilon = Renyi(order).spent([((event,), delta)] * charges, delta).epsilon
        if epsilon == math.inf:
            continue
        finite += 1
        left = delta - charges * (1 + math.exp(epsilon)) * 2.0**-60
        assert left > 0
        assert rdp_to_epsilon(charges * order * ratio**2 / 2, order, left) <= epsilon * (1 + 1e-9)
    assert finite > 20


def test_the_sampler_costs_almost_nothing_at_usual_epsilons() -> None:
    exact = with_slack(lambda left: 2.0 - 1e-3 * math.log(left / DELTA), DELTA)
    assert exact == pytest.approx(2.0, rel=1e-9)
    assert with_slack(lambda left: 30.0, DELTA, 0) == 30.0
    assert with_slack(lambda left: 31.0, DELTA) == math.inf


# ---- what it takes to check a plan of events -------------------------------------------------------------

LARGE = (2**18 / 27) ** 2  # the variance above which a vote alone is accounted by its Rényi bound


class Effort:
    """Counts the numbers that are computed, whatever they are computed for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tables = self.places = self.transformed = self.powers = 0
        bessel, tilted = skellam._bessel, Losses._tilted
        gaussian = privacy_loss_distribution.from_gaussian_mechanism
        kind, moments = privacy_loss_distribution.PrivacyLossDistribution, sums._sampled_rdp
        compose, together = kind.self_compose, kind.compose

        def table(variance: Fraction, largest: int) -> Any:
            self.tables += largest
            return bessel(variance, largest)

        def transform(losses: Losses, tilt: float, size: int) -> Any:
            self.transformed += size * len(losses.parts)
            return tilted(losses, tilt, size)

        def distribution(*args: Any, **settings: Any) -> Any:
            found = gaussian(*args, **settings)
            self.places += 2 * found._pmf_remove.size
            return found

        def composed(one: Any, times: int) -> Any:
            self.powers += times
            found = compose(one, times)
            self.places += 2 * found._pmf_remove.size
            return found

        def both(one: Any, other: Any) -> Any:
            found = together(one, other)
            self.places += 2 * found._pmf_remove.size
            return found

        def sampled(divergence: Any, rate: float, order: int) -> float:
            self.powers += order if rate < 1 else 1
            return moments(divergence, rate, order)

        monkeypatch.setattr(skellam, "_bessel", table)
        monkeypatch.setattr(Losses, "_tilted", transform)
        monkeypatch.setattr(privacy_loss_distribution, "from_gaussian_mechanism", distribution)
        monkeypatch.setattr(kind, "self_compose", composed)
        monkeypatch.setattr(kind, "compose", both)
        monkeypatch.setattr(sums, "_sampled_rdp", sampled)
        skellam.log_probabilities.cache_clear()


def near(event: Event, field: str) -> tuple[Event, ...]:
    """As many different events as a run may have, which are all about the same."""
    return tuple(replace(event, **{field: getattr(event, field) * (1 + 1e-4 * i)}) for i in range(MOST_DIFFERENT))


HOSTILE: dict[str, tuple[Event, ...]] = {
    "large variance": near(SkellamShift(9.9e9, 1), "variance"),
    "variance below the bound": near(SkellamShift(LARGE * 0.99, 2), "variance"),
    "all of the tables": near(SkellamShift(LARGE / MOST_DIFFERENT**2 * 0.99, 2), "variance"),
    "many coordinates": (SkellamShift(0.01, 2**40),),
    "many coordinates of much noise": (SkellamShift(1e8, 2**40),),
    "ten thousand votes": (SkellamShift(1e4, 2),) * 10_000,
    "many votes of many kinds": near(SkellamShift(150.0, 20), "variance") * 30,
    "a fine grid and wide losses": (SkellamShift(1e6, 1), SkellamShift(0.01, 1000), PureTests(50.0, 2**20)),
    "votes beside a vector": (*near(SkellamShift(9e4, 1), "variance")[1:], SkellamVector(1e10, 1.0, 1.0)),
    "sampled vectors": near(SkellamVector(9e9, 1.0, 1.0, 0.5), "variance"),
    "many tests": near(PureTests(1e-3, 2**20), "epsilon") * 1250,
    "tests of no weight": near(PureTests(1e-9, 2**20), "epsilon"),
    "wide losses of Gaussian noise": near(GaussianVector(0.11, 1.0, 0.9), "deviation"),
    "Gaussian noise beside a fine grid": (GaussianVector(0.2, 1.0), SkellamShift(5e6, 1)),
    "Gaussian noise beside losses far apart": (GaussianVector(1.2, 0.003), PureTests(30.0, 2_000)),
    "training without end": near(TrainingSteps(1e4, 0.5, 10**7), "multiplier") * 1250,
    "training within the bound": near(TrainingSteps(20.0, 0.01, 20_000), "multiplier"),
    "the best of many runs": near(SelectedRuns(2.0, 0.5, 10**7, 9e5, None, 0.2), "mean"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_checking_takes_is_bounded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Measured, these bounds together are less than a second."""
    effort, events = Effort(monkeypatch), HOSTILE[name]
    epsilon_of.__wrapped__(events, DELTA)
    assert effort.tables <= 2**18
    assert effort.transformed <= 2**24
    assert effort.places <= 2**22
    assert effort.powers <= 2**25


def test_large_variances_are_accounted_by_their_renyi_bound() -> None:
    assert grid_of([(SkellamShift(LARGE * 0.99, 2), 1)]) is not None
    for event in (SkellamShift(LARGE * 1.01, 2), SkellamShift(1e10, 2), SkellamShift(1e10, 10**6)):
        assert grid_of([(event, 1)]) is None
        assert epsilon_of((event,), DELTA) == renyi_epsilon((event,), DELTA)
    usual: list[tuple[Event, ...]] = [
        (SkellamShift(97.24**2, 10),),
        (SkellamShift(972.4**2, 200),),
        (SkellamShift(139.25, 10), TrainingSteps(1.0, 0.01, 1_000)),
        (PureTests(0.1, 199), GaussianVector(4.0, 1.0)),
        (GaussianVector(40.0, 3.0, 0.35),) * 60,
        (TrainingSteps(0.6, 0.02, 30_000),),
    ]
    for events in usual:
        assert grid_of(list(Counter(events).items())) is not None


def analytic(ratio: float, delta: float) -> float:
    """Epsilon of Gaussian noise: the smallest with `gaussian_delta` <= delta."""
    low, high = 0.0, 50.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_delta(ratio, middle) > delta else (low, middle)
    return high


@pytest.mark.parametrize(("coordinates", "looser"), [(2, 1.36), (10, 1.25), (1_000, 1.2), (100_000, 1.16)])
@pytest.mark.parametrize("variance", [LARGE * 1.01, 1e9, 1e10])
def test_the_renyi_bound_is_never_below_the_exact_figure(variance: float, coordinates: int, looser: float) -> None:
    """Skellam noise of such a variance is Gaussian noise to 1e-7; where epsilon is 0.001 or more, 25% are the most."""
    exact = analytic(math.sqrt(coordinates / variance), DELTA)
    found = epsilon_of((SkellamShift(variance, coordinates),), DELTA)
    assert exact * (1 - 1e-6) - 1e-12 <= found
    if exact >= 1e-3:
        assert found <= looser * exact


@pytest.mark.parametrize(
    ("below", "above", "looser"),
    [
        ((SkellamShift(LARGE * 0.999, 10),), (SkellamShift(LARGE * 1.001, 10),), 1.25),
        ((PureTests(0.001, 2**20),) * 2, (PureTests(0.001, 2**20),) * 3, 1.5),  # half as many again, at least
        ((TrainingSteps(40.0, 0.02, 99_000),), (TrainingSteps(40.0, 0.02, 270_000),), 2.3),
        ((SkellamShift(1e6, 4_900),), (SkellamShift(1e6, 5_100),), 1.2),
    ],
)
def test_at_the_switch_the_bound_is_the_larger(below: Any, above: Any, looser: float) -> None:
    assert grid_of(list(Counter(below).items())) is not None
    assert grid_of(list(Counter(above).items())) is None
    for events in (below, above):
        assert renyi_epsilon(events, DELTA) >= epsilon_of(events, DELTA)
    assert epsilon_of(below, DELTA) < epsilon_of(above, DELTA) < looser * epsilon_of(below, DELTA)


@pytest.mark.parametrize("epsilon", [0.0034, 0.0036, 0.0038, 0.0045])
def test_noise_calibrated_near_the_switch_keeps_to_epsilon(epsilon: float) -> None:
    bound, privacy = KHot(100, 1_000), ht.Privacy(epsilon, DELTA)
    noise = calibrate((bound,), privacy, Sums())
    event = bound.event(noise, "replace-one")
    assert 0.75 * epsilon < epsilon_of((event,), DELTA) <= epsilon
    assert analytic(math.sqrt(200) / noise.scale, DELTA) <= epsilon


def test_a_run_has_few_different_events() -> None:
    bounds = [KHot(k, 100) for k in range(1, MOST_DIFFERENT + 2)]
    assert len(events_of(bounds[:-1] * 100, ht.Privacy(1.0), Noise(9.0))) == 100 * MOST_DIFFERENT
    with pytest.raises(ht.SettingError, match="at most 8 different events, but got 9; give openings of one kind"):
        events_of(bounds, ht.Privacy(1.0), Noise(9.0))
