"""THE way out of a client: answer, check against the bound, integer, noise share, seal.

Nothing else in hushtune sends anything computed from a client's data. `respond` is all that a federation calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from fractions import Fraction
from hashlib import sha256
from typing import NamedTuple

import numpy as np

from hushtune.client import failures
from hushtune.client.asked import check_asked
from hushtune.client.party import Party
from hushtune.client.query import Query
from hushtune.client.request import Request
from hushtune.client.rows import Parts
from hushtune.client.work import Allowance, Work
from hushtune.core.arrays import IntArray
from hushtune.core.errors import (
    BudgetError,
    CacheError,
    LedgerError,
    MissingExtraError,
    RefusedError,
    SettingError,
    WireError,
    described,
)
from hushtune.core.randomness import Randomness, words
from hushtune.core.roster import Roster
from hushtune.core.wire import pack, unpack
from hushtune.core.words import as_set, up
from hushtune.privacy.accounting import epsilon_of
from hushtune.privacy.charges import Charge, charge_of
from hushtune.privacy.guarantee import Privacy
from hushtune.privacy.ledger import Ledger
from hushtune.privacy.policy import Proposal
from hushtune.seals.base import Seal, largest_sum
from hushtune.seals.ends import ClientEnd, Due, Expected, Seat
from hushtune.seals.registry import expected

_MOST_RUNS = 16  # that a client has keys for at one time
_TERMS = "terms"  # the name under which a ledger keeps what a run's requests have in common
_PINNED = "asked"  # and, with a step, the one request that a client prepares for and answers in that step
_OTHER_TERMS = "the request's seal, privacy, noise or events are not what the run began with"


Prepare = Callable[[Request], None]
"""What a client does for a request it has accepted, before it answers: it fills its trials."""


def _nothing(request: Request) -> None:
    pass


def respond(message: bytes, party: Party, roster: Roster, prepare: Prepare = _nothing) -> bytes:
    """A client's reply to one message: its sealed contribution, or a refusal that depends on no data."""
    try:
        with party.ledger.connected() if party.ledger is not None else nullcontext() as ledger:
            return _reply(message, party, roster, prepare, Books(ledger))
    except CacheError as error:
        party.log(f"could not answer: {described(error)}")
        return refused("internal error; see the client's own log")
    except (RefusedError, WireError, SettingError, MissingExtraError) as error:
        if party.alone:  # its owner is not the one who reads the reply
            party.log(f"refused a run: {error}")
        return refused(str(error))
    except LedgerError as error:
        party.log(f"refused a run: {error}")  # with the path, which is nobody else's business
        reason = "its limit would be exceeded" if isinstance(error, BudgetError) else "it cannot be used"
        return refused(f"ledger: {reason}; see the client's own log")
    except Exception as error:
        party.log(f"could not answer: {described(error)}")
        return refused("internal error; see the client's own log")


def _reply(message: bytes, party: Party, roster: Roster, prepare: Prepare, books: Books) -> bytes:
    """The way out, from top to bottom, the same under every seal."""
    header, parts = unpack(message)
    seal, trip = expected(header, parts, message)
    _check_session(party.sessions.get(trip.run), seal, trip, books)
    request, digest = _request_in(trip, seal), _digest(message, party)
    step = f"step {request.step}" if request is not None else ""

    # The same bytes again? They get the same reply. Another message for the same place is refused.
    earlier = (books.answered(trip.run, place, digest) for place in (trip.place, step) if place)
    known = next((reply for reply in earlier if reply is not None), None)
    if known is not None and not seal.keeps_replies:
        return known
    if trip.ends:
        return _end(party, trip.run).step(message, None)

    # Does this client take part, and can it afford it? Then it prepares: it fills its trials.
    if request is None:
        end, charge, due, pins = _end(party, trip.run), None, None, []
    else:
        due = _due(request, roster)
        cost = _accept(request, due, party, roster, books)
        end = _end_for(request, trip, party, roster)
        charge = cost if trip.input else None
        pins = [_pin(request), _pin_terms(request)] if trip.input else [_pin(request)]
        if party.alone:
            books.ensure(party.policy.granted)
        elif trip.input:
            books.ensure(request.privacy)
        with _working(request, party, books):
            prepare(request)

        # Answer, check against the bound, add noise: computed when the seal asks for it, at most once.
        if trip.input and known is None:
            due = replace(due, vector=lambda: noisy(request, party, roster), drawn=_drawn(request, party))

    # Seal, commit, send: what leaves is on record before it does, and only what is on record leaves.
    reply = end.step(message, due)
    places = [place for place in (step if trip.input else "", trip.place) if place]
    kept = sha256(reply).digest() if seal.keeps_replies else reply
    on_record = books.commit(charge, trip.run, places, digest, kept, pins)
    if on_record != kept and seal.keeps_replies:
        raise RefusedError("another process of this client was faster")
    return reply if seal.keeps_replies else on_record


class Session(NamedTuple):
    """A client's end of a seal in one run.

    Args:
        seal: the run's.
        end: the client's end.
        restored: whether another process of this client has begun it.
    """

    seal: Seal
    end: ClientEnd
    restored: bool = False


class Books:
    """A client's own ledger while it replies to one message; a marked simulation has none.

    Args:
        ledger: the client's, with one connection for the whole reply.
    """

    def __init__(self, ledger: Ledger | None) -> None:
        self.ledger = ledger

    def answered(self, run: str, place: str, digest: bytes) -> bytes | None:
        """What this very message was answered with, in whatever process; another one for its place is refused."""
        if self.ledger is None or not self.ledger.exists:
            return None
        return self.ledger.answered(run, place, digest)

    def knows(self, run: str) -> bool:
        """Whether anything was ever answered in a run; without a ledger nobody can tell."""
        return self.ledger is None or (self.ledger.exists and self.ledger.knows(run))

    def charged(self) -> set[str]:
        """The runs that were charged."""
        return self.ledger.runs() if self.ledger is not None and self.ledger.exists else set()

    def ensure(self, privacy: Privacy | None) -> None:
        """Makes the ledger if it is not there; a guarantee sets the limit of one that has none."""
        if self.ledger is not None:
            self.ledger.ensure(privacy)

    def commit(
        self,
        charge: Charge | None,
        run: str,
        places: list[str],
        digest: bytes,
        reply: bytes,
        pins: list[tuple[str, bytes]],
    ) -> bytes:
        """Puts the charge and the reply on record, in one transaction; gives the reply that is on record."""
        if self.ledger is None:
            return reply
        self.ensure(None)
        also = [*((name, question, b"") for name, question in pins), *((place, digest, reply) for place in places[1:])]
        return self.ledger.commit(charge, run, places[0], digest, reply, also)


def refused(reason: str) -> bytes:
    """A refusal on the wire."""
    return pack({"kind": "refused", "reason": reason})


def _request_in(trip: Expected, seal: type[Seal]) -> Request | None:
    """The request that a message carries, if it carries one: of the same run, and under the seal it came through."""
    if trip.request is None:
        return None
    request = Request.from_bytes(trip.request)
    if request.seal.kind != seal.kind:
        raise RefusedError(f"a request under seal '{request.seal.name}' must come through that seal")
    if request.run != trip.run:
        raise RefusedError("the request is not of this run")
    return request


def _check_session(session: Session | None, seal: type[Seal], trip: Expected, books: Books) -> None:
    """A run has one seal: through another one, a message would be looked up under other places than it was kept."""
    if session is None:
        return
    if session.seal.kind != seal.kind:
        raise RefusedError(f"the run is under seal '{session.seal.name}', and the message is not")
    if session.restored and not books.knows(trip.run):
        raise RefusedError("this client's ledger does not know the run, though its state does")


def _digest(message: bytes, party: Party) -> bytes:
    """Stands for a message to this very client: two that share a ledger by mistake do not give each other's answers."""
    return sha256(f"{party.id}\n".encode() + message).digest()


@contextmanager
def _working(request: Request, party: Party, books: Books) -> Iterator[None]:
    """What a client does for a request is on record before it begins, if somebody else is the coordinator."""
    if not party.alone:
        yield
        return
    work = Work(party.folder / "work.db")
    run, configs = request.run, _configs(request)
    with work.alone():
        earlier = work.begin(run, request.step, request.question, configs, party.policy, books.charged)
        party.allowance = Allowance.of(party.policy, earlier)
        try:
            yield
        finally:
            work.add(run, party.allowance.taken())


def _end(party: Party, run: str) -> ClientEnd:
    """The client's end of the seal in a run that it takes part in."""
    session: Session | None = party.sessions.get(run)
    if session is None:
        raise RefusedError("this client has no part in that run, or its state is lost")
    return session.end


def _end_for(request: Request, trip: Expected, party: Party, roster: Roster) -> ClientEnd:
    """The client's end of the seal that a request is under, begun if this is the first message of its run."""
    seal, run = request.seal, request.run
    if seal.stateless:
        return seal.client(seat_of(party, roster, run, seal, request.terms()))
    if trip.begins and run not in party.sessions:
        _forget_the_oldest(party)
        party.sessions[run] = Session(seal, seal.client(seat_of(party, roster, run, seal, request.terms())))
    end = _end(party, run)
    if end.terms != request.terms():
        raise RefusedError(_OTHER_TERMS)
    return end


def seat_of(party: Party, roster: Roster, run: str, seal: Seal, terms: str) -> Seat:
    """Where a client sits in a run, as it knows it itself."""
    folder = party.folder / seal.name / run if party.detached else None
    number = roster.ids.index(party.id)
    return Seat(run, roster, number, terms, party.randomness, party.client.identity, folder)


def _forget_the_oldest(party: Party) -> None:
    """Keeps the secrets of a few runs only; a run that was forgotten is remembered as such, and refused."""
    known = [run for run, session in party.sessions.items() if session is not None]
    if len(known) >= _MOST_RUNS:
        party.sessions[known[0]] = None


def _pin(request: Request) -> tuple[str, bytes]:
    """What a ledger keeps so that no other request is prepared for in the same step: preparing takes data and time."""
    return f"{_PINNED} step {request.step}", request.question


def _pin_terms(request: Request) -> tuple[str, bytes]:
    """What a ledger keeps so that no later request of the run has other terms."""
    return _TERMS, bytes.fromhex(request.terms())


def _share_variance(request: Request, roster: Roster) -> Fraction:
    return request.noise.share_variance(request.seal.honest(len(roster)))


def _due(request: Request, roster: Roster) -> Due:
    """What the request asks of its seal."""
    bound = request.query.bound
    largest = largest_sum(len(roster), request.voters, bound, _share_variance(request, roster))
    return Due(request.form, request.query.blocks, largest, bound=bound)


def _drawn(request: Request, party: Party) -> Callable[[str, bytes], Randomness]:
    """What a seal draws that must be the same whenever its purpose, the request and a content are."""
    return lambda purpose, content: party.drawn_for(purpose, request.identity, content)


def noisy(request: Request, party: Party, roster: Roster) -> IntArray:
    """The client's vector with its own noise share. Under a seal by which each unit's vector is checked for itself: one
    row for each unit, and no noise, as others add it.

    At most once for each step of a run: the step counts, not the seal's round, which the server chooses. A
    second round for the same step would be a second noisy opening of the same input.

    The noise is derived from the client's secret, the request and the vector that it protects. A machine that was
    rolled back, and is asked again, adds the same noise to the same vector: nothing new is told. Another vector never
    gets the same noise: the difference of two answers would be exact.
    """
    asked = request.identity
    private = request.privacy is not None and not party.tells
    rows = contributions(request.query, party, request.parts, private, asked)
    if request.seal.by_unit:
        return rows
    vector: IntArray = rows.sum(axis=0)
    source = party.drawn_for("noise", asked, vector.astype("<i8").tobytes())
    return vector + request.noise.share(request.seal.honest(len(roster)), len(vector), source)


def contribution(query: Query, party: Party, parts: Parts, private: bool, asked: bytes = b"") -> IntArray:
    """The client's vector: the sum of what its parts contribute, each within the bound (`contributions`)."""
    total: IntArray = contributions(query, party, parts, private, asked).sum(axis=0)
    return total


def contributions(query: Query, party: Party, parts: Parts, private: bool, asked: bytes = b"") -> IntArray:
    """What each of a client's parts contributes, every vector within the bound; shape (parts, length).

    A part without rows contributes a vector that depends on no data. Where units are sampled, a coin is tossed for each
    once all is computed: those that are not in the sum do the same work and send as much as the others.

    Args:
        query: what each unit is asked.
        party: who answers.
        parts: how it is split.
        private: whether the run has an epsilon.
        asked: stands for the request; random choices are derived from it and the client's secret.
    """
    units = party.parts(parts)
    silent = [unit.silent and (private or unit.failure is None) for unit in units]
    vectors: list[IntArray] = [
        _default(query, unit, asked) if alone else _answer(query, unit, private, asked)
        for unit, alone in zip(units, silent, strict=True)
    ]
    sent = [
        vector if _heads(query.bound.rate, unit.drawn_for("coin", asked)) else np.zeros_like(vector)
        for vector, unit in zip(vectors, units, strict=True)
    ]
    return np.array(sent, dtype=np.int64)


def _heads(rate: float, randomness: Randomness) -> bool:
    """A coin that is heads with chance `rate`, up to 2^-128."""
    if rate == 1:
        return True
    high, low = words(randomness, 2).tolist()
    return Fraction((high << 64) | low, 1 << 128) < Fraction(rate)


def _default(query: Query, unit: Party, asked: bytes) -> IntArray:
    """A vector that depends on no data."""
    return query.bound.default(unit.drawn_for("default", asked))


def _answer(query: Query, unit: Party, private: bool, asked: bytes) -> IntArray:
    """One unit's vector within the bound, or what stands in for it if the unit fails."""

    def vector() -> IntArray:
        with unit.drawing("answer", asked):
            return query.bound.check(query.answer(unit))

    return failures.answer_of(unit, query.name, vector, lambda: _default(query, unit, asked), private)


def _accept(request: Request, due: Due, party: Party, roster: Roster, books: Books) -> Charge:
    """What the run costs, if the client takes part and can afford it; it records nothing, and `commit` decides."""
    _check(request, due, party, roster)
    if request.privacy is not None:
        _check_limit(request.privacy, party, books)
    charge = charge_of(request.run, request.query.name, request.events, request.privacy)
    if books.ledger is not None and books.ledger.exists:
        try:
            books.answered(request.run, *_pin_terms(request))
        except RefusedError:
            raise RefusedError(_OTHER_TERMS) from None
        books.answered(request.run, *_pin(request))
        if books.ledger.limit() is not None:
            books.ledger.check(charge)
    if request.privacy is None and request.voters > 1 and party.loaded():
        request.parts.check(party.data)  # with an epsilon, what cannot be split is a failure that nobody sees
    return charge


def _check(request: Request, due: Due, party: Party, roster: Roster) -> None:
    """Whether the client takes part at all. Looks at public facts, never at data."""
    if request.roster != roster.digest() or party.id not in roster.ids:
        raise RefusedError("the request's roster is not the one this client was given")
    if request.query.own_run not in (None, request.run):
        raise RefusedError("the query is of another run")
    seal, clients = request.seal, len(roster)
    seal.check_nodes(roster.nodes)
    party.policy.check(_proposal(request, party, roster))
    party.policy.check_work(_configs(request))
    check_asked(party.client, *request.query.scored)
    if request.form is not None:
        request.form.check(request.query.blocks)
        if request.privacy is not None or not seal.computes:
            raise RefusedError("a form of a sum is computed by a seal that can, and without epsilon only")
    seal.agree(party.policy, due, clients)
    if request.voters > 1 and party.client.trials is not None:
        raise RefusedError("a client that brings trials of all its rows does not split them; use voters=1")
    if request.privacy is not None:
        if request.privacy.unit == "client" and request.voters != 1:
            raise RefusedError(f"a client has one voter if unit is 'client', but got voters={request.voters}")
        _check_events(request, request.privacy, party.alone)
        return
    if request.events or request.noise.scale != 0:
        raise RefusedError("a request without epsilon must have no noise and no events")


def _proposal(request: Request, party: Party, roster: Roster) -> Proposal:
    """What a policy decides on. A marked simulation is nobody's secret: it is not held to what a real run is."""
    seal = request.seal
    return Proposal(
        query=request.query.name,
        seal=seal.name,
        hides=seal.hides,
        corrupt=seal.corrupt,
        insecure=seal.insecure is not None or (party.alone and seal.exposed(roster.nodes) is not None),
        nodes=tuple(node.name for node in roster.nodes) if seal.served_by else (),
        honest=seal.honest(len(roster)),
        privacy=request.privacy,
        pinned=roster.pinned and party.real,
        apart=party.alone,
    )


def _configs(request: Request) -> int:
    """How many configs the request has the client score."""
    search, domain = request.query.scored
    return search.work(request.voters, domain)


def _check_limit(privacy: Privacy, party: Party, books: Books) -> None:
    """On a machine of its own, a client whose owner has set no limit refuses: the server's epsilon is nobody's limit.

    The owner's limit also says per which unit and in which relation it counts.
    """
    if not party.alone or (books.ledger is not None and books.ledger.exists and books.ledger.limit() is not None):
        return
    granted = party.policy.granted
    if granted is None:
        path = books.ledger.path if books.ledger is not None else ""
        counted = f"--unit {privacy.unit} --neighbours {privacy.neighbours}"
        party.log(f"to set a limit: hushtune ledger limit {path} --epsilon 1 --delta 1e-5 {counted} (as the run asked)")
        raise RefusedError(
            "no limit: this client's owner has set none; on its machine, `hushtune ledger limit` does (the client's "
            "own log has the whole command), or epsilon in its policy"
        )
    for name in ("unit", "neighbours"):
        wanted, got = getattr(granted, name), getattr(privacy, name)
        if wanted != got:
            raise RefusedError(f"policy: {name} must be '{wanted}', which its limit is for, but got '{got}'")


def _check_events(request: Request, privacy: Privacy, alone: bool) -> None:
    """The client computes the cost itself: from the bound it enforces and the noise it will add.

    What costs nothing opens nothing, so that it is asked for its timing only: not of a client on a machine of its own.
    """
    event = request.query.bound.event(request.noise, privacy.change)
    if not 0 <= request.step < len(request.events) or request.events[request.step] != event:
        raise RefusedError(f"step {request.step} is not what the run announced")
    cost = epsilon_of(request.events, privacy.delta)
    if alone and cost == 0:
        raise RefusedError("a run that costs nothing says nothing, whatever the data: ask for more than one candidate")
    if cost > privacy.epsilon:
        raise RefusedError(
            f"the noise asked for costs epsilon {up(cost)}, more than the stated {as_set(privacy.epsilon)}"
        )
