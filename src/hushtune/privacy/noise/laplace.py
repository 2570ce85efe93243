"""Exact coins of chance e^-x and discrete Laplace noise, from uniform bits alone.

Canonne, Kamath, Steinke 2020 (The Discrete Gaussian for Differential Privacy), Algorithms 1 and 2. Every comparison is
one of integers: there is no table, no rounding and no distance to the exact distribution.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hushtune.core.arrays import IntArray
from hushtune.core.errors import SettingError
from hushtune.core.randomness import Randomness, words

LARGEST_SCALE = 2**40
_MOST_TURNS = 64  # of the series in `small_coins`: numbers stay below 2^63


def uniform(below: IntArray, randomness: Randomness) -> IntArray:
    """One uniform integer in [0, below) each; words that would favour small ones are drawn again."""
    limit = below.astype(np.uint64)
    fair = (np.uint64(2**64 - 1) // limit) * limit  # a multiple of `below`
    found = words(randomness, len(limit))
    while (again := np.flatnonzero(found >= fair)).size:
        found[again] = words(randomness, len(again))
    drawn: IntArray = (found % limit).astype(np.int64)
    return drawn


def coins(numerators: IntArray, denominator: int, randomness: Randomness) -> NDArray[np.bool_]:
    """Independent coins that are heads with chance exp(-numerator / denominator), numerators >= 0."""
    whole, rest = np.divmod(numerators, denominator)
    heads = small_coins(rest, denominator, randomness)
    standing = np.flatnonzero(heads & (whole > 0))
    left = whole[standing]
    while standing.size:  # e^-n is n heads of e^-1 in a row
        won = small_coins(np.full(len(standing), denominator), denominator, randomness)
        heads[standing[~won]] = False
        left = left[won] - 1
        standing = standing[won][left > 0]
        left = left[left > 0]
    return heads


def small_coins(numerators: IntArray, denominator: int, randomness: Randomness) -> NDArray[np.bool_]:
    """As `coins`, for numerators up to the denominator: the length of a run of coins a/(b k), k = 1, 2, ..., is odd."""
    heads = np.zeros(len(numerators), dtype=bool)
    running = np.arange(len(numerators))
    turn = 1
    while running.size:
        if turn > _MOST_TURNS:
            raise AssertionError("chance below 2^-290")
        on = uniform(np.full(len(running), denominator * turn), randomness) < numerators[running]
        heads[running[~on]] = turn % 2 == 1
        running, turn = running[on], turn + 1
    return heads


def sample(scale: int, size: int, randomness: Randomness) -> IntArray:
    """`size` independent draws with P[x] proportional to exp(-|x| / scale), shape (size,)."""
    if not isinstance(scale, int) or not 1 <= scale <= LARGEST_SCALE:
        raise SettingError(f"scale must be an integer from 1 to 2**40, but got {scale!r}")
    found = np.zeros(size, dtype=np.int64)
    missing = np.arange(size)
    while missing.size:
        low = uniform(np.full(len(missing), scale), randomness)
        kept = small_coins(low, scale, randomness)
        at, magnitude = missing[kept], low[kept] + scale * heads_in_a_row(int(kept.sum()), randomness)
        negative = (words(randomness, len(at)) & np.uint64(1)).astype(bool)
        twice = negative & (magnitude == 0)  # zero has one sign only
        found[at[~twice]] = np.where(negative, -magnitude, magnitude)[~twice]
        missing = np.concatenate([missing[~kept], at[twice]])
    return found


def heads_in_a_row(size: int, randomness: Randomness) -> IntArray:
    """How many heads of chance e^-1 come before the first tails, shape (size,)."""
    counts = np.zeros(size, dtype=np.int64)
    running = np.arange(size)
    while running.size:
        running = running[small_coins(np.ones(len(running), dtype=np.int64), 1, randomness)]
        counts[running] += 1
    return counts
