from __future__ import annotations

import numpy as np
import pytest

import hushtune as ht
from hushtune.methods.decode import MOST_SMOOTHED, argmax, smooth

GRID = ht.Space(a=ht.Float(0.0, 1.0), b=ht.Float(0.0, 1.0)).grid(a=10, b=10)
HILL = 40 * np.exp(-((GRID.encoded - [0.65, 0.35]) ** 2).sum(1) / (2 * 0.2**2))


def noisy(signal: np.ndarray, scale: float, seed: int) -> np.ndarray:
    return np.round(signal + np.random.default_rng(seed).normal(0, scale, len(signal)))


def test_smoothing_finds_a_hill_that_plain_argmax_misses() -> None:
    scale, regret = 20.0, {"plain": [], "smooth": []}  # type: dict
    for seed in range(20):
        counts = noisy(HILL, scale, seed)
        regret["plain"].append(HILL.max() - HILL[argmax(counts)])
        regret["smooth"].append(HILL.max() - HILL[smooth(counts, HILL.sum(), scale**2, GRID).best])
    assert np.mean(regret["smooth"]) < 0.5 * np.mean(regret["plain"])


def test_a_lone_peak_above_the_noise_is_kept() -> None:
    peak = np.full(100, 5.0)
    peak[37] = 100
    for seed in range(10):
        found = smooth(noisy(peak, 10.0, seed), peak.sum(), 100.0, GRID)
        assert found.best == 37


def test_without_noise_the_largest_count_wins_even_if_those_beside_it_are_low() -> None:
    counts = np.random.default_rng(0).integers(0, 50, 100)
    counts[61] = 60
    assert smooth(counts, counts.sum(), 0.0, GRID).best == 61


def test_structureless_counts_are_ranked_as_they_are() -> None:
    rng, found = np.random.default_rng(5), []
    for _ in range(20):
        counts = rng.permutation(200)[:100]
        posterior = smooth(counts, counts.sum(), 1.0, GRID)
        found.append((posterior.structured, posterior.best == argmax(counts)))
    assert np.median([structured for structured, _ in found]) < 0.1
    assert all(same for structured, same in found if structured < 0.1)
    assert smooth(noisy(HILL, 5.0, 0), HILL.sum(), 25.0, GRID).structured > 0.99


def test_noise_alone_is_not_taken_for_structure_with_confidence() -> None:
    found = [smooth(noisy(np.zeros(100), 10.0, seed), 0.0, 100.0, GRID) for seed in range(10)]
    assert np.mean([np.abs(posterior.mean).max() for posterior in found]) < 10


def test_an_unknown_total_is_estimated() -> None:
    counts = noisy(HILL, 10.0, 3)
    known, unknown = smooth(counts, HILL.sum(), 100.0, GRID), smooth(counts, None, 100.0, GRID)
    assert np.corrcoef(known.mean, unknown.mean)[0, 1] > 0.99


def test_many_candidates_are_ranked_as_they_are() -> None:
    space = ht.Space(a=ht.Float(0.0, 1.0), b=ht.Float(0.0, 1.0))
    counts = np.random.default_rng(0).integers(0, 90, MOST_SMOOTHED + 1)
    counts[700] = 100
    assert smooth(counts, None, 50.0, space.sample(MOST_SMOOTHED + 1)).best == 700


def test_choices_are_told_apart_by_a_hamming_kernel() -> None:
    """Votes depend on the choice alone: the posterior pools over the number that does not matter."""
    space = ht.Space(kind=ht.Choice(["a", "b", "c"]), x=ht.Float(0.0, 1.0))
    candidates = space.grid(x=20)
    signal = np.array([30.0 if config["kind"] == "b" else 0.0 for config in candidates])
    chosen = [candidates[smooth(noisy(signal, 30.0, s), signal.sum(), 900.0, candidates).best] for s in range(10)]
    assert all(config["kind"] == "b" for config in chosen)


def test_posterior_is_calibrated_on_its_own_model() -> None:
    found = smooth(noisy(HILL, 10.0, 1), HILL.sum(), 100.0, GRID)
    inside = np.abs(found.mean - HILL) < 3 * found.deviation
    assert inside.mean() > 0.9
    assert (found.deviation > 0).all()


@pytest.mark.parametrize("count", [1, 2])
def test_one_or_two_candidates(count: int) -> None:
    candidates = ht.Space(x=ht.Float(0.0, 1.0)).grid(x=count)
    assert smooth(np.arange(count), float(count), 4.0, candidates).best == count - 1


def test_equal_counts_and_constant_knobs() -> None:
    candidates = ht.Space(x=ht.Float(0.0, 1.0), y=ht.Float(1.0, 1.0)).grid(x=6)
    assert smooth(np.full(6, 7), 42.0, 4.0, candidates).best in range(6)
