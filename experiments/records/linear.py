"""Logistic regression by stochastic gradient descent, for all configs at once: an objective of the experiment's own.

All labels count the same, in training and in the score.

Everything is NumPy, because networks this small take a framework far longer to call than to compute. It is told how
many parts a client's rows are split into (`as_part`), and takes as many steps on a part as on all rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushtune.client.rows import Rows, held_out, repeated
from hushtune.core.space import Config

Floats = NDArray[Any]
"""Single or double precision."""

_FARTHEST = 5.0  # quartile ranges from the median


@dataclass(frozen=True)
class Linear:
    """Scores rates and penalties of a linear classifier by balanced accuracy on held-out rows of the same part.

    Args:
        classes: how many labels there are; public.
        epochs: over the rows.
        batch: rows per step.
        full_steps: whether a part takes as many steps as all rows would.
        parts: how many equal parts the rows are one of.
        validation: share of rows held out for scoring.
    """

    classes: int
    epochs: int = 5
    batch: int = 64
    full_steps: bool = True
    parts: int = 1
    validation: float = 0.2

    def as_part(self, parts: int) -> Linear:
        """The objective of one of so many equal parts.

        Args:
            parts: how many there are.
        """
        return replace(self, parts=parts) if self.full_steps else self

    def losses(self, configs: Sequence[Config], data: Rows, seed: int) -> Floats:
        """1 - balanced accuracy for each config; without rows to train on every config has failed."""
        split = held_out(data, self.validation, seed, alike=True)
        if not len(split.train):
            return np.full(len(configs), np.nan)
        scale = Scale.of(split.train.X)
        start = np.zeros((len(configs), scale.weights, self.classes), np.float32)
        found = self.trained(start, configs, scale.of_rows(split.train), np.asarray(split.train.y), seed, self.epochs)
        return 1 - balanced(found, scale.of_rows(split.test), np.asarray(split.test.y))

    def trained(
        self, weights: Floats, configs: Sequence[Config], x: Floats, y: NDArray[Any], seed: int, epochs: int
    ) -> Floats:
        """Weights after some epochs, shape (configs, features, classes); a config that diverges stays infinite.

        Args:
            weights: to begin with.
            configs: `lr` and `weight_decay` of each.
            x: features, shape (rows, features).
            y: labels, shape (rows,).
            seed: of the order of the rows.
            epochs: how many.
        """
        rates, penalties = (
            np.array([config[name] for config in configs], np.float32)[:, None] for name in ("lr", "weight_decay")
        )
        count, features, classes = len(configs), x.shape[1], self.classes
        side = np.ascontiguousarray(weights.transpose(1, 0, 2)).reshape(features, count * classes)
        rates, penalties = (np.repeat(value, classes, 0).T for value in (rates, penalties))
        wanted, weight = np.eye(classes, dtype=np.float32)[y], _balance(y)[:, None, None]
        with np.errstate(over="ignore", invalid="ignore"):
            for some in self._batches(len(y), seed, epochs):
                scores = (x[some] @ side).reshape(len(some), count, classes)
                scores -= scores.max(-1, keepdims=True)
                np.exp(scores, out=scores)
                scores /= scores.sum(-1, keepdims=True)
                scores -= wanted[some][:, None]
                scores *= weight[some]
                gradient = x[some].T @ scores.reshape(len(some), -1)
                side -= rates * (gradient / len(some) + penalties * side)
        found: Floats = side.reshape(features, count, classes).transpose(1, 0, 2)
        return found

    def _batches(self, count: int, seed: int, epochs: int) -> Iterator[NDArray[np.intp]]:
        """The rows of each step: all in a random order, again and again if this is a part of more."""
        batch = min(self.batch, count) if self.parts > 1 else self.batch
        steps = -(-count * self.parts // self.batch)
        for epoch in range(epochs):
            rng = np.random.default_rng([seed, epoch])
            rows = repeated(count, batch, steps) if self.parts > 1 else np.arange(count)
            order = rng.permutation(rows)
            for begin in range(0, len(order), batch):
                yield order[begin : begin + batch]


@dataclass(frozen=True)
class Scale:
    """Each feature less its median, in quartile ranges, at most 5 of them from 0; and a constant one.

    Args:
        middle: medians, shape (features,).
        width: quartile ranges, shape (features,).
    """

    middle: Floats
    width: Floats

    @classmethod
    def of(cls, x: Any) -> Scale:
        """The scale that some rows have.

        Args:
            x: their features, shape (rows, ...).
        """
        low, middle, high = np.quantile(np.asarray(x).reshape(len(x), -1), (0.25, 0.5, 0.75), axis=0)
        return cls(middle, np.where(high > low, high - low, 1.0))

    @property
    def weights(self) -> int:
        """How many a class has: one for each feature, and a constant one."""
        return len(self.middle) + 1

    def of_rows(self, rows: Rows) -> Floats:
        """Features of rows on this scale, shape (rows, features + 1).

        Args:
            rows: with X.
        """
        x = np.asarray(rows.X).reshape(len(rows), -1)
        scaled = np.clip((x - self.middle) / self.width, -_FARTHEST, _FARTHEST)
        return np.hstack([scaled, np.ones((len(x), 1))]).astype(np.float32)


def _balance(y: NDArray[Any]) -> Floats:
    """A weight for each row, 1 on average, so that all labels count the same."""
    _, label, counts = np.unique(y, return_inverse=True, return_counts=True)
    found: Floats = (len(y) / len(counts) / counts)[label].astype(np.float32)
    return found


def balanced(weights: Floats, x: Floats, y: NDArray[Any]) -> Floats:
    """Balanced accuracy of each config's weights: the mean of the labels' shares of right answers.

    Args:
        weights: shape (configs, features, classes).
        x: features, shape (rows, features).
        y: labels, shape (rows,).
    """
    said = np.matmul(x, weights).argmax(-1)  # (configs, rows)
    found: Floats = np.mean([(said[:, y == label] == label).mean(-1) for label in np.unique(y)], axis=0)
    return np.where(np.isfinite(weights).all((1, 2)), found, np.nan)
