"""DP-HYPE: clients vote for their best candidates, and only the noisy counts are opened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from hushtune.checks import integer
from hushtune.client import Party
from hushtune.errors import SettingError
from hushtune.methods.decode import argmax, smooth
from hushtune.query import KHot, register
from hushtune.randomness import words
from hushtune.rows import MOST_VOTERS
from hushtune.run import Openings
from hushtune.space import Candidates, Config

_DECODINGS = ("argmax", "smooth")


@register
@dataclass(frozen=True)
class TopVotes:
    """One vote for each of a voter's k best candidates.

    Args:
        k: votes per voter.
        candidates: the public candidates.
        seed: the public seed with which candidates were scored.
    """

    k: int
    candidates: Candidates
    seed: int
    name: ClassVar[str] = "top-votes"
    version: ClassVar[int] = 1
    meaning: ClassVar[str] = "votes, one entry per candidate"

    @property
    def blocks(self) -> Mapping[str, int]:
        """One count per candidate."""
        return {"votes": len(self.candidates)}

    @property
    def bound(self) -> KHot:
        """Exactly k ones."""
        return KHot(self.k, len(self.candidates))

    def answer(self, party: Party) -> Any:
        """Ones at the k smallest losses.

        Ties are broken at random by the client's own randomness; NaN and inf rank last, so that a client without
        any finite loss casts a uniformly random ballot.
        """
        losses = party.losses(self.candidates.configs, self.seed)
        losses = np.where(np.isfinite(losses), losses, np.inf)
        order = np.lexsort((words(party.randomness, len(losses)), losses))
        ballot = np.zeros(len(losses), dtype=np.int64)
        ballot[order[: self.k]] = 1
        return ballot


@dataclass(frozen=True)
class Vote:
    """DP-HYPE (Liebenow, Peinemann, Mohammadi 2025), Algorithm 1.

    Args:
        k: votes per voter, between 1 and the number of candidates.
        voters: into how many parts each client splits its rows, with `Privacy(unit="record")`: every part scores the
            candidates and casts a ballot. For few large clients; 1: each client is one voter.
        decode: "argmax" takes the candidate with the most noisy votes, as published. "smooth" first smooths the
            noisy counts over the space of candidates, which costs no privacy.
    """

    k: int = 5
    voters: int = 1
    decode: Literal["argmax", "smooth"] = "argmax"
    name: ClassVar[str] = "vote"

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", integer("k", self.k, 1))
        object.__setattr__(self, "voters", integer("voters", self.voters, 1, MOST_VOTERS))
        if self.decode not in _DECODINGS:
            raise SettingError(f"decode must be one of {list(_DECODINGS)}, but got '{self.decode}'")

    def bounds(self, candidates: Candidates) -> tuple[KHot, ...]:
        """One sum of ballots."""
        return (KHot(self.k, len(candidates)),)

    def variants(self) -> Mapping[str, Vote]:
        """Both ways to decode the same counts."""
        return {"argmax": replace(self, decode="argmax"), "smooth": replace(self, decode="smooth")}

    def run(self, run: Openings) -> Config:
        """Opens the noisy counts and takes the best."""
        votes = run.sum(TopVotes(self.k, run.candidates, run.seed))["votes"]
        if self.decode == "argmax":
            return run.candidates[argmax(votes)]
        cast = self.k * self.voters * run.answered()
        return run.candidates[smooth(votes, cast, run.noise_variance(), run.candidates).best]
