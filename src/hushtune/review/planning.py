"""`plan`: whether a run can work, before anything is spent. Touches no data."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Required, TypedDict, Unpack, overload

from hushtune.client.search.base import Search
from hushtune.core.checks import integer, kind, number
from hushtune.core.errors import LedgerError, SettingError
from hushtune.core.observer import Bars, Observer
from hushtune.core.space import Candidates, Float, Space
from hushtune.methods.base import Facts
from hushtune.methods.plan import RUN, Books
from hushtune.methods.propose_test.method import NoisyMax, ProposeTest
from hushtune.methods.propose_test.plan import SPREAD, Choice, ChoicePlan, expect_choice
from hushtune.methods.thompson.method import Thompson
from hushtune.methods.thompson.plan import AGREEMENT, Sharing, SharingPlan, expect_sharing
from hushtune.methods.vote.method import Vote
from hushtune.methods.vote.odds import Agreement
from hushtune.methods.vote.plan import Plan, Voting, expect_votes
from hushtune.privacy.accounting import rule_to_json
from hushtune.privacy.calibration import left_in, rule_of
from hushtune.privacy.charges import charge_of
from hushtune.privacy.events.sums import Event
from hushtune.privacy.guarantee import Privacy
from hushtune.privacy.ledger import Ledger
from hushtune.seals.base import Seal
from hushtune.seals.curator import Curator
from hushtune.seals.masked.seal import Masked

Size = Candidates | int
Planned = Vote | Thompson | ProposeTest | NoisyMax


class Asked(TypedDict, total=False):
    """What may be asked of every method."""

    privacy: Required[Privacy]
    voters: int
    seal: Seal | None
    pinned: bool
    ledger: Ledger | None
    repetitions: int
    seed: int
    observer: Observer


@overload
def plan(
    clients: int,
    candidates: Size,
    *,
    method: Vote | None = None,
    agreement: Agreement | None = None,
    **more: Unpack[Asked],
) -> Plan: ...


@overload
def plan(
    clients: int, candidates: Size, *, method: Thompson, agreement: float | None = None, **more: Unpack[Asked]
) -> SharingPlan: ...


@overload
def plan(
    clients: int,
    candidates: Size,
    *,
    method: ProposeTest | NoisyMax,
    agreement: float | None = None,
    **more: Unpack[Asked],
) -> ChoicePlan: ...


@overload
def plan(
    clients: int,
    candidates: Size,
    *,
    method: Planned | None,
    agreement: Agreement | float | None,
    **more: Unpack[Asked],
) -> Plan | SharingPlan | ChoicePlan: ...


def plan(
    clients: int,
    candidates: Size,
    *,
    privacy: Privacy,
    method: Planned | None = None,
    voters: int = 1,
    seal: Seal | None = None,
    pinned: bool = True,
    ledger: Ledger | None = None,
    agreement: Agreement | float | None = None,
    repetitions: int = 1_000,
    seed: int = 0,
    observer: Observer = Bars(),
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
        observer: who watches; `Silent()` for no bar.
    """
    integer("clients", clients, 1 if isinstance(method, ProposeTest | NoisyMax) else 2, 10_000_000)
    integer("repetitions", repetitions, 10, 1_000_000)
    for name, value, wanted in (
        ("privacy", privacy, Privacy),
        ("seal", seal, Seal),
        ("ledger", ledger, Ledger),
        ("observer", observer, Observer),
    ):
        kind(name, value, wanted, optional=name not in ("privacy", "observer"))
    kind("method", method, Vote, Thompson, ProposeTest, NoisyMax)
    if not isinstance(candidates, Candidates):
        candidates = _stand_in(integer("candidates", candidates, 2, 10_000))
    if isinstance(method, ProposeTest | NoisyMax):
        spread = number("agreement", SPREAD if agreement is None else agreement, 0, 0.95, "(]")
        rule = rule_of(ledger, privacy)
        choice = Choice(clients, candidates, method, privacy, seal or Curator(), rule, spread, repetitions, seed)
        return expect_choice(choice, _books(ledger, privacy))
    seal = seal or Masked()
    if isinstance(method, Thompson):
        share = number("agreement", AGREEMENT if agreement is None else agreement, 0, 1, "(]")
        allowed: Privacy | None = privacy
        if (left := left_in(ledger)) is not None:
            method, allowed = method.shortened(Facts(candidates, clients, privacy, seal, Search()), left)
        assert allowed is not None
        sharing = Sharing(clients, candidates, method, allowed, seal, rule_of(ledger, allowed), share)
        return expect_sharing(sharing, _books(ledger, allowed))
    kind("agreement", agreement, Agreement)
    assert not isinstance(agreement, float)
    agreement = agreement or Agreement(max(1, len(candidates) // 20))
    agreement.check(len(candidates))
    method, rule = _planned(method, voters), rule_of(ledger, privacy)
    voting = Voting(clients, candidates, method, privacy, seal, rule, agreement, pinned, repetitions, seed, observer)
    return expect_votes(voting, _books(ledger, privacy))


def _planned(method: Vote | None, voters: int) -> Vote:
    if method is None:
        return Vote(voters=voters)
    if voters not in (1, method.voters):
        raise SettingError(f"voters are given twice: {voters}, and {method.voters} by the method")
    if method.ballot != "top":
        raise SettingError(f"the odds are known for ballot='top' only, but got ballot='{method.ballot}'")
    return method


def _stand_in(size: int) -> Candidates:
    """So many candidates with two knobs: what smooth decoding is tried on."""
    return Space(x=Float(0.0, 1.0), y=Float(0.0, 1.0)).sample(size, seed=0)


def _books(ledger: Ledger | None, privacy: Privacy) -> Books:
    """Looks events up in the ledger, if there is one."""
    return lambda events: _before_and_after(ledger, events, privacy) if ledger is not None else None


def _before_and_after(ledger: Ledger, events: tuple[Event, ...], privacy: Privacy) -> dict[str, Any]:
    """The ledger before and after; nothing is written."""
    if not ledger.exists:
        return {"path": str(ledger.path), "exists": False, "limit": asdict(privacy.budget), "allowed": True}
    charge, after, reason = charge_of(RUN, "run", events, privacy), None, None
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
