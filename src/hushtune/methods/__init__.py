"""The methods, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hushtune.errors import SettingError
from hushtune.method import Method
from hushtune.methods.combine import Combine
from hushtune.methods.propose import NoisyMax, ProposeTest
from hushtune.methods.surface import Surface
from hushtune.methods.thompson import Thompson
from hushtune.methods.vote import Vote

_ALL = (Vote, Surface, Combine, Thompson, ProposeTest, NoisyMax)
METHODS: dict[str, type[Method]] = {method.name: method for method in _ALL}


def method_from_json(raw: Mapping[str, Any]) -> Method:
    """The method that `hushtune.tuning.method_to_json` wrote."""
    fields = dict(raw)
    name = fields.pop("name", None)
    if name not in METHODS:
        raise SettingError(f"method must be one of {sorted(METHODS)}, but got {name!r}")
    return METHODS[name](**fields)
