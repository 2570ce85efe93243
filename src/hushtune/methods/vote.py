"""DP-HYPE: clients vote on the candidates, and only the noisy sums of their ballots are opened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from hushtune.bounds import Bound
from hushtune.checks import integer, number
from hushtune.errors import SettingError
from hushtune.methods.ballots import Approvals, SoftVotes, TopVotes
from hushtune.methods.decode import argmax, smooth
from hushtune.rows import MOST_VOTERS
from hushtune.run import Openings
from hushtune.space import Candidates, Config

_BALLOTS = ("top", "approval", "soft")
_DECODINGS = ("smooth", "argmax")
_PUBLISHED_K = 5
_SHARE = 0.15  # of the candidates that a voter votes for, when the sum is smoothed


@dataclass(frozen=True)
class Vote:
    """DP-HYPE (Liebenow, Peinemann, Mohammadi 2025), Algorithm 1, with better ballots and decoding as the default.

    As published: `Vote(decode="argmax")`, that is one vote for each of the k = 5 best candidates, and the largest noisy
    count wins.

    Args:
        k: votes per voter, between 1 and the number of candidates. Default: 5 with decode="argmax", as published; else
            15% of the candidates, and 5 at the least; never more than half of them.
        voters: into how many parts each client splits its rows, with `Privacy(unit="record")`: every part scores the
            candidates and casts a ballot. For few large clients; 1: each client is one voter.
        ballot: "top", one vote for each of the k best; "approval", one for each candidate whose loss is within
            `tolerance` of the voter's best, at most k; "soft", the voter's scores, centred and scaled to one norm.
        decode: "smooth" smooths the noisy sum over the space of candidates first, which costs no privacy; "argmax"
            takes the largest entry.
        tolerance: for ballot="approval".
    """

    k: int | None = None
    voters: int = 1
    ballot: Literal["top", "approval", "soft"] = "top"
    decode: Literal["smooth", "argmax"] = "smooth"
    tolerance: float = 0.01
    name: ClassVar[str] = "vote"

    def __post_init__(self) -> None:
        if self.k is not None:
            object.__setattr__(self, "k", integer("k", self.k, 1))
        object.__setattr__(self, "voters", integer("voters", self.voters, 1, MOST_VOTERS))
        for field, known in (("ballot", _BALLOTS), ("decode", _DECODINGS)):
            if getattr(self, field) not in known:
                raise SettingError(f"{field} must be one of {list(known)}, but got '{getattr(self, field)}'")
        if self.ballot == "soft" and self.k is not None:
            raise SettingError(f"a soft ballot has no k, but got k={self.k}")
        number("tolerance", self.tolerance, 0, 1e6)

    def votes(self, candidates: int) -> int:
        """The k in use with so many candidates."""
        if self.k is not None:
            return self.k
        wanted = _PUBLISHED_K if self.decode == "argmax" else max(_PUBLISHED_K, round(_SHARE * candidates))
        return max(1, min(wanted, candidates // 2))

    def query(self, candidates: Candidates, seed: int) -> TopVotes | Approvals | SoftVotes:
        """What each voter is asked."""
        if self.ballot == "soft":
            return SoftVotes(candidates, seed)
        k = self.votes(len(candidates))
        if self.ballot == "approval":
            return Approvals(k, self.tolerance, candidates, seed)
        return TopVotes(k, candidates, seed)

    def bounds(self, candidates: Candidates) -> tuple[Bound, ...]:
        """One sum of ballots."""
        return (self.query(candidates, 0).bound,)

    def variants(self, candidates: Candidates) -> Mapping[str, Vote]:
        """Both ways to decode the same sum."""
        k = None if self.ballot == "soft" else self.votes(len(candidates))
        return {"argmax": replace(self, k=k, decode="argmax"), "smooth": replace(self, k=k, decode="smooth")}

    def total(self, candidates: Candidates, answered: int) -> float | None:
        """What the noise-free sum adds up to, if that is public: nearly 0 for centred scores."""
        if self.ballot == "soft":
            return 0.0
        own = self.bounds(candidates)[0].total
        return None if own is None else float(own * self.voters * answered)

    def run(self, run: Openings) -> Config:
        """Opens the noisy sum and takes the best."""
        (votes,) = run.sum(self.query(run.candidates, run.seed)).values()
        if self.decode == "argmax":
            return run.candidates[argmax(votes)]
        total = self.total(run.candidates, run.answered())
        return run.candidates[smooth(votes, total, run.noise_variance(), run.candidates).best]
