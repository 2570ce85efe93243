"""Smoothing many sums at once."""

from __future__ import annotations

import numpy as np
import pytest

import hushtune as ht
from hushtune.methods.decode import smooth
from hushtune.methods.vote.odds import Agreement, counts
from hushtune.methods.vote.smoothing import Smoother

GRID = ht.Space(x=ht.Float(0, 1), y=ht.Float(0, 1)).grid(x=6, y=6)


def noisy(rows: int, deviation: float) -> np.ndarray:
    rng = np.random.default_rng(0)
    order = np.argsort(((GRID.encoded - 0.3) ** 2).sum(axis=1))
    votes = np.empty((rows, len(GRID)))
    votes[:, order] = counts(50, len(GRID), [4], Agreement(4), rows, rng)[4]
    return votes + rng.normal(0, deviation, votes.shape)


@pytest.mark.parametrize("expecting", [False, True], ids=["alone", "with a prior"])
def test_it_takes_what_a_run_would_take(expecting: bool) -> None:
    sums = noisy(60, 12.0)
    expected = 20 * np.exp(-GRID.encoded[:, 0]) if expecting else None
    rows = None if expected is None else np.tile(expected, (len(sums), 1))
    found = Smoother(GRID).best(sums, 200.0, 144.0, rows)
    exact = [smooth(row, 200.0, 144.0, GRID, expected).best for row in sums]
    assert np.mean(found == exact) >= 0.9


def test_without_noise_the_largest_is_taken() -> None:
    sums = noisy(10, 3.0)
    assert (Smoother(GRID).best(sums, 200.0, 0.0) == sums.argmax(axis=1)).all()


def test_beyond_what_can_be_smoothed_sums_are_ranked_as_they_are() -> None:
    line = ht.Space(x=ht.Float(0, 1)).grid(x=1_200)
    sums = np.random.default_rng(0).normal(0, 1, (5, 1_200))
    assert (Smoother(line).best(sums, 0.0, 0.5) == sums.argmax(axis=1)).all()
    expected = np.zeros((5, 1_200))
    expected[:, 7] = 100.0
    assert (Smoother(line).best(sums + expected, 0.0, 0.5, expected) == 7).all()
