"""Epsilons as exact numbers: each is the number that its shortest decimal text names, 3/10 for 0.3.

That is what was asked for, and what statements, requests and ledgers say. The binary number behind it lies up to 2^-53
of it to either side.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
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


def added(costs: Iterable[float]) -> float:
    """What the texts of epsilons, or of deltas, add up to, never rounded down; infinite, if one of them is.

    Args:
        costs: 0 or more each.
    """
    given = tuple(costs)
    return math.inf if math.inf in given else not_below(sum(map(named, given), Fraction(0)))


def remaining(limit: float, spent: float) -> float:
    """What the text of a limit leaves, never rounded up; 0, if all of it was spent, or more.

    Args:
        limit: an epsilon, or a delta.
        spent: the same of what was spent; it may be infinite.
    """
    if spent >= limit:
        return 0.0
    exact = named(limit) - named(spent)
    found = not_below(exact)
    return found if named(found) == exact else math.nextafter(found, 0.0)
