"""Messages that were changed on their way, to a node, to the coordinator or to a client, at every stage of a run: no
crash, no conversation without an end, no wrong result."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from tests.seals.quorum.room import RUN, Room, said
from tests.seals.quorum.test_client import due, seat
from tests.seals.quorum.test_client import message as asked

from hushtune.core.errors import AbortedError, HushtuneError
from hushtune.core.wire import pack, unpack
from hushtune.privacy.bounds import KHot
from hushtune.seals.ends import Replies, Trip
from hushtune.seals.quorum.client import QuorumClient
from hushtune.seals.quorum.node import NodeEnd
from hushtune.seals.quorum.seal import Quorum

EACH = 10  # changed messages to each of three nodes in one run
MOST_TRIPS = 100  # a run of two clients and three nodes takes about 40
ODD: list[Any] = [
    *(None, -1, 0, 1, 2, 10**20, "", "x", [], ["x"], {}, 0.5, True, "\ud800", [["client-0"]], "client-0"),
    *(["client-0"], ["client-1", "client-0"], {"name": []}, {"name": "winner"}, {"name": "sum", "more": 1}),
    *("key", "submissions", "list", "question", "round", {"name": "above", "level": [1, 0], "order": [0, 0]}),
]


def mutated(message: bytes, at: int, source: random.Random) -> bytes:
    """Another message: with some bits changed, cut off, with an odd field, or with other parts.

    Args:
        message: as it should be.
        at: how many messages the node has taken: some of those that are changed come as the next one.
        source: of chances.
    """
    while (found := _once(message, at, source)) == message:
        pass
    return found


def _once(message: bytes, at: int, source: random.Random) -> bytes:
    header, parts = unpack(message)
    if source.random() < 0.5 and "at" in header:
        header["at"] = at
    match source.randrange(6):
        case 0:
            return _flipped(pack(header, *parts), source)
        case 1:
            content = pack(header, *parts)
            return content[: source.randrange(len(content))]
        case 2:
            return pack(header | {source.choice(list(header)): source.choice(ODD)}, *parts)
        case 3:
            return pack({name: value for name, value in header.items() if source.random() < 0.8}, *parts)
        case 4 if any(parts):
            chosen = source.choice([place for place, part in enumerate(parts) if part])
            changed = [_flipped(part, source) if place == chosen else part for place, part in enumerate(parts)]
            return pack(header, *changed)
    pool = [*parts, b"", b"x", bytes(99), message]
    return pack(header, *(source.choice(pool) for _ in range(source.randrange(len(parts) + 2))))


def _flipped(content: bytes, source: random.Random) -> bytes:
    found = bytearray(content)
    for _ in range(source.choice((1, 1, 1, 8))):
        found[source.randrange(len(found))] ^= 1 << source.randrange(8)
    return bytes(found)


def taken(node: NodeEnd) -> int:
    """How many messages of the run a node has taken."""
    return len(node._runs[RUN]._taken) if RUN in node._runs else 0


class Crossed(Room):
    """A run in which, at one moment, nodes hear many changed messages before the right one."""

    @property
    def winner(self) -> int:
        return self.total().index(max(self.total()))

    def strike(self, trip: Trip, source: random.Random) -> list[tuple[str, bytes, bytes]]:
        """What nodes were told, and what they said to it."""
        told = []
        earlier = [message for past, _ in self.record if past.to == "nodes" for message in past.messages.values()]
        for name, node in self.nodes.items():
            for _ in range(EACH):
                message = trip.messages[name] if source.random() < 0.8 or not earlier else source.choice(earlier)
                changed = mutated(message, taken(node), source)
                reply = node.step(changed)
                header, _ = unpack(reply)
                assert header["kind"] in ("quorum", "refused")
                assert header.get("reason") != "internal error", changed
                assert header.get("is") != "opened" or header["values"] == [self.winner]
                told.append((name, changed, reply))
        return told


def crossed(folder: Path, seed: int) -> None:
    """One run; changed messages come at a random moment of it."""
    source = random.Random(seed)
    room = Crossed(folder, n=2, bound=KHot(1, 2), pinned=source.random() < 0.5, times=2)
    moment, told, trips = source.randrange(32), [], 0

    def exchange(trip: Trip) -> Replies:
        nonlocal moment, trips
        trips += 1
        assert trips <= MOST_TRIPS
        if trip.to == "nodes":
            if moment == 0:
                told.extend(room.strike(trip, source))
            moment -= 1
        return room.exchange(trip)

    try:
        outcome = room.open(lambda oracle: oracle.noisy_max("geometric"), exchange)
        assert list(outcome.values) == [room.winner]
    except AbortedError:
        assert told
    assert told or moment >= 0
    room.restart()  # a journal with changed messages in it is read like any other
    for name, message, reply in told:
        if said(reply)["kind"] == "quorum":
            assert room.nodes[name].step(message) == reply


def test_changed_messages(tmp_path: Path) -> None:
    """The long form below sends 10^5."""
    for seed in range(20):
        crossed(tmp_path / str(seed), seed)


@pytest.mark.long
@pytest.mark.parametrize("start", range(20, 3520, 100))
def test_a_hundred_thousand_changed_messages(tmp_path: Path, start: int) -> None:
    """One run in sixty is over before its moment comes, so 3,500 runs have 10^5 and more."""
    for seed in range(start, start + 100):
        crossed(tmp_path / str(seed), seed)


def misheard(folder: Path, seed: int) -> str:
    """One run in which the coordinator hears one changed reply; says how it ended."""
    source = random.Random(seed)
    room = Crossed(folder, n=3, bound=KHot(1, 2), needed=2)
    moment, trips = source.randrange(40), 0

    def exchange(trip: Trip) -> Replies:
        nonlocal trips
        trips += 1
        assert trips <= MOST_TRIPS
        try:
            replies = dict(room.exchange(trip))
        except HushtuneError:  # clients refuse keys that no node has signed
            return {}
        if trips == moment:
            name = source.choice(list(replies))
            replies[name] = mutated(replies[name], 0, source)
        return replies

    try:
        outcome = room.open(lambda oracle: oracle.noisy_max("geometric"), exchange)
    except AbortedError:
        return "aborted"
    total = room.total(*outcome.missing)  # a reply may name clients: then the totals are those of the others
    assert list(outcome.values) == [total.index(max(total))]
    return "missing" if outcome.missing else "whole"


def test_changed_replies_to_the_coordinator(tmp_path: Path) -> None:
    """It names who is missing or stops; the winner is always that of the ballots that are counted."""
    assert {misheard(tmp_path / str(seed), seed) for seed in range(120)} == {"aborted", "missing", "whole"}


def test_changed_messages_to_a_client() -> None:
    """It sends ballots for the request that it was told, under the nodes' own keys, or nothing."""
    source, right = random.Random(1), asked()
    sent = 0
    for _ in range(500):
        changed = mutated(right, 0, source)
        try:
            Quorum.expects(*unpack(changed), changed)  # as on the way in
            reply = QuorumClient(seat()).step(changed, due())
        except HushtuneError:
            continue
        sent += 1
        assert unpack(changed)[1][1:] == unpack(right)[1][1:]  # nodes' keys are those that their owners have signed
        assert reply
    assert sent  # what says only who is meant, or is part of the request, is not its business
