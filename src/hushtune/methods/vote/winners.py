"""Whether a vote can work of which only the winner is opened: the odds of a good choice, before any data is touched.

The model of agreement and the simulated ballots are those of `hushtune.methods.vote.odds`. The noise is drawn as the
run would draw it, the same for every k, because it does not depend on k.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hushtune.core.arrays import FloatArray, IntArray
from hushtune.core.errors import SettingError
from hushtune.core.words import counted
from hushtune.methods.loudness import deviation_of, drawn_noise
from hushtune.methods.plan import Plan, Prospect
from hushtune.methods.vote.odds import Agreement, counts, success
from hushtune.methods.vote.plan import KS, LOSSES, Odds, agreement_of, best, others, traffic_of, verdict
from hushtune.privacy.noise.base import Noise
from hushtune.seals.oracle import Mechanism, drawn

if TYPE_CHECKING:
    from hushtune.methods.vote.method import Vote

_DRAWS = 20  # of the noise for each simulated vote, if there is room
_MOST_DRAWN = 2_000_000  # noises in one case


@dataclass(frozen=True)
class WinnerPlan(Plan):
    """What to expect of a vote of which only the winner is opened.

    Args:
        voters: ballots per client.
        k: votes per ballot.
        mechanism: by which the winner is chosen.
        scale: of its noise.
        sigma: standard deviation of the noise on each count, all of it.
        agreement: the model that the odds are computed in.
        guess: the chance of a good choice by guessing.
        success: the chance of a good choice, averaged over simulated votes.
        by_k: the odds for other k.
        best_k: the best of them.
        instead: the odds in other cases.
        messages: sent and received by an average client.
        bytes: sent and received by an average client.
    """

    voters: int
    k: int
    mechanism: Mechanism
    scale: float
    sigma: float
    agreement: Agreement
    guess: float
    success: float
    by_k: tuple[Odds, ...]
    best_k: int
    instead: tuple[Odds, ...]
    messages: float
    bytes: int

    def lines(self) -> Iterator[str]:
        """Noise, odds, other k, what else one could do, traffic."""
        each = f", each with {self.voters} voters" if self.voters > 1 else ""
        yield self.terms(
            f"{counted(self.clients, 'client')}{each}, {self.candidates} candidates, {self.k} votes per ballot, only "
            "the winner is opened"
        )
        yield (
            f"Noise: {drawn(self.mechanism, self.scale)}, as loud as a standard deviation of {self.sigma:.2f}, however "
            "many votes a ballot has"
        )
        yield (
            f"Odds of a good choice, with {self.agreement.good} good of {self.candidates} candidates and voters' "
            f"losses of standard deviation {self.agreement.overlap:g} (good 0, bad 1):\n"
            f"  winner {self.success:.3f}   guessing {self.guess:.3f}"
        )
        yield f"Votes per ballot; the best is k = {self.best_k}:"
        for odds in self.by_k:
            yield f"  k = {odds.k:<4} odds {odds.success:.3f}"
        yield "What else you could do:"
        for odds in self.instead:
            yield f"  {odds.what:38} noise {odds.sigma:8.2f}   odds {odds.success:.3f}"
        yield f"Traffic of a client: {self.messages:.1f} messages, about {self.bytes:,} bytes, both ways together"


def expect_winner(prospect: Prospect, vote: Vote) -> Plan:
    """What `plan` says about such a vote; of grades and approvals, which have no such model, noise and cost.

    Args:
        prospect: the run.
        vote: settled.
    """
    if vote.ballot != "top" or vote.k is None:
        return prospect.costs()
    agreement, size = agreement_of(prospect), len(prospect.candidates)
    odds, guess = _Winners(prospect, vote, agreement), agreement.good / size
    with prospect.observer.phase("simulated votes", 2) as advance:
        by_k = odds.of("", prospect, vote, sorted({k for k in KS if k < size} | {vote.k}))
        advance(1)
        instead = list(odds.instead())
        advance(1)
    here = next(one for one in by_k if one.k == vote.k)
    messages, sent = traffic_of(prospect, vote.query(prospect.candidates, 0), vote.voters)
    return WinnerPlan(
        verdict(here.success, guess),
        **prospect.common(),
        voters=vote.voters,
        k=vote.k,
        mechanism=odds.mechanism,
        scale=prospect.noise.scale,
        sigma=here.sigma,
        agreement=agreement,
        guess=guess,
        success=here.success,
        by_k=tuple(by_k),
        best_k=best(by_k).k,
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
        self.mechanism = prospect.seal.mechanisms[0]
        self._counted: dict[tuple[int, int], IntArray] = {}

    def of(self, what: str, prospect: Prospect, vote: Vote, ks: Sequence[int]) -> list[Odds]:
        """For each k, in some case; ballots that are all the same need no noise, and others the same whatever k is."""
        size, good = len(prospect.candidates), self._agreement.good
        votes = self._votes(prospect.clients * vote.voters, ks)
        rng = np.random.default_rng([prospect.seed, 2])
        noise, drawn, found = prospect.noise, None, []
        for k in ks:
            quiet = Noise(0.0, noise.at, noise.nodes) if k == size else noise
            if drawn is None or quiet is not noise:
                drawn = self._drawn(quiet, votes[k].shape, rng)
            sigma = deviation_of(self.mechanism, quiet)
            ahead = float(votes[k][:, :good].mean() - votes[k][:, good:].mean()) if good < size else 0.0
            chance = _wins(votes[k], good, drawn, rng)
            found.append(Odds(what or f"k = {k}", k, sigma, chance, ahead / sigma if sigma else 0.0))
        return found

    def instead(self) -> Iterator[Odds]:
        """What else one could do: more clients, a larger epsilon, another unit, the sum."""
        prospect, vote = self._prospect, self._vote
        assert vote.k is not None
        for what, clients, voters, privacy in others(prospect, vote.voters):
            if (clients * voters, privacy) == (prospect.clients * vote.voters, prospect.privacy):
                continue
            other = replace(vote, voters=voters)
            with suppress(SettingError):  # an alternative that is not possible is not one
                changed = prospect.changed(clients=clients, privacy=privacy, method=other)
                yield from self.of(what, changed, other, [vote.k])
        if prospect.privacy.delta:  # no sum is private without
            with suppress(SettingError):
                yield self._sum()

    def _sum(self) -> Odds:
        """The noisy sum opened, with as many votes as such a ballot has, and its largest entry taken."""
        prospect = self._prospect.changed(method=replace(self._vote, k=None, opens="sum"))
        assert isinstance(prospect.study.method, type(self._vote))
        k, clients, good = prospect.study.method.k or 1, prospect.clients, self._agreement.good
        votes = self._votes(clients * self._vote.voters, [k])[k]
        variance = prospect.noise.opened_variance(prospect.seal.honest(clients), clients)
        return Odds(f"opens=sum, k = {k}", k, variance**0.5, success(votes, good, variance), 0.0)

    def _votes(self, voters: int, ks: Sequence[int]) -> dict[int, IntArray]:
        """Noise-free counts, the same ones wherever only the noise differs."""
        missing = [k for k in ks if (voters, k) not in self._counted]
        if missing:
            rng = np.random.default_rng([self._prospect.seed, 0])
            size, repetitions = len(self._prospect.candidates), self._prospect.repetitions
            found = counts(voters, size, missing, self._agreement, repetitions, rng, LOSSES)
            self._counted |= {(voters, k): votes for k, votes in found.items()}
        return {k: self._counted[voters, k] for k in ks}

    def _drawn(self, noise: Noise, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        """Noise for every simulated vote, several times, shape (draws, repetitions, candidates)."""
        draws = max(1, min(_DRAWS, _MOST_DRAWN // (shape[0] * shape[1])))
        return drawn_noise(self.mechanism, noise, (draws, *shape), rng)


def _wins(votes: IntArray, good: int, noise: FloatArray, rng: np.random.Generator) -> float:
    """How often a good candidate, which come first, has the largest noisy count; of equals each as often."""
    noisy = votes + noise
    noisy += rng.random(noisy.shape) * 1e-3  # no candidate is favoured by its place
    return float((noisy.argmax(axis=-1) < good).mean())
