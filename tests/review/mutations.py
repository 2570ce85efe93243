"""Every field of a result.json, each changed in ways that mean something."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from hushtune.run.result import Result

Path = tuple[str | int, ...]


def mutated(raw: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Copies with one thing changed, by name. The statement is written anew to suit, if there still is one."""
    for path, value in _leaves(raw):
        if path == ("statement",):
            continue
        for how, other in _others(value, path):
            copied = copy.deepcopy(raw)
            inside: Any = copied
            for key in path[:-1]:
                inside = inside[key]
            if how == "gone":
                inside.pop(path[-1])
            else:
                inside[path[-1]] = other
            if copied != raw or how == "gone":
                _suit(copied)
                yield f"{name(path)}: {how}", copied


def name(path: Path) -> str:
    """A path in words; places in lists count alike."""
    return ".".join("*" if isinstance(key, int) else key for key in path)


def _suit(raw: dict[str, Any]) -> None:
    try:
        raw["statement"] = Result._from_json(raw).statement
    except Exception:
        return  # then the old one stays


def _leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Everything in a value; of long lists the first and the last entry."""
    if path:
        yield path, value
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, (*path, key))
    elif isinstance(value, list):
        for at in sorted({0, len(value) - 1}) if value else ():
            yield from _leaves(value[at], (*path, at))


def _others(value: Any, path: Path) -> Iterator[tuple[str, Any]]:
    if isinstance(path[-1], str) and not isinstance(value, dict | list):
        yield "gone", None
    match value:
        case bool():
            yield "flipped", not value
        case int():
            yield "more", value + 1
            yield "less", value - 1
            yield "much more", value + 10**6
        case float():
            yield "halved", value / 2 if value else 0.5
            yield "a little more", value * 1.01 + 1e-3
            yield "negative", -value - 1.0
        case str():
            flipped = ("1" if value[:1] == "0" else "0") + value[1:]
            yield "another", flipped
            yield "empty", ""
        case None:
            yield "made up", 1
        case list():
            yield "added to", [*value, value[-1] if value else {"client": "client-77", "reason": "no reply"}]
            if value:
                yield "shortened", value[:-1]
                yield "emptied", []
                yield "turned round", value[::-1]
        case dict():
            yield "with something beside", {**value, "beside": 1}
