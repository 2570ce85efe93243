"""Spaces as people write them into TOML files: a table with one entry per knob."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from hushtune.core.checks import integer, kind, number
from hushtune.core.errors import SettingError
from hushtune.core.space import Choice, Float, Int, Space

_WIDEST = 2**53  # whole numbers that a float holds
_KNOBS = {"float": Float, "int": Int, "choice": Choice}
_KEYS = {  # of a knob: those it needs, and all
    "float": (["low", "high"], ["low", "high", "step", "log"]),
    "int": (["low", "high"], ["low", "high", "step", "log"]),
    "choice": (["choices"], ["choices"]),
}


def space_from_table(table: Mapping[str, Any]) -> Space:
    """The space in a table such as `C = { type = "float", low = 0.01, high = 100, log = true }`.

    Args:
        table: by knob: `type`, and the arguments of `Float`, `Int` or `Choice`.
    """
    knobs = {}
    for name, fields in table.items():
        if not isinstance(fields, dict) or str(fields.get("type")) not in _KNOBS:
            raise SettingError(f"'{name}' needs type = one of {sorted(_KNOBS)}, but got {fields!r}")
        try:
            knobs[name] = _KNOBS[fields["type"]](**_knob(fields))
        except ValueError as error:  # Optuna's refusals, and ours
            raise SettingError(f"'{name}': {error}") from None
        except ArithmeticError:  # Optuna counts steps in decimals of 28 digits
            raise SettingError(f"'{name}': the steps from low to high must be countable, but got {fields!r}") from None
    return Space(**knobs)


def _knob(fields: dict[str, Any]) -> dict[str, Any]:
    """A knob's arguments, each of its kind: Optuna would take log = "no" for true."""
    needed, known = _KEYS[fields["type"]]
    found = {key: value for key, value in fields.items() if key != "type"}
    if not set(needed) <= set(found) <= set(known):
        raise SettingError(f"needs the keys {needed} and may have {known}, but got {sorted(found)}")
    for key, value in found.items():
        if key in ("log", "choices"):
            kind(key, value, {"log": bool, "choices": list}[key], optional=False)
        elif fields["type"] == "int":
            integer(key, value, -_WIDEST, _WIDEST)
        else:
            number(key, value, -math.inf, math.inf, "()")
    return found
