"""Epsilons as exact numbers: each is the number that its shortest decimal text names, 3/10 for 0.3.

That is what was asked for, and what statements, requests and ledgers say. The binary number behind it lies up to 2^-53
of it to either side.
"""

from __future__ import annotations

import math
from fractions import Fraction


def named(value: float) -> Fraction:
    """The number that the shortest decimal text of a finite float names.

    Args:
        value: an epsilon, or a delta.
    """
    return Fraction(repr(float(value)))


def not_below(exact: Fraction) -> float:
    """The smallest float whose shortest decimal text names no less than an exact number; infinite, if none does.

    Shortest texts rise with their floats, and each lies nearer to its own float than to any other. So it is the float
    nearest to the number, or the next one.

    Args:
        exact: 0 or more.
    """
    try:
        found = float(exact)
    except OverflowError:
        return math.inf
    return found if named(found) >= exact else math.nextafter(found, math.inf)
