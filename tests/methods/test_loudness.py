"""Noise as plans draw it: as often the largest as by the real mechanisms."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

import hushtune as ht
from hushtune.core.randomness import SimulatedRandomness
from hushtune.methods.loudness import deviation_of, drawn_noise, shape_of
from hushtune.privacy.bounds import KHot
from hushtune.privacy.noise.base import Noise

SUMS = np.array([6, 4, 5, 0])
CURATED = [(mechanism, Noise(3.0, "curator")) for mechanism in ht.Curator.mechanisms]
ALL: list[tuple[Any, Noise]] = [*CURATED, ("geometric", Noise(3.0, "nodes", 3)), ("geometric", Noise(2.5, "nodes", 5))]


@pytest.mark.statistical
@pytest.mark.parametrize(("mechanism", "noise"), CURATED, ids=str)
def test_winners_are_those_of_the_real_mechanism(mechanism: Any, noise: Noise) -> None:
    """Chi-square of two samples, equals broken by place in both; false alarms 1e-7 each."""
    runs = 2_000
    oracle = ht.Curator().oracle(SUMS, KHot(1, 4, runs), 9, noise, SimulatedRandomness(3, mechanism))
    real = np.array([oracle.noisy_max(mechanism) for _ in range(runs)])
    drawn = SUMS + drawn_noise(mechanism, noise, (20 * runs, 4), np.random.default_rng(4))
    table = [np.bincount(found, minlength=4) for found in (real, drawn.argmax(axis=1))]
    assert stats.chi2_contingency(table).pvalue > 1e-7
    quieter = SUMS + drawn_noise(mechanism, Noise(1.5, "curator"), (20 * runs, 4), np.random.default_rng(4))
    assert stats.chi2_contingency([table[0], np.bincount(quieter.argmax(axis=1), minlength=4)]).pvalue < 1e-7


@pytest.mark.statistical
@pytest.mark.parametrize(("mechanism", "noise"), ALL, ids=str)
def test_the_deviation_is_that_of_what_is_drawn(mechanism: Any, noise: Noise) -> None:
    """The sample deviation of 400,000 draws, within eight of its own deviations (kurtosis up to 9)."""
    drawn = drawn_noise(mechanism, noise, (400_000,), np.random.default_rng(5))
    assert drawn.std() == pytest.approx(deviation_of(mechanism, noise), rel=8 * np.sqrt(2 / 400_000))


def test_what_all_nodes_add_is_more_than_what_counts() -> None:
    assert shape_of(Noise(3.0, "curator")) == 1
    assert [shape_of(Noise(3.0, "nodes", nodes)) for nodes in (3, 5, 7)] == [
        Fraction(3, 2),
        Fraction(5, 3),
        Fraction(7, 4),
    ]
    assert deviation_of("geometric", Noise(8.0, "nodes", 3)) == pytest.approx(8 * 1.5**0.5, rel=0.01)


@pytest.mark.parametrize(("mechanism", "_"), CURATED, ids=str)
def test_no_noise_is_none(mechanism: Any, _: Noise) -> None:
    silent = Noise(0.0, "curator")
    assert deviation_of(mechanism, silent) == 0
    assert not drawn_noise(mechanism, silent, (2, 3), np.random.default_rng(0)).any()
