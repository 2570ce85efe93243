"""A client's end: one message, to nodes of its own roster, with shares that follow from what they protect."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.seals.quorum.room import RUN, seeded

from hushtune.core.errors import RefusedError, WireError
from hushtune.core.randomness import Randomness, SimulatedRandomness, SystemRandomness
from hushtune.core.roster import NodeEntry, Roster
from hushtune.core.wire import pack
from hushtune.privacy.bounds import KHot
from hushtune.seals.ends import Due, Seat
from hushtune.seals.quorum.client import QuorumClient
from hushtune.seals.quorum.envelopes import NodeKey, Submission, about
from hushtune.seals.quorum.field import SMALL
from hushtune.seals.quorum.layout import layout_of
from hushtune.seals.quorum.node import KIND, announcement
from hushtune.seals.quorum.sharing import crowd, joined, received

NODES = ("node-1", "node-2", "node-3")
BOUND = KHot(2, 5, 1)
ROSTER = Roster(("a", "b"), nodes=tuple(NodeEntry(name, seeded(name).public) for name in NODES))
REQUEST = b"what is asked"
KEYS = {name: NodeKey(hashlib.sha512(name.encode()).digest() + bytes(32)) for name in NODES}
BALLOTS = np.array([[1, 0, 1, 0, 0], [0, 0, 0, 1, 1]])


def message(run: str = RUN, names: tuple[str, ...] = NODES, signer: Callable[[str], Any] = seeded) -> bytes:
    told = [announcement(signer(name), run, KEYS[name].public) for name in names]
    return pack({"kind": KIND, "run": RUN}, REQUEST, *told)


def seat(**changes: Any) -> Seat:
    return replace(Seat(RUN, ROSTER, 0, "terms", SystemRandomness(), seeded("a")), **changes)


def drawn(purpose: str, content: bytes) -> Randomness:
    return SimulatedRandomness(1, f"{purpose} {content.hex()}")


def due(ballots: Any = BALLOTS) -> Due:
    return Due(None, {"votes": 5}, 2, lambda: ballots, BOUND, drawn)


def opened(sent: bytes, request: bytes = REQUEST, client: str = "a") -> dict[int, Any]:
    """Every node's share of the bits, from the envelope that it alone can open."""
    made, size = Submission.from_bytes(sent, 3), 2 * layout_of(BOUND).size
    concerning = about(RUN, hashlib.sha256(request).digest(), client)
    contents = {at: made.delivery(at).opened(KEYS[name], at, concerning) for at, name in enumerate(NODES, 1)}
    return {at: received(SMALL, crowd(3), at, content, size) for at, content in contents.items()}


def test_one_message_holds_every_ballot_in_shares() -> None:
    shares = opened(QuorumClient(seat()).step(message(), due()))
    bits = joined(SMALL, crowd(3), shares, degree=1)
    layout = layout_of(BOUND)
    assert bits.tolist() == [bit for ballot in BALLOTS for bit in layout.bits(ballot)]


def test_it_is_bound_to_request_and_client() -> None:
    sent = QuorumClient(seat()).step(message(), due())
    for other in ({"request": b"another"}, {"client": "b"}):
        with pytest.raises(WireError, match="does not open"):
            opened(sent, **other)


def test_the_same_ballots_get_the_same_shares_and_others_get_others() -> None:
    first, again = (opened(QuorumClient(seat()).step(message(), due())) for _ in range(2))
    other = opened(QuorumClient(seat()).step(message(), due(BALLOTS[::-1].copy())))
    for at in first:
        assert (first[at] == again[at]).all()
        assert (first[at] != other[at]).any()


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        (message(names=NODES[:2]), "keys of 3 nodes"),
        (message(names=(*NODES, "node-1")), "keys of 3 nodes"),
        (message(run="f" * 32), "must be signed by the node that the roster names"),
        (message(names=("node-2", "node-1", "node-3")), "must be signed"),
        (message(signer=lambda name: seeded("somebody else")), "must be signed"),
    ],
)
def test_keys_that_its_own_roster_does_not_vouch_for_get_nothing(told: bytes, reason: str) -> None:
    asked = 0

    def vector() -> Any:
        nonlocal asked
        asked += 1
        return BALLOTS

    with pytest.raises(WireError, match=reason):
        QuorumClient(seat()).step(told, replace(due(), vector=vector))
    assert not asked  # no data was looked at


@pytest.mark.parametrize("missing", ["vector", "drawn", "bound"])
def test_without_an_input_that_is_due_nothing_is_sent(missing: str) -> None:
    with pytest.raises(RefusedError, match="no input is due"):
        QuorumClient(seat()).step(message(), replace(due(), **{missing: None}))
    with pytest.raises(RefusedError, match="no input is due"):
        QuorumClient(seat()).step(message(), None)


def test_it_signs_if_it_has_an_identity_and_keeps_nothing() -> None:
    signed, bare = (QuorumClient(seat(identity=who)) for who in (seeded("a"), None))
    assert len(Submission.from_bytes(signed.step(message(), due()), 3).signature) == 64
    assert Submission.from_bytes(bare.step(message(), due()), 3).signature == b""
    assert signed.done
    assert not signed.made(b"")
    assert signed.dump() == b""
    assert signed.load(b"") is signed
    signed.close()
