"""Whether a vote can work: the odds of a good choice, simulated, before any data is touched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hushtune.client.query import Query
from hushtune.client.request import Request
from hushtune.core.arrays import IntArray
from hushtune.core.words import as_set, counted
from hushtune.methods.decode import MOST_SMOOTHED
from hushtune.methods.plan import RUN, Plan, Prospect
from hushtune.methods.vote.ballots import TopVotes
from hushtune.methods.vote.odds import Agreement, bound, counts, loudest, smooth_success, success
from hushtune.privacy.accounting import gaussian_start
from hushtune.privacy.bounds import KHot
from hushtune.privacy.calibration import calibrate, events_of
from hushtune.privacy.guarantee import Privacy
from hushtune.privacy.noise.base import Noise
from hushtune.seals.base import largest_sum

LOSSES = 2_000_000  # drawn for one number of voters; beyond, sums of ballots are
_SMOOTHED = 40  # simulated votes for smooth decoding, which takes a fit each; fewer beyond 100 candidates
_ROUGH = 4.0  # standard deviation of noise that is nearly Gaussian
KS = (1, 2, 3, 5, 8, 12, 20, 35, 60, 100)
_LIKELY, _MAYBE, _HOPELESS = 0.9, 0.6, 0.3


@dataclass(frozen=True)
class Odds:
    """The odds in one case.

    Args:
        what: the case.
        k: votes per ballot; None: it has grades.
        sigma: standard deviation of the noise.
        success: the chance of a good choice, if the largest noisy count wins.
        margin: by how many standard deviations of the noise good candidates are ahead on average.
    """

    what: str
    k: int | None
    sigma: float
    success: float
    margin: float


@dataclass(frozen=True)
class VotePlan(Plan):
    """What to expect of a vote.

    Args:
        voters: ballots per client.
        k: votes per ballot.
        sigma: standard deviation of the noise that the fewest honest clients carry.
        noise: standard deviation of the noise in each opened count if everybody answers.
        loudest: the largest noise to be expected among the candidates.
        agreement: the model that the odds are computed in.
        guess: the chance of a good choice by guessing.
        bound: Theorem V.1's lower bound on the chance of a good choice, averaged over simulated votes.
        success: the chance of a good choice, decode="argmax", averaged over simulated votes.
        smooth: the same for decode="smooth", if good candidates lie together; None beyond 1,000 candidates.
        by_k: the odds for other k.
        best_k: the best of them with decode="argmax"; smoothing bears larger k.
        instead: the odds in other cases.
        messages: sent and received by an average client.
        bytes: sent and received by an average client.
    """

    voters: int
    k: int
    sigma: float
    noise: float
    loudest: float
    agreement: Agreement
    guess: float
    bound: float
    success: float
    smooth: float | None
    by_k: tuple[Odds, ...]
    best_k: int
    instead: tuple[Odds, ...]
    messages: float
    bytes: int

    def lines(self) -> Iterator[str]:
        """Noise, odds, other k, what else one could do, traffic."""
        each = f", each with {self.voters} voters" if self.voters > 1 else ""
        yield self.terms(
            f"{counted(self.clients, 'client')}{each}, {self.candidates} candidates, {self.k} votes per ballot"
        )
        yield (
            f"Noise: standard deviation {self.sigma:.2f} at least, {self.noise:.2f} if everybody answers; the "
            f"loudest among the candidates about {self.loudest:.0f}"
        )
        smooth = "not simulated" if self.smooth is None else f"{self.smooth:.2f}"
        yield (
            f"Odds of a good choice, with {self.agreement.good} good of {self.candidates} candidates and voters' "
            f"losses of standard deviation {self.agreement.overlap:g} (good 0, bad 1):\n"
            f"  decode=argmax {self.success:.3f}   decode=smooth {smooth}   guessing {self.guess:.3f}   "
            f"at least (Theorem V.1) {self.bound:.3f}"
        )
        yield f"Votes per ballot, decode=argmax; the best is k = {self.best_k}:"
        for odds in self.by_k:
            yield f"  k = {odds.k:<4} noise {odds.sigma:8.2f}   odds {odds.success:.3f}"
        yield "What else you could do:"
        for odds in self.instead:
            yield f"  {odds.what:38} noise {odds.sigma:8.2f}   odds {odds.success:.3f}"
        yield f"Traffic of a client: {self.messages:.1f} messages, about {self.bytes:,} bytes, both ways together"


def expect_votes(prospect: Prospect, voters: int) -> VotePlan:
    """What `plan` says about a vote of top ballots."""
    (ballot,), clients, size = prospect.study.bounds, prospect.clients, len(prospect.candidates)
    assert isinstance(ballot, KHot)
    agreement = agreement_of(prospect)
    study, noise, k = _Study(prospect, agreement), prospect.noise, ballot.k
    ks = sorted({other for other in KS if other < size} | {k})
    with prospect.observer.phase("simulated votes", 6) as advance:
        by_k = study.odds("", clients * voters, clients, ks, prospect.privacy)
        (here,) = study.odds("", clients * voters, clients, [k], prospect.privacy, noise)
        advance(1)
        instead = []
        for what, count, parts, privacy in others(prospect, voters):
            if count * parts != clients * voters or privacy != prospect.privacy:
                instead += study.odds(what, count * parts, count, [k], privacy)
            advance(1)
        variance = noise.opened_variance(prospect.seal.honest(clients), clients)
        smoothed = _smoothed(prospect, agreement, k, clients * voters, variance)
        lower = bound(study.votes(clients * voters, [k])[k], agreement.good, variance)
        advance(1)
    messages, sent = traffic_of(prospect, TopVotes(k, prospect.candidates, 0), voters)
    guess = agreement.good / size
    return VotePlan(
        verdict(max(here.success, smoothed or 0.0), guess),
        **prospect.common(),
        voters=voters,
        k=k,
        sigma=here.sigma,
        noise=variance**0.5,
        loudest=loudest(variance, size),
        agreement=agreement,
        guess=guess,
        bound=lower,
        success=here.success,
        smooth=smoothed,
        by_k=tuple(by_k),
        best_k=best(by_k).k or k,
        instead=tuple(instead),
        messages=messages,
        bytes=sent,
    )


def agreement_of(prospect: Prospect) -> Agreement:
    """How far voters are taken to agree: if nobody says, one candidate in 20 is good, and voters differ.

    Args:
        prospect: the run, with what the user assumes.
    """
    size = len(prospect.candidates)
    assumed: dict[str, Any] = prospect.assumed(good=max(1, size // 20), overlap=0.5)
    agreement = Agreement(**assumed)
    agreement.check(size)
    return agreement


def _smoothed(prospect: Prospect, agreement: Agreement, k: int, ballots: int, variance: float) -> float | None:
    """The simulated chance of a good choice with decode="smooth", if so many candidates can be smoothed."""
    size = len(prospect.candidates)
    if size > MOST_SMOOTHED:
        return None
    rng = np.random.default_rng([prospect.seed, 1])
    times = max(10, min(_SMOOTHED, prospect.repetitions, _SMOOTHED * 100**2 // size**2))
    votes = counts(ballots, size, [k], agreement, times, rng, LOSSES)[k]
    return smooth_success(votes, agreement.good, k * ballots, variance, prospect.candidates, rng)


def traffic_of(prospect: Prospect, query: Query, voters: int) -> tuple[float, int]:
    """Messages and bytes of an average client.

    Args:
        prospect: the run.
        query: what each voter is asked.
        voters: of each client.
    """
    clients, seal, noise, bound = prospect.clients, prospect.seal, prospect.noise, query.bound
    request = Request(RUN, 0, RUN * 2, query, None, seal, noise, prospect.privacy, voters, prospect.events).to_bytes()
    largest = largest_sum(clients, voters, bound, noise.share_variance(seal.honest(clients)))
    return seal.traffic(clients, bound, voters, largest, len(request), prospect.pinned)


class _Study:
    """Simulated votes: the same ones wherever only the noise differs.

    Noise is calibrated exactly for the case asked about. For the many others it is that of a Gaussian mechanism with
    the same divergence, which is cheap and within a few percent, `scaled` as the exact one is; but where little noise
    is enough, integers are far from Gaussian, and it is calibrated too.
    """

    def __init__(self, prospect: Prospect, agreement: Agreement) -> None:
        self._prospect, self._agreement, self._size = prospect, agreement, len(prospect.candidates)
        self._votes: dict[tuple[int, int], IntArray] = {}
        (ballot,) = prospect.study.bounds
        assert isinstance(ballot, KHot)
        self._scaled = 1.0
        if prospect.noise.scale:
            self._scaled = prospect.noise.scale / self._scale(ballot.k, prospect.privacy)

    def votes(self, voters: int, ks: Sequence[int]) -> dict[int, IntArray]:
        missing = [k for k in ks if (voters, k) not in self._votes]
        if missing:
            rng = np.random.default_rng([self._prospect.seed, 0])
            found = counts(voters, self._size, missing, self._agreement, self._prospect.repetitions, rng, LOSSES)
            self._votes |= {(voters, k): votes for k, votes in found.items()}
        return {k: self._votes[voters, k] for k in ks}

    def _scale(self, k: int, privacy: Privacy) -> float:
        if k == self._size:  # every ballot is the same
            return 0.0
        seal, ballot = self._prospect.seal, KHot(k, self._size)
        start = self._scaled * gaussian_start(
            lambda s: events_of((ballot,), privacy, seal.noise(s)), privacy.epsilon, privacy.delta
        )
        return start if start > _ROUGH else calibrate((ballot,), privacy, self._prospect.rule, seal.noise(0.0)).scale

    def odds(
        self, what: str, voters: int, clients: int, ks: Sequence[int], privacy: Privacy, exact: Noise | None = None
    ) -> list[Odds]:
        found, seal, good = [], self._prospect.seal, self._agreement.good
        for k, votes in self.votes(voters, ks).items():
            noise = exact or seal.noise(self._scale(k, privacy))
            variance = noise.opened_variance(seal.honest(clients), clients)
            margin = 0.0
            if variance and good < self._size:
                margin = float((votes[:, :good].mean() - votes[:, good:].mean()) / variance**0.5)
            found.append(Odds(what or f"k = {k}", k, noise.scale, success(votes, good, variance), margin))
        return found


def best(found: Sequence[Odds]) -> Odds:
    """The best odds; where the simulation cannot tell them apart, the largest margin.

    Args:
        found: at least one case.
    """
    return max(found, key=lambda odds: (round(odds.success, 2), odds.margin))


def others(prospect: Prospect, voters: int) -> list[tuple[str, int, int, Privacy]]:
    """What else one could do: name, clients, voters per client, guarantee.

    Args:
        prospect: the run.
        voters: of each client.
    """
    clients, privacy = prospect.clients, prospect.privacy
    found = [(f"{times * clients} clients", times * clients, voters, privacy) for times in (2, 5)]
    if (doubled := prospect.doubled()) is not None:
        found.append((f"epsilon {as_set(doubled.epsilon)}", clients, voters, doubled))
    if privacy.unit == "client":
        record = replace(privacy, unit="record", neighbours="replace-one")
        found.append(("unit 'record', 50 voters per client", clients, 50, record))
    else:
        client = replace(privacy, unit="client", neighbours="replace-one")
        found.append(("unit 'client', 1 voter per client", clients, 1, client))
    return found


def verdict(chance: float, guess: float) -> str:
    """The odds in a sentence.

    Args:
        chance: of a good choice.
        guess: the same by guessing.
    """
    told = "more than 99%" if chance > 0.99 else f"{chance:.0%}"  # a simulation cannot tell it from certainty
    against = f"a good choice has a chance of {told}; guessing has {guess:.0%}"
    if chance >= _LIKELY:
        return f"Likely to work: {against}."
    if chance >= _MAYBE:
        return f"May work: {against}."
    if chance <= max(_HOPELESS, guess + 0.1):
        return f"HOPELESS: {against}. The noise drowns the votes; see what would help."
    return f"Unlikely to work: {against}. See what would help."
