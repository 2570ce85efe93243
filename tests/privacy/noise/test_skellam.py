"""The sampler against its exact distribution. Statistical tests: seeded, false-alarm rate below 1e-6 each."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

import hushtune as ht
from hushtune.core.randomness import SimulatedRandomness, SystemRandomness
from hushtune.privacy.noise import skellam

VARIANCES = [Fraction(1, 1000), Fraction(1, 3), Fraction(174, 100), Fraction(139), Fraction(9456), Fraction(10**6)]
FALSE_ALARM = 1e-7


class Fixed:
    """Gives the bytes of chosen 128-bit draws."""

    def __init__(self, *draws: int) -> None:
        high = b"".join((d >> 64).to_bytes(8, "little") for d in draws)
        low = b"".join((d & (2**64 - 1)).to_bytes(8, "little") for d in draws)
        self.content = high + low

    def bytes(self, size: int) -> bytes:
        assert size == len(self.content)
        return self.content


@pytest.mark.parametrize("variance", VARIANCES)
def test_log_probabilities_are_the_exact_pmf(variance: Fraction) -> None:
    largest = min(skellam.reach(float(variance)), 3000)
    x = np.arange(-largest, largest + 1)
    expected = special.ive(np.abs(x), float(variance))
    got = np.exp(skellam.log_probabilities(variance, largest))
    near = expected > 1e-250
    np.testing.assert_allclose(got[near], expected[near], rtol=1e-9)


@pytest.mark.parametrize("variance", VARIANCES)
def test_the_table_reaches_far_enough(variance: Fraction) -> None:
    """Beyond `reach` lies less than 2^-127, by the pmf itself and a geometric tail."""
    reach = skellam.reach(float(variance))
    log_pmf = skellam.log_probabilities(variance, reach + 40)
    tail = np.logaddexp.reduce(log_pmf[-40:]) + math.log(2)
    ratio = math.exp(log_pmf[-1] - log_pmf[-2])
    assert ratio < 1
    assert np.logaddexp(tail, log_pmf[-1] + math.log(2 / (1 - ratio))) < -127 * math.log(2)


def cumulated(variance: Fraction) -> tuple[list[int], int]:
    high, low, largest = skellam._table(variance)
    return [(int(h) << 64) | int(w) for h, w in zip(high, low, strict=True)], largest


@pytest.mark.parametrize("variance", VARIANCES[:-1])
def test_table_is_within_the_stated_distance(variance: Fraction) -> None:
    """Half the L1 distance between the table's probabilities and 400-digit ones, plus the tail, < DISTANCE."""
    import mpmath

    table, largest = cumulated(variance)
    assert len(table) == 2 * largest
    edges = [0, *table, 2**128]
    assert edges == sorted(edges)
    with mpmath.workdps(120):
        v = mpmath.mpf(variance.numerator) / variance.denominator
        worst = mpmath.mpf(0)
        for x in {0, 1, -1, largest // 2, largest - 1, -largest // 2}:
            exact = mpmath.exp(-v) * mpmath.besseli(abs(x), v)
            place = x + largest
            got = mpmath.mpf(edges[place + 1] - edges[place]) / mpmath.mpf(2) ** 128
            worst = max(worst, abs(got - exact))
        assert worst * (2 * largest + 1) < skellam.DISTANCE


@pytest.mark.parametrize("variance", [Fraction(1, 3), Fraction(139)])
def test_a_draw_is_the_number_of_entries_not_above_it(variance: Fraction) -> None:
    """Draws exactly at, just below and just above an entry: the low word decides among equal high words."""
    table, largest = cumulated(variance)
    for place in sorted({0, 1, largest - 1, largest, largest + 1, len(table) - 1}):
        entry = table[place]
        draws = [max(entry - 1, 0), entry, min(entry + 1, 2**128 - 1)]
        got = skellam.sample(variance, 3, Fixed(*draws)) + largest
        assert got.tolist() == [sum(e <= d for e in table) for d in draws]
    ends = skellam.sample(variance, 2, Fixed(0, 2**128 - 1)) + largest
    assert ends.tolist() == [sum(e <= 0 for e in table), 2 * largest]


@given(st.fractions(Fraction(1, 100), 200), st.integers(0, 2**128 - 1))
def test_any_draw_lands_where_the_exact_table_says(variance: Fraction, draw: int) -> None:
    table, largest = cumulated(variance)
    (got,) = skellam.sample(variance, 1, Fixed(draw))
    assert got == sum(e <= draw for e in table) - largest


def chi_square_p_value(values: np.ndarray, variance: float) -> float:
    """Against the exact Skellam distribution, cells with at least 20 expected."""
    sd = math.sqrt(variance)
    edges = np.unique(np.round(np.linspace(-4 * sd, 4 * sd, 41)))
    cdf = np.concatenate([[0], stats.skellam.cdf(edges, variance / 2, variance / 2), [1]])
    expected = np.diff(cdf) * len(values)
    cells = np.bincount(np.searchsorted(edges, values, side="left"), minlength=len(expected))
    big = expected >= 20
    cells = np.append(cells[big], cells[~big].sum())
    expected = np.append(expected[big], expected[~big].sum())
    keep = expected > 0
    statistic = ((cells[keep] - expected[keep]) ** 2 / expected[keep]).sum()
    return float(stats.chi2.sf(statistic, keep.sum() - 1))


@pytest.mark.statistical
@pytest.mark.parametrize("variance", [Fraction(1, 3), Fraction(174, 100), Fraction(139), Fraction(9456)])
def test_sampler_fits_the_exact_distribution(variance: Fraction) -> None:
    values = skellam.sample(variance, 200_000, SimulatedRandomness(1, "fit"))
    assert chi_square_p_value(values, float(variance)) > FALSE_ALARM
    assert chi_square_p_value(values, float(variance) / 4) < FALSE_ALARM  # noise of half the scale is noticed
    assert chi_square_p_value(values + 1, float(variance)) < FALSE_ALARM or variance > 1000  # so is a shift


@pytest.mark.statistical
def test_shares_add_up_to_the_total_noise() -> None:
    """80 shares of 139/80 are Skellam(139), not something narrower (as rounded Gaussians would be)."""
    total = sum(skellam.sample(Fraction(139, 80), 50_000, SimulatedRandomness(i, "share")) for i in range(80))
    assert chi_square_p_value(np.asarray(total), 139.0) > FALSE_ALARM


@pytest.mark.statistical
def test_agrees_with_opendp_where_both_apply() -> None:
    """At this variance Skellam and OpenDP's discrete Gaussian differ by < 1e-3 in distribution (computed below)."""
    import opendp.prelude as dp

    variance, size = 400.0, 20_000
    x = np.arange(-400, 401)
    gaussian = np.exp(-(x**2) / (2 * variance))
    distance = 0.5 * np.abs(gaussian / gaussian.sum() - special.ive(np.abs(x), variance)).sum()
    assert distance < 1e-3
    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="i64"), size)
    gauss = dp.m.make_gaussian(domain, dp.l2_distance(T="i64"), scale=math.sqrt(variance))
    theirs = np.array(gauss([0] * size))
    ours = skellam.sample(Fraction(400), size, SystemRandomness())
    # Dvoretzky-Kiefer-Wolfowitz for each sample at 2.5e-8, plus the distance above.
    allowed = 2 * math.sqrt(math.log(2 / 2.5e-8) / (2 * size)) + distance
    grid = np.arange(-120, 121)
    gap = np.abs((ours[:, None] <= grid).mean(0) - (theirs[:, None] <= grid).mean(0)).max()
    assert gap < allowed
    halved = np.round(ours / 2)
    assert np.abs((halved[:, None] <= grid).mean(0) - (theirs[:, None] <= grid).mean(0)).max() > allowed


def test_no_variance_no_noise_and_no_seed_no_repetition() -> None:
    assert not skellam.sample(Fraction(0), 5, SystemRandomness()).any()
    one, other = (skellam.sample(Fraction(100), 50, SystemRandomness()) for _ in range(2))
    assert (one != other).any()


@pytest.mark.parametrize("variance", [Fraction(-1), Fraction(10**11)])
def test_impossible_variances_are_refused(variance: Fraction) -> None:
    with pytest.raises(ht.SettingError, match="variance="):
        skellam.sample(variance, 1, SystemRandomness())


@pytest.mark.parametrize("variance", [Fraction(1, 100), Fraction(7, 3), Fraction(150), Fraction(20_000)])
@pytest.mark.parametrize("bits", [42, 50, 64])
def test_a_reach_is_exceeded_no_more_often_than_it_says(variance: Fraction, bits: int) -> None:
    """By the pmf itself; and it is hardly further out than it must be."""
    reach = skellam.reach(float(variance), 2.0**-bits)
    far = skellam.reach(float(variance)) + 40
    log_pmf = skellam.log_probabilities(variance, far)[far:]  # of 0, 1, ...
    tail = np.logaddexp.reduce(log_pmf[reach + 1 :]) + math.log(2)
    assert tail < -bits * math.log(2)
    nearer = int(0.9 * reach) - 2
    assert nearer < 0 or np.logaddexp.reduce(log_pmf[nearer + 1 :]) + math.log(2) > -bits * math.log(2)
