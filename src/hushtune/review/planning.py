"""`plan`: whether a run can work, before anything is spent. Touches no data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from hushtune.core.checks import integer, kind
from hushtune.core.errors import LedgerError
from hushtune.core.observer import Bars, Observer
from hushtune.core.space import Candidates, Domain, Float, Space
from hushtune.methods.base import Method
from hushtune.methods.plan import RUN, Books, Plan, Prospect
from hushtune.methods.prior import Prior
from hushtune.methods.study import Study
from hushtune.methods.vote.method import Vote
from hushtune.privacy.accounting import rule_to_json
from hushtune.privacy.calibration import left_in, rule_of
from hushtune.privacy.charges import charge_of
from hushtune.privacy.events.sums import Event
from hushtune.privacy.guarantee import Privacy
from hushtune.privacy.ledger import Ledger
from hushtune.seals.base import Seal
from hushtune.seals.curator import Curator
from hushtune.seals.registry import default_seal


def plan(
    clients: int,
    candidates: Domain | int,
    *,
    privacy: Privacy,
    method: Method | None = None,
    seal: Seal | None = None,
    pinned: bool = True,
    ledger: Ledger | None = None,
    assume: Mapping[str, float] | None = None,
    repetitions: int = 100,
    seed: int = 0,
    observer: Observer = Bars(),
) -> Plan:
    """Says beforehand whether a run can work, and what it costs: noise, odds, charge, ledger.

    Touches no data and spends nothing: noise follows from public numbers, and odds are simulated under a stated model
    of how far clients agree. For a vote that is DP-HYPE's (section V-B), whose Theorem V.1 is the bound beside them.
    Any method can be planned; one that simulates nothing gets noise and cost.

    Args:
        clients: how many will be asked.
        candidates: the public list, or how many there will be (then taken to have two knobs).
        privacy: the guarantee wanted.
        method: what would be run. Default: `Vote()`. All odds of a vote are those of the form that would really run:
            what is opened, what ballots say, how a sum is decoded, and what its prior adds.
        seal: how contributions stay hidden. Default: `Masked()`; `Curator()` for a method that asks about hidden sums.
        pinned: whether identities will be pinned.
        ledger: the ledger that would be charged; it is read only.
        assume: what is assumed about clients. For `Vote`: `good`, how many candidates are good (one in 20, unless
            given), and `overlap`, the standard deviation of a voter's loss, where good ones have mean 0 and bad ones 1
            (.5). For `Thompson`: `agreement`, how long the mean of the agents' vectors is, where one may be 1 (.6). For
            `ProposeTest` and `NoisyMax`: `spread`, how far apart the candidates' mean scores are (.5).
        repetitions: simulated votes, or runs.
        seed: of the simulation.
        observer: who watches; `Silent()` for no bar.
    """
    integer("clients", clients, 1, 10_000_000)
    integer("repetitions", repetitions, 10, 1_000_000)
    kind("privacy", privacy, Privacy, optional=False)
    kind("method", method, Method)
    kind("ledger", ledger, Ledger)
    kind("assume", assume, Mapping)
    kind("observer", observer, Observer, optional=False)
    method = method if method is not None else Vote()
    if not isinstance(candidates, Candidates | Space):
        candidates = _stand_in(integer("candidates", candidates, 2, 10_000))
    study = Study(candidates, method, privacy, seal or (Curator() if method.consults else default_seal()))
    settled = study.settled(clients)
    settled.facts.seal.check(clients)
    settled.facts.seal.check_bounds(settled.bounds, clients * settled.method.voters_each)
    if (left := left_in(ledger)) is not None:
        settled = settled.within(left)
    allowed = settled.facts.privacy
    assert allowed is not None
    books = _books(ledger, allowed)
    prospect = Prospect(settled, rule_of(ledger, allowed), books, assume or {}, pinned, repetitions, seed, observer)
    return settled.method.plan(prospect)


def believed(voters: float) -> Prior:
    """A prior of so many voters about candidates of which only the number is known: a belief in one of them.

    Args:
        voters: how many it counts as.
    """
    return Prior.near({"x": 0.5, "y": 0.5}, voters, source="a prior that is planned")


def _stand_in(size: int) -> Candidates:
    """So many candidates with two knobs, spread evenly: what smooth decoding is tried on."""
    golden = (math.sqrt(5) - 1) / 2
    space = Space(x=Float(0.0, 1.0), y=Float(0.0, 1.0))
    return space.candidates({"x": (at + 0.5) / size, "y": at * golden % 1} for at in range(size))


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
