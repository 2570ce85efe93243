"""Clients behind a transport that, like Flower, finds a new process for every message: nothing stays but the disk and
the state that the transport keeps for each node."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import hushtune as ht
from hushtune.core.roster import Roster
from hushtune.core.wire import unpack
from hushtune.federation.base import Dropped
from hushtune.federation.endpoint import Endpoint
from hushtune.federation.envelope import Answer, Letter
from hushtune.federation.remote import RemoteFederation
from hushtune.methods.base import Method, Openings
from hushtune.methods.vote.ballots import TopVotes
from hushtune.privacy.bounds import Bound

CANDIDATES = ht.Space(x=ht.Float(0.0, 1.0)).grid(x=11)


@ht.objective
def distance(config: ht.Config, data: ht.Rows) -> float:
    return float(abs(config["x"] - np.mean(data.y)))


def data_of(number: int) -> tuple[Any, Any]:
    return np.zeros((4, 1)), np.random.default_rng(number).normal(0.3, 0.02, 4)


@dataclass
class Seen:
    """One message as the server sees it."""

    trip: str
    node: str
    letter: bytes
    answer: bytes


@dataclass
class Wire:
    """`fail(trip, node)` says what the transport does instead of delivering; `tamper` may change what is carried."""

    home: Path
    clients: int = 5
    pinned: bool = False
    seed: int | None = None
    objective: Any = distance
    policy: ht.Policy | None = None  # None: what `tune` asks for is what the clients' owners allow
    states: dict[str, bytes] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)
    fail: Callable[[str, str], str | None] = lambda trip, node: None
    tamper: Callable[[str, str, bytes, bool], bytes] = lambda trip, node, content, is_answer: content

    def __post_init__(self) -> None:
        self.names = [f"client-{at}" for at in range(self.clients)]
        self.nodes = [f"node-{100 + at}" for at in range(self.clients)]
        self.identities = [ht.Identity(hashlib.sha256(name.encode()).digest()) for name in self.names]
        self.agreed = agreeing(ht.Privacy(1.0), ht.Masked())
        self.roster: Roster | None = None
        if self.pinned:
            self.roster = Roster(tuple(self.names), tuple(i.public for i in self.identities), b"r" * 32)

    def client(self, at: int) -> ht.Client:
        identity = self.identities[at] if self.pinned else None
        policy = self.policy or (self.agreed if self.seed is None else None)
        return ht.Client(lambda: data_of(at), self.objective, policy=policy, identity=identity)

    def endpoint(self, node: str) -> Endpoint:
        at = self.nodes.index(node)
        home = self.home / f"machine-{at}"
        return Endpoint(self.client(at), self.names[at], node, home, self.roster, self.seed, jobs=1)

    def deliver(self, node: str, letter: bytes) -> bytes:
        """One message to a node, in a process of its own."""
        answer, self.states[node] = self.endpoint(node).reply(letter, self.states.get(node, b""))
        return answer

    def carry(self, letters: Mapping[str, bytes]) -> dict[str, bytes | Dropped]:
        replies: dict[str, bytes | Dropped] = {}
        for node, letter in letters.items():
            trip = trip_of(letter)
            if (reason := self.fail(trip, node)) is not None:
                replies[node] = Dropped(reason)
                continue
            sent = self.tamper(trip, node, letter, False)
            answer = self.tamper(trip, node, self.deliver(node, sent), True)
            self.seen.append(Seen(trip, node, sent, answer))
            replies[node] = answer
        return replies

    def federation(self) -> RemoteFederation:
        return RemoteFederation(self.nodes, self.carry, self.home / "server", self.roster, self.seed is not None)

    def tune(self, federation: RemoteFederation | None = None, **changes: Any) -> ht.Result:
        given: dict[str, Any] = {
            "method": ht.Vote(k=1, decode="argmax"),
            "privacy": ht.Privacy(1.0),
            "seal": ht.Masked(dropouts=0.4),
            "simulation": None if self.seed is None else ht.Simulation(self.seed),
            "observer": ht.Silent(),
        }
        settings = {**given, **changes}
        self.agreed = agreeing(settings["privacy"], settings["seal"])
        return ht.tune(federation or self.federation(), CANDIDATES, **settings)

    def ledger(self, at: int) -> ht.Ledger:
        return ht.Ledger(self.home / f"machine-{at}" / "clients" / self.names[at] / "ledger.db")


def agreeing(privacy: ht.Privacy | None, seal: ht.Seal) -> ht.Policy:
    """The policy of an owner who allows just this."""
    if privacy is None:
        return ht.Policy(exact=True, seals=(seal.name,))
    own: dict[str, Any] = {"units": (privacy.unit,), "neighbours": (privacy.neighbours,), "seals": (seal.name,)}
    return ht.Policy(epsilon=privacy.epsilon, delta=privacy.delta, **own)


def trip_of(letter: bytes) -> str:
    """Which trip a letter belongs to."""
    header, _ = unpack(Letter.from_bytes(letter).message)
    return str(header.get("trip", header["kind"]))


def reason_of(answer: bytes) -> str:
    """Why a client refused; empty if it did not."""
    header, _ = unpack(Answer.from_bytes(answer).reply)
    return str(header.get("reason", ""))


@dataclass(frozen=True)
class ThreeVotes(Method):
    """Opens three sums one after the other."""

    name: ClassVar[str] = "three-votes"

    def bounds(self, candidates: ht.Candidates) -> tuple[Bound, ...]:
        return (TopVotes(1, candidates, 0).bound,) * 3

    def run(self, run: Openings) -> ht.Config:
        sums = [run.sum(TopVotes(1, run.candidates, run.search.seed))["votes"] for _ in range(3)]
        return run.candidates[int(np.argmax(np.sum(sums, axis=0)))]
