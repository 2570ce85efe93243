"""Texts that a knob may have because the client's owner lists them, where nobody else declares which are harmless."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

from optuna.distributions import BaseDistribution

from hushtune.core.checks import kind
from hushtune.core.errors import SettingError
from hushtune.core.space import Choice, Numeric

Options = Mapping[str, Sequence[str]]
"""By knob: the texts that it may have."""


def check_options(options: Options) -> None:
    """Refuses what is no table of texts.

    Args:
        options: the owner's.
    """
    kind("options", options, Mapping, optional=False)
    for name, texts in options.items():
        if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
            raise SettingError(f"options must list texts, as in {{'{name}': ['a', 'b']}}, but got {texts!r}")


def values_of(knob: BaseDistribution) -> Sequence[Any]:
    """Values that stand for all of a knob's: its options, or both ends of its range."""
    if isinstance(knob, Choice):
        return knob.choices
    assert isinstance(knob, Numeric)
    return knob.low, knob.high


def check_undeclared(name: str, knob: BaseDistribution, options: Options) -> None:
    """Lets numbers, booleans and None pass, and of texts those that the owner lists: others may be anything.

    Args:
        name: the knob's.
        knob: its type and values.
        options: the owner's.
    """
    for value in values_of(knob):
        if isinstance(value, str) and value not in options.get(name, ()):
            raise SettingError(
                f"knob '{name}' may have texts only that the client's owner lists, as in "
                f"options={{'{name}': ['a', 'b']}}, but got {reprlib.repr(value)}"
            )
