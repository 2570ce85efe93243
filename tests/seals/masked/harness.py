"""A federation of masked clients in one process, with dropouts and liars at any stage."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from hushtune.errors import HushtuneError
from hushtune.identity import Identity
from hushtune.randomness import SimulatedRandomness
from hushtune.roster import Roster
from hushtune.seals.graph import Shape, shape
from hushtune.seals.masked_client import MaskedClient
from hushtune.seals.masked_server import MaskedServer
from hushtune.seals.masked_setting import Setting
from hushtune.wire import pack, unpack

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
        form: Shape | None = None,
    ) -> None:
        names = tuple(f"c{i}" for i in range(clients))
        self.identities = [
            Identity(hashlib.sha256(f"{seed} {name}".encode()).digest()) if pinned else None for name in names
        ]
        keys = tuple(i.public for i in self.identities if i is not None) if pinned else None
        self.roster = Roster(names, keys, bytes([seed % 256]) * 32)
        self.setting = Setting(RUN, self.roster, form or shape(clients, dropped, corrupt))
        self.seed, self.length = seed, length
        self.clients = [self.make(number) for number in range(clients)]
        self.server = MaskedServer(self.setting)
        self.rng = np.random.default_rng(seed)
        self.drop: set[tuple[int, str, int]] = set()
        self.tamper: Callable[[str, int, bytes, bool], Any] = lambda trip, number, content, is_reply: content
        self.view: list[tuple[int, str, int, bytes]] = []  # all that the server ever gets
        self.sums = 0
        self.inputs: list[np.ndarray] = []
        self.late: dict[str, str] = {}

    def make(self, number: int) -> MaskedClient:
        randomness = SimulatedRandomness(self.seed, f"client {number}")
        return MaskedClient(self.setting, number, randomness, self.identities[number])

    def exchange(self, trip: str, out: Mapping[str, bytes]) -> Mapping[str, bytes]:
        replies = {}
        for name, message in out.items():
            number = self.roster.ids.index(name)
            if (self.sums, trip, number) in self.drop:
                continue
            try:
                content = self.tamper(trip, number, message, False)
                reply = self.clients[number].step(content, lambda _, n=number: (self.inputs[-1][n], 32))
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
            total, missing, self.late = self.server.sum(request, self.length, 32, self.exchange, last, lambda: None)
        finally:
            self.sums += 1
        there = [n for n, name in enumerate(self.roster.ids) if name not in missing]
        return total, missing, self.inputs[-1][there].sum(0)


def trips(pinned: bool) -> tuple[str, ...]:
    """The trips of a first sum."""
    return tuple(trip for trip in TRIPS if pinned or trip != "agree")


def no_input(request: bytes) -> Any:
    raise AssertionError("no input is due")


def changed(message: bytes, part: int, content: bytes) -> bytes:
    """The message with another part in place of one of its own."""
    header, parts = unpack(message)
    parts[part] = content
    return pack(header, *parts)
