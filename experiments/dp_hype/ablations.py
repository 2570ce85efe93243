"""The two ablations of DP-HYPE's published artifact, for comparison only: nothing registers them with clients."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hushtune.client.party import Party
from hushtune.client.query import Query
from hushtune.client.search.base import Search
from hushtune.core.arrays import IntArray
from hushtune.core.errors import BoundError
from hushtune.core.randomness import Randomness
from hushtune.core.space import Candidates, Config
from hushtune.methods.base import Method, Openings
from hushtune.privacy.accounting import Neighbours
from hushtune.privacy.bounds import LOUDEST, Limits
from hushtune.privacy.events.sums import SkellamVector
from hushtune.privacy.noise.base import Noise

_STEPS = 100  # of the integer grid, for an accuracy of 1


@dataclass(frozen=True)
class Accuracies:
    """`length` accuracies in steps of the integer grid, of which `count` places, always the same, may be above 0.

    Both are in [0, 1] at each place, so replacing one client's moves the sum by sqrt(count) at most.
    """

    count: int
    length: int
    largest: ClassVar[int] = _STEPS
    total: ClassVar[None] = None
    rate: ClassVar[float] = 1.0
    loudest: ClassVar[float] = LOUDEST
    tests: ClassVar[int] = 0
    only_max: ClassVar[bool] = False

    @property
    def limits(self) -> Limits:
        """Each accuracy is in [0, 1]."""
        return Limits(0, _STEPS)

    def check(self, vector: Any) -> IntArray:
        """Refuses accuracies outside [0, 1], and too many."""
        found = np.asarray(vector)
        if found.min() < 0 or found.max() > _STEPS or np.count_nonzero(found) > self.count:
            raise BoundError(f"accuracies must be in [0, 1], at most {self.count} of them above 0")
        return found.astype(np.int64)

    def default(self, randomness: Randomness) -> IntArray:
        """Zeros: an accuracy of 0 for every candidate."""
        return np.zeros(self.length, dtype=np.int64)

    def event(self, noise: Noise, change: Neighbours) -> SkellamVector:
        """By its norms; the same for all relations, as an accuracy may change from 0 to 1."""
        return SkellamVector(noise.variance, float(_STEPS * self.count), _STEPS * math.sqrt(self.count))


@dataclass(frozen=True)
class _Query(Query):
    """A client's accuracies of some candidates, clipped to [0, 1]; the others are 0.

    Args:
        each: how many candidates a client scores; None for all.
        candidates: the public candidates.
        seed: with which they were scored.
    """

    each: int | None
    candidates: Candidates
    seed: int
    name: ClassVar[str] = "accuracies"
    version: ClassVar[int] = 1
    meaning: ClassVar[str] = "accuracies, one entry per candidate"

    @property
    def blocks(self) -> Mapping[str, int]:
        return {"votes": len(self.candidates)}

    @property
    def bound(self) -> Accuracies:
        return Accuracies(self.each or len(self.candidates), len(self.candidates))

    @property
    def scored(self) -> tuple[Search, Candidates]:
        return Search(self.seed), self.candidates

    def answer(self, party: Party) -> Any:
        losses = party.losses(self.candidates.configs, self.seed)
        found = np.rint(_STEPS * np.clip(np.nan_to_num(1 - losses, nan=0.0), 0, 1)).astype(np.int64)
        if self.each is not None:
            mine = int(party.id.rpartition("-")[2]) * self.each + np.arange(self.each)
            found[np.setdiff1d(np.arange(len(found)), mine % len(found))] = 0
        return found


@dataclass(frozen=True)
class RawLosses(Method):
    """Every client sends its accuracies themselves."""

    name: ClassVar[str] = "raw-losses"

    def bounds(self, candidates: Candidates) -> tuple[Accuracies, ...]:
        """One bound: one sum of all accuracies is opened."""
        return (_Query(None, candidates, 0).bound,)

    def run(self, run: Openings) -> Config:
        """The largest noisy sum."""
        return run.candidates[int(np.argmax(run.sum(_Query(None, run.candidates, run.search.seed))["votes"]))]


@dataclass(frozen=True)
class Subsets(Method):
    """Every client scores one candidate only, which its place in the roster gives: its accuracy is all it sends."""

    name: ClassVar[str] = "subsets"

    def bounds(self, candidates: Candidates) -> tuple[Accuracies, ...]:
        """One bound: one sum of all accuracies is opened."""
        return (_Query(1, candidates, 0).bound,)

    def run(self, run: Openings) -> Config:
        """The largest noisy mean; a candidate that nobody scored cannot be chosen."""
        size, clients = len(run.candidates), run.answered()
        scored = np.bincount(np.arange(clients) % size, minlength=size)
        sums = run.sum(_Query(1, run.candidates, run.search.seed))["votes"]
        return run.candidates[int(np.argmax(np.where(scored > 0, sums / np.maximum(1, scored), -np.inf)))]
