"""THE way out of a client: answer, check against the bound, integer, noise share, seal.

Nothing else in hushtune sends anything computed from a client's data. `respond` is all that a federation calls.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable
from fractions import Fraction
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
from hushtune.privacy.accounting import epsilon_of
from hushtune.privacy.charges import Charge, charge_of
from hushtune.privacy.guarantee import Privacy
from hushtune.privacy.request import Request
from hushtune.privacy.skellam import IntArray
from hushtune.query import Query, in_blocks
from hushtune.randomness import Randomness, words
from hushtune.roster import Roster
from hushtune.rows import Parts
from hushtune.seals.base import Seal, largest_sum, sum_bits
from hushtune.seals.clear import Clear, protect
from hushtune.seals.masked import Masked
from hushtune.seals.masked_client import MaskedClient
from hushtune.seals.threshold import Threshold
from hushtune.seals.threshold_client import Asked, ThresholdClient
from hushtune.seals.threshold_wire import BEGINS, END, KIND
from hushtune.wire import pack, unpack

_MOST_RUNS = 16  # that a client has keys for at one time
_TERMS = "terms"  # the name under which a ledger keeps what a run's requests have in common
_ASKED = "asked"  # and, with a step, the one request that a client prepares for and answers in that step
_OTHER_TERMS = "the request's seal, privacy, noise or plan is not what the run began with"


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
    """Seals 'clear' and 'curator': the request is the whole conversation."""
    request = Request.from_bytes(message)
    if not isinstance(request.seal, Clear):
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
    request = _request_of(parts, trip, run, Masked)
    if (earlier := _earlier(party, run, _step(request), digest)) is not None:  # keys for an old step are refused
        return earlier
    if trip == "keys":
        _accept(request, party, roster)
        prepare(request)
        if run not in party.sessions:
            assert isinstance(request.seal, Masked)
            setting = request.seal.setting(run, roster, request.terms())
            number = roster.ids.index(party.id)
            _forget_the_oldest(party)
            party.sessions[run] = MaskedClient(setting, number, party.randomness, party.client.identity)
    session = _session(party, run, MaskedClient)
    if session.setting.terms != request.terms():
        raise RefusedError(_OTHER_TERMS)
    if trip == "keys":
        return _keep(
            party, None, run, step, digest, lambda: session.step(message, _no_input), lambda _: [_pin(request)]
        )
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
    """Seal 'threshold': several trips, of which one carries the input and two carry the request.

    Replies are megabytes and are kept where the secret is; the ledger has their digests, so that each is given once.
    """
    run, trip = str(header.get("run")), str(header.get("trip"))
    place, digest = f"{header.get('round')} {trip} {header.get('turn')}", _digest(message, party)
    made: list[bytes] = []

    def sent(reply: bytes) -> bytes:
        made.append(reply)
        return hashlib.sha256(reply).digest()

    def recorded(step: Callable[[], bytes], pins: list[tuple[str, bytes, bytes]]) -> bytes:
        return _keep(party, None, run, place, digest, lambda: sent(step()), lambda _: pins)

    _earlier(party, run, place, digest)  # another message for the same place is refused
    if trip == END:
        return _session(party, run, ThresholdClient).step(message, None)
    if trip not in (*BEGINS, "input"):
        session = _session(party, run, ThresholdClient)
        on_record = recorded(lambda: session.step(message, None), [])
    else:
        request = _request_of(parts, trip, run, Threshold)
        if trip in BEGINS:
            _accept(request, party, roster)
            prepare(request)
            if run not in party.sessions:
                _forget_the_oldest(party)
                folder = party.folder / "mhe" / run if party.detached else None
                number = roster.ids.index(party.id)
                party.sessions[run] = ThresholdClient(run, number, len(roster), request.terms(), folder)
        session = _session(party, run, ThresholdClient)
        if session.terms != request.terms():
            raise RefusedError(_OTHER_TERMS)
        asked = _asked(request, party, roster)
        if trip in BEGINS or _earlier(party, run, _step(request), digest) is not None:
            on_record = recorded(lambda: session.step(message, asked), [_pin(request)])
        else:

            def seal(vector: Callable[[], IntArray]) -> bytes:
                return sent(session.step(message, asked, lambda: in_blocks(request.query, vector())))

            on_record = _once(request, digest, party, roster, prepare, seal, place)
    if on_record != hashlib.sha256(made[0]).digest():
        raise RefusedError("another process of this client was faster")
    return made[0]


def _asked(request: Request, party: Party, roster: Roster) -> Asked:
    """How a request's form is computed, and what this client's smudging is for it, if that is enough for its policy."""
    assert isinstance(request.seal, Threshold)
    clients = len(roster)
    largest = largest_sum(clients, request.voters, request.query.bound, _share_variance(request, roster))
    length = request.query.bound.length if request.form is None else request.form.length(request.query)
    circuit = request.seal.circuit(request.form, clients, largest, length)
    party.policy.check_smudging(request.seal.bits(circuit, request.form, clients, length))
    return Asked(circuit, request.form, largest, request.seal.deviation(request.form, clients))


def _request_of(parts: list[bytes], trip: str, run: str, seal: type[Seal]) -> Request:
    """The request that a trip carries as its last part."""
    if not parts:
        raise WireError(f"trip '{trip}' must carry the request")
    request = Request.from_bytes(parts[-1])
    if request.run != run or not isinstance(request.seal, seal):
        raise RefusedError("the request is not of this run and seal")
    return request


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


def _pin(request: Request) -> tuple[str, bytes, bytes]:
    """What a ledger keeps so that no other request is prepared for in the same step: preparing takes data and time."""
    return f"{_ASKED} {_step(request)}", request.asked, b""


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
        pins = [(_TERMS, bytes.fromhex(request.terms()), b""), _pin(request)]
        return [*pins, (place, digest, reply)] if place else pins

    return _keep(party, charge, request.run, step, digest, lambda: seal(noisy), also)


def contribution(query: Query, party: Party, parts: Parts, private: bool) -> IntArray:
    """The client's vector: the sum over its parts of one vector each, every one within the bound.

    A part without rows contributes a vector that depends on no data. Where units are sampled, a coin is tossed for each
    once all is computed: those that are not in the sum do the same work and send as much as the others.
    """
    units = party.parts(parts)
    silent = [unit.silent and (private or unit.failure is None) for unit in units]
    vectors: list[IntArray] = [
        query.bound.default(unit.randomness) if alone else _answer(query, unit, private)
        for unit, alone in zip(units, silent, strict=True)
    ]
    sent = [
        vector if _heads(query.bound.rate, unit.randomness) else np.zeros_like(vector)
        for vector, unit in zip(vectors, units, strict=True)
    ]
    total: IntArray = np.sum(sent, axis=0, dtype=np.int64)
    return total


def _heads(rate: float, randomness: Randomness) -> bool:
    """A coin that is heads with chance `rate`, up to 2^-128."""
    if rate == 1:
        return True
    high, low = words(randomness, 2).tolist()
    return Fraction((high << 64) | low, 1 << 128) < Fraction(rate)


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
        party.ledger.answered(request.run, *_pin(request)[:2])
        if party.ledger.limit() is not None:
            party.ledger.check(charge)
    return charge


def _check(request: Request, party: Party, roster: Roster) -> None:
    """Whether the client takes part at all. Looks at the request and at public facts, never at data."""
    if request.roster != roster.digest() or party.id not in roster.ids:
        raise RefusedError("the request's roster is not the one this client was given")
    if getattr(request.query, "run", request.run) != request.run:
        raise RefusedError("the query is of another run")
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
