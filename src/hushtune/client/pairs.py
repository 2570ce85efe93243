"""Pairs: what one client's search found, and how pairs are written as integers where they are opened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hushtune.core.arrays import FloatArray, IntArray

FINEST = 2**40  # steps of the integer grid, from end to end of a knob or of the losses' range


@dataclass(frozen=True)
class Pairs:
    """Encoded configs, shape (trials, width), and their losses, shape (trials,)."""

    points: FloatArray
    losses: FloatArray

    def finite(self) -> Pairs:
        """Without the configs that failed."""
        good = np.isfinite(self.losses)
        return Pairs(self.points[good], self.losses[good])

    def best(self, count: int | None) -> Pairs:
        """Those with the smallest losses, T' of T in FLoRA; None: all."""
        chosen = np.argsort(self.losses, kind="stable")[:count]
        return Pairs(self.points[chosen], self.losses[chosen])

    def clipped(self, losses: tuple[float, float]) -> tuple[Pairs, int]:
        """With losses inside the range, and how many were not."""
        inside = np.clip(self.losses, *losses)
        return Pairs(self.points, inside), int((inside != self.losses).sum())


def blocks_of(send: int, width: int) -> dict[str, int]:
    """The lengths of: how many pairs, how many losses were clipped, the configs in the unit cube, the losses."""
    return {"found": 1, "clipped": 1, "points": send * width, "losses": send}


def written(pairs: Pairs, clipped: int, send: int, losses: tuple[float, float]) -> IntArray:
    """At most `send` pairs, whose losses are inside the range, as integers; what is not used is 0."""
    low, high = losses
    count = len(pairs.losses)
    points, values = np.zeros((send, pairs.points.shape[1])), np.zeros(send)
    points[:count], values[:count] = pairs.points, (pairs.losses - low) / (high - low)
    grid = np.rint(FINEST * np.concatenate([points.ravel(), values])).astype(np.int64)
    return np.concatenate([[count, clipped], grid])


def read(blocks: Mapping[str, IntArray], losses: tuple[float, float]) -> tuple[Pairs, int]:
    """What `written` gave, by block. Whatever else a client sends is taken as the nearest it could have written."""
    low, high = losses
    send = len(blocks["losses"])
    count = int(np.clip(blocks["found"][0], 0, send))
    points, values = (np.clip(np.asarray(blocks[name]) / FINEST, 0, 1) for name in ("points", "losses"))
    clipped = int(np.clip(blocks["clipped"][0], 0, count))
    return Pairs(points.reshape(send, -1)[:count], low + (high - low) * values[:count]), clipped
