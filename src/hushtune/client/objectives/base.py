"""How a client scores configs on its own data. Batch first, lower is better."""

from __future__ import annotations

import inspect
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from hushtune.core.arrays import FloatArray
from hushtune.core.errors import ObjectiveError, SettingError
from hushtune.core.space import Config, Space


@runtime_checkable
class Objective(Protocol):
    """Scores configs on one client's data.

    `fingerprint` tells objectives apart in the trial cache: equal text, equal losses. Objectives without one
    are told apart by their class's code and their fields.
    """

    def losses(self, configs: Sequence[Config], data: Any, seed: int) -> FloatArray:
        """One loss per config, shape (configs,), lower is better. NaN or inf: this config failed.

        Args:
            configs: what to score, each a dictionary of its own.
            data: the client's own data, or one part of its rows.
            seed: public: the same for all clients.
        """
        ...


def checked_losses(objective: Objective, configs: Sequence[Config], data: Any, seed: int) -> FloatArray:
    """The objective's losses, refused if they are not one number per config."""
    own = [dict(config) for config in configs]  # an objective that writes into a config writes into a copy
    with _seeded(seed):
        losses = np.asarray(objective.losses(own, data, seed))
    if losses.shape != (len(configs),) or losses.dtype.kind not in "fiu":
        raise ObjectiveError(
            f"an objective must return {len(configs)} numbers for {len(configs)} configs, "
            f"but got shape {losses.shape} of {losses.dtype}"
        )
    return losses.astype(np.float64)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """The global random generators start at the seed, and are put back: no draw of one unit moves another's."""
    plain, numpys, torch = random.getstate(), np.random.get_state(), sys.modules.get("torch")
    torchs = torch.get_rng_state() if torch is not None else None
    random.seed(seed)
    np.random.seed(seed)
    if torch is not None:
        torch.manual_seed(seed)
    try:
        yield
    finally:
        random.setstate(plain)
        np.random.set_state(numpys)
        if torch is not None:
            torch.set_rng_state(torchs)


def check_space(objective: Objective | None, space: Space) -> None:
    """Lets the objective refuse a space, through a method `check(space)`, before anything is scored or spent."""
    if callable(check := getattr(objective, "check", None)):
        check(space)


def check_data(objective: Objective | None, data: Any) -> None:
    """Lets the objective refuse a KIND of data, through a method `check_data(data)`, before anything is scored.

    What a check says is public, so it must not look into the data.
    """
    if callable(check := getattr(objective, "check_data", None)):
        check(data)


def for_part(objective: Any, parts: int) -> Any:
    """The objective as one of a client's parts has it: its own `as_part(parts)`, if there is such a method.

    A part has few rows, and what is best on few rows is not what is best on all of them. So a part may, say, take as
    many steps as the whole client would. How many parts there are is public, and all that it is told.

    Args:
        objective: the client's, or None.
        parts: how many equal parts there are.
    """
    told = getattr(objective, "as_part", None)
    if parts == 1 or not callable(told):
        return objective
    found = told(parts)
    if not callable(getattr(found, "losses", None)):
        raise ObjectiveError(f"as_part({parts}) must return an objective, but got {type(found).__name__}")
    return found


@dataclass(frozen=True)
class PerConfig:
    """A plain function of one config as an Objective. Made by the decorator `objective`."""

    function: Callable[..., float]
    seeded: bool

    def losses(self, configs: Sequence[Config], data: Any, seed: int) -> FloatArray:
        """Calls the function once per config."""
        extra = (seed,) if self.seeded else ()
        return np.array([float(self.function(dict(c), data, *extra)) for c in configs], dtype=np.float64)


def objective(function: Callable[..., float]) -> PerConfig:
    """Makes an Objective of `function(config, data)` or `function(config, data, seed)` that returns one loss.

    Examples:
        >>> @objective
        ... def distance(config, data):
        ...     return abs(config["x"] - data.mean())

    Args:
        function: gives one loss, lower is better; NaN or inf if the config failed.
    """
    parameters = len(inspect.signature(function).parameters)
    if parameters not in (2, 3):
        raise SettingError(
            f"an objective function takes (config, data) or (config, data, seed), but got {parameters} parameters"
        )
    return PerConfig(function, seeded=parameters == 3)
