"""What a client may say about its good configs: how many are in each cell, or what those of each cluster add up to."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hushtune.client.pairs import Pairs
from hushtune.client.party import Party
from hushtune.client.query import register
from hushtune.client.search.base import Search
from hushtune.core.arrays import FloatArray, IntArray
from hushtune.core.checks import integer, number
from hushtune.core.errors import NoLossError, SettingError
from hushtune.core.space import Domain, Space, space_of
from hushtune.methods.combine.cells import Cells
from hushtune.methods.combine.strategies import good, linear, scores_of
from hushtune.methods.contributions import MOST_SENT, OfSearch
from hushtune.privacy.bounds import Tally

SMALLEST_CELL = 0.01


@dataclass(frozen=True)
class _GoodConfigs(OfSearch):
    """What both share: a client's good configs as points, each counted as an amount in steps of the integer grid.

    Args:
        search: how they are found.
        domain: the space that is searched, or the candidates that are scored.
        losses: the smallest and the largest loss; others are clipped.
        within: which are good: their score is at most this share below the client's best.
        most: how many at most, the best ones.
        scale: "log" for knobs on their own scale, "linear" for all knobs on a linear one.
        unit: steps of the integer grid for one point.
        shared: whether a client with fewer points has each count as more, so that every client has the same.
    """

    search: Search
    domain: Domain
    losses: tuple[float, float]
    within: float
    most: int
    scale: str
    unit: int
    shared: bool
    send: ClassVar[int] = MOST_SENT  # type: ignore[misc]
    per_candidate: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        number("within", self.within, 0, 1)
        integer("most", self.most, 1, MOST_SENT)
        integer("unit", self.unit, 1, 2**24)
        if self.scale not in ("log", "linear") or not isinstance(self.shared, bool):
            raise SettingError(f"scale must be 'log' or 'linear', but got {self.scale!r}")

    @property
    def scored(self) -> tuple[Search, Domain]:
        """The search that finds the configs, and where it looks."""
        return self.search, self.domain

    @property
    def space(self) -> Space:
        """The space in whose unit cube the points are."""
        space = space_of(self.domain)
        return space if self.scale == "log" else linear(space)

    def points(self, party: Party) -> tuple[Pairs, IntArray]:
        """A client's good configs, and what each counts as, in steps of the integer grid."""
        pairs, _ = self.trials(party)
        if not len(pairs.losses):
            raise NoLossError
        if self.scale == "linear":
            pairs = Pairs(self.space.encode(space_of(self.domain).decode(pairs.points)), pairs.losses)
        found = good(pairs, self.losses, self.within, self.most)
        count = len(found.losses)
        each = self.unit * self.most // count if self.shared else self.unit
        return found, np.full(count, each)

    @abstractmethod
    def answer(self, party: Party) -> Any:
        """A client's counts or sums, as integers."""


@register
@dataclass(frozen=True)
class CellCounts(_GoodConfigs):
    """How many of a client's good configs lie in each cell of a public grid (M_i in PrivTuna's Algorithm 3).

    Args:
        edge: the cells' edge, L.
        cap: the largest count that matters: more points in one cell than make it dense need not be told.
    """

    edge: float
    cap: int | None
    name: ClassVar[str] = "cell-counts"
    version: ClassVar[int] = 1
    meaning: ClassVar[str] = "numbers of good configs, one entry per cell"
    broadcast: ClassVar[bool] = True  # the next query says which cells are dense

    def __post_init__(self) -> None:
        super().__post_init__()
        number("edge", self.edge, SMALLEST_CELL, 1)

    @property
    def cells(self) -> Cells:
        """The public grid that the configs are counted in."""
        return Cells(self.space, self.edge)

    @property
    def blocks(self) -> Mapping[str, int]:
        """One count per cell."""
        return {"counts": self.cells.count}

    @property
    def bound(self) -> Tally:
        """At most so many points in all."""
        return Tally(self.most, self.cells.count, 0, self.unit, self.cap)

    def answer(self, party: Party) -> Any:
        """A client's counts, one for each cell."""
        pairs, amounts = self.points(party)
        counts = np.zeros(self.cells.count, dtype=np.int64)
        np.add.at(counts, self.cells.of(pairs.points), amounts)
        return counts if self.cap is None else np.minimum(counts, self.cap * self.unit)


@register
@dataclass(frozen=True)
class ConfigSums(_GoodConfigs):
    """What a client's good configs add up to, axis by axis, with their scores and their number.

    Args:
        edge: the cells' edge, L; 0: no grid, and all configs are one group.
        clusters: the cluster of each cell, -1 if it has none; public, from the cells that were found dense.
    """

    edge: float
    clusters: tuple[int, ...]
    name: ClassVar[str] = "config-sums"
    version: ClassVar[int] = 1
    meaning: ClassVar[str] = "good configs and their scores, and how many there are, per cluster"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "clusters", tuple(self.clusters))
        if not self.edge:
            return
        number("edge", self.edge, SMALLEST_CELL, 1)
        cells, labels = Cells(self.space, self.edge).count, self.clusters
        if len(labels) != cells or any(integer("clusters", at, -1, cells) != at for at in labels) or max(labels) < 0:
            raise SettingError(f"clusters must be one number for each of {cells} cells, at least one of them 0 or more")

    @property
    def groups(self) -> int:
        """How many clusters there are; 1 without a grid."""
        return max(self.clusters) + 1 if self.edge else 1

    @property
    def blocks(self) -> Mapping[str, int]:
        """The numbers, and for every axis and the score the sums."""
        return {"counts": self.groups, "sums": self.groups * (self.space.width + 1)}

    @property
    def bound(self) -> Tally:
        """At most so many points in all."""
        return Tally(self.most, self.groups, self.space.width + 1, self.unit, single=not self.edge)

    def answer(self, party: Party) -> Any:
        """Sums; no value is above 1, so that they stay below the counts."""
        pairs, amounts = self.points(party)
        group = np.zeros(len(amounts), dtype=np.int64)
        if self.edge:
            group = Cells(self.space, self.edge).assigned(pairs.points, np.array(self.clusters))
        values = np.column_stack([pairs.points, scores_of(pairs, self.losses)])
        found = np.zeros((1 + values.shape[1], self.groups), dtype=np.int64)
        for at, amount, row in zip(group, amounts, values, strict=True):
            if at >= 0:
                found[:, at] += np.concatenate([[amount], np.rint(amount * row).astype(np.int64)])
        return found.ravel()


def means_of(quotients: FloatArray, groups: int) -> tuple[FloatArray, FloatArray]:
    """The clusters' centres, shape (groups, width), and scores, shape (groups,), from sums divided by counts."""
    rows = np.clip(quotients.reshape(-1, groups), 0, 1)
    return rows[:-1].T, rows[-1]
