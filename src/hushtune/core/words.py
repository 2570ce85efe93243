"""Words of messages and pages."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

_CONTEXT = Context(prec=400)


def counted(number: int, noun: str) -> str:
    """How many there are: "1 client", "2 clients".

    Args:
        number: how many.
        noun: one of them, whose plural ends in s.
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


def up(value: float, digits: int = 4) -> str:
    """A cost in a few digits, rounded up: whoever reads it back has no less than the value.

    Args:
        value: an epsilon or a delta that was computed.
        digits: how many significant ones.
    """
    return _rounded(value, digits, ROUND_CEILING)


def down(value: float, digits: int = 4) -> str:
    """What is left of a budget in a few digits, rounded down: what the reader is promised fits.

    Args:
        value: an epsilon or a delta.
        digits: how many significant ones.
    """
    return _rounded(value, digits, ROUND_FLOOR)


def as_set(value: float) -> str:
    """A limit or a setting with all its digits: "1", "0.25", "1e-05".

    Args:
        value: what somebody has set.
    """
    return repr(value).removesuffix(".0")


def _rounded(value: float, digits: int, rounding: str) -> str:
    if not math.isfinite(value):
        return str(value)
    exact = Decimal(repr(float(value)))  # the shortest text that reads back as the value: 1e-05, and not a bit more
    step = Decimal(1).scaleb(exact.adjusted() - digits + 1)
    return f"{float(exact.quantize(step, rounding=rounding, context=_CONTEXT)):.{digits}g}"
