"""Checks of what a user gives: one line with the name, the constraint and the value got."""

from __future__ import annotations

import math
import numbers
from typing import Any

from hushtune.core.errors import SettingError


def integer(name: str, value: Any, low: int, high: int | None = None) -> int:
    """The value as an int within [low, high]; numpy integers count, bools and 2.0 do not."""
    fits = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not fits or not low <= int(value) or (high is not None and int(value) > high):
        limit = f"`{name} >= {low}`" if high is None else f"`{low} <= {name} <= {high}`"
        raise SettingError(f"{limit} must hold for an integer, but got {_got(name, value)}")
    return int(value)


def number(name: str, value: Any, low: float, high: float, ends: str = "[]") -> float:
    """The value as a finite float between low and high; `ends` says which of them belong to the range."""
    left, right = ("<" if ends[0] == "(" else "<="), ("<" if ends[1] == ")" else "<=")
    fits = isinstance(value, numbers.Real) and not isinstance(value, bool) and _finite(value)
    above = fits and (low < value if left == "<" else low <= value)
    below = fits and (value < high if right == "<" else value <= high)
    if not (above and below):
        raise SettingError(f"`{low:g} {left} {name} {right} {high:g}` must hold, but got {_got(name, value)}")
    return float(value)


def _finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond all floats
        return False


def kind(name: str, value: Any, *kinds: type, optional: bool = True) -> None:
    """Refuses a value of another class; of one that may hold data, the message has the class only."""
    if isinstance(value, kinds) or (optional and value is None):
        return
    wanted = " or ".join(with_article(k.__name__) for k in kinds)
    raise SettingError(f"{name} must be {wanted}, but got {in_words(value)}")


def in_words(value: Any) -> str:
    """A value as a message may have it: a plain one itself, of any other, which may hold data, the class only."""
    plain = value is None or isinstance(value, str | numbers.Number)
    return repr(value) if plain else with_article(type(value).__name__)


def with_article(noun: str) -> str:
    """A noun with its article."""
    return f"{'an' if noun[:1].lower() in tuple('aeio') else 'a'} {noun}"


def _got(name: str, value: Any) -> str:
    """What was got for a name: `k=0`, or `a list`."""
    got = in_words(value)
    return f"{name}={got}" if got == repr(value) else got
