"""Networks of a `TorchObjective` as a learner: all configs of one architecture are trained at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from hushtune.client.objectives import stacked
from hushtune.client.objectives.neural import TorchObjective, scored, tensors
from hushtune.core.arrays import FloatArray
from hushtune.core.space import Config
from hushtune.training.learners.base import Weights


@dataclass(frozen=True)
class TorchLearner:
    """Local training as the objective does it when it scores: its optimiser starts anew in every round.

    Args:
        objective: makes networks and trains them.
        epochs: local passes in each round.
    """

    objective: TorchObjective
    epochs: int

    def groups(self, configs: Sequence[Config]) -> list[list[int]]:
        """Configs with the same architecture."""
        return list(self.objective.groups(configs).values())

    def start(self, config: Config, seed: int) -> Weights:
        """The weights that the seed gives."""
        network = self.objective.network(self._shape(config), seed)
        return {name: value.detach().numpy()[None] for name, value in network.named_parameters()}

    def local(self, configs: Sequence[Config], start: Weights, at: Sequence[int], rows: Any, seed: int) -> Weights:
        """Trains all configs together."""
        torch.set_num_threads(self.objective.threads)
        trainer = self.objective.trainer(self._shape(configs[0]), seed)
        knobs = [self.objective.optimiser_knobs(config) for config in configs]
        trained, ends = trainer.train(_rows(start), knobs, list(at), *tensors(rows), self.epochs, seed)
        lost = len(trained)
        picked = np.array([lost if end is None else end for end in ends])
        return {
            name: np.concatenate([value.numpy(), np.full((1, *value.shape[1:]), np.nan, dtype=np.float32)])[picked]
            for name, value in trained.weights.items()
        }

    def losses(self, configs: Sequence[Config], weights: Weights, rows: Any) -> FloatArray:
        """1 - metric for each row of weights, on the given rows of data."""
        torch.set_num_threads(self.objective.threads)
        x, y = tensors(rows)
        outputs = self.objective.trainer(self._shape(configs[0]), 0).outputs(_rows(weights), x)
        return np.array([1 - scored(self.objective.metric, out, y) for out in outputs])

    def model(self, config: Config, weights: Weights) -> Any:
        """An `nn.Module` in evaluation mode."""
        network = self.objective.network(self._shape(config), 0)
        network.load_state_dict({name: torch.from_numpy(value[0].copy()) for name, value in weights.items()}, False)
        return network.eval()

    def _shape(self, config: Config) -> tuple[tuple[str, Any], ...]:
        (shape,) = self.objective.groups([config])
        return shape


def _rows(weights: Weights) -> stacked.Rows:
    return stacked.Rows({name: torch.from_numpy(np.array(value)) for name, value in weights.items()})
