"""Skellam noise by integer inverse-CDF from uniform bits.

Skellam(v) is the difference of two Poisson(v/2) variables: symmetric, integer, variance v, and closed under
sums: shares of variance v/n from n parties add up to exactly Skellam(v) (Agarwal, Kairouz, Liu 2021).

The table is computed in integers of arbitrary size. Its pmf is e^-v I_|x|(v) with I the modified Bessel
function, and I_(x-1) = I_(x+1) + (2x/v) I_x has only positive terms when run downwards, so rounding stays at the
last of 256 guard bits; the values are normalised by their own sum (Miller's algorithm), started far enough out
that what is cut off is below 2^-150 of it.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hushtune.core.arrays import IntArray
from hushtune.core.errors import SettingError
from hushtune.core.randomness import Randomness, words

DISTANCE = 2.0**-100
"""Total variation distance between one sampled value and the exact Skellam distribution, at most."""

LARGEST_VARIANCE = 10**10
_GUARD_BITS = 256
_WORD = 64  # a probability is compared as two 64-bit words; mass beyond the table is below 2^-127


def reach(variance: float, failure: float = 2.0**-127) -> int:
    """An x with P[|Skellam(variance)| > x] < failure, which is 2^-127 or more, by the Chernoff bound exp(-v h(x/v)).

    For Skellam the moment generating function is exp(v (cosh t - 1)); with t = asinh(x/v) the bound is
    P[X >= x] <= exp(v (sqrt(1 + (x/v)^2) - 1) - x asinh(x/v)).
    """
    target = math.log(2 / failure)
    low, high = 0, 64 + int(20 * math.sqrt(variance))
    while low < high:
        x = (low + high) // 2
        r = x / variance
        exponent = variance * (r * r / (math.sqrt(1 + r * r) + 1)) - x * math.asinh(r)
        low, high = (low, x) if exponent < -target else (x + 1, high)
    return low


def _bessel(variance: Fraction, largest: int) -> tuple[list[int], int]:
    """Integers proportional to P[X = x] for x = 0..largest, and what they are fractions of."""
    start = max(largest, reach(float(variance))) + 64 + int(2 * math.sqrt(variance))
    above, here = 0, 1 << _GUARD_BITS
    column = [here]
    numerator, twice = variance.numerator, 2 * variance.denominator
    for x in range(start, 0, -1):
        above, here = here, above + x * twice * here // numerator
        column.append(here)
    column.reverse()
    return column[: largest + 1], column[0] + 2 * sum(column[1:])


@lru_cache(maxsize=16)
def log_probabilities(variance: Fraction, largest: int) -> NDArray[np.float64]:
    """log P[X = x] for x = -largest..largest, shape (2 * largest + 1,), not to be written to."""
    column, total = _bessel(variance, largest)
    half = [math.log(value) - math.log(total) for value in column]
    found = np.array(half[:0:-1] + half)
    found.setflags(write=False)
    return found


@lru_cache(maxsize=64)
def _table(variance: Fraction) -> tuple[NDArray[np.uint64], NDArray[np.uint64], int]:
    """High and low words of P[X <= x] for x = -reach..reach-1, and reach."""
    half, total = _bessel(variance, reach(float(variance)))
    cumulated, mass = [], 0
    for value in half[:0:-1] + half:
        mass += value
        cumulated.append((mass << (2 * _WORD)) // total)
    last = len(cumulated) - 1  # the largest value takes what is left
    high = np.array([c >> _WORD for c in cumulated[:last]], dtype=np.uint64)
    low = np.array([c & ((1 << _WORD) - 1) for c in cumulated[:last]], dtype=np.uint64)
    return high, low, len(half) - 1


def sample(variance: Fraction, size: int, randomness: Randomness) -> IntArray:
    """`size` independent draws of Skellam(variance), shape (size,).

    Each draw compares 128 uniform bits with the cumulated probabilities: x is the number of entries that are
    not above the draw. Within DISTANCE of the exact distribution.
    """
    if variance < 0 or variance > LARGEST_VARIANCE:
        raise SettingError(f"`0 <= variance <= 10**10` must hold, but got variance={float(variance):g}")
    if variance == 0:
        return np.zeros(size, dtype=np.int64)
    high, low, largest = _table(variance)
    draw = words(randomness, 2, size)
    index = np.searchsorted(high, draw[0], side="left")
    # Entries whose high word equals the draw's are decided by the low word (probability about 2^-64 a draw).
    tied = np.flatnonzero((index < len(high)) & (high[np.minimum(index, len(high) - 1)] == draw[0]))
    for at in tied:
        while index[at] < len(high) and high[index[at]] == draw[0][at] and low[index[at]] <= draw[1][at]:
            index[at] += 1
    values: IntArray = index.astype(np.int64) - largest
    return values
