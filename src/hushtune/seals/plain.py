"""What `Clear` and `Curator` share: contributions travel as they are, in answer to one message."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hushtune.core.arrays import IntArray
from hushtune.core.errors import BoundError, RefusedError, WireError
from hushtune.core.roster import Id, Roster
from hushtune.core.wire import pack, unpack_reply
from hushtune.privacy.bounds import Bound
from hushtune.seals.base import Seal
from hushtune.seals.ends import Ask, Due, Expected, Replies, Seat, Trip, check_enough

REQUEST = "request"  # the kind of message that is the whole conversation


@dataclass(frozen=True)
class Plain(Seal):
    """Contributions travel as they are: the server sees each one."""

    kind: ClassVar[str] = REQUEST
    shows_each: ClassVar[bool] = True
    stateless: ClassVar[bool] = True

    def traffic(
        self, clients: int, bound: Bound, voters: int, largest: int, request: int, pinned: bool
    ) -> tuple[float, int]:
        """One request, one vector."""
        return 2, request + len(protect(np.zeros(bound.length, dtype=np.int64)))

    @classmethod
    def expects(cls, header: Mapping[str, Any], parts: list[bytes], message: bytes) -> Expected:
        """The message is the request itself, and asks for the input."""
        return Expected(str(header.get("run")), "", message, begins=True, input=True)

    def client(self, seat: Seat) -> PlainClient:
        """The client's end, which sends the vector as it is."""
        return PlainClient(seat.terms)


def protect(vector: IntArray) -> bytes:
    """A client's vector as it leaves the client: the vector itself."""
    return pack({"kind": "vector"}, vector.astype("<i8").tobytes())


@dataclass(frozen=True)
class PlainClient:
    """The client's end: one message, one vector, no secrets of its own.

    Args:
        terms: one text for the run's seal, privacy, noise and events.
    """

    terms: str
    done: bool = True

    def step(self, message: bytes, due: Due | None) -> bytes:
        """The vector as it is; refused if no input is due."""
        if due is None or due.vector is None:
            raise RefusedError("no input is due")
        return protect(due.vector())

    def made(self, reply: bytes) -> bool:
        """It has no state."""
        return False

    def dump(self) -> bytes:
        """No bytes: there is no state to keep."""
        return b""

    def load(self, state: bytes) -> PlainClient:
        """Nothing is taken up."""
        return self

    def close(self) -> None:
        """Does nothing: there is nothing to end."""


class PlainServer:
    """The server's end, but for what becomes of the vectors.

    Args:
        roster: the run's clients.
        dropouts: the share of them that may be missing.
    """

    def __init__(self, roster: Roster, dropouts: float) -> None:
        self._ids, self._dropouts = roster.ids, dropouts

    def vectors(self, ask: Ask) -> Generator[Trip, Replies, tuple[dict[Id, IntArray], dict[Id, str]]]:
        """What arrived from each client, and why each of the others is missing; what no client can send is left out."""
        replies = yield Trip("asking clients", dict.fromkeys(self._ids, ask.request), inputs=True)
        own: dict[Id, IntArray] = {}
        missing: dict[Id, str] = {}
        for client in self._ids:
            try:
                vector = vector_of(replies.get(client), ask.length)
                ask.check(vector)
                own[client] = vector
            except WireError as error:
                missing[client] = str(error)
            except BoundError as error:
                missing[client] = f"sent what no client can send: {error}"
        check_enough(ask.needed, len(self._ids), missing, f"answer (dropouts={self._dropouts:g})")
        return own, missing

    def finish(self) -> Generator[Trip, Replies, None]:
        """No trips: nobody keeps anything for the run."""
        yield from ()

    def close(self) -> None:
        """Does nothing: there is nothing to end."""


def summed(own: Mapping[Id, IntArray], length: int) -> IntArray:
    """The sum of what arrived."""
    total = np.zeros(length, dtype=np.int64)
    for vector in own.values():
        total += vector
    return total


def vector_of(reply: Any, length: int) -> IntArray:
    """The vector in a reply; a WireError says why there is none."""
    header, parts = unpack_reply(reply)
    if header.get("kind") != "vector" or len(parts) != 1 or len(parts[0]) != 8 * length:
        raise WireError(f"a reply must hold {length} integers")
    return np.frombuffer(parts[0], dtype="<i8").astype(np.int64)
