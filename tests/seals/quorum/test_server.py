"""The coordinator's end: what nodes open is what clients sent, and whoever fails is named."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.seals.quorum.room import Room, changed, said

from hushtune.core.errors import AbortedError
from hushtune.core.wire import pack
from hushtune.privacy.bounds import KHot
from hushtune.seals.ends import Replies, Trip
from hushtune.seals.oracle import Oracle


@pytest.mark.parametrize("m", [3, 5])
def test_the_sum(tmp_path: Path, m: int) -> None:
    room = Room(tmp_path, m=m, bad=["client-2"], needed=3)
    outcome = room.open()
    assert list(outcome.values) == room.total("client-2")
    assert list(outcome.missing) == ["client-2"]


def test_the_winner(tmp_path: Path) -> None:
    room = Room(tmp_path)
    outcome = room.open(lambda oracle: oracle.noisy_max("permute-and-flip"))
    assert list(outcome.values) == [int(np.argmax(room.total()))]


def test_adaptive_questions_get_each_answer_once(tmp_path: Path) -> None:
    room = Room(tmp_path, bound=KHot(1, 3), times=2)
    found: list[int | None] = []

    def choose(oracle: Oracle) -> int:
        found[:] = [oracle.above_threshold(Fraction(2), [0, 1, 2])]
        found.append(oracle.above_threshold(Fraction(1, 4), [2, 1, 0]))
        return 0

    outcome = room.open(choose)
    first = next(place for place in (2, 1, 0) if room.total()[place] >= 1)
    assert found == [None, first]
    assert list(outcome.values) == [-1, first]
    assert room.told.count("question") == 2


class Odd(Room):
    """Some clients do what they should not."""

    def client(self, client: str, message: bytes) -> Any:
        if client == "client-0":
            return None
        if client == "client-1":
            return b"garbage"
        sent = self.submission(client, message)
        if client == "client-2":
            return replace(sent, envelopes=(sent.envelopes[0], b"x", sent.envelopes[2])).to_bytes()
        return sent.to_bytes()


@pytest.mark.parametrize("pinned", [True, False])
def test_clients_that_fail_are_missing_with_a_reason(tmp_path: Path, pinned: bool) -> None:
    room = Odd(tmp_path, n=5, needed=2, bound=KHot(1, 2), pinned=pinned)
    outcome = room.open()
    assert list(outcome.values) == room.total("client-0", "client-1", "client-2")
    assert outcome.missing["client-0"] == "no reply"
    assert "must start with" in outcome.missing["client-1"]
    assert outcome.missing["client-2"].startswith("node-")


@pytest.mark.parametrize(("needed", "told"), [(4, ["key"]), (3, ["key", "submissions"])])
def test_too_many_missing(tmp_path: Path, needed: int, told: list[str]) -> None:
    room = Odd(tmp_path, n=5, needed=needed)
    with pytest.raises(AbortedError, match=f"{needed} of 5 clients must"):
        room.open()
    assert room.told == told


NOT_TAKEN = pack({"kind": "quorum", "is": "taken", "refused": 3})
FEW = pack({"kind": "quorum", "is": "parcels"}, b"one")


@pytest.mark.parametrize(
    ("what", "reply", "reason"),
    [
        ("key", None, "node-2: no reply"),
        ("submissions", pack({"kind": "refused", "reason": "not today"}), "node-2: refused: not today"),
        ("submissions", NOT_TAKEN, "node-2 must say"),
        ("list", b"garbage", "node-2: "),
        ("list", FEW, "node-2 must send"),
        ("question", None, "node-2: no reply"),
        ("round", pack({"kind": "quorum", "is": "checked", "bad": []}), "do not say the same"),
    ],
)
def test_a_node_that_fails_is_named(tmp_path: Path, what: str, reply: Any, reason: str) -> None:
    room = Room(tmp_path, bound=KHot(1, 2))

    def exchange(trip: Trip) -> Replies:
        replies = dict(room.exchange(trip))
        if trip.to == "nodes" and said(trip.messages["node-2"])["is"] == what:
            replies["node-2"] = reply
        return replies

    with pytest.raises(AbortedError, match=reason):
        room.open(exchange=exchange)


def test_nodes_that_open_different_values(tmp_path: Path) -> None:
    room = Room(tmp_path, bound=KHot(1, 2))

    def exchange(trip: Trip) -> Replies:
        replies = dict(room.exchange(trip))
        if trip.to == "nodes" and said(replies["node-3"])["is"] == "opened":
            replies["node-3"] = changed(replies["node-3"], values=[4, 0])
            replies["node-1"] = changed(replies["node-1"], values=[0, 4])
        return replies

    with pytest.raises(AbortedError, match="do not say the same"):
        room.open(exchange=exchange)
