"""Words of messages and pages."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

_CONTEXT = Context(prec=400)
_DUST = 14  # digits to which a sum of a few floats is exact: .1 + .2 is .3, not .30000000000000004


def counted(number: int, noun: str) -> str:
    """How many there are: "1 client", "2 clients".

    Args:
        number: how many.
        noun: one of them, whose plural ends in s.
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


def up(value: float, digits: int = 4) -> str:
    """A cost in a few digits, rounded up: whoever reads it back has no less than the value, but for float dust.

    What a value has beyond its 14th digit is what sums of floats leave there: .1 + .2 is written "0.3". So the text is
    never below the value by more than 1e-13 of it.

    Args:
        value: an epsilon or a delta that was computed.
        digits: how many significant ones.
    """
    return _rounded(value, digits, ROUND_CEILING)


def down(value: float, digits: int = 4) -> str:
    """What is left of a budget in a few digits, rounded down: what the reader is promised fits.

    Float dust counts as in `up`: .3 - .1 is written "0.2", above the value by less than 1e-13 of it. A ledger, whose
    tolerance is larger, still takes a run of that size.

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
    exact = Context(prec=_DUST).create_decimal(repr(float(value)))  # to the nearest: 1e-05, and not a bit more
    step = Decimal(1).scaleb(exact.adjusted() - digits + 1)
    return f"{float(exact.quantize(step, rounding=rounding, context=_CONTEXT)):.{digits}g}"
