"""What a voter may say about the public candidates: its best k, all it approves of, or how good each one is.

The sum of all ballots is opened, or only the place of its noisy maximum: then `tests` is 1, or the ballot is a grade.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hushtune.client.party import Party
from hushtune.client.query import Query, register
from hushtune.client.search.base import LARGEST_SEED, Search
from hushtune.core.arrays import FloatArray, IntArray
from hushtune.core.checks import integer, number
from hushtune.core.randomness import words
from hushtune.core.space import Candidates
from hushtune.privacy.bounds import AtMost, Ball, KHot, Scores
from hushtune.seals.ends import check_added

_STEPS = 10  # of the integer grid, for an entry of average size
BEST_GRADES = (3, 15)  # two bits and four
MOST_WIDE = 100.0


def scores_bound(candidates: Candidates) -> Ball:
    """For scores of all candidates: a norm, in steps of the integer grid, that follows from their number only."""
    return Ball(math.ceil(_STEPS * math.sqrt(len(candidates))), len(candidates))


def _losses(party: Party, candidates: Candidates, seed: int) -> FloatArray:
    """The voter's losses; what failed is inf."""
    losses = party.losses(candidates.configs, seed)
    return np.where(np.isfinite(losses), losses, np.inf)


def _by_loss(losses: FloatArray, party: Party) -> Any:
    """The candidates' places, best first; ties are broken at random by the client's own randomness."""
    return np.lexsort((words(party.randomness, len(losses)), losses))


class _Ballot(Query):
    """What all ballots share: they are about the losses of all candidates."""

    candidates: Candidates
    seed: int

    def __post_init__(self) -> None:
        integer("seed", self.seed, 0, LARGEST_SEED)
        if self.added:
            check_added(self.added, self.bound)

    @property
    def scored(self) -> tuple[Search, Candidates]:
        """A search that scores all candidates."""
        return Search(self.seed), self.candidates


@register
@dataclass(frozen=True)
class TopVotes(_Ballot):
    """One vote for each of a voter's k best candidates.

    Args:
        k: votes per voter.
        candidates: the public candidates.
        seed: the public seed with which candidates were scored.
        tests: how many places of noisy maxima are opened, and nothing else; 0: the sum is.
        added: public scores that are added before the winner is found; empty: none.
    """

    k: int
    candidates: Candidates
    seed: int
    tests: int = 0
    added: tuple[int, ...] = ()
    name: ClassVar[str] = "top-votes"
    version: ClassVar[int] = 3
    meaning: ClassVar[str] = "votes, one entry per candidate"

    @property
    def blocks(self) -> Mapping[str, int]:
        """One count per candidate."""
        return {"votes": len(self.candidates)}

    @property
    def bound(self) -> KHot:
        """Exactly k entries are one, all others zero."""
        return KHot(self.k, len(self.candidates), self.tests)

    def answer(self, party: Party) -> Any:
        """Ones at the k smallest losses.

        NaN and inf rank last, so that a client without any finite loss casts a uniformly random ballot.
        """
        losses = _losses(party, self.candidates, self.seed)
        ballot = np.zeros(len(losses), dtype=np.int64)
        ballot[_by_loss(losses, party)[: self.k]] = 1
        return ballot


@register
@dataclass(frozen=True)
class Approvals(_Ballot):
    """One vote for every candidate whose loss is within a tolerance of the voter's best, at most k of them.

    Args:
        k: votes per voter, at most.
        tolerance: how much larger than the voter's smallest loss an approved one may be.
        candidates: the public candidates.
        seed: the public seed with which candidates were scored.
        tests: as for `TopVotes`.
        added: as for `TopVotes`.
    """

    k: int
    tolerance: float
    candidates: Candidates
    seed: int
    tests: int = 0
    added: tuple[int, ...] = ()
    name: ClassVar[str] = "approvals"
    version: ClassVar[int] = 3
    meaning: ClassVar[str] = "approvals, one entry per candidate"

    def __post_init__(self) -> None:
        super().__post_init__()
        number("tolerance", self.tolerance, 0, math.inf, "[)")

    @property
    def blocks(self) -> Mapping[str, int]:
        """One count per candidate."""
        return {"votes": len(self.candidates)}

    @property
    def bound(self) -> AtMost:
        """At most k ones."""
        return AtMost(self.k, len(self.candidates), self.tests)

    def answer(self, party: Party) -> Any:
        """Ones at the approved losses; a client without any finite loss approves of nothing."""
        losses = _losses(party, self.candidates, self.seed)
        ballot = np.zeros(len(losses), dtype=np.int64)
        best = _by_loss(losses, party)[: self.k]
        best = best[np.isfinite(losses[best])]
        ballot[best[losses[best] - losses.min() <= self.tolerance]] = 1
        return ballot


@register
@dataclass(frozen=True)
class SoftVotes(_Ballot):
    """How good each candidate is to a voter: its scores, centred, and scaled to one L2 norm for all voters.

    Args:
        candidates: the public candidates.
        seed: the public seed with which candidates were scored.
    """

    candidates: Candidates
    seed: int
    name: ClassVar[str] = "soft-votes"
    version: ClassVar[int] = 1
    meaning: ClassVar[str] = "centred scores, one entry per candidate"

    @property
    def blocks(self) -> Mapping[str, int]:
        """One score per candidate."""
        return {"scores": len(self.candidates)}

    @property
    def bound(self) -> Ball:
        """One norm for all voters."""
        return scores_bound(self.candidates)

    def answer(self, party: Party) -> Any:
        """Minus the losses, centred and scaled, rounded towards zero, which keeps the norm within its bound.

        What failed counts as the voter's worst finite loss. A client without any, or to which all candidates are
        equal, sends zeros.
        """
        losses = _losses(party, self.candidates, self.seed)
        finite = np.isfinite(losses)
        if not losses[finite].any():
            return np.zeros(len(losses), dtype=np.int64)
        scores = -np.where(finite, losses, losses[finite].max())
        scores /= np.abs(scores).max()  # so that nothing overflows
        scores -= scores.mean()
        size = float(np.linalg.norm(scores))
        if size == 0:
            return np.zeros(len(losses), dtype=np.int64)
        return np.trunc(scores * (self.bound.norm / size * (1 - 1e-12))).astype(np.int64)


@register
@dataclass(frozen=True)
class GradedVotes(_Ballot):
    """How good each candidate is to a voter, on a small grid: the best grade for its best, 0 for what is much worse.

    Of the sum of all grades only the place of the noisy maximum is opened.

    Args:
        width: how far above the voter's smallest loss one may be that still gets a grade above 0, as a share of the way
            to the voter's own median loss. So ballots do not depend on the scale of losses.
        best: the best grade.
        candidates: the public candidates.
        seed: the public seed with which candidates were scored.
        added: public scores that are added before the winner is found; empty: none.
    """

    width: float
    best: int
    candidates: Candidates
    seed: int
    added: tuple[int, ...] = ()
    name: ClassVar[str] = "graded-votes"
    version: ClassVar[int] = 2
    meaning: ClassVar[str] = "grades, one entry per candidate"

    def __post_init__(self) -> None:
        number("width", self.width, 0, MOST_WIDE, "(]")
        integer("best", self.best, 1, BEST_GRADES[-1])
        super().__post_init__()

    @property
    def blocks(self) -> Mapping[str, int]:
        """One grade per candidate."""
        return {"grades": len(self.candidates)}

    @property
    def bound(self) -> Scores:
        """Each grade within its range, for one noisy maximum."""
        return Scores(len(self.candidates), 1, self.best, self.best, only_max=True)

    def answer(self, party: Party) -> Any:
        """Grades that fall evenly from the voter's best loss to 0.

        What failed gets 0. A client without any finite loss sends what depends on no data.
        """
        losses = _losses(party, self.candidates, self.seed)
        if not math.isfinite(losses.min()):
            return self.bound.default(party.randomness)
        return grades_of(losses[np.newaxis], self.width, self.best)[0]


def grades_of(losses: FloatArray, width: float, best: int) -> IntArray:
    """Grades, shape (voters, candidates), of losses of the same shape; each voter has a finite one.

    Args:
        losses: inf for what failed; it gets 0, and counts as the voter's worst loss where the median is taken.
        width: as for `GradedVotes`.
        best: the best grade.
    """
    finite = np.isfinite(losses)
    known = np.where(finite, losses, np.where(finite, losses, -np.inf).max(axis=1, keepdims=True))
    size = np.maximum(np.abs(known).max(axis=1, keepdims=True), 1e-300)  # so that nothing overflows
    least = known.min(axis=1, keepdims=True) / size
    above = known / size - least
    reach = width * np.median(above, axis=1, keepdims=True)
    share = np.where(above <= 0, 1.0, 1 - above / np.maximum(reach, 1e-300))
    grades = np.floor(best * np.clip(share, 0.0, 1.0) + 0.5).astype(np.int64)
    found: IntArray = np.where(finite, grades, 0)
    return found
