"""THE way out of a client: answer, check against the bound, integer, noise share, seal.

Nothing else in hushtune sends anything computed from a client's data. `respond` is all that a federation calls.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from hushtune.client import Id, Party
from hushtune.errors import BudgetError, HushtuneError, LedgerError, RefusedError, WireError
from hushtune.privacy.accounting import Event, epsilon_of, event_from_json, event_to_json
from hushtune.privacy.guarantee import Privacy
from hushtune.privacy.ledger import Charge
from hushtune.privacy.noise import Noise
from hushtune.privacy.skellam import IntArray
from hushtune.query import Query, query_from_json, query_to_json
from hushtune.seals import seal_from_json
from hushtune.seals.base import Seal
from hushtune.wire import pack, unpack

_RUN = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class Roster:
    """The public, ordered list of all clients of a run. A client knows it before the run and holds on to it."""

    ids: tuple[Id, ...]

    def __post_init__(self) -> None:
        if not self.ids:
            raise WireError("a roster must name at least one client, but got none")
        if len(set(self.ids)) < len(self.ids):
            raise WireError("a roster must name each client once, but got a name twice")

    def __len__(self) -> int:
        return len(self.ids)

    def digest(self) -> str:
        """One text per roster."""
        return hashlib.sha256("\0".join(self.ids).encode()).hexdigest()


@dataclass(frozen=True)
class Request:
    """What the server asks of every client: the same bytes for all.

    Args:
        run: 32 hex digits, fresh for each run.
        step: which of the run's planned openings this is.
        plan: the events of all openings of the run, fixed before the first; empty without epsilon.
    """

    run: str
    step: int
    roster: str
    query: Query
    seal: Seal
    noise: Noise
    privacy: Privacy | None
    plan: tuple[Event, ...]

    def to_bytes(self) -> bytes:
        """The request on the wire."""
        return pack(
            {
                "kind": "request",
                "run": self.run,
                "step": self.step,
                "roster": self.roster,
                "query": query_to_json(self.query),
                "seal": self.seal.to_json(),
                "scale": self.noise.scale,
                "privacy": self.privacy.to_json() if self.privacy else None,
                "plan": [event_to_json(event) for event in self.plan],
            }
        )

    @classmethod
    @lru_cache(maxsize=4)  # in one process, all clients get the same bytes
    def from_bytes(cls, message: bytes) -> Request:
        """Parses and type-checks; whatever is not a request is a WireError or a SettingError."""
        header, parts = unpack(message)
        try:
            if header.pop("kind") != "request" or parts:
                raise WireError("a request was expected")
            privacy = header.pop("privacy")
            request = cls(
                run=_typed(header.pop("run"), str),
                step=_typed(header.pop("step"), int),
                roster=_typed(header.pop("roster"), str),
                query=query_from_json(header.pop("query")),
                seal=seal_from_json(header.pop("seal")),
                noise=Noise(_typed(header.pop("scale"), float, int)),
                privacy=Privacy(**privacy) if privacy is not None else None,
                plan=tuple(event_from_json(event) for event in header.pop("plan")),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise WireError(f"a request has a missing or wrong field ({error})") from None
        if header:
            raise WireError(f"a request has unknown fields {sorted(header)}")
        if not _RUN.fullmatch(request.run):
            raise WireError("a run id must be 32 hex digits")
        return request


def _typed(value: Any, *kinds: type) -> Any:
    if not isinstance(value, kinds) or isinstance(value, bool):
        raise TypeError(f"expected {kinds[0].__name__}")
    return value


def respond(message: bytes, party: Party, roster: Roster) -> bytes:
    """A client's reply to one message: its sealed contribution, or a refusal that depends on no data."""
    try:
        return release(Request.from_bytes(message), message, party, roster)
    except HushtuneError as error:
        return pack({"kind": "refused", "reason": str(error)})
    except Exception as error:
        party.log(f"could not answer: {type(error).__name__}: {error}")
        return pack({"kind": "refused", "reason": "internal error; see the client's own log"})


def release(request: Request, message: bytes, party: Party, roster: Roster) -> bytes:
    """One contribution, at most once for each (run, step)."""
    _check(request, party, roster)
    honest = request.seal.honest(len(roster))
    digest = hashlib.sha256(message).digest()
    if party.answers is not None and (earlier := party.answers.earlier(request.run, request.step, digest)):
        return earlier
    vector = contribution(request.query, party, private=request.privacy is not None)
    if party.answers is not None:
        party.answers.begin(request.run, request.step, digest)
    _reserve(request, party)
    share = request.noise.share(honest, len(vector), party.randomness)
    reply = request.seal.protect(vector + share)
    if party.answers is not None:
        party.answers.finish(request.run, request.step, reply)
    return reply


def contribution(query: Query, party: Party, private: bool) -> IntArray:
    """The client's vector within the bound.

    When epsilon is set, a failure is a release too: the client then contributes a vector that depends on no data,
    and the reason goes to its own log only.
    """
    try:
        return query.bound.check(query.answer(party))
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        if not private:
            raise RefusedError(f"objective failed: {reason}") from None
        party.log(f"contributed a data-independent vector to '{query.name}', because: {reason}")
        return query.bound.default(party.randomness)


def _check(request: Request, party: Party, roster: Roster) -> None:
    """Whether the client takes part at all. Looks at the request and at public facts, never at data."""
    if request.roster != roster.digest():
        raise RefusedError("the request's roster is not the one this client was given")
    party.policy.check(request.query.name, request.seal.name, len(roster), request.privacy)
    if request.privacy is None:
        if request.plan or request.noise.scale != 0:
            raise RefusedError("a request without epsilon must have no noise and no plan")
        return
    if request.privacy.unit != "client":
        raise RefusedError(f"unit must be 'client' for query '{request.query.name}'")
    _check_plan(request.plan, request, request.privacy)


def _check_plan(plan: Sequence[Event], request: Request, privacy: Privacy) -> None:
    """The client computes the cost itself: from the bound it enforces and the noise it will add."""
    event = request.query.bound.event(request.noise, privacy.neighbours)
    if not 0 <= request.step < len(plan) or plan[request.step] != event:
        raise RefusedError(f"step {request.step} is not what the run's plan announced")
    cost = epsilon_of(tuple(plan), privacy.delta)
    if cost > privacy.epsilon:
        raise RefusedError(
            f"the noise asked for costs epsilon {cost:.4g}, more than the stated {privacy.epsilon:g}"
        )


def _reserve(request: Request, party: Party) -> None:
    """Records the whole run's cost in the client's own ledger, on disk, before anything leaves."""
    ledger, privacy = party.ledger, request.privacy
    if ledger is None:
        return
    if privacy is None:
        if ledger.exists:
            raise RefusedError("ledger: it has a limit, and a run without epsilon would exceed any")
        return
    what = f"{request.query.name} version {request.query.version}"
    charge = Charge(request.run, what, request.plan, privacy.delta, privacy.unit, privacy.neighbours)
    try:
        ledger.ensure(privacy.epsilon, privacy.delta, privacy.unit, privacy.neighbours)
        ledger.reserve(charge)
    except LedgerError as error:
        party.log(f"refused a run: {error}")  # with the path, which is nobody else's business
        reason = "its limit would be exceeded" if isinstance(error, BudgetError) else "it cannot be used"
        raise RefusedError(f"ledger: {reason}; see the client's own log") from None
