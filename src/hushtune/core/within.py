"""Whether what a client is asked to train with lies inside the space that its owner named."""

from __future__ import annotations

import json
import reprlib
from typing import Any

from optuna.distributions import BaseDistribution

from hushtune.core.errors import RefusedError
from hushtune.core.space import Choice, Config, Float, Numeric, Space, knob_has


def check_within(asked: Space, own: Space) -> None:
    """Raises RefusedError, naming the knob and the constraint, unless every config of one space is allowed by another.

    Knobs must be of the same type. Ranges must lie inside; `log` and `step` say how a space is searched, and restrict
    nothing. A knob that is not asked for may be left out: it stays as the client's objective has it.

    Args:
        asked: holds all configs that a client would train with.
        own: what its owner allows.
    """
    for name, knob in asked.knobs.items():
        if name not in own.knobs:
            raise _unnamed(name, own)
        if (got := _outside(knob, own.knobs[name])) is not None:
            raise _refused(name, own, got)


def check_config(config: Config, own: Space) -> None:
    """Raises RefusedError unless an owner's space allows each value of a config, which may leave knobs out.

    Args:
        config: what a client would train with.
        own: what its owner allows.
    """
    for name, value in config.items():
        if name not in own.knobs:
            raise _unnamed(name, own)
        if not knob_has(own.knobs[name], value):
            raise _refused(name, own, reprlib.repr(value))


def _unnamed(name: str, own: Space) -> RefusedError:
    return RefusedError(
        f"space: {reprlib.repr(name)} is no knob that this client's owner named, which are {list(own.knobs)}"
    )


def _refused(name: str, own: Space, got: str) -> RefusedError:
    return RefusedError(f"space: knob {reprlib.repr(name)} must be {_in_words(own.knobs[name])}, but got {got}")


def _outside(knob: BaseDistribution, own: BaseDistribution) -> str | None:
    """What of a knob the owner's knob does not have, in words; None if it has all of it."""
    if _type_of(knob) != _type_of(own):
        return _in_words(knob)
    if isinstance(knob, Choice) and isinstance(own, Choice):
        options = {_key(option) for option in own.choices}
        return next((reprlib.repr(option) for option in knob.choices if _key(option) not in options), None)
    assert isinstance(knob, Numeric)
    assert isinstance(own, Numeric)
    return next((reprlib.repr(end) for end in (knob.low, knob.high) if not own.low <= end <= own.high), None)


def _key(option: Any) -> str:
    """One text per option: 0, 0.0, False and "0" are different ones."""
    return json.dumps(option)


def _type_of(knob: BaseDistribution) -> str:
    return "a choice" if isinstance(knob, Choice) else "a number" if isinstance(knob, Float) else "a whole number"


def _in_words(knob: BaseDistribution) -> str:
    """A knob as a message has it: `a number from 0.1 to 10.0`."""
    if isinstance(knob, Choice):
        return f"{_type_of(knob)} of {reprlib.repr(list(knob.choices))}"
    assert isinstance(knob, Numeric)
    return f"{_type_of(knob)} from {reprlib.repr(knob.low)} to {reprlib.repr(knob.high)}"
