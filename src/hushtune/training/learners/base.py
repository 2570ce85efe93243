"""What federated averaging needs of a family of models: many configs side by side, as stacked arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hushtune.core.arrays import FloatArray
from hushtune.core.errors import SettingError
from hushtune.core.space import Config

Weights = dict[str, NDArray[Any]]
"""Named arrays, the first axis counts models."""


class Learner(Protocol):
    """One family of models. Configs are given without the server's knobs."""

    def groups(self, configs: Sequence[Config]) -> list[list[int]]:
        """The places of configs whose models have the same shape."""
        ...

    def start(self, config: Config, seed: int) -> Weights:
        """One model before training: the same for all configs of a group."""
        ...

    def local(self, configs: Sequence[Config], start: Weights, at: Sequence[int], rows: Any, seed: int) -> Weights:
        """One model per config after training on a client's rows, each from its model `at` of `start`.

        A config that diverged has NaN.
        """
        ...

    def losses(self, configs: Sequence[Config], weights: Weights, rows: Any) -> FloatArray:
        """One loss per config on rows that nobody trained on."""
        ...

    def model(self, config: Config, weights: Weights) -> Any:
        """The first model as the library's own object, ready to use."""
        ...


def usable(shares: Sequence[Any]) -> list[Any]:
    """The clients' rows, checked; a client without rows has no weight and is left out."""
    for number, rows in enumerate(shares):
        if not hasattr(rows, "X") or not hasattr(rows, "y"):
            raise SettingError(f"federated training needs rows with X and y, but client {number} has none")
    found = [(number, rows) for number, rows in enumerate(shares) if len(rows)]
    if not found:
        raise SettingError("federated training needs rows, but no client has any")
    first = found[0][1]
    width, kind = np.shape(np.asarray(first.X))[1:], np.asarray(first.y).dtype.kind
    for number, rows in found:
        x, y = np.asarray(rows.X), np.asarray(rows.y)
        if x.dtype.kind not in "fiub" or x.ndim < 2 or x.shape[1:] != width or not np.isfinite(x).all():
            raise SettingError(
                f"all clients' features must be dense, finite numbers of shape (rows, {', '.join(map(str, width))}), "
                f"but client {number} has {x.dtype} of shape {x.shape}, or a value that is not finite"
            )
        if y.dtype.kind != kind:
            raise SettingError(f"all clients' labels must be of one kind, but client {number} has {y.dtype}")
    return [rows for _, rows in found]


def learner_of(objective: Any, shares: Sequence[Any], epochs: int | None) -> Learner:
    """The learner for an objective's models.

    Args:
        objective: a `TorchObjective` or a `SklearnObjective`.
        shares: the clients' rows; features and labels are taken to be public in kind and number.
        epochs: local passes in each round; None for the objective's own.
    """
    from hushtune.client.objectives.sklearn import SklearnObjective

    if isinstance(objective, SklearnObjective):
        from hushtune.training.learners.linear import SklearnLearner

        labels = np.unique(np.concatenate([np.asarray(rows.y) for rows in shares]))
        return SklearnLearner(objective, np.asarray(shares[0].X).shape[1], labels, epochs or 1)
    if hasattr(objective, "optimiser_knobs"):
        from hushtune.training.learners.neural import TorchLearner

        if any(np.asarray(rows.y).dtype.kind not in "iufb" for rows in shares):
            raise SettingError("a network's labels must be numbers, but got others; number the classes from 0")
        return TorchLearner(objective, epochs or objective.epochs)
    raise SettingError(
        f"federated training needs a TorchObjective or a SklearnObjective, but got {type(objective).__name__}"
    )
