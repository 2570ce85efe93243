"""What federated averaging needs of a family of models: many configs side by side, as stacked arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hushtune.space import Config, FloatArray

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


def learner_of(objective: Any, shares: Sequence[Any], epochs: int | None) -> Learner:
    """The learner for an objective's models.

    Args:
        objective: a `TorchObjective` or a `SklearnObjective`.
        shares: the clients' rows; features and labels are taken to be public in kind and number.
        epochs: local passes in each round; None for the objective's own.
    """
    from hushtune.errors import SettingError
    from hushtune.objectives.sklearn import SklearnObjective

    if isinstance(objective, SklearnObjective):
        from hushtune.training.linear import SklearnLearner

        labels = np.unique(np.concatenate([np.asarray(rows.y) for rows in shares]))
        return SklearnLearner(objective, np.asarray(shares[0].X)[:1], labels, epochs or 1)
    if hasattr(objective, "optimiser_knobs"):
        from hushtune.training.neural import TorchLearner

        return TorchLearner(objective, epochs or objective.epochs)
    raise SettingError(
        f"federated training needs a TorchObjective or a SklearnObjective, but got {type(objective).__name__}"
    )
