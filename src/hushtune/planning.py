"""`plan`: whether a run can work, before anything is spent. Touches no data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, overload

import numpy as np

from hushtune.bounds import KHot
from hushtune.calibration import calibrate, left_in, plan_of, rule_of
from hushtune.checks import integer, kind, number
from hushtune.choosing import SPREAD, Choice, ChoicePlan, expect_choice
from hushtune.errors import LedgerError, SettingError
from hushtune.method import Facts
from hushtune.methods.ballots import TopVotes
from hushtune.methods.decode import MOST_SMOOTHED
from hushtune.methods.propose import NoisyMax, ProposeTest
from hushtune.methods.thompson import Thompson
from hushtune.methods.vote import Vote
from hushtune.odds import Agreement, bound, counts, smooth_success, success
from hushtune.privacy.accounting import gaussian_start, rule_to_json
from hushtune.privacy.charges import charge_of
from hushtune.privacy.events import Event
from hushtune.privacy.guarantee import Privacy
from hushtune.privacy.ledger import Ledger
from hushtune.privacy.noise import Noise
from hushtune.privacy.request import Request
from hushtune.progress import Progress
from hushtune.seals.base import Seal, sum_bits
from hushtune.seals.curator import Curator
from hushtune.seals.masked import Masked
from hushtune.search import Search
from hushtune.sharing import AGREEMENT, Setting, SharingPlan, expect
from hushtune.space import Candidates, Float, Space

_RUN = "0" * 32
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


@overload
def plan(
    clients: int,
    candidates: Candidates | int,
    *,
    privacy: Privacy,
    method: Vote | None = None,
    voters: int = 1,
    seal: Seal | None = None,
    pinned: bool = True,
    ledger: Ledger | None = None,
    agreement: Agreement | None = None,
    repetitions: int = 1_000,
    seed: int = 0,
    quiet: bool = False,
) -> Plan: ...


@overload
def plan(
    clients: int,
    candidates: Candidates | int,
    *,
    privacy: Privacy,
    method: Thompson,
    voters: int = 1,
    seal: Seal | None = None,
    pinned: bool = True,
    ledger: Ledger | None = None,
    agreement: float | None = None,
    repetitions: int = 1_000,
    seed: int = 0,
    quiet: bool = False,
) -> SharingPlan: ...


@overload
def plan(
    clients: int,
    candidates: Candidates | int,
    *,
    privacy: Privacy,
    method: ProposeTest | NoisyMax,
    voters: int = 1,
    seal: Seal | None = None,
    pinned: bool = True,
    ledger: Ledger | None = None,
    agreement: float | None = None,
    repetitions: int = 1_000,
    seed: int = 0,
    quiet: bool = False,
) -> ChoicePlan: ...


def plan(
    clients: int,
    candidates: Candidates | int,
    *,
    privacy: Privacy,
    method: Vote | Thompson | ProposeTest | NoisyMax | None = None,
    voters: int = 1,
    seal: Seal | None = None,
    pinned: bool = True,
    ledger: Ledger | None = None,
    agreement: Agreement | float | None = None,
    repetitions: int = 1_000,
    seed: int = 0,
    quiet: bool = False,
) -> Plan | SharingPlan | ChoicePlan:
    """Says beforehand whether a vote, or a curator's tests, can work, or agents can hear each other; and what it costs.

    Touches no data and spends nothing: noise follows from public numbers, and odds are simulated under a stated model
    of how far voters agree (DP-HYPE, section V-B, whose Theorem V.1 is the bound beside them).

    Args:
        clients: how many will be asked.
        candidates: the public list, or how many there will be (then taken to have two knobs).
        privacy: the guarantee wanted.
        method: the vote. Default: `Vote()`. Both ways to decode are looked at, and other k. Or `Thompson(...)`,
            `ProposeTest(...)`, `NoisyMax(...)`.
        voters: ballots per client, if no method is given.
        seal: how contributions stay hidden. Default: `Masked()`; `Curator()` for methods that need it.
        pinned: whether identities will be pinned.
        ledger: the ledger that would be charged; it is read only.
        agreement: how far voters agree. Default: one candidate in 20 is good, and voters differ (overlap .5). For
            `Thompson` a number: how long the mean of the agents' vectors is, where one may be 1. Default: .6. For
            `ProposeTest` and `NoisyMax` a number: how far apart the candidates' mean scores are. Default: .5.
        repetitions: simulated votes.
        seed: of the simulation.
        quiet: no progress bar.
    """
    integer("clients", clients, 1 if isinstance(method, ProposeTest | NoisyMax) else 2, 10_000_000)
    integer("repetitions", repetitions, 10, 1_000_000)
    for name, value, wanted in (
        ("privacy", privacy, Privacy),
        ("seal", seal, Seal),
        ("ledger", ledger, Ledger),
    ):
        kind(name, value, wanted, optional=name != "privacy")
    kind("method", method, Vote, Thompson, ProposeTest, NoisyMax)
    if not isinstance(candidates, Candidates):
        candidates = _stand_in(integer("candidates", candidates, 2, 10_000))
    if isinstance(method, ProposeTest | NoisyMax):
        spread = number("agreement", SPREAD if agreement is None else agreement, 0, 0.95, "(]")
        rule = rule_of(ledger, privacy)
        choice = Choice(clients, candidates, method, privacy, seal or Curator(), rule, spread, repetitions, seed)
        return expect_choice(choice, lambda events: _books(ledger, events, privacy) if ledger is not None else None)
    size, seal = len(candidates), seal or Masked()
    if isinstance(method, Thompson):
        share = number("agreement", AGREEMENT if agreement is None else agreement, 0, 1, "(]")
        allowed: Privacy | None = privacy
        if (left := left_in(ledger)) is not None:
            method, allowed = method.shortened(Facts(candidates, clients, privacy, seal, Search()), left)
        assert allowed is not None
        setting = Setting(clients, candidates, method, allowed, seal, rule_of(ledger, allowed), share)
        return expect(setting, lambda events: _books(ledger, events, allowed) if ledger is not None else None)
    kind("agreement", agreement, Agreement)
    assert not isinstance(agreement, float)
    agreement = agreement or Agreement(max(1, size // 20))
    agreement.check(size)
    seal.check(clients)
    method = _planned(method, voters).settled(Facts(candidates, clients, privacy, seal, Search()))
    return _of_votes(clients, candidates, privacy, method, seal, pinned, ledger, agreement, repetitions, seed, quiet)


def _of_votes(
    clients: int,
    candidates: Candidates,
    privacy: Privacy,
    method: Vote,
    seal: Seal,
    pinned: bool,
    ledger: Ledger | None,
    agreement: Agreement,
    repetitions: int,
    seed: int,
    quiet: bool,
) -> Plan:
    """What `plan` says about a vote."""
    size = len(candidates)
    (ballot,) = method.bounds(candidates)  # refuses more votes than candidates
    assert isinstance(ballot, KHot)
    voters, k = method.voters, ballot.k
    if voters > 1 and privacy.unit == "client":
        raise SettingError(f"voters={voters} needs privacy with unit='record'")
    rule = rule_of(ledger, privacy)
    study = _Study(size, agreement, seal, repetitions, seed)
    ks = sorted({other for other in _KS if other < size} | {k})
    with Progress(quiet).phase("simulated votes", 6) as advance:
        noise = calibrate((KHot(k, size),), privacy, rule, seal.noise_at)
        study.scaled = noise.scale / study.scale(k, privacy) if noise.scale else 1.0
        by_k = study.odds("", clients, voters, ks, privacy)
        (here,) = study.odds("", clients, voters, [k], privacy, noise)
        advance(1)
        instead = []
        for what, count, parts, other in _instead(clients, voters, privacy):
            if count * parts != clients * voters or other != privacy:
                instead += study.odds(what, count, parts, [k], other)
            advance(1)
        variance = noise.opened_variance(seal.honest(clients), clients)
        rng = np.random.default_rng([seed, 1])
        smoothed = None
        if size <= MOST_SMOOTHED:
            times = max(10, min(_SMOOTHED, _SMOOTHED * 100**2 // size**2))
            votes = counts(clients * voters, size, [k], agreement, times, rng)[k]
            smoothed = smooth_success(votes, agreement.good, k * clients * voters, variance, candidates, rng)
        lower = bound(study.votes(clients * voters, [k])[k], agreement.good, variance)
        advance(1)
    query = TopVotes(k, candidates, 0)
    events = plan_of((query.bound,), privacy, noise)
    request = Request(_RUN, 0, _RUN * 2, query, None, seal, noise, privacy, voters, events).to_bytes()
    bits = sum_bits(clients, voters, query.bound, noise.share_variance(seal.honest(clients)))
    messages, sent = seal.traffic(clients, size, bits, len(request), pinned)
    spent = rule.spent([(events, privacy.delta)], privacy.delta)
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
        charge={"rule": rule_to_json(rule), **asdict(spent)},
        ledger=_books(ledger, events, privacy) if ledger is not None else None,
        verdict=_verdict(max(here.success, smoothed or 0.0), guess),
    )


def _planned(method: Vote | None, voters: int) -> Vote:
    if method is None:
        return Vote(voters=voters)
    if voters not in (1, method.voters):
        raise SettingError(f"voters are given twice: {voters}, and {method.voters} by the method")
    if method.ballot != "top":
        raise SettingError(f"the odds are known for ballot='top' only, but got ballot='{method.ballot}'")
    return method


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


def _instead(clients: int, voters: int, privacy: Privacy) -> list[tuple[str, int, int, Privacy]]:
    """What else one could do: name, clients, voters per client, guarantee."""
    found = [
        (f"{2 * clients} clients", 2 * clients, voters, privacy),
        (f"{5 * clients} clients", 5 * clients, voters, privacy),
    ]
    if 2 * privacy.epsilon <= 50:
        found.append(
            (f"epsilon {2 * privacy.epsilon:g}", clients, voters, replace(privacy, epsilon=2 * privacy.epsilon))
        )
    if privacy.unit == "client":
        record = replace(privacy, unit="record", neighbours="replace-one")
        found.append(("unit 'record', 50 voters per client", clients, 50, record))
    else:
        client = replace(privacy, unit="client", neighbours="replace-one")
        found.append(("unit 'client', 1 voter per client", clients, 1, client))
    return found


def _stand_in(size: int) -> Candidates:
    """So many candidates with two knobs: what smooth decoding is tried on."""
    return Space(x=Float(0.0, 1.0), y=Float(0.0, 1.0)).sample(size, seed=0)


def _loudest(variance: float, size: int) -> float:
    """The mean of the largest of `size` noise values: the sum over x >= 0 of P[max > x], less what is below 0."""
    if variance == 0:
        return 0.0
    from scipy.stats import skellam

    reach = int(12 * variance**0.5) + 12
    largest = skellam.cdf(np.arange(-reach, reach), variance / 2, variance / 2) ** size  # P[max <= x]
    return float(np.sum(1 - largest[reach:]) - np.sum(largest[:reach]))


def _books(ledger: Ledger, events: tuple[Event, ...], privacy: Privacy) -> dict[str, Any]:
    """The ledger before and after; nothing is written."""
    if not ledger.exists:
        return {"path": str(ledger.path), "exists": False, "limit": asdict(privacy.budget), "allowed": True}
    charge, after, reason = charge_of(_RUN, "run", events, privacy), None, None
    try:
        ledger.check(charge)
        after = ledger.spent(also=charge)
    except LedgerError as error:
        reason = str(error)
    budgets = {"limit": ledger.limit(), "spent": ledger.spent(), "left": ledger.left(), "after": after}
    return {
        "path": str(ledger.path),
        "exists": True,
        "rule": rule_to_json(ledger.terms().rule),
        **{name: asdict(budget) if budget is not None else None for name, budget in budgets.items()},
        "allowed": reason is None,
        "reason": reason,
    }


def _verdict(chance: float, guess: float) -> str:
    against = f"a good choice has a chance of {chance:.0%}; guessing has {guess:.0%}"
    if chance >= _LIKELY:
        return f"Likely to work: {against}."
    if chance >= _MAYBE:
        return f"May work: {against}."
    if chance <= max(_HOPELESS, guess + 0.1):
        return f"HOPELESS: {against}. The noise drowns the votes; see what would help."
    return f"Unlikely to work: {against}. See what would help."
