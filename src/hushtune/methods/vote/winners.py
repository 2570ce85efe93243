"""Whether a vote can work of which only the winner is opened: the odds of a good choice, before any data is touched.

The model of agreement and the simulated ballots are those of `hushtune.methods.vote.odds`. The noise is drawn as the
run would draw it, the same for every k and every width, because it depends on neither.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hushtune.core.arrays import FloatArray, IntArray
from hushtune.core.errors import SettingError
from hushtune.core.words import counted
from hushtune.methods.loudness import deviation_of, drawn_noise
from hushtune.methods.plan import Plan, Prospect
from hushtune.methods.vote.odds import Agreement, counts, success, totals
from hushtune.methods.vote.plan import KS, LOSSES, Odds, agreement_of, best, others, traffic_of, verdict
from hushtune.privacy.noise.base import Noise
from hushtune.seals.oracle import Mechanism, drawn

if TYPE_CHECKING:
    from hushtune.methods.vote.method import Vote

WIDTHS = (0.1, 0.25, 0.5, 1.0)
_DRAWS = 20  # of the noise for each simulated vote, if there is room
_MOST_DRAWN = 2_000_000  # noises in one case


@dataclass(frozen=True)
class WinnerPlan(Plan):
    """What to expect of a vote of which only the winner is opened.

    Args:
        voters: ballots per client.
        k: votes per ballot; None: ballots have grades.
        width: of grades.
        grades: the best one.
        mechanism: by which the winner is chosen.
        scale: of its noise.
        sigma: standard deviation of the noise on each total, all of it, in votes or best grades.
        agreement: the model that the odds are computed in.
        guess: the chance of a good choice by guessing.
        success: the chance of a good choice, averaged over simulated votes.
        by_ballot: the odds for other k, or other widths.
        best_ballot: the best of them.
        instead: the odds in other cases.
        messages: sent and received by an average client.
        bytes: sent and received by an average client.
    """

    voters: int
    k: int | None
    width: float | None
    grades: int | None
    mechanism: Mechanism
    scale: float
    sigma: float
    agreement: Agreement
    guess: float
    success: float
    by_ballot: tuple[Odds, ...]
    best_ballot: str
    instead: tuple[Odds, ...]
    messages: float
    bytes: int

    def lines(self) -> Iterator[str]:
        """Noise, odds, other ballots, what else one could do, traffic."""
        each = f", each with {self.voters} voters" if self.voters > 1 else ""
        ballot, unit, any_ = f"{self.k} votes per ballot", "votes", "however many votes a ballot has"
        if self.k is None:
            ballot, unit = f"grades up to {self.grades}, width {self.width:g}", "best grades"
            any_ = "whatever the width is"
        yield self.terms(
            f"{counted(self.clients, 'client')}{each}, {self.candidates} candidates, {ballot}, only the winner is "
            "opened"
        )
        yield (
            f"Noise: {drawn(self.mechanism, self.scale)}, as loud as a standard deviation of {self.sigma:.2f} {unit}, "
            f"{any_}"
        )
        yield (
            f"Odds of a good choice, with {self.agreement.good} good of {self.candidates} candidates and voters' "
            f"losses of standard deviation {self.agreement.overlap:g} (good 0, bad 1):\n"
            f"  winner {self.success:.3f}   guessing {self.guess:.3f}"
        )
        yield f"Other ballots; the best is {self.best_ballot}:"
        for odds in self.by_ballot:
            yield f"  {odds.what:12} odds {odds.success:.3f}"
        yield "What else you could do:"
        for odds in self.instead:
            yield f"  {odds.what:38} noise {odds.sigma:8.2f}   odds {odds.success:.3f}"
        yield f"Traffic of a client: {self.messages:.1f} messages, about {self.bytes:,} bytes, both ways together"


def expect_winner(prospect: Prospect, vote: Vote) -> Plan:
    """What `plan` says about such a vote; of approvals, which have no such model, noise and cost.

    Args:
        prospect: the run.
        vote: settled.
    """
    own = vote.k if vote.ballot == "top" else vote.width
    if own is None:
        return prospect.costs()
    agreement, size = agreement_of(prospect), len(prospect.candidates)
    odds, guess = _Winners(prospect, vote, agreement), agreement.good / size
    with prospect.observer.phase("simulated votes", 2) as advance:
        known = WIDTHS if vote.k is None else [k for k in KS if k < size]
        ballots = sorted({*known, own})
        by_ballot = odds.of("", prospect, vote, ballots)
        advance(1)
        instead = list(odds.instead(own))
        advance(1)
    here = by_ballot[ballots.index(own)]
    messages, sent = traffic_of(prospect, vote.query(prospect.candidates, 0), vote.voters_each)
    return WinnerPlan(
        verdict(here.success, guess),
        **prospect.common(),
        voters=vote.voters_each,
        k=vote.k,
        width=vote.width,
        grades=vote.grades,
        mechanism=odds.mechanism,
        scale=prospect.noise.scale,
        sigma=here.sigma,
        agreement=agreement,
        guess=guess,
        success=here.success,
        by_ballot=tuple(by_ballot),
        best_ballot=best(by_ballot).what,
        instead=tuple(instead),
        messages=messages,
        bytes=sent,
    )


class _Winners:
    """Simulated votes and the chance that a good candidate wins them.

    Args:
        prospect: the run.
        vote: settled.
        agreement: how far voters agree.
    """

    def __init__(self, prospect: Prospect, vote: Vote, agreement: Agreement) -> None:
        self._prospect, self._vote, self._agreement = prospect, vote, agreement
        self._size = len(prospect.candidates)
        self.mechanism = prospect.seal.mechanisms[0]
        self._counted: dict[tuple[int, float], IntArray] = {}

    def of(self, what: str, prospect: Prospect, vote: Vote, ballots: Sequence[float]) -> list[Odds]:
        """For each k or width, in some case; ballots that are all the same need no noise, all others the same."""
        size, good, unit = self._size, self._agreement.good, vote.grades or 1
        totals = self._totals(prospect.clients * vote.voters_each, ballots)
        rng = np.random.default_rng([prospect.seed, 2])
        noise, drawn, found = prospect.noise, None, []
        for ballot in ballots:
            sums, same = totals[ballot], vote.k is not None and ballot == size
            quiet = Noise(0.0, noise.at, noise.nodes) if same else noise
            if drawn is None or quiet is not noise:
                drawn = self._drawn(quiet, sums.shape, rng)
            sigma = deviation_of(self.mechanism, quiet)
            ahead = float(sums[:, :good].mean() - sums[:, good:].mean()) if good < size else 0.0
            chance, k = _wins(sums, good, drawn, rng), None if vote.k is None else int(ballot)
            words = what or (f"width = {ballot:g}" if k is None else f"k = {k}")
            found.append(Odds(words, k, sigma / unit, chance, ahead / sigma if sigma else 0.0))
        return found

    def instead(self, own: float) -> Iterator[Odds]:
        """What else one could do: more clients, a larger epsilon, another unit, the sum.

        Args:
            own: the vote's k, or its width.
        """
        prospect, vote = self._prospect, self._vote
        for what, clients, voters, privacy in others(prospect, vote.voters_each):
            if (clients * voters, privacy) == (prospect.clients * vote.voters_each, prospect.privacy):
                continue
            other = replace(vote, voters=voters)
            with suppress(SettingError):  # an alternative that is not possible is not one
                changed = prospect.changed(clients=clients, privacy=privacy, method=other)
                yield from self.of(what, changed, other, [own])
        if prospect.privacy.delta:  # no sum is private without
            with suppress(SettingError):
                yield self._sum()

    def _sum(self) -> Odds:
        """The noisy sum opened, with as many votes as such a ballot has, and its largest entry taken."""
        opened = replace(self._vote, ballot="top", k=None, width=None, grades=None, opens="sum")
        prospect = self._prospect.changed(method=opened)
        assert isinstance(prospect.study.method, type(self._vote))
        k, clients, good = prospect.study.method.k or 1, prospect.clients, self._agreement.good
        votes = self._counts(clients * self._vote.voters_each, [k])[k]
        variance = prospect.noise.opened_variance(prospect.seal.honest(clients), clients)
        return Odds(f"opens=sum, k = {k}", k, variance**0.5, success(votes, good, variance), 0.0)

    def _totals(self, voters: int, ballots: Sequence[float]) -> dict[float, IntArray]:
        """Noise-free totals for each k or width, the same ones wherever only the noise differs."""
        missing = [ballot for ballot in ballots if (voters, ballot) not in self._counted]
        if missing:
            found: Mapping[Any, IntArray] = (
                self._counts(voters, [int(k) for k in missing])
                if self._vote.grades is None
                else totals(voters, self._size, missing, self._vote.grades, *self._simulated)
            )
            self._counted |= {(voters, ballot): sums for ballot, sums in found.items()}
        return {ballot: self._counted[voters, ballot] for ballot in ballots}

    def _counts(self, voters: int, ks: Sequence[int]) -> Mapping[int, IntArray]:
        """Noise-free counts of votes for each k."""
        return counts(voters, self._size, ks, *self._simulated)

    @property
    def _simulated(self) -> tuple[Agreement, int, np.random.Generator, int]:
        """How votes are simulated: the same losses in every case."""
        return self._agreement, self._prospect.repetitions, np.random.default_rng([self._prospect.seed, 0]), LOSSES

    def _drawn(self, noise: Noise, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        """Noise for every simulated vote, several times, shape (draws, repetitions, candidates)."""
        draws = max(1, min(_DRAWS, _MOST_DRAWN // (shape[0] * shape[1])))
        return drawn_noise(self.mechanism, noise, (draws, *shape), rng)


def _wins(votes: IntArray, good: int, noise: FloatArray, rng: np.random.Generator) -> float:
    """How often a good candidate, which come first, has the largest noisy count; of equals each as often."""
    noisy = votes + noise
    noisy += rng.random(noisy.shape) * 1e-3  # no candidate is favoured by its place
    return float((noisy.argmax(axis=-1) < good).mean())
