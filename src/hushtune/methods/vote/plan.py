"""Whether a vote can work: the odds of a good choice, simulated, before any data is touched.

All odds are those of the form that would run: of what is opened, what ballots say, and how a sum is decoded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hushtune.client.query import Query
from hushtune.client.request import Request
from hushtune.core.errors import SettingError
from hushtune.core.words import as_set, counted
from hushtune.methods.plan import RUN, Plan, Prospect
from hushtune.methods.vote.advice import LIKELY, advice, told
from hushtune.methods.vote.odds import Agreement, bound, loudest
from hushtune.methods.vote.simulation import Case, Odds, Simulation, own_size
from hushtune.methods.vote.words import form_of, noise_of, prior_of, records_of
from hushtune.privacy.accounting import Unit
from hushtune.privacy.guarantee import Privacy
from hushtune.seals.base import largest_sum

if TYPE_CHECKING:
    from hushtune.methods.vote.method import Vote

KS = (1, 2, 3, 5, 8, 12, 20, 35, 60, 100)
WIDTHS = (0.1, 0.25, 0.5, 1.0)
_MAYBE, _HOPELESS = 0.6, 0.3
_COSTS = 0.2  # odds that a prior which knows nothing takes away
_CLEAR = 0.02  # odds that differ by less are alike


@dataclass(frozen=True)
class Believed:
    """The odds with a public prior, by where it ranks the good candidates, and without it.

    Args:
        first: if it ranks them before all others.
        last: if it ranks them behind all others.
        without: if there is no prior.
    """

    first: float
    last: float
    without: float


@dataclass(frozen=True)
class VotePlan(Plan):
    """What to expect of a vote.

    Args:
        form: what would run, in words: what is opened, what a ballot says, and how a sum is decoded.
        advice: which forms of a vote fit at these public facts, in a sentence.
        voters: ballots per client.
        k: votes per ballot; None: ballots say how good each candidate is.
        scale: of the noise as it is drawn.
        sigma: standard deviation of the noise: that of the fewest honest clients on a sum, in votes or steps of scores;
            all of it on a winner's totals, in votes or best grades.
        noise: standard deviation of the noise in each total if everybody answers.
        loudest: the largest noise to be expected among the candidates of a sum; None, where only the winner is opened.
        agreement: the model that the odds are computed in.
        guess: the chance of a good choice by guessing.
        bound: Theorem V.1's lower bound on the chance of a good choice, averaged over simulated votes; None, unless the
            largest entry of a sum of votes is taken.
        success: the chance of a good choice, averaged over simulated votes. With a prior: one that knows nothing.
        by_size: the odds for other k, or for other widths of grades; none, if ballots have neither.
        best_k: the k with the best odds among them; None, if ballots have no k.
        better: the best of them, if it is clearly better than what would run.
        instead: the odds in other cases.
        believed: the odds with a prior that knows something; None without one.
        messages: sent and received by an average client.
        bytes: sent and received by an average client.
    """

    form: str
    advice: str
    voters: int
    k: int | None
    scale: float
    sigma: float
    noise: float
    loudest: float | None
    agreement: Agreement
    guess: float
    bound: float | None
    success: float
    by_size: tuple[Odds, ...]
    best_k: int | None
    better: Odds | None
    instead: tuple[Odds, ...]
    believed: Believed | None
    messages: float
    bytes: int

    def head(self) -> Iterator[str]:
        """The odds, and which form fits."""
        yield from super().head()
        yield self.advice

    @property
    def aside(self) -> str:
        """Nothing is left out: a prior is simulated."""
        return ""

    def lines(self) -> Iterator[str]:
        """The form, its noise and its odds, other k, what else one could do, traffic."""
        vote: Any = self.method
        yield f"Form: {self.form}"
        each = f", each with {self.voters} voters" if self.voters > 1 else ""
        yield self.terms(f"{counted(self.clients, 'client')}{each}, {self.candidates} candidates")
        yield noise_of(vote, self.seal, self.scale, self.sigma, self.noise, self.loudest)
        least = "" if self.bound is None else f"   at least (Theorem V.1) {self.bound:.3f}"
        yield (
            f"Odds of a good choice, with {self.agreement.good} good of {self.candidates} candidates and voters' "
            f"losses of standard deviation {self.agreement.overlap:g} (good 0, bad 1):\n"
            f"  this form {self.success:.3f}   guessing {self.guess:.3f}{least}"
        )
        if self.believed is not None:
            yield prior_of(vote, self.clients * self.voters, self.believed)
        if self.privacy.unit == "record":
            yield records_of(vote)
        if self.by_size:
            yield self._sizes()
            for odds in self.by_size:
                yield f"  {odds.what:12} noise {odds.sigma:8.2f}   odds {odds.success:.3f}"
        yield "What else you could do:"
        for odds in self.instead:
            yield f"  {odds.what:42} noise {odds.sigma:8.2f}   odds {odds.success:.3f}"
        yield f"Traffic of a client: {self.messages:.1f} messages, about {self.bytes:,} bytes, both ways together"

    def _sizes(self) -> str:
        """What the odds of other k, or of other widths, say of the one in use."""
        vote: Any = self.method
        name, own = ("k", f"{vote.k}") if vote.k is not None else ("width", f"{vote.width:g}")
        if self.better is None:
            return f"Other {name}, in the same form; {name} = {own} is as good as any, as far as simulated votes tell:"
        return (
            f"Other {name}, in the same form; here {self.better.what} does better than {name} = {own}, with odds of "
            f"{self.better.success:.3f} (in this model; defaults are chosen on real data, with candidates between good "
            "and bad):"
        )


def expect(prospect: Prospect, vote: Vote) -> Plan:
    """What `plan` says about a vote; of approvals, whose tolerance has the unit of losses, noise and cost.

    Args:
        prospect: the run.
        vote: settled.
    """
    if vote.ballot == "approval":
        return prospect.costs()
    agreement, size = agreement_of(prospect), len(prospect.candidates)
    simulation, guess, own = Simulation(prospect, agreement), agreement.good / size, own_size(vote)
    with prospect.observer.phase("simulated votes", 3) as advance:
        by_size = simulation.cases(prospect, _sizes(vote, size))
        (here, each) = by_size[_sizes(vote, size).index(own)]
        advance(1)
        instead = list(_instead(simulation, prospect))
        believed = _believed(simulation, prospect) if vote.prior is not None else None
        advance(1)
        words = advice(simulation, prospect, here.success)
        advance(1)
    messages, sent = traffic_of(prospect, vote.query(prospect.candidates, 0), vote.voters_each)
    variance = prospect.noise.opened_variance(prospect.seal.honest(prospect.clients), prospect.clients)
    summed, shown = vote.opens == "sum", () if vote.k is None and vote.width is None else [odds for odds, _ in by_size]
    return VotePlan(
        verdict(here.success, guess, believed),
        **prospect.common(),
        form=form_of(vote, size),
        advice=words,
        voters=vote.voters_each,
        k=vote.k,
        scale=prospect.noise.scale,
        sigma=here.sigma,
        noise=variance**0.5 if summed else here.sigma,
        loudest=loudest(variance, size) if summed else None,
        agreement=agreement,
        guess=guess,
        bound=_bound(simulation, vote, prospect.clients, variance),
        success=here.success,
        by_size=tuple(shown),
        best_k=best([odds for odds, _ in by_size]).k,
        better=_better(by_size, here, each),
        instead=tuple(instead),
        believed=believed,
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


def best(found: Sequence[Odds]) -> Odds:
    """The best odds; where the simulation cannot tell them apart, the largest margin.

    Args:
        found: at least one case.
    """
    return max(found, key=lambda odds: (round(odds.success, 2), odds.margin))


def verdict(chance: float, guess: float, believed: Believed | None = None) -> str:
    """The odds in a sentence.

    Args:
        chance: of a good choice.
        guess: the same by guessing.
        believed: the odds with and without a prior.
    """
    drowned, lacking = "The noise drowns the votes; see what would help.", "See what would help."
    if believed is not None and believed.without - chance > _COSTS:
        drowned = lacking = (
            f"That is the prior, if it knows nothing: without it the chance is {told(believed.without)}. Give it "
            "fewer voters."
        )
    against = f"a good choice has a chance of {told(chance)}; guessing has {guess:.0%}"
    if chance >= LIKELY:
        return f"Likely to work: {against}."
    if chance >= _MAYBE:
        return f"May work: {against}."
    if chance <= max(_HOPELESS, guess + 0.1):
        return f"HOPELESS: {against}. {drowned}"
    return f"Unlikely to work: {against}. {lacking}"


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


def _sizes(vote: Vote, candidates: int) -> list[float]:
    """Each k, or each width of grades, that is looked at; the vote's own among them."""
    known: Sequence[float] = () if vote.width is None else WIDTHS
    if vote.k is not None:
        known = [k for k in KS if k < candidates]
    return sorted({*known, own_size(vote)})


def _bound(simulation: Simulation, vote: Vote, clients: int, variance: float) -> float | None:
    """Theorem V.1's, which is about the largest entry of a noisy sum of votes, with nothing added to it."""
    if (vote.opens, vote.ballot, vote.decode, vote.prior) != ("sum", "top", "argmax", None):
        return None
    (votes,) = simulation.cast(clients * vote.voters_each, vote, [own_size(vote)])
    return bound(votes, simulation.agreement.good, variance)


def _better(found: Sequence[Case], here: Odds, each: Any) -> Odds | None:
    """The case with the best odds, if they are better than here by more than the simulation's own error."""
    odds, other = max(found, key=lambda case: case[0].success)
    error = float(np.std(other - each)) / len(each) ** 0.5
    return odds if odds.success - here.success > max(_CLEAR, 3 * error) else None


def _believed(simulation: Simulation, prospect: Prospect) -> Believed:
    """The odds if a prior is right, if it is wrong, and without it."""
    given: Any = prospect.study.given
    bare = prospect.changed(method=replace(given, prior=None))
    return Believed(
        simulation.believing("first").cases(prospect)[0][0].success,
        simulation.believing("last").cases(prospect)[0][0].success,
        simulation.cases(bare)[0][0].success,
    )


def _instead(simulation: Simulation, prospect: Prospect) -> Iterator[Odds]:
    """What else one could do, each as it would run: with the method's own defaults at the other facts."""
    vote: Any = prospect.study.method
    for what, changes in _others(prospect):
        with suppress(SettingError):  # what is not possible is no alternative
            other = prospect.changed(**changes)
            settled: Any = other.study.method
            each = f", {counted(settled.voters_each, 'voter')} per client" if "unit" in what else ""
            own = f", k = {settled.k}" if settled.k not in (None, vote.k) else ""
            yield simulation.cases(other, what=what + each + own)[0][0]


def _others(prospect: Prospect) -> Iterator[tuple[str, dict[str, Any]]]:
    """What could be changed: its name, and how."""
    clients, privacy, vote = prospect.clients, prospect.privacy, prospect.study.method
    given: Any = prospect.study.given
    for times in (2, 5):
        yield f"{times * clients} clients", {"clients": times * clients}
    if (doubled := prospect.doubled()) is not None:
        yield f"epsilon {as_set(doubled.epsilon)}", {"privacy": doubled}
    unit: Unit = "record" if privacy.unit == "client" else "client"
    other = replace(privacy, unit=unit, neighbours="replace-one")
    yield f"unit '{unit}'", {"privacy": other, "method": replace(given, voters=None)}
    yield from _forms(vote, given, privacy)


def _forms(vote: Any, given: Any, privacy: Privacy) -> Iterator[tuple[str, dict[str, Any]]]:
    """Other forms under the same seal."""
    if vote.opens == "winner":
        ballot = "soft" if vote.ballot == "top" else "top"
        yield f"ballot={ballot}", {"method": replace(given, ballot=ballot, k=None, width=None, grades=None)}
        if privacy.delta:  # no sum is private without
            plain = {"ballot": "top"} if given.prior is not None else {}  # scores in a sum take no prior
            other = replace(given, opens="sum", k=None, width=None, grades=None, **plain)
            yield "opens=sum", {"method": other}
        return
    decode = "smooth" if vote.decode == "argmax" else "argmax"
    yield f"decode={decode}", {"method": replace(given, decode=decode)}
    yield "opens=winner", {"method": replace(given, opens="winner", decode=None, k=None)}
