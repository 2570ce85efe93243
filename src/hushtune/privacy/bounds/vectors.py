"""Vectors of integers: within a norm, within a box, or points that are counted in groups."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hushtune.core.arrays import IntArray
from hushtune.core.checks import integer, number
from hushtune.core.errors import BoundError, SettingError
from hushtune.core.randomness import Randomness
from hushtune.privacy.accounting import Neighbours
from hushtune.privacy.bounds.base import LOUDEST, Limits, integers, moved
from hushtune.privacy.events.sums import Event
from hushtune.privacy.noise.base import Noise


@dataclass(frozen=True)
class Ball:
    """`length` integers whose L2 norm is at most `norm`.

    Replacing one vector by another moves the sum by a vector of norm 2 `norm` at most; leaving one out by `norm`.

    Args:
        norm: the largest L2 norm, in steps of the integer grid.
        length: how many integers.
        rate: the chance that the vector is in the sum at all, in (0, 1].
    """

    norm: int
    length: int
    rate: float = 1.0
    loudest: ClassVar[float] = LOUDEST
    tests: ClassVar[int] = 0
    only_max: ClassVar[bool] = False

    def __post_init__(self) -> None:
        number("rate", self.rate, 0, 1, "(]")
        integer("norm", self.norm, 1, 2**20)
        integer("length", self.length, 1, 2**22)  # so that no sum of squares of allowed entries wraps around

    @property
    def largest(self) -> int:
        """A vector may have a single entry."""
        return self.norm

    @property
    def total(self) -> None:
        """None: entries may add up to anything within the norm."""
        return None

    @property
    def limits(self) -> Limits:
        """Entries add up to at most the norm times the root of their number (Cauchy-Schwarz)."""
        most = math.isqrt(self.length * self.norm**2)
        return Limits(-self.norm, self.norm, sums=((0, self.length, -most, most),), norm=self.norm)

    def check(self, vector: Any) -> IntArray:
        """Refuses a longer vector; nothing is clipped here."""
        found = integers(vector, self.length)
        outside = found.min() < -self.norm or found.max() > self.norm  # else squares might wrap around
        if outside or int(found @ found) > self.norm**2:
            raise BoundError(f"a vector must have an L2 norm of at most {self.norm}")
        return found

    def default(self, randomness: Randomness) -> IntArray:
        """Zeros, which are inside every ball."""
        return np.zeros(self.length, dtype=np.int64)

    def event(self, noise: Noise, change: Neighbours) -> Event:
        """By its L2 norm and the largest L1 norm that integers of that L2 norm can have."""
        if self.rate < 1 and change != "zero-out":
            raise SettingError(f"sampling clients (rate={self.rate:g}) needs neighbours='zero-out', but got '{change}'")
        l2 = float(2 * self.norm if change == "replace-one" else self.norm)
        return moved(noise, min(math.nextafter(math.sqrt(self.length), math.inf) * l2, l2 * l2), l2, self.rate)


@dataclass(frozen=True)
class Box:
    """`length` integers from 0 to `largest`, for what is opened exactly: no noise is offered for such vectors.

    Args:
        largest: of one entry.
        length: how many.
        caps: smaller limits of the first entries, one each.
    """

    largest: int
    length: int
    caps: tuple[int, ...] = ()
    rate: ClassVar[float] = 1.0
    loudest: ClassVar[float] = LOUDEST
    tests: ClassVar[int] = 0
    only_max: ClassVar[bool] = False

    def __post_init__(self) -> None:
        integer("largest", self.largest, 1, 2**40)
        integer("length", self.length, 1, 2**22)

    @property
    def total(self) -> None:
        """None: entries may add up to anything inside the box."""
        return None

    @property
    def limits(self) -> Limits:
        """Those of the box itself."""
        return Limits(0, self.largest, self.caps)

    def check(self, vector: Any) -> IntArray:
        """The vector as integers; BoundError if an entry lies outside."""
        found = integers(vector, self.length)
        if found.min() < 0 or found.max() > self.largest or (found[: len(self.caps)] > self.caps).any():
            raise BoundError(f"integers must be between 0 and {self.largest}, the first ones at most {self.caps}")
        return found

    def default(self, randomness: Randomness) -> IntArray:
        """Zeros, which are inside every box."""
        return np.zeros(self.length, dtype=np.int64)

    def event(self, noise: Noise, change: Neighbours) -> Event:
        """There is none: a box is for exact values, and a SettingError says so."""
        raise SettingError("such values are opened exactly, which no epsilon covers")


@dataclass(frozen=True)
class Tally:
    """At most `points` points put into groups: how many are in each, then sums of each group's `values` numbers from 0
    to 1; all in steps of 1/`unit`.

    No entry is negative, and a group's sums are at most its count. So the norm of one vector x is at most
    P = points unit sqrt(1 + values), and of a difference |x - y|^2 <= |x|^2 + |y|^2 <= 2 P^2; in a single group the
    entries of x and y are between 0 and points unit each, and the difference's norm is at most P.

    Args:
        points: the largest total of the counts.
        groups: how many groups.
        values: how many sums each has.
        unit: steps of the integer grid for one point.
        cap: the largest count of a group, in points, if smaller.
        single: whether there is one group by design, and not by what clients found.
    """

    points: int
    groups: int
    values: int = 0
    unit: int = 1
    cap: int | None = None
    single: bool = False
    rate: ClassVar[float] = 1.0
    loudest: ClassVar[float] = LOUDEST
    tests: ClassVar[int] = 0
    only_max: ClassVar[bool] = False

    def __post_init__(self) -> None:
        integer("points", self.points, 1, 2**20)
        integer("groups", self.groups, 1, 2**16)
        integer("values", self.values, 0, 2**10)
        integer("unit", self.unit, 1, 2**24)
        if self.cap is not None:
            integer("cap", self.cap, 1)
        if self.single and self.groups > 1:
            raise SettingError(f"a single group was announced, but got groups={self.groups}")

    @property
    def length(self) -> int:
        """Counts, then sums: first of all groups' first values."""
        return self.groups * (1 + self.values)

    @property
    def largest(self) -> int:
        """All points in one group."""
        return self.unit * min(self.points, self.cap or self.points)

    @property
    def total(self) -> None:
        """None: units may have different numbers of points."""
        return None

    @property
    def limits(self) -> Limits:
        """All points together, in counts and in each of the sums, and no group's sum above its count."""
        most, ends = self.points * self.unit, range(0, self.length, self.groups)
        sums = tuple((start, start + self.groups, 0, most) for start in ends)
        return Limits(0, self.largest, sums=sums, under=self.groups if self.values else 0)

    def check(self, vector: Any) -> IntArray:
        """Refuses more points, and sums above their counts."""
        found = integers(vector, self.length)
        if found.min() < 0 or found.max() > self.largest or int(found[: self.groups].sum()) > self.points * self.unit:
            raise BoundError(f"counts must be 0 or more, at most {self.points} points in all")
        if (found[self.groups :].reshape(self.values, self.groups) > found[: self.groups]).any():
            raise BoundError("a group's sums must be at most its count")
        return found

    def default(self, randomness: Randomness) -> IntArray:
        """The tally of a unit that has no points: zeros."""
        return np.zeros(self.length, dtype=np.int64)

    def event(self, noise: Noise, change: Neighbours) -> Event:
        """By the norms above; L1 likewise, of which each vector has at most points unit (1 + values)."""
        most, vectors = self.points * self.unit, 2 if change == "replace-one" and not self.single else 1
        l2 = most * math.nextafter(math.sqrt(vectors * (1 + self.values)), math.inf)
        return moved(noise, float(vectors * most * (1 + self.values)), l2)
