"""Ballots: zeros and ones, one for each candidate. Their sum is opened, or only the place of its noisy maximum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hushtune.core.arrays import IntArray
from hushtune.core.checks import integer
from hushtune.core.errors import BoundError, SettingError
from hushtune.core.randomness import Randomness, words
from hushtune.privacy.accounting import Neighbours
from hushtune.privacy.bounds.base import LOUDEST, Limits, integers, shifted, tested
from hushtune.privacy.events.answers import MOST_TESTS
from hushtune.privacy.events.sums import Event
from hushtune.privacy.noise import geometric
from hushtune.privacy.noise.base import Noise


@dataclass(frozen=True)
class KHot:
    """A ballot: `length` zeros and ones, exactly `k` of them ones.

    Replacing one ballot by another moves 2 min(k, length - k) counts by one each; leaving one out moves k
    (DP-HYPE, Lemma IV.1, which states 2k; two ballots of more than half the candidates must overlap).

    Args:
        k: how many ones, from 1 to `length`.
        length: how many candidates.
        tests: how many places of noisy maxima are opened, at most, and nothing else; 0: the sum is.
    """

    k: int
    length: int
    tests: int = 0
    rate: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        integer("tests", self.tests, 0, MOST_TESTS)
        if integer("k", self.k, 1) > self.length:
            raise SettingError(f"`1 <= k <= candidates` must hold, but got k={self.k}, candidates={self.length}")

    @property
    def loudest(self) -> float:
        """Of Skellam noise on the sum, or of geometric noise."""
        return geometric.LARGEST_SCALE if self.tests else LOUDEST

    @property
    def only_max(self) -> bool:
        """Counts of votes have no threshold: if they are asked about, then for their noisy maximum."""
        return self.tests > 0

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
        ballot = integers(vector, self.length)
        if not (np.isin(ballot, (0, 1)).all() and int(ballot.sum()) == self.k):
            raise BoundError(f"a ballot must be zeros and exactly {self.k} ones")
        return ballot

    def default(self, randomness: Randomness) -> IntArray:
        """A uniformly random ballot."""
        ballot = np.zeros(self.length, dtype=np.int64)
        ballot[np.argsort(words(randomness, self.length), kind="stable")[: self.k]] = 1
        return ballot

    def event(self, noise: Noise, change: Neighbours) -> Event:
        """Exact: the changed counts move by one each, the others not at all.

        Of a noisy maximum, what counts is how far one unit moves two counts apart: by 2, or by 1 if it is left out, and
        not at all if every ballot is the same (`hushtune.privacy.noise.geometric`).
        """
        if self.tests:
            return tested(noise, _apart(change) if self.k < self.length else 0, self.tests)
        changed = 2 * min(self.k, self.length - self.k) if change == "replace-one" else self.k
        return shifted(noise, changed)


@dataclass(frozen=True)
class AtMost:
    """A ballot of approvals: `length` zeros and ones, at most `k` of them ones.

    Replacing one ballot by another moves at most min(2k, length) counts by one each; leaving one out moves k at most.

    Args:
        k: how many ones at most, from 1 to `length`.
        length: how many candidates.
        tests: as for `KHot`.
    """

    k: int
    length: int
    tests: int = 0
    rate: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        KHot(self.k, self.length, self.tests)

    @property
    def loudest(self) -> float:
        """Of Skellam noise on the sum, or of geometric noise."""
        return geometric.LARGEST_SCALE if self.tests else LOUDEST

    @property
    def only_max(self) -> bool:
        """Counts of votes have no threshold: if they are asked about, then for their noisy maximum."""
        return self.tests > 0

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
        ballot = integers(vector, self.length)
        if not (np.isin(ballot, (0, 1)).all() and int(ballot.sum()) <= self.k):
            raise BoundError(f"a ballot must be zeros and at most {self.k} ones")
        return ballot

    def default(self, randomness: Randomness) -> IntArray:
        """An empty ballot: no candidate gets a vote."""
        return np.zeros(self.length, dtype=np.int64)

    def event(self, noise: Noise, change: Neighbours) -> Event:
        """Exact in the worst case: so many counts move by one each. Of noisy maxima as for `KHot`, but for k = length:
        ballots may differ then too. A single candidate is always the largest."""
        if self.tests:
            return tested(noise, _apart(change) if self.length > 1 else 0, self.tests)
        changed = min(2 * self.k, self.length) if change == "replace-one" else self.k
        return shifted(noise, changed)


def _apart(change: Neighbours) -> int:
    """How far one ballot of zeros and ones moves two counts apart: up and down, or one of them down."""
    return 2 if change == "replace-one" else 1
