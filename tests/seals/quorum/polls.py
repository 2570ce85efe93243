"""Runs with real requests, which nodes read themselves, and submissions made by hand, for audits and attacks."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tests.seals.quorum.room import RUN, seeded

import hushtune as ht
from hushtune.client.query import Query
from hushtune.client.request import Request
from hushtune.core.randomness import SimulatedRandomness
from hushtune.core.roster import NodeEntry, Roster
from hushtune.core.wire import unpack
from hushtune.federation.nodes.task import board_of, reader
from hushtune.seals.ends import Ask, Outcome, Replies, Trip, converse
from hushtune.seals.quorum.envelopes import Submission, about, submitted
from hushtune.seals.quorum.field import SMALL, Elements
from hushtune.seals.quorum.layout import layout_of
from hushtune.seals.quorum.node import NodeEnd, announced_key
from hushtune.seals.quorum.server import QuorumServer
from hushtune.seals.quorum.sharing import crowd, deal

Forge = Callable[["Poll", str, bytes], bytes | None]
"""What a client that keeps to no rule sends, from its name and the message that it got."""


def candidates(count: int) -> ht.Candidates:
    return ht.Space(x=ht.Float(0.0, 1.0)).grid(x=count)


class Poll:
    """What clients are asked, and what each of them says.

    Args:
        query: what each unit is asked.
        vectors: each client's own, shape (voters, candidates); one row is enough for one voter.
        scale: of the noise.
        m: nodes.
        dropouts: as for the seal.
        pinned: whether clients sign.
    """

    def __init__(
        self,
        query: Query,
        vectors: Sequence[Any],
        scale: float = 0.0,
        m: int = 3,
        dropouts: float = 0.5,
        pinned: bool = False,
    ) -> None:
        self.query, self.scale, self.pinned = query, scale, pinned
        self.seal = ht.Quorum(dropouts=dropouts, nodes=m)
        self.among, self.layout = crowd(m), layout_of(query.bound)
        self.clients = tuple(f"client-{at:02}" for at in range(len(vectors)))
        self.vectors = {name: np.atleast_2d(own) for name, own in zip(self.clients, vectors, strict=True)}
        self.voters = len(self.vectors[self.clients[0]])
        entries = tuple(NodeEntry(f"node-{at}", seeded(f"node-{at}").public) for at in self.among.points)
        keys = tuple(seeded(name).public for name in self.clients) if pinned else None
        self.roster = Roster(self.clients, keys, bytes(32) if pinned else b"", entries)
        self.forged: dict[str, Forge] = {}
        self.record: list[tuple[Trip, Replies]] = []

    # ---- who takes part ------------------------------------------------------------------------------

    def request(self, run: str = RUN, step: int = 0, **changes: Any) -> Request:
        noise = self.seal.noise(self.scale)
        settings = {"query": self.query, "noise": noise, "voters": self.voters, **changes}
        return Request(
            run=run,
            step=step,
            roster=self.roster.digest(),
            form=None,
            seal=self.seal,
            privacy=None,
            events=(),
            **settings,
        )

    def nodes(self, folder: Path) -> dict[str, NodeEnd]:
        """In this process; their secrets are the same whenever it is the same run, so that keys are, too."""
        board, read = board_of(self.roster), reader(self.roster)
        return {
            name: NodeEnd(name, seeded(name), board, folder / name, read, SimulatedRandomness(5, name).bytes)
            for name in board.nodes
        }

    # ---- clients -------------------------------------------------------------------------------------

    def about(self, client: str, message: bytes) -> bytes:
        header, (request, *_) = unpack(message)
        return about(str(header["run"]), hashlib.sha256(request).digest(), client)

    def sealed(self, client: str, message: bytes, contents: Sequence[bytes]) -> Submission:
        """Some content for each node, sealed and signed as a client would."""
        header, (_, *announced) = unpack(message)
        told = zip(self.roster.nodes, announced, strict=True)
        keys = [announced_key(node.key, str(header["run"]), one) for node, one in told]
        salts = SimulatedRandomness(3, f"salts {client} {hashlib.sha256(b''.join(contents)).hexdigest()}")
        concerning = self.about(client, message)
        made = submitted(contents, keys, concerning, salts)
        return made.signed(seeded(client), concerning) if self.pinned else made

    def shares(self, client: str, bits: Any) -> list[bytes]:
        """Of whatever stands for bits."""
        elements = SMALL.elements(np.asarray(bits, dtype=object).ravel())
        told = hashlib.sha256(SMALL.to_bytes(elements)).hexdigest()
        return deal(SMALL, self.among, elements, SimulatedRandomness(3, f"{client} {told}"))

    def bits(self, client: str) -> Elements:
        return np.stack([self.layout.bits(vector) for vector in self.vectors[client]])

    def reply(self, client: str, message: bytes) -> bytes | None:
        if client in self.forged:
            return self.forged[client](self, client, message)
        return self.sealed(client, message, self.shares(client, self.bits(client))).to_bytes()

    # ---- conversations -------------------------------------------------------------------------------

    def answered(self, trip: Trip) -> dict[str, Any]:
        return {name: self.reply(name, message) for name, message in trip.messages.items()}

    def through(self, to_nodes: Callable[[Mapping[str, bytes]], Mapping[str, Any]]) -> Callable[[Trip], Replies]:
        def exchange(trip: Trip) -> Replies:
            replies = to_nodes(trip.messages) if trip.to == "nodes" else self.answered(trip)
            self.record.append((trip, replies))
            return replies

        return exchange

    def ask(self, request: Request, choose: Any = None, needed: int | None = None) -> Ask:
        needed = self.seal.needed(len(self.clients)) if needed is None else needed
        size = self.query.bound.length
        return Ask(request.to_bytes(), size, 2**50, needed, True, None, size, choose=choose, step=request.step)

    def server(self, run: str = RUN, folder: Path | None = None) -> QuorumServer:
        names = [node.name for node in self.roster.nodes]
        return QuorumServer(run, self.clients, names, self.seal.dropouts, folder)

    def open(
        self,
        exchange: Callable[[Trip], Replies],
        run: str = RUN,
        folder: Path | None = None,
        end: bool = False,
        needed: int | None = None,
    ) -> Outcome:
        """The sums, or the winner's place if that is all that may be opened."""
        server, choose = self.server(run, folder), winner if self.query.bound.tests else None
        outcome = converse(server.open(self.ask(self.request(run), choose, needed)), exchange, lambda: None)
        if end:
            converse(server.finish(), exchange, lambda: None)
        return outcome

    def opened(self, folder: Path, **settings: Any) -> Outcome:
        """With nodes of this process."""
        return self.open(self.through(stepped(self.nodes(folder))), **settings)

    def total(self, *missing: str) -> list[int]:
        """What the vectors of all others come to."""
        own = [vector for name in self.clients if name not in missing for vector in self.vectors[name]]
        return [int(value) for value in np.sum(own, axis=0)]


def stepped(nodes: Mapping[str, NodeEnd]) -> Callable[[Mapping[str, bytes]], dict[str, bytes]]:
    return lambda messages: {name: nodes[name].step(message) for name, message in messages.items()}


def winner(oracle: Any) -> int:
    return int(oracle.noisy_max())
