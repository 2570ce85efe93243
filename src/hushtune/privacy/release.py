"""THE way out of a client: answer, check against the bound, integer, noise share, seal.

Nothing else in hushtune sends anything computed from a client's data. `respond` is all that a federation calls.
"""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from hushtune.client import Party
from hushtune.errors import (
    BudgetError,
    CacheError,
    LedgerError,
    MissingExtraError,
    NoLossError,
    RefusedError,
    SettingError,
    WireError,
    described,
)
from hushtune.forms import Form, form_from_json
from hushtune.privacy.accounting import epsilon_of
from hushtune.privacy.events import Event, event_from_json, event_to_json
from hushtune.privacy.guarantee import Privacy
from hushtune.privacy.ledger import Charge, charge_of
from hushtune.privacy.noise import Noise
from hushtune.privacy.skellam import IntArray
from hushtune.query import Query, in_blocks, query_from_json, query_to_json
from hushtune.roster import Roster
from hushtune.rows import Parts
from hushtune.seals import seal_from_json
from hushtune.seals.base import Seal, largest_sum, sum_bits
from hushtune.seals.clear import protect
from hushtune.seals.masked import Masked
from hushtune.seals.masked_client import MaskedClient
from hushtune.seals.threshold import Threshold
from hushtune.seals.threshold_client import Asked, ThresholdClient
from hushtune.seals.threshold_wire import BEGINS, KIND
from hushtune.wire import pack, unpack

_LONGEST_PLAN = 10_000
_MOST_RUNS = 16  # that a client has keys for at one time
_TERMS = "terms"  # the name under which a ledger keeps what a run's requests have in common
_OTHER_TERMS = "the request's seal, privacy, noise or plan is not what the run began with"
_RUN = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class Request:
    """What the server asks of every client: the same bytes for all.

    Args:
        run: 32 hex digits, fresh for each run.
        step: which of the run's planned openings this is.
        form: what of the sum will be opened, if the seal computes it first; None: the sum.
        voters: how many parts each client splits its rows into; each answers for itself, the client sends their sum.
        plan: the events of all openings of the run, fixed before the first; empty without epsilon.
    """

    run: str
    step: int
    roster: str
    query: Query
    form: Form | None
    seal: Seal
    noise: Noise
    privacy: Privacy | None
    voters: int
    plan: tuple[Event, ...]

    @property
    def parts(self) -> Parts:
        """How each client is split."""
        return parts_of(self.voters, self.privacy)

    def to_bytes(self) -> bytes:
        """The request on the wire."""
        return pack(
            {
                "kind": "request",
                "run": self.run,
                "step": self.step,
                "roster": self.roster,
                "query": query_to_json(self.query),
                "form": self.form.to_json() if self.form is not None else None,
                "seal": self.seal.to_json(),
                "scale": self.noise.scale,
                "privacy": self.privacy.to_json() if self.privacy else None,
                "voters": self.voters,
                "plan": [event_to_json(event) for event in self.plan],
            }
        )

    def terms(self) -> str:
        """One text for what stays the same in all requests of a run: seal, privacy, voters, noise and plan."""
        privacy = self.privacy.to_json() if self.privacy is not None else None
        plan = [event_to_json(event) for event in self.plan]
        content = json.dumps([self.seal.to_json(), privacy, self.voters, self.noise.scale, plan], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()

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
                form=form_from_json(header.pop("form")),
                seal=seal_from_json(header.pop("seal")),
                noise=Noise(_typed(header.pop("scale"), float, int)),
                privacy=Privacy(**privacy) if privacy is not None else None,
                voters=_typed(header.pop("voters"), int),
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


Prepare = Callable[[Request], None]
"""What a client does for a request it has accepted, before it answers: it fills its trials."""


def _nothing(request: Request) -> None:
    pass


def respond(message: bytes, party: Party, roster: Roster, prepare: Prepare = _nothing) -> bytes:
    """A client's reply to one message: its sealed contribution, or a refusal that depends on no data."""
    try:
        header, parts = unpack(message)
        if (sealed := _SEALED.get(str(header.get("kind")))) is not None:
            return sealed(header, parts, message, party, roster, prepare)
        return _clear(message, party, roster, prepare)
    except CacheError as error:
        party.log(f"could not answer: {described(error)}")
        return refused("internal error; see the client's own log")
    except (RefusedError, WireError, SettingError, MissingExtraError) as error:
        return refused(str(error))
    except LedgerError as error:
        party.log(f"refused a run: {error}")  # with the path, which is nobody else's business
        reason = "its limit would be exceeded" if isinstance(error, BudgetError) else "it cannot be used"
        return refused(f"ledger: {reason}; see the client's own log")
    except Exception as error:
        party.log(f"could not answer: {described(error)}")
        return refused("internal error; see the client's own log")


def refused(reason: str) -> bytes:
    """A refusal on the wire."""
    return pack({"kind": "refused", "reason": reason})


def _clear(message: bytes, party: Party, roster: Roster, prepare: Prepare) -> bytes:
    """Seal 'clear': the request is the whole conversation."""
    request = Request.from_bytes(message)
    if request.seal.name != "clear":
        raise RefusedError(f"a request under seal '{request.seal.name}' must come through that seal")
    digest = _digest(message, party)
    if (earlier := _earlier(party, request.run, _step(request), digest)) is not None:
        return earlier
    return _once(request, digest, party, roster, prepare, lambda vector: protect(vector()))


def _masked(
    header: dict[str, Any], parts: list[bytes], message: bytes, party: Party, roster: Roster, prepare: Prepare
) -> bytes:
    """Seal 'masked': several trips, of which one carries the input and two carry the request."""
    run, trip = str(header.get("run")), str(header.get("trip"))
    step, digest = f"{header.get('round')} {trip}", _digest(message, party)
    if (earlier := _earlier(party, run, step, digest)) is not None:
        return earlier
    if trip not in ("keys", "input"):
        session = _session(party, run, MaskedClient)
        return _keep(party, None, run, step, digest, lambda: session.step(message, _no_input))
    if not parts:
        raise WireError(f"trip '{trip}' must carry the request")
    request = Request.from_bytes(parts[-1])
    if request.run != run or not isinstance(request.seal, Masked):
        raise RefusedError("the request is not of this run and seal")
    if (earlier := _earlier(party, run, _step(request), digest)) is not None:  # keys for an old step are refused
        return earlier
    if trip == "keys":
        _accept(request, party, roster)
        prepare(request)
        if run not in party.sessions:
            setting = request.seal.setting(run, roster, request.terms())
            number = roster.ids.index(party.id)
            _forget_the_oldest(party)
            party.sessions[run] = MaskedClient(setting, number, party.randomness, party.client.identity)
    session = _session(party, run, MaskedClient)
    if session.setting.terms != request.terms():
        raise RefusedError(_OTHER_TERMS)
    if trip == "keys":
        return _keep(party, None, run, step, digest, lambda: session.step(message, _no_input))
    bits = sum_bits(len(roster), request.voters, request.query.bound, _share_variance(request, roster))
    return _once(
        request,
        digest,
        party,
        roster,
        prepare,
        lambda vector: session.step(message, lambda _: (vector(), bits)),
        place=step,
    )


def _threshold(
    header: dict[str, Any], parts: list[bytes], message: bytes, party: Party, roster: Roster, prepare: Prepare
) -> bytes:
    """Seal 'threshold': replies are kept where the secret is; the ledger has the digest of the one with the input."""
    run, trip = str(header.get("run")), str(header.get("trip"))
    if trip not in (*BEGINS, "input"):
        return _session(party, run, ThresholdClient).step(message, None)
    if not parts:
        raise WireError(f"trip '{trip}' must carry the request")
    request = Request.from_bytes(parts[-1])
    if request.run != run or not isinstance(request.seal, Threshold):
        raise RefusedError("the request is not of this run and seal")
    clients, variance = len(roster), _share_variance(request, roster)
    largest = largest_sum(clients, request.voters, request.query.bound, variance)
    if trip in BEGINS:
        _accept(request, party, roster)
        prepare(request)
        if run not in party.sessions:
            folder = party.folder / "mhe" / run if party.detached else None
            _forget_the_oldest(party)
            number = roster.ids.index(party.id)
            party.sessions[run] = ThresholdClient(run, number, clients, request.terms(), folder)
    session = _session(party, run, ThresholdClient)
    if session.terms != request.terms():
        raise RefusedError(_OTHER_TERMS)
    circuit = request.seal.circuit(request.form, clients, largest)
    asked = Asked(circuit, request.form, largest, request.seal.deviation(request.form, clients))
    if trip in BEGINS:
        return session.step(message, asked)
    digest = _digest(message, party)
    if _earlier(party, run, _step(request), digest) is not None:
        return session.step(message, asked)
    made: list[bytes] = []

    def seal(vector: Callable[[], IntArray]) -> bytes:
        made.append(session.step(message, asked, lambda: in_blocks(request.query, vector())))
        return hashlib.sha256(made[0]).digest()

    if _once(request, digest, party, roster, prepare, seal) != hashlib.sha256(made[0]).digest():
        raise RefusedError("another process of this client was faster")
    return made[0]


_SEALED = {"masked": _masked, KIND: _threshold}


def _digest(message: bytes, party: Party) -> bytes:
    """Stands for a message to this very client: two that share a ledger by mistake do not give each other's answers."""
    return hashlib.sha256(f"{party.id}\n".encode() + message).digest()


_Session = TypeVar("_Session")


def _session(party: Party, run: str, kind: type[_Session]) -> _Session:
    session = party.sessions.get(run)
    if not isinstance(session, kind):
        raise RefusedError("this client has no part in that run, or its state is lost")
    return session


def _forget_the_oldest(party: Party) -> None:
    """Keeps the secrets of a few runs only; a run that was forgotten is remembered as such, and refused."""
    known = [run for run, session in party.sessions.items() if session is not None]
    if len(known) >= _MOST_RUNS:
        party.sessions[known[0]] = None


def _no_input(request: bytes) -> tuple[IntArray, int]:
    raise RefusedError("no input is due in this trip")


def _keep(
    party: Party,
    charge: Charge | None,
    run: str,
    step: str,
    digest: bytes,
    make: Callable[[], bytes],
    also: Callable[[bytes], list[tuple[str, bytes, bytes]]] = lambda reply: [],
) -> bytes:
    """The reply, on record before it leaves; the same request gets the same bytes, in whatever process."""
    if party.ledger is None:
        return make()
    if not party.ledger.exists:
        party.ledger.ensure(None)
    reply = make()
    return party.ledger.commit(charge, run, step, digest, reply, also(reply))


def _earlier(party: Party, run: str, step: str, digest: bytes) -> bytes | None:
    """What this very message was answered with, in whatever process; another message for the same step is refused."""
    if party.ledger is None or not party.ledger.exists:
        return None
    return party.ledger.answered(run, step, digest)


def _step(request: Request) -> str:
    """Under which name a client's one answer to a step of the plan is kept, whatever the seal."""
    return f"step {request.step}"


def _share_variance(request: Request, roster: Roster) -> Fraction:
    return request.noise.share_variance(request.seal.honest(len(roster)))


def _once(
    request: Request,
    digest: bytes,
    party: Party,
    roster: Roster,
    prepare: Prepare,
    seal: Callable[[Callable[[], IntArray]], bytes],
    place: str = "",
) -> bytes:
    """One contribution, at most once for each step of a run's plan, charged to the client's ledger before it leaves.

    The step counts, not the seal's round, which the server chooses: a second round for the same step would be a second
    noisy opening of the same input. The seal's round (`place`) counts as well: its masks hide one input only. `seal` is
    given a function that computes the noisy vector; it calls it at most once.
    """
    charge = _accept(request, party, roster)
    if party.ledger is not None:
        party.ledger.ensure(request.privacy)
    prepare(request)
    honest, step = request.seal.honest(len(roster)), _step(request)

    def noisy() -> IntArray:
        vector = contribution(request.query, party, request.parts, private=request.privacy is not None)
        return vector + request.noise.share(honest, len(vector), party.randomness)

    def also(reply: bytes) -> list[tuple[str, bytes, bytes]]:
        terms = (_TERMS, bytes.fromhex(request.terms()), b"")
        return [terms, (place, digest, reply)] if place else [terms]

    return _keep(party, charge, request.run, step, digest, lambda: seal(noisy), also)


def parts_of(voters: int, privacy: Privacy | None) -> Parts:
    """How each client of a run is split: so that the guarantee's records touch one part each."""
    by_record = privacy is not None and privacy.unit == "record"
    return Parts(voters, privacy.neighbours if privacy is not None and by_record else "replace-one")


def contribution(query: Query, party: Party, parts: Parts, private: bool) -> IntArray:
    """The client's vector: the sum over its parts of one vector each, every one within the bound.

    A part without rows contributes a vector that depends on no data.
    """
    units = party.parts(parts)
    silent = [unit.silent and (private or unit.failure is None) for unit in units]
    vectors: list[IntArray] = [
        query.bound.default(unit.randomness) if alone else _answer(query, unit, private)
        for unit, alone in zip(units, silent, strict=True)
    ]
    total: IntArray = np.sum(vectors, axis=0, dtype=np.int64)
    return total


def _answer(query: Query, party: Party, private: bool) -> IntArray:
    """One unit's vector within the bound.

    When epsilon is set, a failure is a release too: the unit then contributes a vector that depends on no data. Either
    way, the reason goes to the client's own log only.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a warning may quote data
            return query.bound.check(query.answer(party))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        party.log(f"no answer to '{query.name}', because: {described(error)}")
        if not private:
            known = isinstance(error, NoLossError)
            raise RefusedError(str(error) if known else "objective failed; see the client's own log") from None
        return query.bound.default(party.randomness)


def _accept(request: Request, party: Party, roster: Roster) -> Charge:
    """What the run costs, if the client takes part and can afford it; it records nothing, and `commit` decides."""
    _check(request, party, roster)
    charge = charge_of(request.run, request.query.name, request.plan, request.privacy)
    if party.ledger is not None and party.ledger.exists:
        try:
            party.ledger.answered(request.run, _TERMS, bytes.fromhex(request.terms()))
        except RefusedError:
            raise RefusedError(_OTHER_TERMS) from None
        if party.ledger.limit() is not None:
            party.ledger.check(charge)
    return charge


def _check(request: Request, party: Party, roster: Roster) -> None:
    """Whether the client takes part at all. Looks at the request and at public facts, never at data."""
    if request.roster != roster.digest() or party.id not in roster.ids:
        raise RefusedError("the request's roster is not the one this client was given")
    if request.voters > 1 and party.client.trials is not None:
        raise RefusedError("a client that brings trials of all its rows does not split them")
    if request.privacy is None and request.voters > 1 and party.loaded():
        request.parts.check(party.data)  # with an epsilon, what cannot be split is a failure that nobody sees
    seal = request.seal
    insecure = isinstance(seal, Masked) and seal.neighbours is not None
    party.policy.check(request.query.name, seal.name, seal.corrupt, insecure, seal.honest(len(roster)), request.privacy)
    if request.form is not None:
        request.form.check(request.query)
        if request.privacy is not None or not seal.computes:
            raise RefusedError("a form of a sum is computed by a seal that can, and without epsilon only")
    search, domain = request.query.scored
    party.policy.check_work(search.work(request.voters, domain))
    if request.privacy is None:
        if request.plan or request.noise.scale != 0:
            raise RefusedError("a request without epsilon must have no noise and no plan")
        return
    if request.privacy.unit == "client" and request.voters != 1:
        raise RefusedError(f"a client has one voter if unit is 'client', but got voters={request.voters}")
    _check_plan(request, request.privacy)


def _check_plan(request: Request, privacy: Privacy) -> None:
    """The client computes the cost itself: from the bound it enforces and the noise it will add."""
    event = request.query.bound.event(request.noise, privacy.change)
    if not 0 <= request.step < len(request.plan) or request.plan[request.step] != event:
        raise RefusedError(f"step {request.step} is not what the run's plan announced")
    cost = epsilon_of(request.plan, privacy.delta)
    if cost > privacy.epsilon:
        raise RefusedError(f"the noise asked for costs epsilon {cost:.4g}, more than the stated {privacy.epsilon:g}")
