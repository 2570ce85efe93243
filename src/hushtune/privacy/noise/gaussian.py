"""Gaussian noise rounded to integers, for a trusted curator who adds it to an exact integer sum.

For an integer x, round(x + g) = x + round(g): what is opened is computed from x + g, so all that is known about the
Gaussian mechanism holds for it. Unlike Skellam noise it does not come in shares that add up, and nobody is asked to.

The magnitude is found by comparing 127 uniform bits with the tail of |g|. Tails are computed as floats, whose relative
error is below 1e-13; a draw nearer than 1e-10 to a tail is decided again with 60 digits.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hushtune.core.arrays import IntArray
from hushtune.core.errors import SettingError
from hushtune.core.randomness import Randomness, words
from hushtune.privacy.noise.skellam import LARGEST_VARIANCE

_BITS = 127
_DIGITS = 60
_DOUBT = 1e-10
_REACH = 13.2  # P[|g| > 13.2 sigma] < 2^-127


def reach(scale: float, entries: int, failure: float) -> int:
    """An x that the sum of so many draws exceeds, in absolute value, with chance `failure` at most.

    A draw is g plus what rounding adds: independent, symmetric and at most 1/2. For the sum of the g the bound is
    erfc(z) <= exp(-z^2), for that of the others Hoeffding's inequality (1963, Theorem 2); each gets half of `failure`.
    """
    half = failure / 2
    rounding = min(entries / 2, math.sqrt(entries * math.log(2 / half) / 2))
    return math.ceil(scale * math.sqrt(2 * entries * math.log(1 / half)) + rounding)


@lru_cache(maxsize=16)
def _tails(scale: float) -> NDArray[np.float64]:
    """P[|g| > j + 1/2] for j = 0, 1, ..., rising: the last is that of j = 0."""
    from scipy.special import erfc

    edges = np.arange(int(_REACH * scale) + 2) + 0.5
    tails: NDArray[np.float64] = erfc(edges / (scale * math.sqrt(2)))[::-1]
    return tails


def sample(scale: float, size: int, randomness: Randomness) -> IntArray:
    """`size` independent draws of round(N(0, scale^2)), shape (size,); within skellam.DISTANCE of it each."""
    if not 0 <= scale * scale <= LARGEST_VARIANCE:
        raise SettingError(f"`0 <= variance <= 10**10` must hold, but got variance={scale * scale:g}")
    if scale == 0:
        return np.zeros(size, dtype=np.int64)
    tails = _tails(scale)
    draw = words(randomness, 2, size)
    below = (draw[0] >> np.uint64(1)).astype(np.float64) + (draw[1] / 2.0**64)  # of 2^63
    uniform = below / 2.0**63
    above = np.searchsorted(tails, uniform, side="right")  # the tails beyond are larger than the draw
    found = len(tails) - above
    near = np.minimum(
        np.abs(uniform / tails[np.minimum(above, len(tails) - 1)] - 1), np.abs(uniform / tails[above - 1] - 1)
    )
    for at in np.flatnonzero(near < _DOUBT):
        found[at] = _decided(scale, int(found[at]), (int(draw[0][at]) >> 1 << 64) | int(draw[1][at]))
    signs = np.where(draw[0] & np.uint64(1), -1, 1)
    values: IntArray = (signs * found).astype(np.int64)
    return values


def _decided(scale: float, near: int, bits: int) -> int:
    """The number of j with uniform < P[|g| > j + 1/2], which is within one of `near`."""
    import mpmath

    with mpmath.workdps(_DIGITS):
        uniform = mpmath.mpf(bits) / mpmath.mpf(2) ** _BITS
        found = max(0, near - 1)
        while uniform < mpmath.erfc((mpmath.mpf(found) + mpmath.mpf("0.5")) / (mpmath.mpf(scale) * mpmath.sqrt(2))):
            found += 1
    return found
