"""A node: killed at every message it goes on where it was, and what it must not take it refuses by name."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from tests.seals.quorum.room import RUN, Room, changed, said, seeded

from hushtune.core.errors import RefusedError
from hushtune.core.wire import pack, unpack
from hushtune.privacy.bounds import KHot
from hushtune.seals.ends import Replies, Trip
from hushtune.seals.quorum.journal import Journal
from hushtune.seals.quorum.node import NodeEnd, announcement

NODE = "node-1"


def refused(room: Room, message: bytes) -> str:
    header = said(room.nodes[NODE].step(message))
    assert header["kind"] == "refused", header
    return str(header["reason"])


@pytest.mark.parametrize("bad", [("client-1",)])
def test_killed_before_and_after_every_message_a_node_says_the_same(tmp_path: Path, bad: tuple[str, ...]) -> None:
    room = Room(tmp_path, bound=KHot(1, 2), bad=bad, needed=3)

    def exchange(trip: Trip) -> Replies:
        if trip.to == "clients":
            return room.exchange(trip)
        room.restart()
        replies = room.exchange(trip)
        room.restart()
        assert replies == {name: room.nodes[name].step(message) for name, message in trip.messages.items()}
        return replies

    outcome = room.open(exchange=exchange)
    assert list(outcome.values) == room.total(*bad)
    assert set(outcome.missing) == set(bad)


def test_a_crash_between_journal_and_reply(tmp_path: Path) -> None:
    room = Room(tmp_path, bound=KHot(1, 2))

    def exchange(trip: Trip) -> Replies:
        if trip.to == "nodes" and said(trip.messages[NODE])["is"] != "key":
            for name, message in trip.messages.items():
                Journal(tmp_path / name / RUN / "journal").add(message)
            room.restart()
        return room.exchange(trip)

    assert list(room.open(exchange=exchange).values) == room.total()


def test_an_error_that_nobody_expects_is_a_refusal_and_stops_no_node(tmp_path: Path) -> None:
    """It is in the journal: a node that went down by it would do so at every start."""
    room = Room(tmp_path)
    message = room.until("submissions")[NODE]
    room.read = lambda request: 1 / 0  # type: ignore[assignment, return-value]
    for _ in range(2):
        room.restart()
        header, _ = unpack(room.nodes[NODE].step(message))
        assert header == {"kind": "refused", "reason": "internal error"}
    assert len(list(Journal(tmp_path / NODE / RUN / "journal").read())) == 4


def test_numbers_of_messages(tmp_path: Path) -> None:
    room = Room(tmp_path)
    message = room.until("list")[NODE]
    assert "was another one" in refused(room, changed(message, at=1))
    for at in (3, -1, True, None, "2", 2.0, 10**30):
        assert "is expected" in refused(room, changed(message, at=at))
    assert said(room.nodes[NODE].step(message))["is"] == "parcels"
    assert "was another one" in refused(room, changed(message, clients=room.clients[::-1]))


def test_submissions_that_are_not_taken(tmp_path: Path) -> None:
    room = Room(tmp_path)
    message = room.until("submissions")[NODE]
    _, (request, first, second, third, fourth) = unpack(message)
    names = ["stranger", "client-1", "client-0", "client-0", "client-3"]
    unsigned = unpack(fourth)
    bare = pack(unsigned[0], *unsigned[1][:2], b"", unsigned[1][3])
    sent = changed(message, [request, first, first, first, first, bare], clients=names)
    told = unpack(room.nodes[NODE].step(sent))[0]["refused"]
    assert told == {
        "stranger": "the roster does not name this client",
        "client-1": "a submission must be signed by its client",
        "client-0": "this client's submission is here already",
        "client-3": "a submission must be signed by its client",
    }
    later = changed(message, [request, second, third, b"garbage"], clients=["client-1", "client-2", "client-3"], at=2)
    assert set(said(room.nodes[NODE].step(later))["refused"]) == {"client-3"}


def test_lists_that_are_refused_and_what_comes_after_one(tmp_path: Path) -> None:
    room = Room(tmp_path, needed=3)
    submissions = room.until("submissions")[NODE]
    room.record.clear()
    room.folder = tmp_path / "again"
    room.restart()
    message = room.until("list")[NODE]
    _, keys = unpack(message)
    false = announcement(seeded("stranger"), RUN, unpack(keys[1])[1][0])
    at = 2
    for reason, parts, clients in [
        ("are not here, first 'stranger'", keys, [*room.clients[:3], "stranger"]),
        ("3 clients at least, but got 2", keys, room.clients[:2]),
        ("each client once", keys, ["client-0"] * 4),
        ("must be signed by the node", [keys[0], false, keys[2]], room.clients),
        ("must be signed by the node", [keys[1], keys[0], keys[2]], room.clients),
    ]:
        assert reason in refused(room, changed(message, parts, clients=clients, at=at))
        at += 1
    assert "one part of each" in refused(room, changed(message, keys[:2], at=at))
    assert "when the ceremony" in refused(room, _question(at))
    assert said(room.nodes[NODE].step(changed(message, at=at + 1)))["is"] == "parcels"
    assert "fixed already" in refused(room, changed(message, at=at + 2))
    assert "no submission is taken any more" in refused(room, changed(submissions, at=at + 3))
    assert "when the ceremony" in refused(room, _question(at + 4))


def _question(at: int) -> bytes:
    return pack({"kind": "quorum", "run": RUN, "is": "question", "at": at, "step": 0, "question": {"name": "sum"}})


def test_no_more_questions_than_announced(tmp_path: Path) -> None:
    room = Room(tmp_path, bound=KHot(1, 2))
    room.open()
    at = len(room.told)
    replies = {name: node.step(_question(at)) for name, node in room.nodes.items()}
    parts = [unpack(reply)[1][0] for reply in replies.values()]
    header = {"kind": "quorum", "run": RUN, "is": "round", "at": at + 1, "step": 0}
    assert "at most 1 questions were announced" in refused(room, pack(header, *parts))
    assert "nothing is under way" in refused(room, pack(header | {"at": at + 2}, *parts))


@pytest.mark.parametrize("restarted", [False, True])
def test_the_end_removes_everything(tmp_path: Path, restarted: bool) -> None:
    room = Room(tmp_path)
    messages = room.until("list")
    folder = tmp_path / NODE / RUN
    (folder / ".secret.draft").touch()
    (folder / "secret").write_bytes(b"damaged")
    if restarted:
        room.restart()
    end = pack({"kind": "quorum", "run": RUN, "is": "end"})
    for _ in range(2):
        assert said(room.nodes[NODE].step(end))["is"] == "ended"
        assert not folder.exists()
        assert "the run is over" in refused(room, messages[NODE])


def test_an_identity_that_the_roster_does_not_name(tmp_path: Path) -> None:
    room = Room(tmp_path)
    for name, identity in (("node-1", "node-2"), ("stranger", "stranger")):
        with pytest.raises(RefusedError, match="the roster must name"):
            NodeEnd(name, seeded(identity), room.board, tmp_path, room.read)


def mutated(message: bytes, source: random.Random) -> bytes:
    header, parts = unpack(message)
    odd: list[Any] = [None, -1, 0, 1, 10**20, "", "x", [], ["x"], {}, {"name": []}, 0.5, True, "\ud800", [["client-0"]]]
    match source.randrange(4):
        case 0:
            content = bytearray(message)
            content[source.randrange(len(content))] ^= 1 << source.randrange(8)
            return bytes(content)
        case 1:
            return message[: source.randrange(len(message))]
        case 2:
            return pack(header | {source.choice(list(header)): source.choice(odd)}, *parts)
    picked = [source.choice([*parts, b"", b"x", bytes(99)]) for _ in range(source.randrange(len(parts) + 2))]
    return pack(header, *picked)


def test_random_changes_give_no_crash_and_no_wrong_result(tmp_path: Path) -> None:
    source = random.Random(5)
    for trial in range(4):
        room = Room(tmp_path / str(trial), n=2, bound=KHot(1, 2))

        def exchange(trip: Trip, room: Room = room) -> Replies:
            if trip.to == "clients" or said(trip.messages[NODE])["is"] == "key":
                return room.exchange(trip)
            replies = {}
            for name, message in trip.messages.items():
                for _ in range(4):
                    reply = room.nodes[name].step(mutated(message, source))
                    header, _ = unpack(reply)
                    assert header.get("is") != "opened" or header["values"] == room.total()
                replies[name] = room.nodes[name].step(message)
            return replies

        try:
            assert list(room.open(exchange=exchange).values) == room.total()
        except Exception as error:
            assert type(error).__name__ == "AbortedError", error
        room.restart()
        assert said(room.nodes[NODE].step(_question(0)))["kind"] == "refused"
