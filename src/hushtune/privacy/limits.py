"""What a sum of clients' vectors can be: what was opened, or what one client sent, is checked before it is used.

Every inequality below holds for one unit's vector, and is linear or a norm, so it holds for a sum of N vectors with N
times its limits. Noise moves it further: `Reach` says by how much. The chance that the noise alone breaks one of the
inequalities of an opening is below FAILURE (a union bound over all of them). The samplers' distance to the exact
distributions (2^-100 for each value drawn) comes on top, and is far below.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from hushtune.core.arrays import IntArray
from hushtune.core.errors import BoundError
from hushtune.privacy.bounds import Bound
from hushtune.privacy.noise.base import Noise

FAILURE = 2.0**-42
"""The chance of a false alarm: of one check of an opened sum, and again of all clients' own vectors together."""

_LARGEST = 2**63 - 1
_ROUNDING = 1e-9  # relative, of a norm computed in floats

Reach = Callable[[int, float], int]
"""What the noise in a sum of so many entries exceeds with at most the given chance."""


class _Range(NamedTuple):
    """Between what the sum over entries `start` to `stop` of a vector must lie."""

    start: int
    stop: int
    lowest: int
    highest: int


@dataclass(frozen=True)
class Possible:
    """What a sum of so many units' vectors can be.

    Args:
        bound: on each of them.
        units: how many. A unit that is sampled, and not in the sum, is zeros.
        reach: of the noise in the sum; None: there is none.
        failure: the chance that noise alone breaks a limit.
    """

    bound: Bound
    units: int
    reach: Reach | None = None
    failure: float = FAILURE

    def check(self, values: IntArray) -> None:
        """Refuses what no such sum can be; a BoundError says which limit is broken.

        Args:
            values: integers, shape (length,).
        """
        if self.reach is None and self.units == 1:
            if self.bound.rate == 1 or values.any():
                self.bound.check(values)
            return
        self.check_entries(values)
        for part in self._ranges():
            beyond, total = self._noise(part.stop - part.start), _total(values[part.start : part.stop])
            if not self.units * part.lowest - beyond <= total <= self.units * part.highest + beyond:
                raise BoundError(f"entries {part.start + 1} to {part.stop} do not add up to what they can")
        self._check_norm(values)
        self._check_under(values)

    def check_entries(self, values: IntArray, start: int = 0) -> None:
        """Refuses entries outside their range.

        Args:
            values: some entries in a row.
            start: the place of the first of them in the vector.
        """
        limits, beyond = self.bound.limits, self._noise(1)
        lowest, highest = self._with_zero(limits.lowest, limits.highest)
        highs = np.full(self.bound.length, min(_LARGEST, self.units * highest + beyond))
        caps = [min(_LARGEST, self.units * cap + beyond) for cap in limits.caps]
        highs[: len(caps)] = caps
        if values.min() < self.units * lowest - beyond:
            raise BoundError(f"an entry is below what {self.units} voters can send")
        if (values > highs[start : start + len(values)]).any():
            raise BoundError(f"an entry is above what {self.units} voters can send")

    def _ranges(self) -> list[_Range]:
        parts = self.bound.limits.sums
        return [_Range(start, stop, *self._with_zero(lowest, highest)) for start, stop, lowest, highest in parts]

    def _with_zero(self, lowest: int, highest: int) -> tuple[int, int]:
        return (lowest, highest) if self.bound.rate == 1 else (min(lowest, 0), max(highest, 0))

    def _check_norm(self, values: IntArray) -> None:
        """No entry's noise is beyond its own reach, so their norm is at most the root of the length times that."""
        if (norm := self.bound.limits.norm) is None:
            return
        most = self.units * norm + math.sqrt(self.bound.length) * self._noise(1)
        if float(np.linalg.norm(values.astype(np.float64))) > most * (1 + _ROUNDING):
            raise BoundError("the vector is longer than it can be")

    def _check_under(self, values: IntArray) -> None:
        """The difference of two entries has the noise of two, which is symmetric."""
        if under := self.bound.limits.under:
            blocks = values[under:].reshape(-1, under)
            if (blocks - values[:under] > self._noise(2)).any():
                raise BoundError("an entry is above the one that it must be at most")

    def _noise(self, entries: int) -> int:
        """The reach of the noise in a sum of so many entries, for each of all limits alike."""
        if self.reach is None:
            return 0
        limits = self.bound.limits
        count = self.bound.length + len(limits.sums) + (self.bound.length - limits.under if limits.under else 0)
        return self.reach(entries, self.failure / count)


def opened_sum(bound: Bound, voters: int, answered: int, noise: Noise, honest: int) -> Possible:
    """What the opened sum of so many clients' vectors can be, the noise of all of them included.

    Args:
        bound: on one unit's vector.
        voters: units of each client.
        answered: how many clients are in the sum.
        noise: what the opening gets.
        honest: the fewest honest clients of a completed round.
    """
    reach = partial(noise.reach, honest, answered) if noise.scale else None
    return Possible(bound, voters * answered, reach)


def one_client(bound: Bound, voters: int, clients: int, noise: Noise, honest: int) -> Possible:
    """What one of so many clients can send: with its own share of the noise, if clients add any.

    Args:
        bound: on one unit's vector.
        voters: units of each client.
        clients: how many are asked: the chance of a false alarm counts all of them.
        noise: what the opening gets.
        honest: the fewest honest clients of a completed round.
    """
    reach = partial(noise.share_reach, honest) if noise.share_variance(honest) else None
    return Possible(bound, voters, reach, FAILURE / clients)


def _total(values: IntArray) -> int:
    """The exact sum, however large the entries are."""
    return (int((values >> 32).sum()) << 32) + int((values & 0xFFFFFFFF).sum())
