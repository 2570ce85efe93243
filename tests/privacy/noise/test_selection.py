"""What may be asked of hidden sums: exact chances, exact ratios on neighbours, audits that catch too little noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.polynomial import Polynomial
from numpy.typing import NDArray
from scipy.stats import chi2

from hushtune.core.errors import SettingError
from hushtune.core.randomness import Randomness, SimulatedRandomness, SystemRandomness, words
from hushtune.privacy.noise import geometric, laplace, selection
from hushtune.testing.audits import epsilon_lower_bound

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
FALSE_ALARM = 1e-7
RUNS = 100_000
NONE = -1


# ---- chances in closed form --------------------------------------------------------------------------


def _reaches(distance: IntArray, scale: int) -> FloatArray:
    """The chance that discrete Laplace noise is at least `distance`."""
    tail = np.exp(-np.abs(distance) / scale) / (1 + math.exp(-1 / scale))
    return np.where(distance > 0, tail, 1 - tail * math.exp(-1 / scale))


def above_threshold_chances(sums: list[int], threshold: int, scale: int) -> FloatArray:
    """Of each place in order, and of none at the end: a sum over all values of the threshold's noise."""
    noise = np.arange(-60 * scale, 60 * scale + 1)
    weight = np.exp(-np.abs(noise) / scale)
    waiting, found = weight / weight.sum(), []
    for value in sums:
        reached = _reaches(threshold + noise - value, 2 * scale)
        found.append(float(waiting @ reached))
        waiting = waiting * (1 - reached)
    return np.array([*found, waiting.sum()])


def permute_and_flip_chances(sums: list[int], scale: int) -> FloatArray:
    """Places in a uniform order t in [0, 1]: c_i times the integral of the product of 1 - t c_j over the others."""
    coins = np.exp((np.array(sums) - max(sums)) / scale)
    found = []
    for at in range(len(sums)):
        others = math.prod((Polynomial([1, -coin]) for coin in np.delete(coins, at)), start=Polynomial([1.0]))
        found.append(coins[at] * others.integ()(1.0))
    return np.array(found)


def exponential_chances(sums: list[int], scale: int) -> FloatArray:
    weight = np.exp((np.array(sums) - max(sums)) / scale)
    return np.asarray(weight / weight.sum())


def noisiest_chances(sums: list[int], scale: int) -> FloatArray:
    """A sum over all values of each place's own geometric noise; of equal noisy sums the first place wins."""
    noise = np.arange(60 * scale)
    own = np.exp(-noise / scale) * -math.expm1(-1 / scale)

    def below(limit: IntArray) -> FloatArray:
        """The chance that noise is below a limit."""
        return np.where(limit > 0, 1 - np.exp(-np.maximum(limit, 0) / scale), 0.0)

    found = []
    for at, value in enumerate(sums):
        others = [value + noise - other + (rival > at) for rival, other in enumerate(sums) if rival != at]
        found.append(float(own @ np.prod([np.ones(len(noise)), *map(below, others)], axis=0)))
    return np.array(found)


# ---- many runs at once, drawn by the same functions --------------------------------------------------


def above_threshold_runs(sums: IntArray, threshold: int, scale: int, runs: int, randomness: Randomness) -> IntArray:
    level = threshold + laplace.sample(scale, runs, randomness)
    noisy = sums + laplace.sample(2 * scale, runs * len(sums), randomness).reshape(runs, len(sums))
    above = noisy >= level[:, None]
    return np.where(above.any(axis=1), above.argmax(axis=1), NONE)


def permute_and_flip_runs(sums: IntArray, scale: int, runs: int, randomness: Randomness) -> IntArray:
    order = np.lexsort(words(randomness, 2, runs, len(sums)), axis=-1)
    heads = laplace.coins((sums.max() - sums)[order].ravel(), scale, randomness).reshape(order.shape)
    return np.take_along_axis(order, heads.argmax(axis=1)[:, None], axis=1)[:, 0]


def exponential_runs(sums: IntArray, scale: int, runs: int, randomness: Randomness) -> IntArray:
    found, waiting = np.zeros(runs, dtype=np.int64), np.arange(runs)
    while waiting.size:
        place = laplace.uniform(np.full(len(waiting), len(sums)), randomness)
        taken = laplace.coins(sums.max() - sums[place], scale, randomness)
        found[waiting[taken]] = place[taken]
        waiting = waiting[~taken]
    return found


def noisiest_runs(sums: IntArray, scale: int, runs: int, randomness: Randomness) -> IntArray:
    noise = geometric.sample(geometric.rate_of(scale), runs * len(sums), randomness)
    return np.asarray((sums + noise.reshape(runs, len(sums))).argmax(axis=1))


def test_many_runs_at_once_are_the_real_thing() -> None:
    """On the same random words, one run of each stand-in is what the function itself gives."""
    sums, order = np.array([3, -2, 4, 0, 4]), list(range(5))
    for seed in range(100):

        def source(label: str, seed: int = seed) -> SimulatedRandomness:
            return SimulatedRandomness(seed, label)

        place = selection.above_threshold(sums, 2, 3, order, source("a"))
        assert above_threshold_runs(sums, 2, 3, 1, source("a"))[0] == (NONE if place is None else place)
        assert permute_and_flip_runs(sums, 3, 1, source("p"))[0] == selection.permute_and_flip(sums, 3, source("p"))
        assert exponential_runs(sums, 3, 1, source("e"))[0] == selection.exponential(sums, 3, source("e"))
        assert noisiest_runs(sums, 3, 1, source("n"))[0] == selection.noisiest(sums, 3, source("n"))


def _refuted(seen: IntArray, chances: FloatArray) -> bool:
    expected = chances * seen.sum()
    statistic = float(((seen - expected) ** 2 / expected).sum())
    return statistic > chi2.isf(FALSE_ALARM, len(chances) - 1)


@pytest.mark.statistical
@pytest.mark.parametrize("sums", [[0, 0, 0], [5, 3, 0, 5], [0, 1, 2, 3], [-7, 4, 4]])
@pytest.mark.parametrize("scale", [2, 5])
def test_places_are_chosen_with_the_chances_of_the_closed_form(sums: list[int], scale: int) -> None:
    """Chi-square, four mechanisms in eight settings: false alarms 1e-7 each."""
    values = np.array(sums)

    def source(name: str) -> SimulatedRandomness:
        return SimulatedRandomness(5, f"{name} {sums} {scale}")

    flipped = permute_and_flip_runs(values, scale, RUNS, source("flip"))
    assert not _refuted(np.bincount(flipped, minlength=len(sums)), permute_and_flip_chances(sums, scale))
    drawn = exponential_runs(values, scale, RUNS, source("exponential"))
    assert not _refuted(np.bincount(drawn, minlength=len(sums)), exponential_chances(sums, scale))
    noisiest = noisiest_runs(values, scale, RUNS, source("noisiest"))
    assert not _refuted(np.bincount(noisiest, minlength=len(sums)), noisiest_chances(sums, scale))
    first = above_threshold_runs(values, 3, scale, RUNS, source("above"))
    seen = np.append(np.bincount(first[first >= 0], minlength=len(sums)), (first == NONE).sum())
    assert not _refuted(seen, above_threshold_chances(sums, 3, scale))
    assert _refuted(
        np.bincount(flipped, minlength=len(sums)), permute_and_flip_chances([*sums[:-1], sums[-1] + 1], scale)
    )


def test_the_order_is_the_one_asked_for() -> None:
    """Far above the threshold all, so the first in order is taken; far below, none."""
    sums = np.full(4, 10**6)
    for order in ([2, 0, 1, 3], [3, 1], [1]):
        assert selection.above_threshold(sums, 0, 2, order, SystemRandomness()) == order[0]
        assert selection.above_threshold(-sums, 0, 2, order, SystemRandomness()) is None
    assert selection.above_threshold(sums, 0, 2, [], SystemRandomness()) is None


@pytest.mark.statistical
def test_order_and_coins_of_permute_and_flip_are_fresh() -> None:
    """Of equals all are chosen within 200 calls: 5 (4/5)^200 < 1e-18."""
    chosen = {selection.permute_and_flip(np.zeros(5, dtype=np.int64), 2, SystemRandomness()) for _ in range(200)}
    assert chosen == set(range(5))


@pytest.mark.parametrize("choose", [selection.permute_and_flip, selection.exponential, selection.noisiest])
def test_the_only_candidate_and_the_far_better_one_are_chosen(choose: Callable[..., int]) -> None:
    assert choose(np.array([-5]), 3, SystemRandomness()) == 0
    assert choose(np.array([0, 10**6, 0]), 3, SystemRandomness()) == 1


@pytest.mark.parametrize("choose", [selection.permute_and_flip, selection.exponential])
def test_coins_get_an_integer_scale_rounded_up(choose: Callable[..., int]) -> None:
    sums = np.array([3, 4, 0])
    for seed in range(50):
        drawn = [choose(sums, scale, SimulatedRandomness(seed, "up")) for scale in (2.0001, 3)]
        assert drawn[0] == drawn[1]


def test_geometric_noise_is_drawn_at_the_very_rate_that_was_charged() -> None:
    """A scale between integers stays what it is: rounded up, it would cost less than announced and choose worse."""
    sums = np.array([3, 4, 0])
    for scale in (0.04, 2.5, 2.0**20):
        rate = geometric.rate_of(scale)
        assert rate <= 1 / Fraction(scale)
        noise = geometric.sample(rate, 3, SimulatedRandomness(1, "rate"))
        assert selection.noisiest(sums, scale, SimulatedRandomness(1, "rate")) == int(np.argmax(sums + noise))
    with pytest.raises(SettingError, match="scale"):
        selection.noisiest(sums, 2.0**20 + 1, SystemRandomness())


# ---- exact ratios on neighbours ----------------------------------------------------------------------

SUMS = st.lists(st.integers(-12, 12), min_size=1, max_size=5)


def _neighbour(data: st.DataObject, sums: list[int], sensitivity: int) -> list[int]:
    moves = st.integers(-sensitivity, sensitivity)
    return [value + data.draw(moves) for value in sums]


@given(st.data(), SUMS, st.integers(1, 4), st.integers(1, 12))
def test_no_output_is_more_likely_on_a_neighbour_than_claimed(
    data: st.DataObject, sums: list[int], sensitivity: int, scale: int
) -> None:
    """Each mechanism is 2 sensitivity / scale private, from its exact chances."""
    claim = 2 * sensitivity / scale
    other = _neighbour(data, sums, sensitivity)
    for chances in (
        partial(permute_and_flip_chances, scale=scale),
        partial(exponential_chances, scale=scale),
        partial(above_threshold_chances, threshold=data.draw(st.integers(-10, 10)), scale=scale),
    ):
        one, two = chances(sums), chances(other)
        assert np.isclose(one.sum(), 1)
        assert (one <= two * math.exp(claim) * (1 + 1e-9) + 1e-12).all()


@given(st.data(), SUMS, st.integers(1, 4), st.integers(1, 12))
def test_a_maximum_costs_how_far_two_sums_move_apart(
    data: st.DataObject, sums: list[int], sensitivity: int, scale: int
) -> None:
    other = _neighbour(data, sums, sensitivity)
    moves = [new - old for new, old in zip(other, sums, strict=True)]
    claim = (max(moves) - min(moves)) / scale
    for chances in (permute_and_flip_chances, exponential_chances, noisiest_chances):
        one, two = chances(sums, scale), chances(other, scale)
        assert np.isclose(one.sum(), 1)
        assert (one <= two * math.exp(claim) * (1 + 1e-9) + 1e-12).all()


def _worst(chances: Callable[..., FloatArray], one: list[int], other: list[int], **settings: Any) -> float:
    return float(np.abs(np.log(chances(one, **settings) / chances(other, **settings))).max())


@pytest.mark.parametrize("scale", [2, 4])
def test_the_claims_are_reached_so_less_noise_would_not_do(scale: int) -> None:
    """Sensitivity 2. One sum moves down, all others up; with half the scale the claim is exceeded."""
    claim = 4 / scale
    one, other = [0] * 8, [2] * 7 + [-2]
    assert _worst(permute_and_flip_chances, one, other, scale=scale) == pytest.approx(claim)
    assert _worst(permute_and_flip_chances, one, other, scale=scale // 2) > 1.9 * claim
    assert _worst(noisiest_chances, one, other, scale=scale) == pytest.approx(claim)
    assert _worst(noisiest_chances, one, other, scale=scale // 2) > 1.9 * claim
    assert 0.8 * claim < _worst(exponential_chances, one, other, scale=scale) < claim
    assert _worst(exponential_chances, one, other, scale=scale // 2) > 1.5 * claim
    crowd, shifted = [-6] * 64 + [0], [-4] * 64 + [-2]
    assert 0.95 * claim < _worst(above_threshold_chances, crowd, shifted, threshold=0, scale=scale) <= claim
    assert _worst(above_threshold_chances, crowd, shifted, threshold=0, scale=scale // 2) > 1.5 * claim


# ---- audits ------------------------------------------------------------------------------------------

Runs = Callable[[IntArray, int, int, Randomness], IntArray]


def audit(runs: Runs, one: list[int], other: list[int], scale: int) -> float:
    """The lower bound from how often the last place is chosen."""
    seen = [
        (runs(np.array(sums), scale, RUNS, SimulatedRandomness(6, f"{sums} {scale}")) == len(sums) - 1).astype(float)
        for sums in (one, other)
    ]
    return epsilon_lower_bound(*seen, 0.0, FALSE_ALARM)


def _above_zero(sums: IntArray, scale: int, runs: int, randomness: Randomness) -> IntArray:
    return above_threshold_runs(sums, 0, scale, runs, randomness)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("runs", "one", "other", "epsilon"),
    [
        (_above_zero, [-2] * 8 + [2], [0] * 8 + [0], 1),
        (_above_zero, [-2] * 8 + [0], [0] * 8 + [-2], 2),
        (permute_and_flip_runs, [0] * 4, [2] * 3 + [-2], 1),
        (permute_and_flip_runs, [0] * 4, [2] * 3 + [-2], 2),
        (noisiest_runs, [0] * 4, [2] * 3 + [-2], 1),
        (noisiest_runs, [0] * 4, [2] * 3 + [-2], 2),
        (exponential_runs, [0] * 10, [2] * 9 + [-2], 1),
        (exponential_runs, [0] * 10, [2] * 9 + [-2], 2),
    ],
)
def test_one_step_keeps_its_claim_and_halved_noise_is_caught(
    runs: Runs, one: list[int], other: list[int], epsilon: int
) -> None:
    """All other sums move up by the sensitivity, 2, and the last one down. False alarms: 1e-7 each.

    A whole propose-test run cannot be audited against its bound: that one is for the worst case of all runs, T tests
    each of which loses all it may, and no run is anywhere near it.
    """
    scale = 4 // epsilon
    honest = audit(runs, one, other, scale)
    assert 0.4 * epsilon < honest <= epsilon
    assert audit(runs, one, other, scale // 2) > epsilon
