"""PrivTuna's ways to combine clients' searches (Mitic et al. 2024, section IV-A), and FLoRA's surfaces beside them.

A client's pairs are configs (lr, momentum) in the unit cube with 1 - accuracy as their loss. "Good" configs of a client
are within 15% of its best accuracy, and at most 10.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from hushtune.client.pairs import Pairs
from hushtune.core.arrays import FloatArray
from hushtune.core.space import Config, Space
from hushtune.methods.combine.cells import Cells
from hushtune.methods.combine.strategies import (
    Cluster,
    combined,
    config_at,
    dbscan,
    good,
    linear,
    mean,
    ranked,
    scores_of,
    top,
)
from hushtune.methods.surface.models import KINDS, loss_surfaces

Scale = Literal["linear", "log"]
SCALES: tuple[Scale, ...] = ("linear", "log")
AVERAGES = ("mean", "median", "trimmed", "best-mean", "best-median")
OWN_BEST = "mean of bests"
PUBLISHED, KNEE = "dbscan", "dbscan, knee"
STRATEGIES = (*AVERAGES, OWN_BEST, PUBLISHED, KNEE)
COMPARED = (*AVERAGES, PUBLISHED)  # among which the paper counts who is nearest to the best grid point
SURFACES = tuple(KINDS)
GRIDDED, GRIDDED_SOME = "PF-DBSCAN", "PF-DBSCAN, the study's clients"  # on cells: another algorithm than DBSCAN
GRIDS = (GRIDDED, GRIDDED_SOME)
PROCESS = "sgm+u, a Gaussian process"  # as the study has it; FLoRA takes forests
EDGE = 0.15  # of PF-DBSCAN's cells, L
RETURNED = 3  # of its clusters, the best first
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

    def gridded(self, scale: Scale) -> dict[str, list[Config]]:
        """The best three clusters of PF-DBSCAN, best first: of all clients, and of those that the study clusters."""
        clients, space = self.pairs(scale), self.on(scale)
        least, telling = min_points(self.skew), [client for client in clients if _tells(client)] or clients
        found = {GRIDDED: cells_of(clients, least, space), GRIDDED_SOME: cells_of(telling, least, space)}
        return {name: [config_at(space, one.centre) for one in found[name][:RETURNED]] for name in GRIDS}

    def process(self, grid: Sequence[Config]) -> Config:
        """The grid's config at which SGM+U is smallest if its model is a Gaussian process, whatever the seed."""
        together = _joined(Searches(self.space, self.configs, self.losses, self.skew).pairs("log"))
        return dict(grid[int(np.argmin(uncertain(together, self.space.encode(grid))))])

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


def cells_of(clients: Sequence[Pairs], least: int, space: Space) -> list[Cluster]:
    """The clusters of PF-DBSCAN (Algorithm 3) in the clear, best first; if no cell is dense, one of all good configs.

    Cells of edge L with `least` good configs or more are dense, dense cells that share a face are a cluster, and a
    point of a sparse cell goes to its closest adjacent one, if that is dense.
    """
    near = _joined([good(client, _LOSSES, WITHIN, MOST) for client in clients])
    cells, scores = Cells(space, EDGE), scores_of(near, _LOSSES)
    dense = np.bincount(cells.of(near.points), minlength=cells.count) >= least
    if not dense.any():
        return [Cluster(mean(near.points), float(scores.mean()), len(scores))]
    own = cells.assigned(near.points, cells.clusters(dense))
    groups = [own == at for at in range(own.max() + 1)]
    return ranked([Cluster(mean(near.points[at]), float(scores[at].mean()), float(at.sum())) for at in groups])


def uncertain(pairs: Pairs, at: FloatArray) -> FloatArray:
    """SGM+U of a Gaussian process with a radial basis function as its kernel: mean plus one standard deviation."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    process = GaussianProcessRegressor(ConstantKernel() * RBF(0.5) + WhiteKernel(1e-2), normalize_y=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an end of a parameter's range is a good place, too
        centre, deviation = process.fit(pairs.points, pairs.losses).predict(at, return_std=True)
    return np.asarray(centre + deviation)
