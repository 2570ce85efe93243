"""What a bound is: what ONE unit's vector must satisfy. The runtime enforces it, and the cost follows from it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from hushtune.core.arrays import IntArray
from hushtune.core.errors import BoundError, SettingError
from hushtune.core.randomness import Randomness
from hushtune.privacy.accounting import Neighbours
from hushtune.privacy.events.answers import PureTests
from hushtune.privacy.events.sums import Event, GaussianVector, SkellamShift, SkellamVector
from hushtune.privacy.noise import geometric
from hushtune.privacy.noise.base import Noise
from hushtune.privacy.noise.skellam import LARGEST_VARIANCE

LOUDEST = math.sqrt(LARGEST_VARIANCE / 2)


@dataclass(frozen=True)
class Limits:
    """What entries and sums of entries of one unit's vector lie between; `hushtune.privacy.limits` checks with it what
    was opened. It may allow more than the bound does.

    Args:
        lowest: the smallest that an entry can be.
        highest: the largest that an entry can be.
        caps: smaller limits of the first entries, one each.
        sums: (start, stop, lowest, highest) for the sum over some entries in a row.
        norm: the largest L2 norm.
        under: how many first entries there are that later ones, in blocks of as many, are at most.
    """

    lowest: int
    highest: int
    caps: tuple[int, ...] = ()
    sums: tuple[tuple[int, int, int, int], ...] = ()
    norm: int | None = None
    under: int = 0


class Bound(Protocol):
    """What ONE privacy unit's vector must satisfy, and so what a change of one unit can do to the sum."""

    @property
    def length(self) -> int:
        """How many entries one unit's vector has."""
        ...

    @property
    def largest(self) -> int:
        """The largest absolute value of one entry of one unit's vector."""
        ...

    @property
    def total(self) -> int | None:
        """What the entries of one unit's vector add up to; None if that is not fixed."""
        ...

    @property
    def limits(self) -> Limits:
        """What each entry of one unit's vector lies between, and what else holds for sums of such vectors."""
        ...

    @property
    def tests(self) -> int:
        """How many answers about the sums are given, which are never opened; 0: the sums themselves are opened."""
        ...

    @property
    def only_max(self) -> bool:
        """Whether these answers are places of noisy maxima only, and no tests against a threshold."""
        ...

    @property
    def rate(self) -> float:
        """The chance that a unit's vector is in the sum at all, by a coin of its own that nobody else sees."""
        ...

    @property
    def loudest(self) -> float:
        """The largest noise scale that can be drawn for such a vector."""
        ...

    def check(self, vector: Any) -> IntArray:
        """The vector as integers; BoundError if it breaks the bound.

        Args:
            vector: one unit's answer: integers, shape (length,).
        """
        ...

    def default(self, randomness: Randomness) -> IntArray:
        """A vector that satisfies the bound and depends on no data.

        Args:
            randomness: the client's own source.
        """
        ...

    def event(self, noise: Noise, change: Neighbours) -> Event:
        """What opening the noisy sum, or all answers about it, costs, if one unit's vector may change so
        (`Privacy.change`).

        Args:
            noise: the noise on the sum, in steps of the integer grid.
            change: "replace-one": one unit's vector becomes any other that passes `check`; "zero-out": it becomes
                zeros.
        """
        ...


def shifted(noise: Noise, changed: int) -> Event:
    """So many coordinates change by one each."""
    if noise.at == "curator":
        return GaussianVector(noise.scale, math.nextafter(math.sqrt(changed), math.inf) if changed else 0.0)
    return SkellamShift(noise.variance, changed)


def moved(noise: Noise, l1: float, l2: float, rate: float = 1.0) -> Event:
    """The sum changes by a vector of such norms."""
    if noise.at == "curator":
        return GaussianVector(noise.scale, l2, rate)
    return SkellamVector(noise.variance, l1, l2, rate)


def tested(noise: Noise, reach: int, tests: int) -> Event:
    """So many answers, each of cost reach / scale (`hushtune.privacy.noise.geometric`); from whom sums stay hidden."""
    if noise.at == "parties":
        raise SettingError("tests of sums need somebody who keeps the sums secret: use seal 'curator' or 'quorum'")
    return PureTests(geometric.cost_of(reach, noise.scale), tests)


def integers(vector: Any, length: int) -> IntArray:
    """The vector as int64, shape (length,); BoundError if it is anything else."""
    found = np.asarray(vector)
    if found.shape != (length,) or found.dtype.kind not in "iub":
        raise BoundError(f"an answer must be {length} integers, but got shape {found.shape} of {found.dtype}")
    return found.astype(np.int64)
