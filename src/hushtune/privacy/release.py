"""THE way out of a client: answer, check against the bound, integer, noise share, seal.

Nothing else in hushtune sends anything computed from a client's data. `respond` is all that a federation calls.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from hushtune.client import Id, Party
from hushtune.errors import BudgetError, LedgerError, RefusedError, SettingError, WireError
from hushtune.privacy.accounting import Event, epsilon_of, event_from_json, event_to_json
from hushtune.privacy.guarantee import Privacy
from hushtune.privacy.ledger import charge_of
from hushtune.privacy.noise import Noise
from hushtune.privacy.skellam import IntArray
from hushtune.query import Query, query_from_json, query_to_json
from hushtune.seals import seal_from_json
from hushtune.seals.base import Seal
from hushtune.wire import pack, unpack

_LONGEST_PLAN = 10_000
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
        if len(request.plan) > _LONGEST_PLAN:
            raise WireError(f"a plan must have at most {_LONGEST_PLAN} steps, but got {len(request.plan)}")
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
    except (RefusedError, WireError, SettingError) as error:
        return _refused(str(error))
    except LedgerError as error:
        party.log(f"refused a run: {error}")  # with the path, which is nobody else's business
        reason = "its limit would be exceeded" if isinstance(error, BudgetError) else "it cannot be used"
        return _refused(f"ledger: {reason}; see the client's own log")
    except Exception as error:
        party.log(f"could not answer: {type(error).__name__}: {error}")
        return _refused("internal error; see the client's own log")


def _refused(reason: str) -> bytes:
    return pack({"kind": "refused", "reason": reason})


def release(request: Request, message: bytes, party: Party, roster: Roster) -> bytes:
    """One contribution, at most once for each (run, step), charged to the client's own ledger before it leaves."""
    _check(request, party, roster)
    honest = request.seal.honest(len(roster))
    digest = hashlib.sha256(message).digest()
    charge = charge_of(request.run, request.query.name, request.plan, request.privacy)
    if party.ledger is not None:
        party.ledger.ensure(request.privacy)
        if (earlier := party.ledger.answered(request.run, request.step, digest)) is not None:
            return earlier
        party.ledger.check(charge)  # before the data is touched; `begin` decides
    vector = contribution(request.query, party, private=request.privacy is not None)
    if party.ledger is not None:
        party.ledger.begin(charge, request.step, digest)
    share = request.noise.share(honest, len(vector), party.randomness)
    reply = request.seal.protect(vector + share)
    if party.ledger is not None:
        party.ledger.finish(request.run, request.step, reply)
    return reply


def contribution(query: Query, party: Party, private: bool) -> IntArray:
    """The client's vector within the bound.

    When epsilon is set, a failure is a release too: the client then contributes a vector that depends on no data.
    Either way, the reason goes to the client's own log only.
    """
    try:
        return query.bound.check(query.answer(party))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        party.log(f"no answer to '{query.name}', because: {type(error).__name__}: {error}")
        if not private:
            raise RefusedError("objective failed; see the client's own log") from None
        return query.bound.default(party.randomness)


def _check(request: Request, party: Party, roster: Roster) -> None:
    """Whether the client takes part at all. Looks at the request and at public facts, never at data."""
    if request.roster != roster.digest() or party.id not in roster.ids:
        raise RefusedError("the request's roster is not the one this client was given")
    party.policy.check(request.query.name, request.seal.name, request.seal.corrupt, len(roster), request.privacy)
    if request.privacy is None:
        if request.plan or request.noise.scale != 0:
            raise RefusedError("a request without epsilon must have no noise and no plan")
        return
    if request.privacy.unit != "client":
        raise RefusedError(f"unit must be 'client' for query '{request.query.name}'")
    _check_plan(request, request.privacy)


def _check_plan(request: Request, privacy: Privacy) -> None:
    """The client computes the cost itself: from the bound it enforces and the noise it will add."""
    event = request.query.bound.event(request.noise, privacy.neighbours)
    if not 0 <= request.step < len(request.plan) or request.plan[request.step] != event:
        raise RefusedError(f"step {request.step} is not what the run's plan announced")
    cost = epsilon_of(request.plan, privacy.delta)
    if cost > privacy.epsilon:
        raise RefusedError(f"the noise asked for costs epsilon {cost:.4g}, more than the stated {privacy.epsilon:g}")
