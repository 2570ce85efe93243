"""Discrete Laplace noise and coins of chance e^-x: exactly the right distribution, from integers alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, chi2

import hushtune as ht
from hushtune.core.randomness import SimulatedRandomness, SystemRandomness
from hushtune.privacy.noise import laplace

DRAWS = 200_000
FALSE_ALARM = 1e-8


def _too_far(scale: int, drawn: NDArray[np.int64]) -> bool:
    """Whether a chi-square test, in cells of at least 30 expected draws, refutes P[x] ~ exp(-|x| / scale)."""
    reach, width = 60 * scale, max(1, scale // 20)
    places = np.arange(-reach, reach + 1)
    chance = np.exp(-np.abs(places) / scale)
    chance *= math.tanh(1 / (2 * scale))  # exactly normalised over all integers; beyond the reach lies e^-60
    cells = np.clip(np.floor_divide(places, width), -15 * scale // width, 15 * scale // width)
    cells -= cells.min()
    expected = len(drawn) * np.bincount(cells, weights=chance)
    seen = np.bincount(cells[np.clip(drawn, -reach, reach) + reach], minlength=len(expected))
    rare = expected < 30
    expected = np.append(expected[~rare], expected[rare].sum())
    seen = np.append(seen[~rare], seen[rare].sum())
    used = expected > 0
    statistic = float(((seen - expected)[used] ** 2 / expected[used]).sum())
    return statistic > chi2.isf(FALSE_ALARM, int(used.sum()) - 1)


@pytest.mark.statistical
@pytest.mark.parametrize("scale", [1, 3, 1000])
def test_draws_have_the_chances_they_should(scale: int) -> None:
    """False alarms: 1e-8 each."""
    assert not _too_far(scale, laplace.sample(scale, DRAWS, SimulatedRandomness(1, f"laplace {scale}")))


@pytest.mark.statistical
@pytest.mark.parametrize("scale", [2, 6, 1000])
def test_the_same_test_notices_a_halved_scale(scale: int) -> None:
    """It could only fail to if chi-square were at 1e-8 of its own tail."""
    assert _too_far(scale, laplace.sample(scale // 2, DRAWS, SimulatedRandomness(1, f"halved {scale}")))


@pytest.mark.statistical
def test_the_largest_scale_can_be_drawn() -> None:
    """Quartiles at |x| = scale log 2; a binomial at 1e-8."""
    drawn = laplace.sample(laplace.LARGEST_SCALE, 20_000, SimulatedRandomness(1, "largest"))
    near = int((np.abs(drawn) < laplace.LARGEST_SCALE * math.log(2)).sum())
    assert binom.ppf(FALSE_ALARM / 2, 20_000, 0.5) <= near <= binom.isf(FALSE_ALARM / 2, 20_000, 0.5)


def test_no_draws_are_no_draws() -> None:
    assert laplace.sample(5, 0, SystemRandomness()).tolist() == []


@pytest.mark.parametrize("scale", [0, -1, 0.5, 2**40 + 1, math.nan, math.inf])
def test_a_scale_that_cannot_be_drawn_is_refused(scale: Any) -> None:
    with pytest.raises(ht.SettingError, match="scale"):
        laplace.sample(scale, 3, SystemRandomness())


def test_a_scale_that_is_no_integer_is_refused() -> None:
    """Cut off to 2, it would be less noise than asked for."""
    with pytest.raises(ht.SettingError, match="scale"):
        laplace.sample(2.5, 3, SystemRandomness())  # type: ignore[arg-type]


# ---- coins -------------------------------------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize("denominator", [1, 7, 1000, 2**40])
def test_coins_are_heads_with_chance_e_to_the_minus_a_over_b(denominator: int) -> None:
    """a from 0 to 5 b, all in one call. False alarms: 8 coins, each a binomial at 1e-8."""
    kinds = np.array([0, 1, denominator // 2, denominator, denominator + 1, 3 * denominator // 2, 2 * denominator])
    kinds = np.append(kinds, 5 * denominator)
    each = 40_000
    drawn = laplace.coins(np.tile(kinds, each), denominator, SimulatedRandomness(2, f"coins {denominator}"))
    heads = drawn.reshape(each, len(kinds)).sum(axis=0)
    chance = np.exp(-kinds / denominator)
    assert heads[0] == each
    assert (heads >= binom.ppf(FALSE_ALARM / 2, each, chance)).all()
    assert (heads <= binom.isf(FALSE_ALARM / 2, each, chance)).all()


def test_what_has_no_distance_is_always_heads_and_what_is_far_never() -> None:
    assert laplace.coins(np.zeros(1000, dtype=np.int64), 3, SystemRandomness()).all()
    assert not laplace.coins(np.full(1000, 10**15), 1, SystemRandomness()).any()
    assert laplace.coins(np.zeros(0, dtype=np.int64), 3, SystemRandomness()).shape == (0,)


# ---- uniform integers --------------------------------------------------------------------------------


@pytest.mark.statistical
def test_no_remainder_is_favoured() -> None:
    """Below 3 * 2^61, two thirds are below 2^62; by remainders alone it would be three quarters.

    False alarms: a binomial at 1e-8.
    """
    runs = 20_000
    drawn = laplace.uniform(np.full(runs, 3 * 2**61), SimulatedRandomness(3, "uniform"))
    assert drawn.min() >= 0
    assert drawn.max() < 3 * 2**61
    small = int((drawn < 2**62).sum())
    assert binom.ppf(FALSE_ALARM / 2, runs, 2 / 3) <= small <= binom.isf(FALSE_ALARM / 2, runs, 2 / 3)
    assert not binom.ppf(FALSE_ALARM / 2, runs, 3 / 4) <= small <= binom.isf(FALSE_ALARM / 2, runs, 3 / 4)


class Given:
    """Words that were written down."""

    def __init__(self, *given: int) -> None:
        self._left = list(given)

    def bytes(self, size: int) -> bytes:
        return b"".join(self._left.pop(0).to_bytes(8, "little") for _ in range(size // 8))


def test_a_word_beyond_the_last_whole_multiple_is_drawn_again() -> None:
    below = 3 * 2**61
    words = Given(2 * below, 2 * below - 1, 2**64 - 1, 5)
    assert laplace.uniform(np.array([below, below]), words).tolist() == [5, below - 1]


@pytest.mark.statistical
@pytest.mark.parametrize("below", [1, 2, 3, 10])
def test_small_ranges_are_even(below: int) -> None:
    """Chi-square at 1e-8."""
    drawn = np.bincount(laplace.uniform(np.full(50_000, below), SimulatedRandomness(4, f"{below}")), minlength=below)
    assert len(drawn) == below
    statistic = float(((drawn - 50_000 / below) ** 2 / (50_000 / below)).sum())
    assert statistic <= chi2.isf(FALSE_ALARM, max(1, below - 1))
