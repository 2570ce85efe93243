"""What a client may say about its own search: its pairs, or what a model of them predicts for public candidates."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hushtune.client import failures
from hushtune.client.pairs import FINEST, Pairs, blocks_of, written
from hushtune.client.party import Party
from hushtune.client.query import Query, register
from hushtune.client.search.adaptive import Adaptive
from hushtune.client.search.base import Search
from hushtune.core.arrays import FloatArray
from hushtune.core.checks import integer, number
from hushtune.core.errors import NoLossError, SettingError
from hushtune.core.space import Candidates, Domain, space_of
from hushtune.methods.surface.models import predicted
from hushtune.methods.vote.ballots import scores_bound
from hushtune.privacy.bounds import Ball, Box

MOST_SENT = 10_000  # pairs
SMALLEST_SPREAD = 1e-6
_FINE = 2**20  # steps of the integer grid, from end to end of the losses' range


def loss_range(losses: Any) -> tuple[float, float]:
    """The smallest and the largest loss that count."""
    try:
        low, high = (number("losses", end, -1e9, 1e9) for end in losses)
    except (TypeError, ValueError) as error:
        raise SettingError(f"losses must be a pair (smallest, largest), but got {losses!r}: {error}") from None
    if low >= high:
        raise SettingError(f"`smallest < largest` must hold for the losses' range, but got {low:g}, {high:g}")
    return low, high


class OfSearch(Query):
    """What all of them share: which search, over what, which losses count, and how many pairs of it."""

    search: Search
    losses: tuple[float, float]
    send: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "losses", loss_range(self.losses))
        integer("send", self.send, 2, MOST_SENT)
        domain = self.scored[1]
        if not isinstance(self.search, Adaptive) and not isinstance(domain, Candidates):
            raise SettingError("a space is searched by Search.adaptive() only")

    @property
    @abstractmethod
    def scored(self) -> tuple[Search, Domain]:
        """The search that finds the trials, and where it looks."""

    def trials(self, party: Party) -> tuple[Pairs, int]:
        """A client's best pairs with their losses clipped to the range, and how many were."""
        failures.check(party)
        search, domain = self.scored
        if isinstance(search, Adaptive):
            trials = search.found(party, space_of(domain))
        else:
            assert isinstance(domain, Candidates)
            trials = list(zip(domain.configs, party.losses(domain.configs, search.seed), strict=True))
        points = space_of(domain).encode([config for config, _ in trials])
        return Pairs(points, np.array([loss for _, loss in trials])).finite().best(self.send).clipped(self.losses)


@register
@dataclass(frozen=True)
class SentPairs(OfSearch):
    """A client's own (config, loss) pairs.

    Args:
        search: how they are found.
        domain: the space that is searched, or the candidates that are scored.
        losses: the smallest and the largest loss; others are clipped.
        send: how many pairs at most, those with the smallest losses (T' in FLoRA).
    """

    search: Search
    domain: Domain
    losses: tuple[float, float]
    send: int
    name: ClassVar[str] = "sent-pairs"
    version: ClassVar[int] = 1
    meaning: ClassVar[str] = "the (config, loss) pairs of its own search"

    @property
    def scored(self) -> tuple[Search, Domain]:
        """The search that finds the pairs, and where it looks."""
        return self.search, self.domain

    @property
    def blocks(self) -> Mapping[str, int]:
        """The lengths of the blocks that `hushtune.client.pairs` writes pairs into."""
        return blocks_of(self.send, space_of(self.domain).width)

    @property
    def bound(self) -> Box:
        """A box for exact values: no noise is offered for them."""
        return Box(FINEST, sum(self.blocks.values()), caps=(self.send, self.send))

    def answer(self, party: Party) -> Any:
        """The pairs as integers."""
        return written(*self.trials(party), self.send, self.losses)


class _Predicted(OfSearch):
    """What both kinds of predictions share."""

    candidates: Candidates

    @property
    def scored(self) -> tuple[Search, Candidates]:
        """The search whose trials a client's model is fitted to, and the candidates."""
        return self.search, self.candidates

    def predictions(self, party: Party) -> tuple[FloatArray, int]:
        """The losses that a model of a client's pairs predicts, and how many of the pairs' losses were clipped.

        If all candidates were scored, no model is needed; what failed is as bad as the worst.
        """
        pairs, clipped = self.trials(party)
        if not len(pairs.losses):
            raise NoLossError
        if isinstance(self.search, Adaptive):
            return predicted(pairs, self.candidates.encoded, self.search.seed), clipped
        losses = party.losses(self.candidates.configs, self.search.seed)
        known = np.isfinite(losses)
        return np.clip(np.where(known, losses, losses[known].max()), *self.losses), clipped


@register
@dataclass(frozen=True)
class PredictedScores(_Predicted):
    """How good a client's own model expects each candidate to be, for a sum that is opened exactly.

    Args:
        search: how the client finds the pairs that its model is of.
        candidates: the public candidates.
        losses: the smallest and the largest loss; others are clipped. A score is what a loss is below the largest.
        send: of how many pairs the model is, those with the smallest losses.
    """

    search: Search
    candidates: Candidates
    losses: tuple[float, float]
    send: int
    name: ClassVar[str] = "predicted-scores"
    version: ClassVar[int] = 1
    meaning: ClassVar[str] = "predicted scores, one entry per candidate, and how many losses were clipped"

    @property
    def blocks(self) -> Mapping[str, int]:
        """One score per candidate, and how many losses were clipped."""
        return {"scores": len(self.candidates), "clipped": 1}

    @property
    def bound(self) -> Box:
        """A box for exact values: no noise is offered for them."""
        return Box(_FINE, len(self.candidates) + 1)

    def answer(self, party: Party) -> Any:
        """Scores on the integer grid."""
        predicted, clipped = self.predictions(party)
        low, high = self.losses
        scores = np.clip((high - predicted) / (high - low), 0, 1)
        return np.append(np.rint(_FINE * scores).astype(np.int64), clipped)


@register
@dataclass(frozen=True)
class CentredScores(_Predicted):
    """How good a client's own model expects each candidate to be, compared to the others: for a noisy sum.

    The scores are centred, because what a client's candidates have in common does not help to choose, and clipped to an
    L2 norm C = `spread` x the losses' range x sqrt(candidates). A vector that is too long is shortened, so that its
    order stays; one that is short enough stays, so that a client to which all candidates are alike has little to say.

    Args:
        search: how the client finds the pairs that its model is of.
        candidates: the public candidates.
        losses: the smallest and the largest loss; others are clipped.
        send: of how many pairs the model is, those with the smallest losses.
        spread: the largest standard deviation over the candidates, as a share of the losses' range.
    """

    search: Search
    candidates: Candidates
    losses: tuple[float, float]
    send: int
    spread: float
    name: ClassVar[str] = "centred-scores"
    version: ClassVar[int] = 1
    meaning: ClassVar[str] = "centred predicted scores, one entry per candidate"

    def __post_init__(self) -> None:
        super().__post_init__()
        number("spread", self.spread, SMALLEST_SPREAD, 0.5)

    @property
    def blocks(self) -> Mapping[str, int]:
        """One score per candidate."""
        return {"scores": len(self.candidates)}

    @property
    def bound(self) -> Ball:
        """The norm C, in steps of the integer grid: public, and the same for all clients."""
        return scores_bound(self.candidates)

    def answer(self, party: Party) -> Any:
        """Minus the predicted losses, centred and clipped, rounded towards zero, which keeps the norm in its bound."""
        predicted, _ = self.predictions(party)
        low, high = self.losses
        scores = (predicted.mean() - predicted) / (high - low)
        size, most = float(np.linalg.norm(scores)), self.spread * math.sqrt(len(scores))
        scores *= min(1.0, most / size) if size else 0.0
        return np.trunc(scores * (self.bound.norm / most * (1 - 1e-12))).astype(np.int64)
