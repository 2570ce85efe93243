from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import hushtune as ht
from hushtune.core.randomness import SimulatedRandomness, SystemRandomness, words
from hushtune.privacy.noise.base import Noise


def test_shares_of_the_honest_parties_make_up_the_scale_exactly() -> None:
    noise = Noise(11.784)
    for honest in (1, 7, 80, 9_000):
        assert noise.share_variance(honest) * honest == Fraction(noise.variance)


@pytest.mark.statistical
@pytest.mark.parametrize(("clients", "honest"), [(100, 80), (10_000, 8_000)])
def test_total_variance_at_the_fewest_honest_answers(clients: int, honest: int) -> None:
    """Variance of the summed noise of exactly `honest` parties; a normal approximation at 6 sigma, < 1e-8."""
    size = 2_000
    total = sum(Noise(12.0).share(honest, size, SimulatedRandomness(i, "variance")) for i in range(honest))
    spread = np.sqrt(2 / size + 1 / (144 * size))
    assert abs(np.var(total) / 144 - 1) < 6 * spread


@pytest.mark.parametrize("scale", [-1.0, float("nan"), float("inf")])
def test_impossible_scales_are_refused(scale: float) -> None:
    with pytest.raises(ht.SettingError, match="scale="):
        Noise(scale)


def test_nobody_honest_is_refused() -> None:
    with pytest.raises(ht.SettingError, match="honest=0"):
        Noise(1.0).share(0, 3, SystemRandomness())


def test_randomness_streams_differ_by_seed_and_label_and_repeat_otherwise() -> None:
    def first(seed: int, label: str) -> list[int]:
        return words(SimulatedRandomness(seed, label), 4).tolist()

    assert first(1, "a") == first(1, "a")
    assert first(1, "a") != first(2, "a") != first(2, "b")
    stream = SimulatedRandomness(1, "a")
    assert words(stream, 4).tolist() != words(stream, 4).tolist()
    assert words(SystemRandomness(), 4).tolist() != words(SystemRandomness(), 4).tolist()
