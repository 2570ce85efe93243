"""The methods, by name: hushtune's own, and those of installed packages."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any

from hushtune.errors import SettingError
from hushtune.method import KNOWN, Method
from hushtune.methods.combine import Combine
from hushtune.methods.propose import NoisyMax, ProposeTest
from hushtune.methods.surface import Surface
from hushtune.methods.thompson import Thompson
from hushtune.methods.vote import Vote

METHODS: tuple[type[Method], ...] = (Vote, Surface, Combine, Thompson, ProposeTest, NoisyMax)
GROUP = "hushtune.methods"  # of the entry points by which a package says which methods it has


def method_class(name: Any) -> type[Method]:
    """The class of a method: one that was imported, or else one that an installed package has.

    A name comes from a study or from somebody's result.json, so it only ever selects: which module is imported is said
    by the entry points of installed packages, and so by whoever installed them.
    """
    if isinstance(name, str) and name in KNOWN:
        return KNOWN[name]
    installed = {point.name: point for point in entry_points(group=GROUP)}
    if not isinstance(name, str) or name not in installed:
        own = {method.name for method in METHODS}
        raise SettingError(f"method must be one of {sorted(own | set(installed))}, but got {name!r}")
    point = installed[name]
    try:
        point.load()
    except Exception as error:  # whatever the package raises
        raise SettingError(f"method '{name}' ({point.value}) cannot be imported: {error}") from None
    if name not in KNOWN:
        raise SettingError(f"entry point '{name}' must lead to a method of that name, but got {point.value}")
    return KNOWN[name]


def method_from_json(raw: Mapping[str, Any]) -> Method:
    """The method that `hushtune.tuning.method_to_json` wrote."""
    fields = dict(raw)
    return method_class(fields.pop("name", None))(**fields)
