"""DP-HYPE: clients vote on the candidates; the noisy sum of their ballots is opened, or only the winner's place."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from hushtune.client.rows import MOST_VOTERS
from hushtune.core.arrays import FloatArray
from hushtune.core.checks import integer, kind, number
from hushtune.core.errors import SettingError
from hushtune.core.space import Candidates, Config
from hushtune.methods.base import Facts, Method, Openings, check_secret
from hushtune.methods.decode import argmax, smooth
from hushtune.methods.figures import Figure, Told
from hushtune.methods.prior import Prior, alone, said
from hushtune.methods.vote.ballots import BEST_GRADES, MOST_WIDE, Approvals, GradedVotes, SoftVotes, TopVotes
from hushtune.methods.vote.figures import winner_figure
from hushtune.privacy.accounting import gaussian_start
from hushtune.privacy.bounds import Bound, KHot
from hushtune.privacy.calibration import events_of
from hushtune.privacy.guarantee import Privacy
from hushtune.privacy.noise.base import Noise
from hushtune.seals.base import Seal
from hushtune.seals.oracle import drawn

if TYPE_CHECKING:
    from hushtune.methods.plan import Plan, Prospect

_KNOWN: dict[str, tuple[str | None, ...]] = {
    "ballot": (None, "top", "approval", "soft"),
    "decode": (None, "smooth", "argmax"),
    "opens": (None, "winner", "sum"),
}
_PUBLISHED_K = 5
_SHARES = ((5.0, 0.0), (3.0, 0.1), (0.0, 0.15))  # voters per standard deviation of the noise -> share of candidates
_WINNERS = ((18.0, 0.1, 0.5), (7.0, 0.2, 1.0), (0.0, 0.3, 1.0))  # see `_usual_for_winners`
_TOLERANCE = 0.01  # above a voter's smallest loss
_HEARD = 30  # voters for each ln(candidates) / epsilon
_BESIDE = 3  # voters for each of a prior's
_FEWEST_ROWS, _MOST_UNTOLD = 25, 20  # rows of a part; voters of a client that does not say how many rows it has


@dataclass(frozen=True)
class Vote(Method):
    """DP-HYPE (Liebenow, Peinemann, Mohammadi 2025), Algorithm 1, with better ballots and decoding as the default; and
    a vote of which only the winner is opened.

    As published: `Vote(decode="argmax")`, that is one vote for each of the k = 5 best candidates, and the largest noisy
    count wins.

    Privacy: unit "client", or "record" with `voters`. With opens="sum" one noisy sum of ballots is opened. If a unit is
    replaced (a record changed, added or removed included), a "top" ballot becomes another one and 2 min(k, candidates -
    k) counts move by one (Lemma IV.1 states 2k), an "approval" ballot moves min(2k, candidates) at most; if a
    client is zeroed out, k. The loss of such moves under Skellam noise is computed numerically, as a privacy loss
    distribution whose rounding is upwards. A "soft" ballot moves the sum by twice its L2 norm, accounted by Rényi
    divergences (Agarwal, Kairouz, Liu 2021). Under `Curator` the noise is Gaussian.

    With opens="winner" the place of the largest noisy total is opened, and nothing else: report noisy max (Dwork and
    Roth 2014, Claim 3.9; proof: `hushtune.privacy.noise.geometric`), which is (epsilon, 0)-private. What counts is how
    far one unit moves two totals apart, by 2 votes at most (by 1 if it is zeroed out) or by twice the best grade: the
    noise does not grow with k, and soft ballots, which say more, cost no more than votes. Somebody must keep the sums
    secret: a trusted curator (`Curator`), or a quorum of nodes none of which sees them (`Quorum`).

    Args:
        k: votes per voter, between 1 and the number of candidates. Default: 5, as published; with decode="smooth", more
            if the noise is loud: 10% of the candidates if there are fewer than 5 voters per standard deviation of the
            noise that k = 5 would need, 15% below 3; never more than half of them. With opens="winner" and votes: 10%,
            20% or 30% of the candidates, the more the louder the noise is. All of this is public.
        voters: into how many parts each client splits its rows, from 1 to 10,000, with `Privacy(unit="record")`: every
            part scores the candidates and casts a ballot. For few large clients; 1: each client is one voter. Default:
            1; with unit "record" as few as are heard through the noise, by the numbers of clients and candidates and
            epsilon, three for each of a prior's voters, and not so many that a part has fewer than 25 rows.
        rows: about how many rows a client has. It is PUBLIC, and only for that default; without it, there are at most
            20 voters.
        ballot: "top", one vote for each of the k best; "approval", one for each candidate whose loss is within
            `tolerance` of the voter's best, at most k; "soft", the voter's scores: centred and scaled to one norm, or
            with opens="winner" grades that fall evenly from its best candidate on. Default: "soft" with opens="winner"
            and no k, where more can be said at the same cost, else "top".
        decode: "smooth" smooths the noisy sum over the space of candidates first, which costs no privacy; "argmax"
            takes the largest entry. Default: "smooth"; with opens="winner" there is nothing to decode.
        tolerance: a difference of losses, 0 or more, for ballot="approval" (default: 0.01).
        width: where grades reach 0, for ballot="soft" with opens="winner": so far from the voter's best loss, as a
            share of the way to its own median loss. Default: .5, or 1 where the noise is loud.
        grades: the best grade there, from 1 to 15. Default: 3; 15 without epsilon, where nothing blurs finer ones.
        opens: "sum", the noisy sum of all ballots; "winner", only the place of its largest entry. Default: "winner"
            under a seal that computes it without anybody seeing the sums (`Quorum`), else "sum".
        prior: what is believed of the candidates beforehand, which must be PUBLIC. With opens="winner" its voters'
            scores are added to the sums; with opens="sum" the noisy sum is smoothed towards them (decode="argmax": they
            are added to it), and the prior has no more voters than there are. Not for "soft" ballots with opens="sum".
    """

    k: int | None = None
    voters: int | None = None
    ballot: Literal["top", "approval", "soft"] | None = None
    decode: Literal["smooth", "argmax"] | None = None
    tolerance: float | None = None
    opens: Literal["winner", "sum"] | None = None
    prior: Prior | None = None
    width: float | None = None
    grades: int | None = None
    rows: int | None = None
    name: ClassVar[str] = "vote"

    def __post_init__(self) -> None:
        if self.k is not None:
            object.__setattr__(self, "k", integer("k", self.k, 1))
        if self.voters is not None:
            object.__setattr__(self, "voters", integer("voters", self.voters, 1, MOST_VOTERS))
        if self.rows is not None:
            object.__setattr__(self, "rows", integer("rows", self.rows, 1))
        for field, known in _KNOWN.items():
            if getattr(self, field) not in known:
                named = [name for name in known if name is not None]
                raise SettingError(f"{field} must be one of {named}, but got '{getattr(self, field)}'")
        if self.ballot == "soft" and self.k is not None:
            raise SettingError(f"a soft ballot has no k, but got k={self.k}")
        if self.tolerance is not None:
            object.__setattr__(self, "tolerance", number("tolerance", self.tolerance, 0, 1e6))
        if self.width is not None:
            object.__setattr__(self, "width", number("width", self.width, 0, MOST_WIDE, "(]"))
        if self.grades is not None:
            object.__setattr__(self, "grades", integer("grades", self.grades, 1, BEST_GRADES[-1]))
        kind("prior", self.prior, Prior)
        self._check_pairs()

    def _check_pairs(self) -> None:
        """Refuses settings that mean nothing beside others."""
        if self.opens == "winner" and self.decode is not None:
            raise SettingError(
                f"decode is for opens='sum': there is nothing to decode where only the winner's place is opened, but "
                f"got decode='{self.decode}'"
            )
        if self.tolerance is not None and self.ballot != "approval":
            raise SettingError(
                f"tolerance is for ballot='approval', but got tolerance={self.tolerance:g}, ballot={self.ballot!r}"
            )
        for name in ("width", "grades"):
            if getattr(self, name) is not None and (self.ballot != "soft" or self.opens == "sum"):
                raise SettingError(
                    f"{name} is for ballot='soft' with opens='winner', but got {name}={getattr(self, name):g}, "
                    f"ballot={self.ballot!r}, opens={self.opens!r}"
                )

    @property
    def consults(self) -> bool:
        """Whether only the winner is opened."""
        return self.opens == "winner"

    def drawn(self, seal: Seal, scale: float) -> str:
        """What the seal's own mechanism draws, if only the winner is opened."""
        return drawn(seal.mechanisms[0], scale) if self.consults else ""

    def settled(self, facts: Facts) -> Vote:
        """With what is opened, what ballots say, which follows from the numbers of candidates and voters and from the
        guarantee, and its prior's shares."""
        opens = self.opens or ("winner" if facts.seal.computes and facts.seal.mechanisms else "sum")
        if opens == "winner":
            check_secret("opens='winner'", facts.seal)
        found = replace(self, opens=opens, decode=self.decode if opens == "winner" else self.decode or "smooth")
        if self.ballot is None:
            found = replace(found, ballot="soft" if opens == "winner" and self.k is None else "top")
        if self.voters is None:
            found = replace(found, voters=self._usual_voters(facts))
        if self.ballot == "approval" and self.tolerance is None:
            found = replace(found, tolerance=_TOLERANCE)
        if self.prior is not None:
            if self.ballot == "soft" and opens == "sum":
                raise SettingError(
                    "prior is not for ballot='soft' with opens='sum': its scores are centred, and a prior's voters "
                    "have no such scale; use ballot='top', or opens='winner'"
                )
            prior, voters = self.prior.settled(facts.candidates), float(facts.clients * found.voters_each)
            if opens == "sum":  # it is what is expected of them, who cannot cast more votes than they have
                prior = replace(prior, voters=min(prior.voters, voters))
            found = replace(found, prior=prior)
        if opens == "winner":
            return found._usual_for_winners(facts)
        return found if found.k is not None or found.ballot == "soft" else replace(found, k=found._usual_k(facts))

    def _usual_for_winners(self, facts: Facts) -> Vote:
        """How many votes, or which grades, if nobody says: by the voters for each R / epsilon, of which the noise's
        standard deviation is 1 to 1.3 times.

        R is 2, or 1 if a unit is put to zeros.
        """
        privacy, share, width = facts.privacy, *_WINNERS[0][1:]
        if privacy is not None:
            reach = 1 if privacy.neighbours == "zero-out" else 2
            heard = facts.clients * self.voters_each * privacy.epsilon / reach
            share, width = next(usual for least, *usual in _WINNERS if heard >= least)
        if self.ballot == "soft":
            best = BEST_GRADES[privacy is None]
            return replace(self, width=self.width or width, grades=self.grades or best)
        return self if self.k is not None else replace(self, k=max(1, round(share * len(facts.candidates))))

    def _usual_voters(self, facts: Facts) -> int:
        """Into how many parts a client splits its rows, if nobody says.

        The best of p noisy scores is a matter of ln(p) / epsilon voters. More of them than that are not heard better,
        and what a part with few rows prefers is not what all rows prefer. But a prior is not to outvote them.
        """
        if facts.privacy is None or facts.privacy.unit == "client":
            return 1
        wanted = _HEARD * math.log(len(facts.candidates)) / facts.privacy.epsilon
        if self.prior is not None:
            wanted = max(wanted, _BESIDE * self.prior.voters)
        most = _MOST_UNTOLD if self.rows is None else self.rows // _FEWEST_ROWS
        return max(1, min(math.ceil(wanted / facts.clients), most, MOST_VOTERS))

    def _usual_k(self, facts: Facts) -> int:
        """How many votes for a sum, if nobody says."""
        size = len(facts.candidates)
        most = max(1, size // 2)
        few = min(_PUBLISHED_K, most)
        if self.decode == "argmax":
            return few
        noise = _noise(KHot(few, size), facts.privacy)
        share = next(share for least, share in _SHARES if facts.clients * self.voters_each >= least * noise)
        return min(most, max(few, round(share * size)))

    def query(self, candidates: Candidates, seed: int) -> TopVotes | Approvals | SoftVotes | GradedVotes:
        """What each voter is asked.

        Args:
            candidates: the public list.
            seed: the public seed with which they are scored.
        """
        if self.opens is None or (self.k is None and self.ballot != "soft"):
            raise SettingError("k and opens are not settled; ask `settled` for those in use, or give them")
        found = self._ballot(candidates, seed)
        if self.prior is None or isinstance(found, SoftVotes) or self.opens == "sum":
            return found
        return replace(found, added=self.prior.scores(found.bound.largest))

    def _ballot(self, candidates: Candidates, seed: int) -> TopVotes | Approvals | SoftVotes | GradedVotes:
        tests = int(self.opens == "winner")
        if self.k is None and not tests:
            return SoftVotes(candidates, seed)
        if self.k is None:
            if self.width is None or self.grades is None:
                raise SettingError("width and grades are not settled; ask `settled` for those in use, or give them")
            return GradedVotes(self.width, self.grades, candidates, seed)
        if self.ballot == "approval":
            tolerance = _TOLERANCE if self.tolerance is None else self.tolerance
            return Approvals(self.k, tolerance, candidates, seed, tests)
        return TopVotes(self.k, candidates, seed, tests)

    def bounds(self, candidates: Candidates) -> tuple[Bound, ...]:
        """One sum of ballots, or one question about it."""
        return (self.query(candidates, 0).bound,)

    def plan(self, prospect: Prospect) -> Plan:
        """The odds of a good choice; of approvals noise and cost."""
        from hushtune.methods.vote.plan import expect

        return expect(prospect, self)

    def variants(self) -> Mapping[str, Vote]:
        """Both ways to decode the same sum; a winner needs none."""
        if self.opens == "winner":
            return {"winner": self}
        return {"argmax": replace(self, decode="argmax"), "smooth": replace(self, decode="smooth")}

    def figures(self, told: Told) -> list[Figure]:
        """Of a winner: that nothing else was opened. Counts need none of the method's own."""
        return [winner_figure(told, self.prior is not None)] if self.opens == "winner" else super().figures(told)

    def total(self, candidates: Candidates, answered: int) -> float | None:
        """What the noise-free sum adds up to, if that is public: nearly 0 for centred scores."""
        if self.opens == "winner":
            return None  # it is not opened
        if self.ballot == "soft":
            return 0.0
        own = self.bounds(candidates)[0].total
        return None if own is None else float(own * (self.voters or 1) * answered)

    def run(self, run: Openings) -> Config:
        """Opens the noisy sum and takes the best, or has the winner's place opened."""
        query = self.query(run.candidates, run.search.seed)
        if self.opens == "winner":
            return run.candidates[run.consult(query, lambda oracle: oracle.noisy_max())]
        (votes,) = run.sum(query).values()
        expected = self.expected(run.candidates)
        if self.decode == "argmax":
            return run.candidates[argmax(votes if expected is None else votes + expected)]
        total = self.total(run.candidates, run.answered())
        return run.candidates[smooth(votes, total, run.noise_variance(), run.candidates, expected).best]

    def expected(self, candidates: Candidates) -> FloatArray | None:
        """The votes of the prior's voters."""
        return None if self.prior is None else self.prior.shares * self.prior.voters

    def beside(self, candidates: Candidates) -> Mapping[str, Config]:
        """What the prior would have chosen."""
        return alone(self.prior, candidates)

    def rests_on(self, voters: int) -> tuple[str, ...]:
        """What the prior is."""
        return said(self.prior, voters)

    @property
    def not_covered(self) -> tuple[str, ...]:
        """A number of rows that was stated in public."""
        if self.rows is None:
            return ()
        return (
            f"rows={self.rows}, which was stated in public: about how many rows a client has, or those of its rarest "
            "label times the number of labels",
        )


def _noise(bound: Bound, privacy: Privacy | None) -> float:
    """About how much noise the guarantee needs on such a sum: what a Gaussian mechanism would."""
    if privacy is None:
        return 0.0
    return gaussian_start(lambda s: events_of((bound,), privacy, Noise(s)), privacy.epsilon, privacy.delta)
