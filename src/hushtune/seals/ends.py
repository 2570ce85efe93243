"""The two ends of a seal: a conversation that opens what was asked of the clients' vectors, and nothing else.

The server's end (`ServerEnd`) is a generator of trips: it yields messages for named recipients, gets their replies, and
ends in what was opened. The client's end (`ClientEnd`) takes a message and gives a reply; it is only ever called by
`hushtune.client.release`. Neither end knows a transport. `converse` is the one driver for all seals.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from hushtune.core.arrays import FloatArray, IntArray
from hushtune.core.errors import AbortedError, SettingError
from hushtune.core.identity import Identity
from hushtune.core.randomness import Randomness, SystemRandomness
from hushtune.core.roster import Id, Role, Roster
from hushtune.privacy.bounds import Bound
from hushtune.privacy.noise.base import Noise
from hushtune.seals.forms import Form
from hushtune.seals.oracle import Choose

# ---- the server's end --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trip:
    """One message for each of several recipients; what comes back is sent into the generator that yielded it.

    Args:
        name: what people are shown while it is under way.
        messages: one for each recipient.
        inputs: whether it asks for inputs: the run's cost is reserved right before.
        to: who the recipients are.
        again: whether it goes on with what an earlier trip has begun: there is nothing new to show.
    """

    name: str
    messages: Mapping[Id, bytes]
    inputs: bool = False
    to: Role = "clients"
    again: bool = False


Replies = Mapping[Id, Any]
"""By recipient: bytes, or something with a `reason` if none came back."""


@dataclass(frozen=True)
class Ask:
    """One step of a run: what all clients are sent, and what is to be opened of their vectors.

    Args:
        request: the same bytes for all clients.
        length: of the vectors.
        largest: the largest absolute value of an entry of their sum.
        needed: how many clients must answer.
        last: whether no other opening follows in this run.
        form: which form of the sum is opened, and nothing else; None: the sum.
        opens: how many values are opened.
        each: whether every client's own vector is opened instead.
        noise: what a server that is trusted with it adds.
        randomness: where that comes from.
        scores: the bound of what is tested and never opened.
        units: how many units the scores are of, those included that do not answer.
        added: public scores that are added to their sums; empty: none.
        choose: asks about the scores.
        answers: the answers given so far, each before the next question is asked.
        missing: the clients that the answers are not about, and why.
        check: refuses, with a BoundError, a vector that no client can send: for a server that sees single ones.
        step: which opening of the run it is.
    """

    request: bytes
    length: int
    largest: int
    needed: int
    last: bool
    form: Form | None
    opens: int
    each: bool = False
    noise: Noise = field(default_factory=lambda: Noise(0.0))
    randomness: Randomness = field(default_factory=SystemRandomness, repr=False)
    scores: Bound | None = None
    units: int = 0
    added: tuple[int, ...] = ()
    choose: Choose | None = None
    answers: list[int] = field(default_factory=list)
    missing: dict[Id, str] = field(default_factory=dict)
    check: Callable[[IntArray], None] = field(default=lambda vector: None, repr=False)
    step: int = 0


MOST_ADDED = 2**40
"""Of a public score that is added to a sum."""


def check_added(added: Sequence[Any], bound: Bound) -> None:
    """Refuses public scores that cannot be added: one whole number for each entry of a noisy maximum, or none.

    Args:
        added: as they come from a request.
        bound: of the vectors whose sums they are added to.
    """
    if added and (not bound.tests or not bound.only_max or len(added) != bound.length):
        raise SettingError(
            "public scores are added where only a winner is asked for, one for each entry, but got "
            f"{len(added)} for {bound.length} entries of which {bound.tests} tests are made"
        )
    if any(type(score) is not int or not 0 <= score <= MOST_ADDED for score in added):
        raise SettingError("public scores that are added must be whole numbers from 0 to 2^40")


def with_added(sums: IntArray, added: Sequence[int]) -> IntArray:
    """Sums of scores, and public scores on top.

    Args:
        sums: shape (candidates,).
        added: as many, or none.
    """
    return sums + np.array(added, dtype=np.int64) if added else sums


class Outcome(NamedTuple):
    """What was opened.

    Args:
        values: the sum, or the form of it that was asked for.
        missing: the clients that are not in it, and why.
        late: clients that are in it, but did not help to open it, or sent what is wrong, and why.
        own: instead of the sum, every client's own vector, if that was asked for.
        smudging: bits by which every party's noise hides the error of what was decrypted, if there is one.
    """

    values: IntArray | FloatArray
    missing: dict[Id, str]
    late: dict[Id, str]
    own: dict[Id, IntArray] | None = None
    smudging: float | None = None


T = TypeVar("T")
Trips = Generator[Trip, Replies, Outcome]
Exchange = Callable[[Trip], Replies]
Reserve = Callable[[], None]
"""Reserves the run's cost, or raises; until then nothing is spent."""


class ServerEnd(Protocol):
    """The server's end of a seal, for all openings of one run that are made without an interruption."""

    def open(self, ask: Ask) -> Trips:
        """The trips of one opening. Raises AbortedError, with nothing opened, if too few clients are left."""
        ...

    def finish(self) -> Generator[Trip, Replies, None]:
        """The trips by which others forget what they keep for the run; made when all it opened is on record."""
        ...

    def close(self) -> None:
        """Ends whatever it has begun; called once, however the run ends."""
        ...


def converse(trips: Generator[Trip, Replies, T], exchange: Exchange, reserve: Reserve) -> T:
    """Drives a conversation: sends each trip, hands the replies back, reserves the cost before inputs are asked for."""
    with closing(trips):
        replies: Replies | None = None
        while True:
            try:
                trip = trips.send(replies) if replies is not None else next(trips)
            except StopIteration as end:
                ended: T = end.value
                return ended
            if trip.inputs:
                reserve()
            replies = exchange(trip)


def check_enough(needed: int, clients: int, missing: Mapping[Id, str], what: str, most: int = 3) -> None:
    """Aborts if fewer clients than needed have done something.

    Args:
        needed: the fewest.
        clients: how many were asked.
        missing: those who have not, and why.
        what: that they must have done.
        most: how many reasons are shown.
    """
    if clients - len(missing) < needed:
        shown = "; ".join(f"{client}: {reason}" for client, reason in list(missing.items())[:most])
        more = f"; and {len(missing) - most} more" if len(missing) > most else ""
        raise AbortedError(
            f"{needed} of {clients} clients must {what}, but got {clients - len(missing)}; {shown}{more}"
        )


# ---- the client's end --------------------------------------------------------------------------------


class Expected(NamedTuple):
    """What a message is, told from the message alone.

    Args:
        run: of which run.
        place: in the seal's conversation; each place is answered once. Empty: the step of the run alone counts.
        request: the request that it carries; None: it carries none.
        begins: whether it may be the first of its run.
        input: whether the client's vector is due.
        ends: whether the run is given up: no reply to it is kept.
    """

    run: str
    place: str
    request: bytes | None
    begins: bool = False
    input: bool = False
    ends: bool = False


@dataclass(frozen=True)
class Seat:
    """Where a client sits in a run, as it knows it itself.

    Args:
        run: the run's id.
        roster: all clients.
        number: this client's place in it.
        terms: one text for the run's seal, privacy, noise and events.
        randomness: where its keys come from.
        identity: its signing key, if it has one.
        folder: where something may be found again that outlives this process; None: nothing need do so.
    """

    run: str
    roster: Roster
    number: int
    terms: str
    randomness: Randomness = field(repr=False)
    identity: Identity | None = field(default=None, repr=False)
    folder: Path | None = None


@dataclass(frozen=True)
class Due:
    """What a request asks of the seal.

    Args:
        form: which form of the sum is opened; None: the sum.
        blocks: names and lengths of the vector's parts.
        largest: the largest absolute value of an entry of the sum.
        vector: computes the client's noisy vector, at most once; under a seal that is `by_unit` one row for each of its
            units. None: no input is due.
        bound: on each unit's vector.
        drawn: where random bytes come from that must be the same whenever a purpose and a content are, such as the
            shares of a vector. None: no input is due.
    """

    form: Form | None
    blocks: Mapping[str, int]
    largest: int
    vector: Callable[[], IntArray] | None = field(default=None, repr=False)
    bound: Bound | None = None
    drawn: Callable[[str, bytes], Randomness] | None = field(default=None, repr=False)

    @property
    def opens(self) -> int:
        """How many values are opened."""
        return sum(self.blocks.values()) if self.form is None else self.form.length(self.blocks)


class ClientEnd(Protocol):
    """A client's end of a seal in one run. The same message again gets the same bytes."""

    @property
    def terms(self) -> str:
        """One text for the run's seal, privacy, noise and events."""
        ...

    def step(self, message: bytes, due: Due | None) -> bytes:
        """The reply to one message; `due` if it carries a request."""
        ...

    def made(self, reply: bytes) -> bool:
        """Whether its state may have changed with this reply."""
        ...

    @property
    def done(self) -> bool:
        """Whether it holds no secrets any more."""
        ...

    def dump(self) -> bytes:
        """Its state, for another process of the same client."""
        ...

    def load(self, state: bytes) -> ClientEnd:
        """Takes up the state that `dump` gave, in an end made for the same seat."""
        ...

    def close(self) -> None:
        """Ends whatever it has begun beside this process."""
        ...
