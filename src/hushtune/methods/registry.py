"""The methods, by name: hushtune's own, and those of installed packages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hushtune.core.codec import fields_from_json
from hushtune.core.errors import SettingError
from hushtune.methods.base import METHOD_CLASSES, Method
from hushtune.methods.combine.method import Combine
from hushtune.methods.propose_test.method import NoisyMax, ProposeTest
from hushtune.methods.surface.method import Surface
from hushtune.methods.thompson.method import Thompson
from hushtune.methods.vote.method import Vote

_NOT_GIVEN = ("name", "adaptive", "candidates")  # they follow from the rest of a study
METHODS: tuple[type[Method], ...] = (Vote, Surface, Combine, Thompson, ProposeTest, NoisyMax)


def method_class(name: Any) -> type[Method]:
    """The class of a method: one that was imported, or else one that an installed package has."""
    return METHOD_CLASSES.find(name)


def method_from_json(raw: Mapping[str, Any]) -> Method:
    """The method that `Method.to_json` wrote."""
    fields = dict(raw)
    kind = method_class(fields.pop("name", None))
    return kind(**fields_from_json(kind, fields))


def method_given(table: Any) -> Method:
    """The method that a user names, with the settings given; each is checked by the method itself.

    Args:
        table: such as `{"name": "vote", "k": 3}`.
    """
    if not isinstance(table, dict):
        raise SettingError(f"a method must be a table with its name, such as {{ name = 'vote' }}, but got {table!r}")
    settings = dict(table)
    name = settings.pop("name", None)
    made = method_class(name)
    try:
        return made(**settings)
    except TypeError:
        known = [field for field in vars(made)["__dataclass_fields__"] if field not in _NOT_GIVEN]
        unknown = sorted(set(settings) - set(known))
        raise SettingError(f"'{name}' got the unknown keys {unknown}; keys are {known}") from None
