"""Scoring configs on disjoint parts of the rows, for a curator who tests the means."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hushtune.client.rows import Rows, Split, held_out, repeated, rows_at
from hushtune.core.arrays import FloatArray
from hushtune.core.fingerprint import fingerprint
from hushtune.core.space import Config

CLIP = "clip"  # DP-SGD's own knob


@dataclass(frozen=True)
class Rehearsal:
    """Training on a part as on all rows: what is best without noise, or in a few steps, is not best with noise.

    Args:
        batch: rows per step, at most.
        steps: in an epoch.
        epochs: how many.
        clip: the largest norm of a step's mean gradient. (A private training clips the gradient of every row.)
        noise: standard deviation on every coordinate of a step's mean gradient.
    """

    batch: int
    steps: int
    epochs: int
    clip: float
    noise: float

    def of(self, objective: Any, data: Any) -> tuple[Any, Any]:
        """The objective for a part, and its rows, repeated until they are enough for all steps of an epoch."""
        batch = max(1, min(self.batch, len(data)))
        again = repeated(len(data), batch, self.steps)
        rehearsed = replace(objective, batch=batch, epochs=self.epochs, clip=self.clip, noise=self.noise)
        return rehearsed, rows_at(data, again)


@dataclass(frozen=True)
class PartScores:
    """Scores configs on one part of the rows: what a curator tests are means over many parts.

    Args:
        objective: trains on a part. Nothing it does is private: nobody sees a part's scores.
        rows: what every part is scored on. None: rows of its own.
        rehearsal: the private training that is to follow, which parts rehearse: as many steps, with as much noise.
    """

    objective: Any
    rows: Rows | None = None
    rehearsal: Rehearsal | None = None

    def losses(self, configs: Sequence[Config], data: Any, seed: int) -> FloatArray:
        """One loss per config; those that differ in clipping alone have the same."""
        plain = [{name: value for name, value in config.items() if name != CLIP} for config in configs]
        different = list({json.dumps(config, sort_keys=True): config for config in plain}.values())
        objective, given = self.objective, data if self.rows is None else Split(data, self.rows)
        if self.rehearsal is not None:
            split = held_out(given, self.objective.validation, seed)  # before rows are repeated
            if not len(split.train):
                return np.full(len(configs), np.nan)  # nothing is left to train on
            objective, train = self.rehearsal.of(self.objective, split.train)
            given = Split(train, split.test)
        found = objective.losses(different, given, seed)
        return np.array([found[different.index(config)] for config in plain])

    def fingerprint(self) -> str:
        """Equal for equal objectives and rows."""
        return fingerprint([self.objective, self.rows, self.rehearsal])
