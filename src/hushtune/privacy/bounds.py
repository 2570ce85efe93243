"""Bounds: what ONE privacy unit's vector must satisfy. The runtime enforces them, and the cost follows from them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from hushtune.core.arrays import IntArray
from hushtune.core.checks import integer, number
from hushtune.core.errors import BoundError, SettingError
from hushtune.core.randomness import Randomness, words
from hushtune.privacy.accounting import Neighbours
from hushtune.privacy.events.answers import PureTests
from hushtune.privacy.events.sums import Event, GaussianVector, SkellamShift, SkellamVector
from hushtune.privacy.noise.base import Noise
from hushtune.privacy.noise.laplace import LARGEST_SCALE
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
        """What opening the noisy sum costs, if one unit's vector may change so (`Privacy.change`).

        Args:
            noise: the noise on the sum, in steps of the integer grid.
            change: "replace-one": one unit's vector becomes any other that passes `check`; "zero-out": it becomes
                zeros.
        """
        ...


@dataclass(frozen=True)
class KHot:
    """A ballot: `length` zeros and ones, exactly `k` of them ones.

    Replacing one ballot by another moves 2 min(k, length - k) counts by one each; leaving one out moves k
    (DP-HYPE, Lemma IV.1, which states 2k; two ballots of more than half the candidates must overlap).

    Args:
        k: how many ones, from 1 to `length`.
        length: how many candidates.
    """

    k: int
    length: int
    rate: ClassVar[float] = 1.0
    loudest: ClassVar[float] = LOUDEST

    def __post_init__(self) -> None:
        if integer("k", self.k, 1) > self.length:
            raise SettingError(f"`1 <= k <= candidates` must hold, but got k={self.k}, candidates={self.length}")

    @property
    def largest(self) -> int:
        """A vote is one."""
        return 1

    @property
    def total(self) -> int:
        """k: there are as many ones in every ballot."""
        return self.k

    @property
    def limits(self) -> Limits:
        """Every ballot adds up to k, and so does each in a sum of them."""
        return Limits(0, 1, sums=((0, self.length, self.k, self.k),))

    def check(self, vector: Any) -> IntArray:
        """Refuses anything but k ones among zeros."""
        ballot = _integers(vector, self.length)
        if not (np.isin(ballot, (0, 1)).all() and int(ballot.sum()) == self.k):
            raise BoundError(f"a ballot must be zeros and exactly {self.k} ones")
        return ballot

    def default(self, randomness: Randomness) -> IntArray:
        """A uniformly random ballot."""
        ballot = np.zeros(self.length, dtype=np.int64)
        ballot[np.argsort(words(randomness, self.length), kind="stable")[: self.k]] = 1
        return ballot

    def event(self, noise: Noise, change: Neighbours) -> Event:
        """Exact: the changed counts move by one each, the others not at all."""
        changed = 2 * min(self.k, self.length - self.k) if change == "replace-one" else self.k
        return _shifted(noise, changed)


@dataclass(frozen=True)
class AtMost:
    """A ballot of approvals: `length` zeros and ones, at most `k` of them ones.

    Replacing one ballot by another moves at most min(2k, length) counts by one each; leaving one out moves k at most.

    Args:
        k: how many ones at the most, from 1 to `length`.
        length: how many candidates.
    """

    k: int
    length: int
    rate: ClassVar[float] = 1.0
    loudest: ClassVar[float] = LOUDEST

    def __post_init__(self) -> None:
        KHot(self.k, self.length)

    @property
    def largest(self) -> int:
        """An approval is one."""
        return 1

    @property
    def total(self) -> None:
        """None: a ballot may have fewer votes than k."""
        return None

    @property
    def limits(self) -> Limits:
        """A ballot adds up to at most k."""
        return Limits(0, 1, sums=((0, self.length, 0, self.k),))

    def check(self, vector: Any) -> IntArray:
        """Refuses anything but at most k ones among zeros."""
        ballot = _integers(vector, self.length)
        if not (np.isin(ballot, (0, 1)).all() and int(ballot.sum()) <= self.k):
            raise BoundError(f"a ballot must be zeros and at most {self.k} ones")
        return ballot

    def default(self, randomness: Randomness) -> IntArray:
        """An empty ballot: no candidate gets a vote."""
        return np.zeros(self.length, dtype=np.int64)

    def event(self, noise: Noise, change: Neighbours) -> Event:
        """Exact in the worst case: so many counts move by one each."""
        changed = min(2 * self.k, self.length) if change == "replace-one" else self.k
        return _shifted(noise, changed)


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
        found = _integers(vector, self.length)
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
        return _moved(noise, min(math.nextafter(math.sqrt(self.length), math.inf) * l2, l2 * l2), l2, self.rate)


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
        found = _integers(vector, self.length)
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
        found = _integers(vector, self.length)
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
        return _moved(noise, float(vectors * most * (1 + self.values)), l2)


@dataclass(frozen=True)
class Scores:
    """A score from 0 to `steps` for each of `length` candidates, for a curator who answers `times` tests about their
    sums. No sum is opened.

    One unit changes every sum by at most `steps`, whatever its scores become, or if it is left out. If all units are
    scored on the same protected rows, one of those rows changes every unit's scores a little: `sensitivity` then says
    what that comes to.

    Args:
        length: how many candidates.
        times: how many tests, at the most.
        steps: of the integer grid, from the worst score to the best.
        sensitivity: by how much one privacy unit can change a sum, in the same steps.
    """

    length: int
    times: int
    steps: int
    sensitivity: int
    rate: ClassVar[float] = 1.0
    loudest: ClassVar[float] = LARGEST_SCALE / 4

    def __post_init__(self) -> None:
        integer("length", self.length, 1, 2**22)
        integer("times", self.times, 1, 2**20)
        integer("steps", self.steps, 1, 2**20)
        integer("sensitivity", self.sensitivity, self.steps, 2**36)

    @property
    def largest(self) -> int:
        """The best score that a candidate can have, in steps."""
        return self.steps

    @property
    def total(self) -> None:
        """None: scores may add up to anything within their range."""
        return None

    @property
    def limits(self) -> Limits:
        """Every score is within its range."""
        return Limits(0, self.steps)

    def check(self, vector: Any) -> IntArray:
        """The scores as integers; BoundError if one lies outside its range."""
        found = _integers(vector, self.length)
        if found.min() < 0 or found.max() > self.steps:
            raise BoundError(f"scores must be between 0 and {self.steps}")
        return found

    def default(self, randomness: Randomness) -> IntArray:
        """The worst score for all."""
        return np.zeros(self.length, dtype=np.int64)

    def event(self, noise: Noise, change: Neighbours) -> Event:
        """Every test is (2 sensitivity / scale, 0)-private (`hushtune.privacy.noise.selection`)."""
        if noise.at != "curator":
            raise SettingError("tests of scores need a trusted curator: use seal 'curator'")
        return PureTests(2 * self.sensitivity / noise.scale if noise.scale else math.inf, self.times)


def _shifted(noise: Noise, changed: int) -> Event:
    """So many coordinates change by one each."""
    if noise.at == "curator":
        return GaussianVector(noise.scale, math.nextafter(math.sqrt(changed), math.inf) if changed else 0.0)
    return SkellamShift(noise.variance, changed)


def _moved(noise: Noise, l1: float, l2: float, rate: float = 1.0) -> Event:
    """The sum changes by a vector of such norms."""
    if noise.at == "curator":
        return GaussianVector(noise.scale, l2, rate)
    return SkellamVector(noise.variance, l1, l2, rate)


def _integers(vector: Any, length: int) -> IntArray:
    found = np.asarray(vector)
    if found.shape != (length,) or found.dtype.kind not in "iub":
        raise BoundError(f"an answer must be {length} integers, but got shape {found.shape} of {found.dtype}")
    return found.astype(np.int64)
