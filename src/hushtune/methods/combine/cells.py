"""A grid over the unit cube, its dense cells, and the clusters that adjacent dense cells make."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hushtune.core.arrays import FloatArray
from hushtune.core.errors import SettingError
from hushtune.core.space import Choice, Space

MOST_CELLS = 4_096  # what fits into one ciphertext of the smallest ring, twice
Places = NDArray[np.int64]


@dataclass(frozen=True)
class Cells:
    """Cells of edge L in every number's direction, and one per option of every choice.

    Args:
        space: whose unit cube is divided.
        edge: L, the granularity.
    """

    space: Space
    edge: float

    def __post_init__(self) -> None:
        if self.count > MOST_CELLS:
            raise SettingError(
                f"a grid must have at most {MOST_CELLS} cells, but cell={self.edge:g} makes {self.count} of "
                f"{len(self.space.knobs)} knobs; choose a larger cell or fewer knobs"
            )

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """How many cells along each knob."""
        along = math.ceil(1 / self.edge - 1e-9)
        return tuple(len(k.choices) if isinstance(k, Choice) else along for k in self.space.knobs.values())

    @property
    def count(self) -> int:
        """How many cells the grid has."""
        return math.prod(self.shape)

    def coordinates(self, points: FloatArray) -> Places:
        """The cell of each point, shape (points, knobs)."""
        found = np.zeros((len(points), len(self.shape)), dtype=np.int64)
        for at, (name, knob) in enumerate(self.space.knobs.items()):
            columns = points[:, self.space.columns[name]]
            if isinstance(knob, Choice):
                found[:, at] = columns.argmax(axis=1)
            else:
                found[:, at] = np.clip((columns[:, 0] / self.edge).astype(np.int64), 0, self.shape[at] - 1)
        return found

    def of(self, points: FloatArray) -> Places:
        """The number of each point's cell."""
        return np.asarray(np.ravel_multi_index(tuple(self.coordinates(points).T), self.shape))

    def closest(self, points: FloatArray) -> Places:
        """The number of the adjacent cell that each point is closest to, by the distance to its centre.

        Adjacent cells share a face (top, bottom, left, right in two dimensions); cells of other options never do. -1 if
        there is none.
        """
        cells = self.coordinates(points)
        best, found = np.full(len(points), np.inf), np.full(len(points), -1, dtype=np.int64)
        for at, (name, knob) in enumerate(self.space.knobs.items()):
            if isinstance(knob, Choice):
                continue
            value = points[:, self.space.columns[name]][:, 0]
            offset = value - (cells[:, at] + 0.5) * self.edge
            for step in (-1, 1):
                other = cells.copy()
                other[:, at] += step
                inside = (other[:, at] >= 0) & (other[:, at] < self.shape[at])
                gain = (offset - step * self.edge) ** 2 - offset**2  # the other axes' distances are the same
                closer = inside & (gain < best)
                best[closer] = gain[closer]
                found[closer] = np.ravel_multi_index(tuple(other[closer].T), self.shape)
        return found

    def clusters(self, dense: NDArray[np.bool_]) -> Places:
        """The cluster of each cell: dense ones that share a face belong together; -1 if a cell is not dense."""
        label = np.full(self.shape, -1, dtype=np.int64)
        mask, names = dense.reshape(self.shape), itertools.count()
        for start in zip(*np.nonzero(mask), strict=True):
            if label[start] >= 0:
                continue
            label[start], queue = next(names), [start]
            while queue:
                for cell in self._adjacent(queue.pop()):
                    if mask[cell] and label[cell] < 0:
                        label[cell] = label[start]
                        queue.append(cell)
        return label.ravel()

    def _adjacent(self, cell: tuple[int, ...]) -> list[tuple[int, ...]]:
        found = []
        for at, knob in enumerate(self.space.knobs.values()):
            for step in () if isinstance(knob, Choice) else (-1, 1):
                if 0 <= cell[at] + step < self.shape[at]:
                    found.append((*cell[:at], cell[at] + step, *cell[at + 1 :]))
        return found

    def assigned(self, points: FloatArray, clusters: Places) -> Places:
        """The cluster of each point: its cell's, else its closest cell's; -1 if neither is dense."""
        own, near = clusters[self.of(points)], self.closest(points)
        moved = np.where(near >= 0, clusters[near], -1)
        return np.where(own >= 0, own, moved)
