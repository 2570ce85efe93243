"""The place of the largest noisy score: exact shares of geometric noise, exact epsilons, and what breaks them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import chi2, nbinom

import hushtune as ht
from hushtune.core.randomness import SimulatedRandomness, SystemRandomness
from hushtune.privacy.noise import geometric

FloatArray = NDArray[np.float64]
FALSE_ALARM = 1e-8
RATES = [Fraction(1, 8), Fraction(3, 2), Fraction(1, 100)]
PARTS = [1, 2, 3, 4]


@cache
def pmf(rate: Fraction, shape: Fraction) -> FloatArray:
    """P[X = x] of a negative binomial variable, x = 0, 1, ..., so far that less than 1e-20 is cut off."""
    far = int((80 + 8 * shape) / rate) + 80  # e^-80 or less, times a power
    x = np.arange(1, far)
    steps = math.exp(-rate) * (x - 1 + float(shape)) / x
    found: FloatArray = (-math.expm1(-rate)) ** float(shape) * np.cumprod(np.append(1.0, steps))
    return found


# ---- draws -------------------------------------------------------------------------------------------


def _refuted(drawn: NDArray[np.int64], rate: Fraction, shape: Fraction) -> bool:
    """Whether a chi-square test, in cells of at least 30 expected draws, refutes rate and shape."""
    chance = pmf(rate, shape)
    width = max(1, int(1 / (10 * rate)))
    cells = np.arange(len(chance)) // width
    expected = len(drawn) * np.bincount(cells, weights=chance)
    seen = np.bincount(np.minimum(drawn, len(chance) - 1) // width, minlength=len(expected))
    rare = expected < 30
    expected = np.append(expected[~rare], expected[rare].sum())
    seen = np.append(seen[~rare], seen[rare].sum())
    statistic = float(((seen - expected) ** 2 / expected).sum())
    return statistic > float(chi2.isf(FALSE_ALARM, len(expected) - 1))


def _source(*label: object) -> SimulatedRandomness:
    return SimulatedRandomness(7, " ".join(map(str, label)))


@pytest.mark.parametrize("shape", [Fraction(1, 4), Fraction(1), Fraction(3, 2)])
@pytest.mark.parametrize("rate", RATES)
def test_the_table_that_draws_are_compared_with_is_the_negative_binomial(rate: Fraction, shape: Fraction) -> None:
    chance = pmf(rate, shape)
    assert chance.sum() == pytest.approx(1, abs=1e-12)
    expected = nbinom.pmf(np.arange(200), float(shape), -math.expm1(-rate))
    np.testing.assert_allclose(chance[:200], expected[: len(chance)], rtol=1e-9, atol=1e-200)


@pytest.mark.statistical
@pytest.mark.parametrize("rate", RATES)
def test_draws_are_geometric(rate: Fraction) -> None:
    """False alarms: 1e-8 each. A rate twice as large is noticed."""
    drawn = geometric.sample(rate, 100_000, _source("geometric", rate))
    assert not _refuted(drawn, rate, Fraction(1))
    assert _refuted(drawn, 2 * rate, Fraction(1))


@pytest.mark.statistical
@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("rate", RATES)
def test_shares_are_negative_binomial(rate: Fraction, parts: int) -> None:
    """False alarms: 1e-8 each. A rate twice as large and one part more are noticed."""
    drawn = geometric.share(rate, parts, 40_000, _source("share", rate, parts))
    assert drawn.shape == (40_000,)
    assert not _refuted(drawn, rate, Fraction(1, parts))
    assert _refuted(drawn, 2 * rate, Fraction(1, parts))
    assert _refuted(drawn, rate, Fraction(1, parts + 1))


@pytest.mark.statistical
@pytest.mark.parametrize("parts", PARTS[1:])
@pytest.mark.parametrize("rate", RATES)
def test_as_many_shares_as_parts_add_up_to_a_geometric_variable(rate: Fraction, parts: int) -> None:
    """False alarms: 1e-8 each. With one share less, or one more, they do not."""
    shares = [geometric.share(rate, parts, 12_000, _source("sum", rate, parts, i)) for i in range(parts + 1)]
    assert not _refuted(sum(shares[1:], start=shares[0] * 0), rate, Fraction(1))
    assert _refuted(sum(shares[2:], start=shares[0] * 0), rate, Fraction(1))
    assert _refuted(sum(shares[1:], start=shares[0]), rate, Fraction(1))


@pytest.mark.statistical
def test_the_largest_scale_can_be_drawn() -> None:
    """The share of draws below scale log 2 is half of them; a normal approximation at 6 sigma, < 1e-8."""
    scale = geometric.LARGEST_DENOMINATOR
    drawn = geometric.sample(Fraction(1, scale), 20_000, _source("largest"))
    assert abs((drawn < scale * math.log(2)).mean() - 0.5) < 6 * 0.5 / math.sqrt(20_000)


def test_a_huge_rate_leaves_no_noise_and_no_seed_repeats_nothing() -> None:
    rate = Fraction(geometric.LARGEST_RATE)
    assert not geometric.share(rate, 3, 50, SystemRandomness()).any()
    one, other = (geometric.share(Fraction(1, 50), 2, 50, SystemRandomness()) for _ in range(2))
    assert (one != other).any()
    assert geometric.share(Fraction(1, 8), 3, 0, SystemRandomness()).tolist() == []


class Given:
    """Words that were written down, and then one for ever; `uniform` takes small ones as they are."""

    def __init__(self, given: tuple[int, ...], rest: int) -> None:
        self._left = itertools.chain(given, itertools.repeat(rest))

    def bytes(self, size: int) -> bytes:
        return b"".join(next(self._left).to_bytes(8, "little") for _ in range(size // 8))


@pytest.mark.parametrize(("parts", "proposal"), [(2, 1), (2, 3), (3, 3), (4, 2), (5, 3), (3, 0)])
def test_a_proposal_is_accepted_with_exactly_its_chance(parts: int, proposal: int) -> None:
    """All outcomes of its coins, counted. The next coin would be tails: it must not count."""
    tails = parts * (proposal + 1) - 1
    outcomes = itertools.product(*(range(parts * i) for i in range(1, proposal + 1)))
    accepted = [bool(geometric._accepted(np.array([proposal]), parts, Given(coins, tails))[0]) for coins in outcomes]
    chance = math.prod((Fraction(parts * (i - 1) + 1, parts * i) for i in range(1, proposal + 1)), start=Fraction(1))
    assert Fraction(sum(accepted), len(accepted)) == chance


@pytest.mark.statistical
def test_coins_in_small_pieces_have_the_same_chances(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded, in proposals and in coins. False alarms: 1e-8."""
    monkeypatch.setattr(geometric, "_MOST_COINS", 100)
    monkeypatch.setattr(geometric, "_MOST_PROPOSALS", 500)
    drawn = geometric.share(Fraction(1, 8), 2, 5_000, _source("pieces"))
    assert not _refuted(drawn, Fraction(1, 8), Fraction(1, 2))


# ---- exact epsilons ----------------------------------------------------------------------------------

Scores = tuple[int, ...]


@cache
def log_chances(scores: Scores, rate: Fraction, shape: Fraction) -> FloatArray:
    """Of each place to be the opened one, by summing over the noise of the one that is opened."""
    chance = pmf(rate, shape)
    below = np.append(0.0, np.cumsum(chance))  # P[X < x]
    noise, last = np.arange(len(chance)), len(chance)
    found = []
    for place, score in enumerate(scores):
        won = chance.copy()
        for rival, other in enumerate(scores):
            if rival != place:  # an earlier one must be below, a later one not above
                won *= below[np.clip(noise + score - other + (rival > place), 0, last)]
        found.append(math.log(won.sum()))
    return np.array(found)


def ratios(candidates: int, rate: Fraction, shape: Fraction, moves: range) -> Iterator[FloatArray]:
    """Log ratios of all places, for scores from 0 to 3 and every change of each score by one of the moves."""
    for scores in itertools.product(range(4), repeat=candidates):
        for changes in itertools.product(moves, repeat=candidates):
            other = [score + change for score, change in zip(scores, changes, strict=True)]
            floor, base = min(other), min(scores)
            yield log_chances(tuple(s - base for s in scores), rate, shape) - log_chances(
                tuple(s - floor for s in other), rate, shape
            )


def exact_epsilon(candidates: int, rate: Fraction, shape: Fraction, moves: range) -> float:
    return max(float(np.abs(found).max()) for found in ratios(candidates, rate, shape, moves))


EITHER_WAY = range(-1, 2)
ONE_SIGN = range(2)
ROOM = 1 + 1e-9  # for what floats lose


def _met(epsilon: float, rate: Fraction, moves: range, shape: Fraction = Fraction(1), candidates: int = 3) -> bool:
    return exact_epsilon(candidates, rate, shape, moves) <= epsilon * ROOM


def test_the_enumeration_agrees_with_noisy_max_itself() -> None:
    """All noise up to 60 of two candidates, ties included; beyond lies less than 1e-12."""
    rate = Fraction(1, 2)
    chance = pmf(rate, Fraction(1))[:61]
    for scores in ((0, 0), (2, 0), (0, 1)):
        won = [0.0, 0.0]
        for one, other in itertools.product(range(61), repeat=2):
            won[geometric.noisy_max(np.array(scores), np.array([one, other]))] += chance[one] * chance[other]
        np.testing.assert_allclose(np.log(won), log_chances(scores, rate, Fraction(1)), atol=1e-11)


@pytest.mark.parametrize("candidates", [2, 3])
@pytest.mark.parametrize("epsilon", [0.25, 1.0, 3.0])
def test_epsilon_is_met_and_attained(epsilon: float, candidates: int) -> None:
    rate = geometric.winner_rate(epsilon, 2)
    assert 0.98 * epsilon <= exact_epsilon(candidates, rate, Fraction(1), EITHER_WAY) <= epsilon * ROOM


@pytest.mark.parametrize("shape", [Fraction(3, 2), Fraction(5, 3), Fraction(4, 3), Fraction(2)])
@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_shares_of_all_nodes_keep_the_claim(epsilon: float, shape: Fraction) -> None:
    assert _met(epsilon, geometric.winner_rate(epsilon, 2), EITHER_WAY, shape)


@pytest.mark.parametrize("candidates", [2, 3])
@pytest.mark.parametrize("epsilon", [0.25, 1.0, 3.0])
def test_too_little_noise_is_caught(epsilon: float, candidates: int) -> None:
    """Half the scale; one share of two, three or four missing; R taken for one sign of changes only."""
    rate = geometric.winner_rate(epsilon, 2)
    assert exact_epsilon(candidates, 2 * rate, Fraction(1), EITHER_WAY) > 1.9 * epsilon
    for parts in PARTS[1:]:
        assert not _met(epsilon, rate, EITHER_WAY, Fraction(parts - 1, parts), candidates)
    assert not _met(epsilon, geometric.winner_rate(epsilon, 1), EITHER_WAY, candidates=candidates)


@pytest.mark.parametrize("candidates", [2, 3])
@pytest.mark.parametrize("epsilon", [0.25, 1.0])
def test_scores_put_to_zero_need_half_the_noise_and_no_less(epsilon: float, candidates: int) -> None:
    """Changes of one sign have R = 1. Both ways round: the larger of the ratio and its inverse counts."""
    rate = geometric.winner_rate(epsilon, 1)
    assert 0.98 * epsilon <= exact_epsilon(candidates, rate, Fraction(1), ONE_SIGN) <= epsilon * ROOM
    assert exact_epsilon(candidates, rate, Fraction(1), EITHER_WAY) > 1.9 * epsilon
    assert not _met(epsilon, 2 * rate, ONE_SIGN, candidates=candidates)


def test_bounded_range_does_not_hold() -> None:
    """Largest minus smallest log ratio of one pair of neighbours: far above epsilon 1."""
    rate = geometric.winner_rate(1.0, 2)
    assert max(float(np.ptp(found)) for found in ratios(3, rate, Fraction(1), EITHER_WAY)) > 1.6


def test_of_equals_the_first_is_taken() -> None:
    assert geometric.noisy_max(np.array([1, 3, 2]), np.array([1, 0, 1])) == 1
    assert geometric.noisy_max(np.array([3, 3, 3]), np.array([0, 0, 0])) == 0
    assert geometric.noisy_max(np.array([-5]), np.array([0])) == 0


@pytest.mark.parametrize(("scores", "noise"), [((3,), (1,)), ((3,), (4,)), ((0,), (0,)), ((1, 3), (1, 3))])
def test_one_draw_for_several_scores_is_refused(scores: tuple[int, ...], noise: tuple[int, ...]) -> None:
    with pytest.raises(ht.SettingError, match="noise of its own"):
        geometric.noisy_max(np.zeros(scores, dtype=np.int64), np.zeros(noise, dtype=np.int64))


# ---- rates -------------------------------------------------------------------------------------------


SCALES = st.floats(2.0**-20, 2.0**20)


@given(SCALES, st.integers(1, 10**6))
def test_what_is_drawn_costs_no_more_than_what_is_charged(scale: float, change: int) -> None:
    """Exactly: the rate is at most 1/scale, and the cost, as its text says it, at least change/scale."""
    rate, cost = geometric.rate_of(scale), geometric.cost_of(change, scale)
    assert rate.denominator <= geometric.LARGEST_DENOMINATOR
    assert rate * Fraction(scale) <= 1
    assert rate * change <= Fraction(change) / Fraction(scale) <= Fraction(repr(cost))
    assert Fraction(repr(math.nextafter(cost, 0))) < Fraction(change) / Fraction(scale)
    assert rate * Fraction(scale) >= 1 - Fraction(2, 2**20)  # and by little
    geometric._check_rate(rate)


@given(st.integers(1, 2**20), st.integers(1, 2**20))
def test_rates_that_can_be_drawn_are_taken_as_they_are(one: int, other: int) -> None:
    if Fraction(float(Fraction(one, other))) == Fraction(one, other):  # else no scale is that one
        assert geometric.rate_of(float(Fraction(one, other))) <= Fraction(other, one)
    assert geometric.rate_of(float(one)) == Fraction(1, one)
    assert geometric.rate_of(2.0**-7) == 2**7


def test_nothing_that_changes_costs_nothing_and_no_noise_everything() -> None:
    assert geometric.cost_of(0, 0.0) == geometric.cost_of(0, 5.0) == 0
    assert geometric.cost_of(1, 0.0) == math.inf
    assert geometric.cost_of(2, 20.0) == 0.1
    assert geometric.cost_of(3, 10.0) == 0.3


@pytest.mark.parametrize("scale", [0.0, -1.0, 2.0**-21, 2.0**20 + 1, math.inf, math.nan, True])
def test_noise_of_a_scale_that_cannot_be_drawn_is_refused(scale: float) -> None:
    with pytest.raises(ht.SettingError, match="scale="):
        geometric.rate_of(scale)


@given(st.floats(2e-4, 1e4), st.integers(1, 100))
def test_rates_are_rounded_down_and_by_little(epsilon: float, change: int) -> None:
    rate = geometric.winner_rate(epsilon, change)
    exact = Fraction(repr(epsilon)) / change
    assert rate.denominator <= geometric.LARGEST_DENOMINATOR
    assert 0 < rate <= exact
    assert exact - rate <= 2 * max(exact, Fraction(1)) / geometric.LARGEST_DENOMINATOR


@given(st.fractions(Fraction(1, 40), 5), st.integers(40, 60))
def test_no_fraction_lies_between_the_rounded_one_and_the_exact_one(exact: Fraction, largest: int) -> None:
    """Against all denominators."""
    best = max(Fraction(math.floor(exact * b), b) for b in range(1, largest + 1))
    assert geometric._rounded_down(exact, largest) == best


def test_epsilon_is_what_its_text_says() -> None:
    assert geometric.winner_rate(0.3, 2) == Fraction(3, 20)  # the float is below
    assert geometric.winner_rate(0.1, 2) == Fraction(1, 20)  # the float is above
    assert geometric.winner_rate(1, 3) == Fraction(1, 3)
    assert geometric.winner_rate(2.0**-20, 1) == Fraction(1, 2**20)


@pytest.mark.parametrize(
    ("epsilon", "change", "message"),
    [
        (0.0, 2, "epsilon must be positive and finite, but got 0.0"),
        (-1.0, 2, "epsilon must be positive"),
        (math.nan, 2, "epsilon must be positive"),
        (math.inf, 2, "epsilon must be positive"),
        (1.0, 0, "reach must be an integer of at least 1, but got 0"),
        (1.0, 1.5, "reach must be an integer"),
        (1e-6, 2, r"`2\*\*-20 <= epsilon / reach.*epsilon=1e-06, reach=2"),
        (1.0, 2**20 + 1, "reach=1048577"),
        (1e7, 1, "epsilon=10000000.0"),
    ],
)
def test_rates_that_cannot_be_drawn_are_refused(epsilon: float, change: Any, message: str) -> None:
    with pytest.raises(ht.SettingError, match=message) as refusal:
        geometric.winner_rate(epsilon, change)
    assert "\n" not in str(refusal.value)


BAD_RATES: list[Any] = [Fraction(0), Fraction(-1, 2), Fraction(1, 2**20 + 1), Fraction(2**20 + 1), 0.5, 1]
USES: list[Callable[[Fraction], object]] = [
    lambda rate: geometric.sample(rate, 1, SystemRandomness()),
    lambda rate: geometric.share(rate, 2, 1, SystemRandomness()),
    lambda rate: geometric.reach(rate, Fraction(1)),
    lambda rate: geometric.variance(rate, Fraction(1)),
]


@pytest.mark.parametrize("rate", BAD_RATES)
@pytest.mark.parametrize("use", USES)
def test_rates_out_of_bounds_are_refused(use: Callable[[Fraction], object], rate: Fraction) -> None:
    with pytest.raises(ht.SettingError, match="rate must be a fraction"):
        use(rate)


@pytest.mark.parametrize("parts", [0, -1, 1.5, 2**20 + 1])
def test_impossible_parts_are_refused(parts: Any) -> None:
    with pytest.raises(ht.SettingError, match="parts must be an integer"):
        geometric.share(Fraction(1, 2), parts, 1, SystemRandomness())


# ---- how far noise reaches ---------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [Fraction(1, 4), Fraction(1), Fraction(3, 2), Fraction(5, 2), Fraction(40)])
@pytest.mark.parametrize("rate", [Fraction(1, 1000), *RATES, Fraction(30), Fraction(90)])
@pytest.mark.parametrize("bits", [1, 40, 60])
def test_a_reach_is_exceeded_no_more_often_than_it_says(rate: Fraction, shape: Fraction, bits: int) -> None:
    """By sums of the pmf itself; and it is hardly further out than it must be."""
    far = geometric.reach(rate, shape, 2.0**-bits)
    chance = pmf(rate, shape)
    assert chance[far + 1 :].sum() <= 2.0**-bits
    nearer = int(0.8 * far) - 2
    assert bits == 1 or nearer < 0 or chance[nearer + 1 :].sum() > 2.0**-bits


def test_reach_at_the_ends() -> None:
    assert geometric.reach(Fraction(1, 8), Fraction(0)) == 0
    assert geometric.reach(Fraction(2**20), Fraction(1)) == 0
    assert geometric.reach(Fraction(1, 2), Fraction(1)) == geometric.reach(Fraction(1, 2), Fraction(1), 2.0**-60)
    least = Fraction(1, 2**20)
    assert 60 * math.log(2) <= geometric.reach(least, Fraction(1)) / 2**20 < 60 * math.log(2) + 5
    assert geometric.reach(least, Fraction(geometric.LARGEST_SHAPE)) > 2**40


@pytest.mark.parametrize("shape", [Fraction(0), Fraction(1, 3), Fraction(1), Fraction(3, 2)])
@pytest.mark.parametrize("rate", RATES)
def test_the_variance_is_that_of_the_distribution(rate: Fraction, shape: Fraction) -> None:
    chance = pmf(rate, shape)
    x = np.arange(len(chance))
    expected = float(chance @ x**2 - (chance @ x) ** 2)
    assert geometric.variance(rate, shape) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("shape", [Fraction(-1, 2), Fraction(2**20 + 1)])
def test_impossible_shapes_are_refused(shape: Fraction) -> None:
    for use in (geometric.reach, geometric.variance):
        with pytest.raises(ht.SettingError, match="shape="):
            use(Fraction(1, 2), shape)


@pytest.mark.parametrize("failure", [0.0, 1.0, -0.5, math.nan])
def test_impossible_failures_are_refused(failure: float) -> None:
    with pytest.raises(ht.SettingError, match="failure="):
        geometric.reach(Fraction(1, 2), Fraction(1), failure)
