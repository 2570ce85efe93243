"""A seal of one's own, outside hushtune: a running total goes from client to client, blinded by the first.

The first client adds a random blinding to its vector and takes it away at the end. The server carries the messages, so
it could subtract one from the next: this is a toy, and says so (`insecure`).
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from hushtune.core.errors import AbortedError, RefusedError, SettingError, WireError
from hushtune.core.randomness import words
from hushtune.core.roster import Roster
from hushtune.core.wire import pack, unpack, unpack_reply
from hushtune.seals.base import Protected, Seal
from hushtune.seals.ends import Ask, ClientEnd, Due, Expected, Outcome, Replies, Seat, Trip, Trips


@dataclass(frozen=True)
class Ring(Seal):
    """A running total that goes around. Every client is needed."""

    dropouts: float = 0.0
    name: ClassVar[str] = "ring"  # in studies, requests and results
    kind: ClassVar[str] = "ring"  # of its messages

    def check(self, clients: int) -> None:
        self.honest(clients)
        if self.dropouts or clients < 2:
            raise SettingError("seal 'ring' needs at least two clients, and dropouts=0")

    @property
    def insecure(self) -> str:  # a client's policy refuses it, unless its owner says insecure=True
        return "the server carries every running total, and can subtract one from the next"

    def protects(self, facts: Protected) -> list[str]:  # words for the statement
        return [f"INSECURE SETTING, seal 'ring': {self.insecure}."]

    @classmethod
    def expects(cls, header: Mapping[str, Any], parts: list[bytes], message: bytes) -> Expected:
        trip, run = str(header.get("trip")), str(header.get("run"))
        place = f"{header.get('round')} {trip}"
        if trip != "add":
            return Expected(run, place, None)
        if len(parts) != 2:
            raise WireError("trip 'add' must carry the total and the request")
        return Expected(run, place, request=parts[-1], begins=True, input=True)

    def client(self, seat: Seat) -> RingClient:
        return RingClient(seat)

    def server(self, run: str, roster: Roster, terms: str, first: int = 0, folder: Path | None = None) -> RingServer:
        return RingServer(run, roster, first)


@dataclass
class RingServer:
    """One trip for each client in turn, and one more to the first."""

    run: str
    roster: Roster
    round: int

    def open(self, ask: Ask) -> Trips:
        first, total = self.roster.ids[0], b""
        for client in self.roster.ids:
            message = self._message("add", total, ask.request)
            replies = yield Trip(f"adding {client}", {client: message}, inputs=True)
            total = self._total(replies.get(client), client)
        replies = yield Trip("taking the blinding away", {first: self._message("end", total)})
        values = np.frombuffer(self._total(replies.get(first), first), dtype="<i8")
        self.round += 1
        return Outcome(values.astype(np.int64), missing={}, late={})

    def _message(self, trip: str, *parts: bytes) -> bytes:
        return pack({"kind": Ring.kind, "run": self.run, "round": self.round, "trip": trip}, *parts)

    def _total(self, reply: Any, client: str) -> bytes:
        try:
            _, (total,) = unpack_reply(reply)
        except (WireError, ValueError) as error:
            raise AbortedError(f"seal 'ring' needs every client, but lost {client}: {error}") from None
        return total

    def finish(self) -> Generator[Trip, Replies, None]:
        yield from ()  # no trips: nobody keeps anything for the run

    def close(self) -> None:
        pass


@dataclass
class RingClient:
    """Adds its vector; the first client also a blinding, which it keeps for the end of the round."""

    seat: Seat
    blindings: dict[str, list[int]] = field(default_factory=dict)

    @property
    def terms(self) -> str:
        return self.seat.terms

    @property
    def done(self) -> bool:
        return not self.blindings

    def step(self, message: bytes, due: Due | None) -> bytes:
        header, parts = unpack(message)
        round_ = str(header["round"])
        if header["trip"] == "end":
            if round_ not in self.blindings:
                raise RefusedError("this client has blinded nothing in that round")
            total = np.frombuffer(parts[0], dtype="<i8") - np.array(self.blindings.pop(round_))
        else:
            if due is None or due.vector is None:
                raise RefusedError("no input is due")
            vector = due.vector()  # computed here, at most once: the noisy answer, within its bound
            if self.seat.number == 0:
                blinding = (words(self.seat.randomness, len(vector)) >> np.uint64(2)).astype(np.int64)
                self.blindings[round_] = blinding.tolist()
                total = vector + blinding
            else:
                total = np.frombuffer(parts[0], dtype="<i8") + vector
        return pack({"kind": "total"}, np.asarray(total, dtype="<i8").tobytes())

    def made(self, reply: bytes) -> bool:
        return True

    def dump(self) -> bytes:  # for a client that gets a new process for every message
        return json.dumps(self.blindings).encode()

    def load(self, state: bytes) -> ClientEnd:
        self.blindings = json.loads(state)
        return self

    def close(self) -> None:
        pass
