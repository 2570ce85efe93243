"""Nodes, clients and a coordinator of one process, for tests."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from hushtune.core.errors import RefusedError
from hushtune.core.identity import Identity
from hushtune.core.randomness import SimulatedRandomness
from hushtune.core.wire import pack, unpack
from hushtune.privacy.bounds import Bound, KHot
from hushtune.seals.ends import Ask, Outcome, Replies, Trip, converse
from hushtune.seals.oracle import Choose
from hushtune.seals.quorum.ceremony import Step
from hushtune.seals.quorum.envelopes import Submission, about, submitted
from hushtune.seals.quorum.field import SMALL
from hushtune.seals.quorum.layout import layout_of
from hushtune.seals.quorum.node import Board, NodeEnd, Task, announced_key
from hushtune.seals.quorum.questions import Above, Question, Total, Winner
from hushtune.seals.quorum.server import QuorumServer
from hushtune.seals.quorum.sharing import crowd, deal

RUN = "0123456789abcdef" * 2
REQUEST = b"a request"
LOUD = Fraction(60)
"""So large an epsilon that noise is zero but with a probability below 2^-80."""


class Stopped(Exception):
    """A conversation that a test has stopped, with the trip that was not made."""

    def __init__(self, trip: Trip) -> None:
        super().__init__()
        self.trip = trip


def seeded(name: str) -> Identity:
    return Identity(hashlib.sha256(name.encode()).digest())


def said(message: bytes) -> dict[str, Any]:
    return unpack(message)[0]


def changed(message: bytes, parts: list[bytes] | None = None, **fields: Any) -> bytes:
    """The same message but for some fields, or other parts."""
    header, old = unpack(message)
    return pack(header | fields, *(old if parts is None else parts))


class Room:
    """All who take part in one run.

    Args:
        folder: where nodes keep what they keep.
        n: clients.
        m: nodes.
        bound: of their vectors.
        bad: clients whose ballots break a rule.
        needed: the fewest clients; all if it is not given.
        times: how many questions may be asked.
        pinned: whether clients sign.
    """

    def __init__(
        self,
        folder: Path,
        n: int = 4,
        m: int = 3,
        bound: Bound | None = None,
        bad: Collection[str] = (),
        needed: int | None = None,
        times: int = 1,
        pinned: bool = True,
    ) -> None:
        self.folder, self.among, self.bound, self.bad, self.times = folder, crowd(m), bound or KHot(2, 5), bad, times
        self.layout = layout_of(self.bound)
        self.clients = [f"client-{at}" for at in range(n)]
        self.names = [f"node-{at}" for at in self.among.points]
        self.needed = n if needed is None else needed
        self.pinned = pinned
        self.board = Board(
            {name: seeded(name).public for name in self.names},
            {name: seeded(name).public if pinned else None for name in self.clients},
        )
        self.vectors = {name: self.bound.default(SimulatedRandomness(7, name)) for name in self.clients}
        self.record: list[tuple[Trip, Mapping[str, Any]]] = []
        self.nodes: dict[str, NodeEnd] = {}
        self.restart()

    # ---- nodes ---------------------------------------------------------------------------------------

    def node(self, name: str) -> NodeEnd:
        return NodeEnd(name, seeded(name), self.board, self.folder / name, self.read)

    def restart(self) -> None:
        """Every node is a new process."""
        self.nodes = {name: self.node(name) for name in self.names}

    def read(self, request: bytes) -> Task:
        """What requests of these tests ask: the step is their last byte, or 0."""
        if not request.startswith(REQUEST):
            raise RefusedError("this node takes no part in that")
        number = int(request[len(REQUEST) :] or b"0")
        step = Step(RUN, number, hashlib.sha256(request).digest(), self.layout, self.needed)
        return Task(step, 1, self.times, self.question)

    def question(self, raw: Mapping[str, Any]) -> Question:
        match raw:
            case {"name": "sum"}:
                return Total(0, self.bound.length)
            case {"name": "winner"}:
                return Winner(LOUD, len(self.clients))
            case {"name": "above", "level": [int(above), int(below)], "order": [*order]} if below > 0:
                level = -(-above * len(self.clients) // below)
                return Above(LOUD, LOUD, len(self.clients), level, tuple(order))
        raise RefusedError("that is no question")

    # ---- clients -------------------------------------------------------------------------------------

    def submission(self, client: str, message: bytes) -> Submission:
        """What a client sends."""
        _, (request, *announced) = unpack(message)
        keys = [
            announced_key(self.board.nodes[name], RUN, one) for name, one in zip(self.names, announced, strict=True)
        ]
        bits = np.full(self.layout.size, 2, np.uint64)
        if client not in self.bad:
            bits = self.layout.bits(self.vectors[client])
        contents = deal(SMALL, self.among, bits, SimulatedRandomness(3, f"{client} {request!r}"))
        concerning = about(RUN, hashlib.sha256(request).digest(), client)
        made = submitted(contents, keys, concerning)
        return made.signed(seeded(client), concerning) if self.pinned else made

    def client(self, client: str, message: bytes) -> Any:
        return self.submission(client, message).to_bytes()

    # ---- conversations -------------------------------------------------------------------------------

    def exchange(self, trip: Trip) -> Replies:
        if trip.to == "nodes":
            replies: dict[str, Any] = {name: self.nodes[name].step(one) for name, one in trip.messages.items()}
        else:
            replies = {name: self.client(name, one) for name, one in trip.messages.items()}
        self.record.append((trip, replies))
        return replies

    def ask(self, choose: Choose | None = None, request: bytes = REQUEST) -> Ask:
        size = self.bound.length
        return Ask(request, size, len(self.clients), self.needed, True, None, size, choose=choose)

    def server(self) -> QuorumServer:
        return QuorumServer(RUN, self.clients, self.names, 0.5)

    def open(self, choose: Choose | None = None, exchange: Callable[[Trip], Replies] | None = None) -> Outcome:
        return converse(self.server().open(self.ask(choose)), exchange or self.exchange, lambda: None)

    def until(self, what: str, skip: int = 0, choose: Choose | None = None) -> Mapping[str, bytes]:
        """Goes on until nodes would be told this, some times skipped; the messages that are due then."""
        left = skip

        def exchange(trip: Trip) -> Replies:
            nonlocal left
            if trip.to == "nodes" and said(trip.messages[self.names[0]])["is"] == what:
                if left == 0:
                    raise Stopped(trip)
                left -= 1
            return self.exchange(trip)

        try:
            self.open(choose, exchange)
        except Stopped as stopped:
            return stopped.trip.messages
        raise AssertionError(f"nodes were never told {what}")

    @property
    def told(self) -> list[str]:
        """What nodes were told, in order."""
        return [said(trip.messages[self.names[0]])["is"] for trip, _ in self.record if trip.to == "nodes"]

    def total(self, *missing: str) -> list[int]:
        return [int(one) for one in sum(vector for name, vector in self.vectors.items() if name not in missing)]
