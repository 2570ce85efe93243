"""Whether a vote can work: the odds of a good choice, simulated, before any data is touched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from hushtune.client.request import Request
from hushtune.core.errors import SettingError
from hushtune.core.observer import Observer
from hushtune.methods.decode import MOST_SMOOTHED
from hushtune.methods.plan import RUN, Books, Setting
from hushtune.methods.vote.ballots import TopVotes
from hushtune.methods.vote.method import Vote
from hushtune.methods.vote.odds import Agreement, bound, counts, smooth_success, success
from hushtune.privacy.accounting import gaussian_start
from hushtune.privacy.bounds import KHot
from hushtune.privacy.calibration import calibrate, plan_of
from hushtune.privacy.events.sums import Event
from hushtune.privacy.guarantee import Privacy
from hushtune.privacy.noise.base import Noise
from hushtune.seals.base import Seal, largest_sum

_SMOOTHED = 60  # simulated votes for smooth decoding, which takes a fit each; fewer beyond 100 candidates
_KS = (1, 2, 3, 5, 8, 12, 20, 35, 60, 100)
_LIKELY, _MAYBE, _HOPELESS = 0.9, 0.6, 0.3


@dataclass(frozen=True)
class Odds:
    """The odds in one setting.

    Args:
        what: the setting.
        k: votes per ballot.
        sigma: standard deviation of the noise.
        success: the simulated chance of a good choice, decode="argmax".
        margin: by how many standard deviations of the noise good candidates are ahead on average.
    """

    what: str
    k: int
    sigma: float
    success: float
    margin: float


@dataclass(frozen=True)
class Plan:
    """What to expect of a run.

    Args:
        clients: asked.
        voters: ballots per client.
        candidates: to choose from.
        k: votes per ballot.
        privacy: the guarantee.
        seal: name and numbers.
        sigma: standard deviation of the noise that the fewest honest clients carry.
        noise: standard deviation of the noise in each opened count if everybody answers.
        loudest: the largest noise to be expected among the candidates.
        agreement: the model that the odds are computed in.
        guess: the chance of a good choice by guessing.
        bound: Theorem V.1's lower bound on the chance of a good choice, averaged over simulated votes.
        success: the simulated chance of a good choice, decode="argmax".
        smooth: the same for decode="smooth", if good candidates lie together; None beyond 1,000 candidates.
        by_k: the odds for other k.
        best_k: the best of them with decode="argmax"; smoothing bears larger k.
        instead: the odds in other settings.
        messages: sent and received by an average client.
        bytes: sent and received by an average client.
        charge: what the run alone costs, and the rule that it is stated under.
        ledger: the ledger before and after the run, under its own rule, if one was given.
        verdict: all this in a sentence.
    """

    clients: int
    voters: int
    candidates: int
    k: int
    privacy: Privacy
    seal: dict[str, Any]
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
    charge: dict[str, Any]
    ledger: dict[str, Any] | None
    verdict: str

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


@dataclass(frozen=True)
class Voting(Setting[Vote]):
    """A vote to look at: how far voters agree, and how it is simulated."""

    agreement: Agreement
    pinned: bool
    repetitions: int
    seed: int
    observer: Observer


def expect_votes(voting: Voting, books: Books) -> Plan:
    """What `plan` says about a vote; `books` looks the events up in a ledger."""
    voting.seal.check(voting.clients)
    clients, privacy, seal, agreement, size = (
        voting.clients,
        voting.privacy,
        voting.seal,
        voting.agreement,
        len(voting.candidates),
    )
    method = voting.settled()
    (ballot,) = method.bounds(voting.candidates)  # refuses more votes than candidates
    assert isinstance(ballot, KHot)
    voters, k = method.voters, ballot.k
    if voters > 1 and privacy.unit == "client":
        raise SettingError(f"voters={voters} needs privacy with unit='record'")
    study = _Study(size, agreement, seal, voting.repetitions, voting.seed)
    ks = sorted({other for other in _KS if other < size} | {k})
    with voting.observer.phase("simulated votes", 6) as advance:
        noise = calibrate((KHot(k, size),), privacy, voting.rule, seal.noise_at)
        study.scaled = noise.scale / study.scale(k, privacy) if noise.scale else 1.0
        by_k = study.odds("", clients, voters, ks, privacy)
        (here,) = study.odds("", clients, voters, [k], privacy, noise)
        advance(1)
        instead = []
        for what, count, parts, other in _instead(voting, voters):
            if count * parts != clients * voters or other != privacy:
                instead += study.odds(what, count, parts, [k], other)
            advance(1)
        variance = noise.opened_variance(seal.honest(clients), clients)
        smoothed = _smoothed(voting, k, clients * voters, variance)
        lower = bound(study.votes(clients * voters, [k])[k], agreement.good, variance)
        advance(1)
    events = plan_of((ballot,), privacy, noise)
    messages, sent = _traffic(voting, ballot, voters, noise, events)
    guess = agreement.good / size
    return Plan(
        clients=clients,
        voters=voters,
        candidates=size,
        k=k,
        privacy=privacy,
        seal=seal.to_json(),
        sigma=here.sigma,
        noise=variance**0.5,
        loudest=_loudest(variance, size),
        agreement=agreement,
        guess=guess,
        bound=lower,
        success=here.success,
        smooth=smoothed,
        by_k=tuple(by_k),
        best_k=_best(by_k).k,
        instead=tuple(instead),
        messages=messages,
        bytes=sent,
        charge=voting.charge(events),
        ledger=books(events),
        verdict=_verdict(max(here.success, smoothed or 0.0), guess),
    )


def _smoothed(voting: Voting, k: int, ballots: int, variance: float) -> float | None:
    """The simulated chance of a good choice with decode="smooth", if so many candidates can be smoothed."""
    size = len(voting.candidates)
    if size > MOST_SMOOTHED:
        return None
    rng = np.random.default_rng([voting.seed, 1])
    times = max(10, min(_SMOOTHED, voting.repetitions, _SMOOTHED * 100**2 // size**2))
    votes = counts(ballots, size, [k], voting.agreement, times, rng)[k]
    return smooth_success(votes, voting.agreement.good, k * ballots, variance, voting.candidates, rng)


def _traffic(voting: Voting, ballot: KHot, voters: int, noise: Noise, events: tuple[Event, ...]) -> tuple[float, int]:
    """Messages and bytes of an average client."""
    query = TopVotes(ballot.k, voting.candidates, 0)
    request = Request(RUN, 0, RUN * 2, query, None, voting.seal, noise, voting.privacy, voters, events).to_bytes()
    largest = largest_sum(voting.clients, voters, ballot, noise.share_variance(voting.seal.honest(voting.clients)))
    return voting.seal.traffic(voting.clients, len(voting.candidates), largest, len(request), voting.pinned)


class _Study:
    """Simulated votes: the same ones wherever only the noise differs.

    Noise is calibrated exactly for the setting asked about. For the many others it is that of a Gaussian mechanism with
    the same divergence, which is cheap and within a few percent, `scaled` as the exact one is.
    """

    def __init__(self, size: int, agreement: Agreement, seal: Seal, repetitions: int, seed: int) -> None:
        self._size, self._agreement, self._seal = size, agreement, seal
        self._repetitions, self._seed = repetitions, seed
        self._votes: dict[tuple[int, int], Any] = {}
        self.scaled = 1.0

    def votes(self, voters: int, ks: Sequence[int]) -> dict[int, Any]:
        missing = [k for k in ks if (voters, k) not in self._votes]
        if missing:
            rng = np.random.default_rng([self._seed, 0])
            found = counts(voters, self._size, missing, self._agreement, self._repetitions, rng)
            self._votes |= {(voters, k): votes for k, votes in found.items()}
        return {k: self._votes[voters, k] for k in ks}

    def scale(self, k: int, privacy: Privacy) -> float:
        bound = KHot(k, self._size)
        if k == self._size:  # every ballot is the same
            return 0.0
        return self.scaled * gaussian_start(
            lambda s: plan_of((bound,), privacy, self._seal.noise(s)), privacy.epsilon, privacy.delta
        )

    def odds(
        self, what: str, clients: int, voters: int, ks: Sequence[int], privacy: Privacy, exact: Noise | None = None
    ) -> list[Odds]:
        found = []
        rng = np.random.default_rng([self._seed, 2])
        for k, votes in self.votes(clients * voters, ks).items():
            noise = exact or self._seal.noise(self.scale(k, privacy))
            variance = noise.opened_variance(self._seal.honest(clients), clients)
            chance = success(votes, self._agreement.good, variance, rng)
            margin = 0.0
            if variance and self._agreement.good < self._size:
                ahead = votes[:, : self._agreement.good].mean() - votes[:, self._agreement.good :].mean()
                margin = float(ahead / variance**0.5)
            found.append(Odds(what or f"k = {k}", k, noise.scale, chance, margin))
        return found


def _best(found: Sequence[Odds]) -> Odds:
    """The best odds; where the simulation cannot tell them apart, the largest margin."""
    return max(found, key=lambda odds: (round(odds.success, 2), odds.margin))


def _instead(voting: Voting, voters: int) -> list[tuple[str, int, int, Privacy]]:
    """What else one could do: name, clients, voters per client, guarantee."""
    clients, privacy = voting.clients, voting.privacy
    found = [(f"{times * clients} clients", times * clients, voters, privacy) for times in (2, 5)]
    if (doubled := voting.doubled()) is not None:
        found.append((f"epsilon {doubled.epsilon:g}", clients, voters, doubled))
    if privacy.unit == "client":
        record = replace(privacy, unit="record", neighbours="replace-one")
        found.append(("unit 'record', 50 voters per client", clients, 50, record))
    else:
        client = replace(privacy, unit="client", neighbours="replace-one")
        found.append(("unit 'client', 1 voter per client", clients, 1, client))
    return found


def _loudest(variance: float, size: int) -> float:
    """The mean of the largest of `size` noise values: the sum over x >= 0 of P[max > x], less what is below 0."""
    if variance == 0:
        return 0.0
    from scipy.stats import skellam

    reach = int(12 * variance**0.5) + 12
    largest = skellam.cdf(np.arange(-reach, reach), variance / 2, variance / 2) ** size  # P[max <= x]
    return float(np.sum(1 - largest[reach:]) - np.sum(largest[:reach]))


def _verdict(chance: float, guess: float) -> str:
    told = "more than 99%" if chance > 0.99 else f"{chance:.0%}"  # a simulation cannot tell it from certainty
    against = f"a good choice has a chance of {told}; guessing has {guess:.0%}"
    if chance >= _LIKELY:
        return f"Likely to work: {against}."
    if chance >= _MAYBE:
        return f"May work: {against}."
    if chance <= max(_HOPELESS, guess + 0.1):
        return f"HOPELESS: {against}. The noise drowns the votes; see what would help."
    return f"Unlikely to work: {against}. See what would help."
