"""PrivTuna's ways to combine clients' searches (Mitic et al. 2024, section IV-A), and FLoRA's surfaces beside them.

A client's pairs are configs (lr, momentum) in the unit cube with 1 - accuracy as their loss. "Good" configs of a client
are within 15% of its best accuracy, and at most 10.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from hushtune.client.pairs import Pairs
from hushtune.core.arrays import FloatArray
from hushtune.core.space import Config, Space
from hushtune.methods.combine.strategies import combined, config_at, dbscan, good, linear, mean, top
from hushtune.methods.surface.models import KINDS, loss_surfaces

Scale = Literal["linear", "log"]
SCALES: tuple[Scale, ...] = ("linear", "log")
AVERAGES = ("mean", "median", "trimmed", "best-mean", "best-median")
OWN_BEST = "mean of bests"
PUBLISHED, KNEE = "dbscan", "dbscan, knee"
STRATEGIES = (*AVERAGES, OWN_BEST, PUBLISHED, KNEE)
COMPARED = (*AVERAGES, PUBLISHED)  # among which the paper counts who is nearest to the best grid point
SURFACES = tuple(KINDS)
WITHIN, MOST, BEST, RADIUS = 0.15, 10, 0.05, 0.3
LEAST = 0.4  # the accuracy that a client must reach to have a say in the published clustering
_LOSSES = (0.0, 1.0)


def min_points(skew: str) -> int:
    """MinPts of the published clustering."""
    return 2 if skew == "quantity" else 4


@dataclass(frozen=True)
class Searches:
    """What all clients found, in one space.

    Args:
        space: of the configs; its logarithmic knobs are combined on that scale, or on a linear one.
        configs: what was tried, in one list for all clients.
        losses: shape (clients, configs); NaN where a client did not try a config, or where that failed.
        skew: "iid", "label", "feature" or "quantity".
        seed: of the order in which configs of equal loss are taken, and of the surfaces.
    """

    space: Space
    configs: Sequence[Config]
    losses: FloatArray
    skew: str
    seed: int = 0

    def pairs(self, scale: Scale) -> list[Pairs]:
        """Each client's pairs in a random order: of equal losses, none comes first because its values are small."""
        points = self.on(scale).encode(self.configs)
        rng = np.random.default_rng(self.seed)
        found = []
        for own in self.losses:
            order = rng.permutation(len(own))
            found.append(Pairs(points[order], own[order]).finite())
        return [client for client in found if len(client.losses)]

    def on(self, scale: Scale) -> Space:
        """The space on a scale."""
        return linear(self.space) if scale == "linear" else self.space

    def derived(self, scale: Scale) -> dict[str, Config]:
        """One config by each of `STRATEGIES`."""
        clients, space = self.pairs(scale), self.on(scale)
        near = _joined([good(client, _LOSSES, WITHIN, MOST) for client in clients])
        best = _joined([top(client, BEST) for client in clients])
        points = {name: combined(name, (best if name.startswith("best") else near).points, space) for name in AVERAGES}
        points[OWN_BEST] = mean(_joined([client.best(1) for client in clients]).points)
        telling = [client for client in clients if _tells(client)] or clients
        points[PUBLISHED] = densest(telling, min_points(self.skew), RADIUS)
        points[KNEE] = densest(clients, 2 * near.points.shape[1], None)
        return {name: config_at(space, points[name]) for name in STRATEGIES}

    def minima(self, grid: Sequence[Config], jobs: int = 1) -> dict[str, Config]:
        """The grid's config at which each of FLoRA's surfaces is smallest."""
        at = self.space.encode(grid)
        found: Mapping[str, FloatArray] = loss_surfaces(KINDS, self.pairs("log"), at, self.seed, jobs=jobs)  # type: ignore[assignment]
        return {name: dict(grid[int(np.argmin(values))]) for name, values in found.items()}


def _joined(parts: Sequence[Pairs]) -> Pairs:
    return Pairs(np.concatenate([part.points for part in parts]), np.concatenate([part.losses for part in parts]))


def _tells(client: Pairs) -> bool:
    """Whether the study clusters a client's configs: it learned something, and not all configs are good."""
    scores = 1 - client.losses
    return bool(scores.max() >= LEAST and (scores < (1 - WITHIN) * scores.max()).any())


def densest(clients: Sequence[Pairs], least: int, radius: float | None) -> FloatArray:
    """The centre of the best cluster of the clients' good configs; if there is no cluster, their mean."""
    near = _joined([good(client, _LOSSES, WITHIN, MOST) for client in clients])
    clusters, _ = dbscan(near.points, 1 - near.losses, least, radius)
    return clusters[0].centre if clusters else mean(near.points)
