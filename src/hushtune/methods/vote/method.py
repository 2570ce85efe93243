"""DP-HYPE: clients vote on the candidates, and only the noisy sums of their ballots are opened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from hushtune.client.rows import MOST_VOTERS
from hushtune.core.checks import integer, number
from hushtune.core.errors import SettingError
from hushtune.core.space import Candidates, Config
from hushtune.methods.base import Facts, Method, Openings
from hushtune.methods.decode import argmax, smooth
from hushtune.methods.vote.ballots import Approvals, SoftVotes, TopVotes
from hushtune.privacy.accounting import gaussian_start
from hushtune.privacy.bounds import Bound, KHot
from hushtune.privacy.calibration import events_of
from hushtune.privacy.guarantee import Privacy
from hushtune.privacy.noise.base import Noise

if TYPE_CHECKING:
    from hushtune.methods.plan import Plan, Prospect

_BALLOTS = ("top", "approval", "soft")
_DECODINGS = ("smooth", "argmax")
_PUBLISHED_K = 5
_SHARES = ((5.0, 0.0), (3.0, 0.1), (0.0, 0.15))  # voters per standard deviation of the noise -> share of candidates


@dataclass(frozen=True)
class Vote(Method):
    """DP-HYPE (Liebenow, Peinemann, Mohammadi 2025), Algorithm 1, with better ballots and decoding as the default.

    As published: `Vote(decode="argmax")`, that is one vote for each of the k = 5 best candidates, and the largest noisy
    count wins.

    Privacy: unit "client", or "record" with `voters`. What is opened is one noisy sum of ballots. If a unit is replaced
    (a record changed, added or removed included), a "top" ballot becomes another one and 2 min(k, candidates - k)
    counts move by one (Lemma IV.1 states 2k), an "approval" ballot moves min(2k, candidates) at the most; if a client
    is zeroed out, k. The loss of such moves under Skellam noise is computed numerically, as a privacy loss distribution
    whose rounding is upwards. A "soft" ballot moves the sum by twice its L2 norm, accounted by Rényi divergences
    (Agarwal, Kairouz, Liu 2021). Under `Curator` the noise is Gaussian.

    Args:
        k: votes per voter, between 1 and the number of candidates. Default: 5, as published; with decode="smooth", more
            if the noise is loud: 10% of the candidates if there are fewer than 5 voters per standard deviation of the
            noise that k = 5 would need, 15% below 3; never more than half of them. All of this is public.
        voters: into how many parts each client splits its rows, from 1 to 10,000, with `Privacy(unit="record")`: every
            part scores the candidates and casts a ballot. For few large clients; 1: each client is one voter.
        ballot: "top", one vote for each of the k best; "approval", one for each candidate whose loss is within
            `tolerance` of the voter's best, at most k; "soft", the voter's scores, centred and scaled to one norm.
        decode: "smooth" smooths the noisy sum over the space of candidates first, which costs no privacy; "argmax"
            takes the largest entry.
        tolerance: for ballot="approval": a difference of losses, 0 or more.
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

    def settled(self, facts: Facts) -> Vote:
        """With its k, which follows from the numbers of candidates and voters and from the guarantee."""
        if self.k is not None or self.ballot == "soft":
            return self
        size = len(facts.candidates)
        most = max(1, size // 2)
        few = min(_PUBLISHED_K, most)
        if self.decode == "argmax":
            return replace(self, k=few)
        noise = _noise(KHot(few, size), facts.privacy)
        share = next(share for least, share in _SHARES if facts.clients * self.voters >= least * noise)
        return replace(self, k=min(most, max(few, round(share * size))))

    def query(self, candidates: Candidates, seed: int) -> TopVotes | Approvals | SoftVotes:
        """What each voter is asked.

        Args:
            candidates: the public list.
            seed: the public seed with which they are scored.
        """
        if self.ballot == "soft":
            return SoftVotes(candidates, seed)
        if self.k is None:
            raise SettingError("k is not settled; ask `settled` for the k in use, or give one")
        if self.ballot == "approval":
            return Approvals(self.k, self.tolerance, candidates, seed)
        return TopVotes(self.k, candidates, seed)

    def bounds(self, candidates: Candidates) -> tuple[Bound, ...]:
        """One sum of ballots."""
        return (self.query(candidates, 0).bound,)

    def plan(self, prospect: Prospect) -> Plan:
        """The odds of a good choice, for ballot="top"; of other ballots noise and cost."""
        from hushtune.methods.vote.plan import expect_votes

        return expect_votes(prospect, self.voters) if self.ballot == "top" else prospect.costs()

    def variants(self) -> Mapping[str, Vote]:
        """Both ways to decode the same sum."""
        return {"argmax": replace(self, decode="argmax"), "smooth": replace(self, decode="smooth")}

    def total(self, candidates: Candidates, answered: int) -> float | None:
        """What the noise-free sum adds up to, if that is public: nearly 0 for centred scores."""
        if self.ballot == "soft":
            return 0.0
        own = self.bounds(candidates)[0].total
        return None if own is None else float(own * self.voters * answered)

    def run(self, run: Openings) -> Config:
        """Opens the noisy sum and takes the best."""
        (votes,) = run.sum(self.query(run.candidates, run.search.seed)).values()
        if self.decode == "argmax":
            return run.candidates[argmax(votes)]
        total = self.total(run.candidates, run.answered())
        return run.candidates[smooth(votes, total, run.noise_variance(), run.candidates).best]


def _noise(bound: Bound, privacy: Privacy | None) -> float:
    """About how much noise the guarantee needs on such a sum: what a Gaussian mechanism would."""
    if privacy is None:
        return 0.0
    return gaussian_start(lambda s: events_of((bound,), privacy, Noise(s)), privacy.epsilon, privacy.delta)
