"""Frozen dataclasses as plain values, and back: a field is written by what it is, and read by its declared type.

What a class does not check itself passes through as it came: its own checks say what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

_READERS: dict[Any, Callable[[Any], Any]] = {}


def reads(hint: Any, reader: Callable[[Any], Any]) -> None:
    """Says how a field of some type is read.

    Args:
        hint: the declared type of fields.
        reader: makes the value of what `to_json` wrote.
    """
    _READERS[hint] = reader


def plain(value: Any) -> Any:
    """A value as JSON holds it: what has `to_json` writes itself, and tuples are lists."""
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, tuple | list):
        return [plain(one) for one in value]
    return value


def fields_to_json(value: Any) -> dict[str, Any]:
    """All fields of a dataclass, by name."""
    return {field.name: plain(getattr(value, field.name)) for field in fields(value)}


def fields_from_json(kind: type[Any], raw: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments for a dataclass, from what `fields_to_json` wrote."""
    hints = _hints(kind)  # type: ignore[arg-type]
    return {name: _read(hints.get(name), value) for name, value in raw.items()}


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _read(hint: Any, value: Any) -> Any:
    if hint in _READERS:
        return _READERS[hint](value)
    if get_origin(hint) in (Union, UnionType):
        if value is None:
            return None
        for option in get_args(hint):
            if option is not NoneType and (option in _READERS or get_origin(option) is tuple):
                return _read(option, value)
    if get_origin(hint) is tuple and isinstance(value, list):
        inner = get_args(hint)[:1]
        return tuple(_read(inner[0] if inner else None, one) for one in value)
    return value
