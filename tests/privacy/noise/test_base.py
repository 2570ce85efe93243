from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import hushtune as ht
from hushtune.core.randomness import SimulatedRandomness, SystemRandomness, words
from hushtune.privacy.noise import skellam
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


@pytest.mark.parametrize(("nodes", "honest"), [(1, 1), (3, 2), (4, 3), (5, 3), (7, 4)])
def test_shares_of_the_nodes_of_which_a_minority_is_dishonest_make_up_the_scale_exactly(
    nodes: int, honest: int
) -> None:
    noise = Noise(11.784, "nodes", nodes)
    assert noise.honest_nodes == honest
    assert noise.node_variance() * honest == Fraction(noise.variance)
    assert noise.opened_variance(80, 100) == float(Fraction(noise.variance) * nodes / honest)
    assert noise.opened_variance(1, 1) == noise.opened_variance(80, 100)  # clients add none
    assert noise.reach(80, 100, 7, 2.0**-40) == skellam.reach(float(noise.node_variance() * nodes * 7), 2.0**-40)


def test_only_nodes_draw_noise_that_nodes_draw() -> None:
    noise = Noise(11.784, "nodes", 3)
    assert noise.share_variance(7) == noise.share_reach(7, 4, 2.0**-40) == 0
    assert not noise.share(7, 50, SystemRandomness()).any()
    assert not noise.by_curator(50, SystemRandomness()).any()
    for other in (Noise(11.784), Noise(11.784, "curator")):
        assert other.node_variance() == other.honest_nodes == 0
    assert Noise(0.0, "nodes", 3).reach(80, 100, 7, 2.0**-40) == 0


@pytest.mark.statistical
def test_two_of_three_nodes_carry_the_whole_variance() -> None:
    """Variance of the summed noise of exactly two nodes; a normal approximation at 6 sigma, < 1e-8."""
    size = 200_000
    share = Noise(12.0, "nodes", 3).node_variance()
    total = sum(skellam.sample(share, size, SimulatedRandomness(i, "variance")) for i in range(2))
    spread = np.sqrt(2 / size + 1 / (144 * size))
    assert abs(np.var(total) / 144 - 1) < 6 * spread


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1.0, "nodes"), "nodes=0"),
        ((1.0, "nodes", -1), "nodes=-1"),
        ((1.0, "nodes", 3.0), "nodes=3.0"),
        ((1.0, "nodes", True), "nodes=True"),
        ((1.0, "nodes", 2**11), "nodes=2048"),
        ((1.0, "parties", 3), "at='parties', nodes=3"),
        ((1.0, "curator", 3), "at='curator', nodes=3"),
        ((1.0, "parties", False), "nodes=False"),
        ((1.0, "server"), "but got 'server'"),
    ],
)
def test_nodes_that_cannot_be_are_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ht.SettingError, match=message):
        Noise(*arguments)


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
