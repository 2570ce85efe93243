"""Rounded Gaussian noise: the right distribution, also where floats cannot decide."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import chi2, norm

import hushtune as ht
from hushtune.core.randomness import SimulatedRandomness, SystemRandomness
from hushtune.privacy.noise.base import Noise, gaussian


def _statistic(scale: float, drawn: np.ndarray) -> tuple[float, int]:
    """Chi-square of the draws against round(N(0, scale^2)), in cells of at least 30 expected draws."""
    reach = int(8 * scale) + 2
    cells = np.arange(-reach, reach + 1)
    expected = len(drawn) * (norm.cdf((cells + 0.5) / scale) - norm.cdf((cells - 0.5) / scale))
    seen = np.bincount(np.clip(drawn, -reach, reach) + reach, minlength=len(cells))
    kept = expected >= 30
    seen, expected = np.append(seen[kept], seen[~kept].sum()), np.append(expected[kept], expected[~kept].sum())
    used = expected > 5
    return float(((seen - expected)[used] ** 2 / expected[used]).sum()), int(used.sum()) - 1


@pytest.mark.statistical
@pytest.mark.parametrize("scale", [0.3, 1.0, 7.5, 40.0])
def test_draws_are_rounded_normal_numbers(scale: float) -> None:
    """False alarms: 1e-7 each."""
    drawn = gaussian.sample(scale, 200_000, SimulatedRandomness(1, f"gaussian {scale}"))
    statistic, freedom = _statistic(scale, drawn)
    assert statistic < chi2.isf(1e-7, freedom)


@pytest.mark.statistical
def test_halved_noise_is_noticed() -> None:
    drawn = gaussian.sample(5.0, 200_000, SimulatedRandomness(1, "halved"))
    statistic, freedom = _statistic(10.0, drawn)
    assert statistic > chi2.isf(1e-7, freedom)


def test_draws_decided_with_many_digits_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = gaussian.sample(3.3, 300, SimulatedRandomness(2, "digits"))
    monkeypatch.setattr(gaussian, "_DOUBT", 2.0)  # every draw is in doubt
    assert gaussian.sample(3.3, 300, SimulatedRandomness(2, "digits")).tolist() == plain.tolist()


def test_a_draw_on_the_edge_is_decided_by_its_last_bit() -> None:
    """The tail of |g| > 1/2 as 127 bits: just below it the magnitude is 1, at or above it is 0."""
    import mpmath

    with mpmath.workdps(60):
        edge = int(mpmath.floor(mpmath.erfc(mpmath.mpf(1) / (2 * mpmath.sqrt(2))) * 2**127))

    class Fixed:
        def __init__(self, bits: int) -> None:
            self._words = np.array([(bits >> 64) << 1, bits & (2**64 - 1)], dtype="<u8")

        def bytes(self, size: int) -> bytes:
            return self._words.tobytes()

    assert gaussian.sample(1.0, 1, Fixed(edge)).tolist() == [1]
    assert gaussian.sample(1.0, 1, Fixed(edge + 1)).tolist() == [0]
    assert gaussian.sample(1.0, 1, Fixed(0)).tolist() == [len(gaussian._tails(1.0))]


def test_no_noise_and_too_much_of_it() -> None:
    assert gaussian.sample(0.0, 3, SystemRandomness()).tolist() == [0, 0, 0]
    with pytest.raises(ht.SettingError, match="variance"):
        gaussian.sample(2e5, 1, SystemRandomness())


@pytest.mark.statistical
def test_a_curator_draws_all_the_noise_and_the_parties_none() -> None:
    """Variance at 6 sigma of the normal approximation, < 1e-8."""
    noise = Noise(20.0, "curator")
    assert not noise.share(8, 100, SystemRandomness()).any()
    drawn = noise.by_curator(20_000, SimulatedRandomness(3, "curator"))
    assert abs(np.var(drawn) / (400 + 1 / 12) - 1) < 6 * np.sqrt(2 / 20_000)
    assert noise.opened_variance(8, 9) == noise.opened_variance(8, 1) == 400
    assert not Noise(20.0).by_curator(100, SystemRandomness()).any()
    assert Noise(20.0).opened_variance(8, 9) == pytest.approx(400 * 9 / 8)


@pytest.mark.parametrize("scale", [0.3, 2.0, 40.0])
@pytest.mark.parametrize("entries", [1, 2, 50])
def test_the_reach_of_a_sum_is_exceeded_no_more_often_than_it_says(scale: float, entries: int) -> None:
    """By the exact distribution of a sum of rounded draws; and a quarter of it is exceeded more often."""
    width = math.ceil(14 * scale) + 2
    edges = np.arange(-width, width + 2) - 0.5
    one = np.diff(ndtr(edges / scale))
    size = 1 << math.ceil(math.log2(entries * len(one) + 1))
    with np.errstate(all="ignore"):
        total = np.fft.irfft(np.fft.rfft(one, size) ** entries, size)[: entries * (len(one) - 1) + 1]
    failure = 1e-10  # what floats can tell
    reach = gaussian.reach(scale, entries, failure)
    middle = len(total) // 2
    inside = total[max(0, middle - reach) : middle + reach + 1].sum()
    assert 1 - inside <= failure
    assert total[max(0, middle - reach // 4) : middle + reach // 4 + 1].sum() < 1 - failure
