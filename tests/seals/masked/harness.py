"""A federation of masked clients in one process, with dropouts and liars at any stage."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from hushtune.core.errors import HushtuneError
from hushtune.core.identity import Identity
from hushtune.core.randomness import SimulatedRandomness
from hushtune.core.roster import Roster
from hushtune.core.wire import pack, unpack
from hushtune.seals.ends import Ask, Due, Seat, Trip, converse
from hushtune.seals.masked.client import MaskedClient
from hushtune.seals.masked.graph import Shape, shape
from hushtune.seals.masked.pact import Pact
from hushtune.seals.masked.server import MaskedServer

RUN = "a" * 32
TRIPS = ("keys", "shares", "input", "agree", "unmask")


class Federation:
    """`drop` says which clients are silent in which (round of sums, trip); `tamper` may change a message or a reply."""

    def __init__(
        self,
        clients: int,
        seed: int = 0,
        pinned: bool = False,
        dropped: int = 0,
        corrupt: int = 0,
        length: int = 3,
        graph: Shape | None = None,
    ) -> None:
        names = tuple(f"c{i}" for i in range(clients))
        self.identities = [
            Identity(hashlib.sha256(f"{seed} {name}".encode()).digest()) if pinned else None for name in names
        ]
        keys = tuple(i.public for i in self.identities if i is not None) if pinned else None
        self.roster = Roster(names, keys, bytes([seed % 256]) * 32)
        self.pact = Pact(RUN, self.roster, graph or shape(clients, dropped, corrupt))
        self.seed, self.length = seed, length
        self.clients = [self.make(number) for number in range(clients)]
        self.server = MaskedServer(self.pact)
        self.rng = np.random.default_rng(seed)
        self.drop: set[tuple[int, str, int]] = set()
        self.tamper: Callable[[str, int, bytes, bool], Any] = lambda trip, number, content, is_reply: content
        self.view: list[tuple[int, str, int, bytes]] = []  # all that the server ever gets
        self.sums = self.trips = 0
        self.inputs: list[np.ndarray] = []
        self.late: dict[str, str] = {}

    def make(self, number: int) -> MaskedClient:
        randomness = SimulatedRandomness(self.seed, f"client {number}")
        return MaskedClient(self.pact, Seat(RUN, self.roster, number, "", randomness, self.identities[number]))

    def due(self, number: int) -> Due:
        return due(self.inputs[-1][number])

    def exchange(self, going: Trip) -> Mapping[str, bytes]:
        replies, trip = {}, going.name
        self.trips += 1
        for name, message in going.messages.items():
            number = self.roster.ids.index(name)
            if (self.sums, trip, number) in self.drop:
                continue
            try:
                content = self.tamper(trip, number, message, False)
                reply = self.clients[number].step(content, self.due(number) if self.inputs else None)
            except HushtuneError as error:
                reply = pack({"kind": "refused", "reason": f"{type(error).__name__}: {error}"})
            reply = self.tamper(trip, number, reply, True)
            self.view.append((self.sums, trip, number, reply))
            replies[name] = reply
        return replies

    def sum(
        self, last: bool = False, vectors: np.ndarray | None = None
    ) -> tuple[np.ndarray, dict[str, str], np.ndarray]:
        """The opened sum, who is missing, and what the sum of the others must be."""
        random_ones = self.rng.integers(-50, 50, (len(self.clients), self.length))
        self.inputs.append(random_ones if vectors is None else vectors)
        request = f"request {self.sums}".encode()
        try:
            ask = Ask(request, self.length, 2**20, self.pact.shape.needed, last, None, self.length)
            total, missing, self.late, *_ = converse(self.server.open(ask), self.exchange, lambda: None)
        finally:
            self.sums += 1
        there = [n for n, name in enumerate(self.roster.ids) if name not in missing]
        return total, missing, self.inputs[-1][there].sum(0)


def trips(pinned: bool) -> tuple[str, ...]:
    """The trips of a first sum."""
    return tuple(trip for trip in TRIPS if pinned or trip != "agree")


def due(vector: np.ndarray) -> Due:
    """What a request asks for, answered by a vector."""
    return Due(None, {"numbers": len(vector)}, 2**20, lambda: vector)


def changed(message: bytes, part: int, content: bytes) -> bytes:
    """The message with another part in place of one of its own."""
    header, parts = unpack(message)
    parts[part] = content
    return pack(header, *parts)
