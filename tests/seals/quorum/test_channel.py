"""Messages between nodes: a coordinator who carries them can neither read nor change them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.seals.quorum.room import seeded

from hushtune.core.errors import WireError
from hushtune.seals.quorum.ceremony import Node
from hushtune.seals.quorum.channel import Line, secured
from hushtune.seals.quorum.engine import Steps, together
from hushtune.seals.quorum.envelopes import NodeKey
from hushtune.seals.quorum.sharing import crowd

AMONG = crowd(3)
KEYS = [NodeKey(bytes([at]) * 96) for at in AMONG.points]
PUBLICS = [seeded(f"node {at}").public for at in AMONG.points]
ROUNDS = 3
Carry = Callable[[int, list[list[bytes]]], None]


def line(number: int, about: bytes = b"about", identity: str | None = None) -> Line:
    node = Node(AMONG, number, seeded(identity or f"node {number}"), PUBLICS, bytes([number]) * 32)
    return Line(node, KEYS[number - 1], [key.public for key in KEYS], about)


def plain(number: int, peer: int, at: int) -> bytes:
    return f"a plain text of round {at} by node {number} to node {peer}".encode()


def talk(number: int) -> Steps[list[list[bytes]]]:
    heard = []
    for at in range(ROUNDS):
        heard.append((yield [plain(number, peer, at) for peer in AMONG.points]))
    return heard


def carried(lines: list[Line], carry: Carry = lambda at, sent: None) -> list[list[list[bytes]]]:
    """What all nodes heard; `carry` may change what was sent, by sender and receiver, round 0 being the handshake."""
    programs = [secured(talk(one.node.number), one) for one in lines]
    sent, ended = [next(program) for program in programs], []
    for at in range(ROUNDS + 1):
        carry(at, sent)
        given, sent = [[one[to] for one in sent] for to in range(3)], []
        for program, got in zip(programs, given, strict=True):
            try:
                sent.append(program.send(got))
            except StopIteration as end:
                ended.append(end.value)
    return ended


def lines() -> list[Line]:
    return [line(number) for number in AMONG.points]


def test_everybody_hears_what_was_said() -> None:
    expected = [[[plain(one, me, at) for one in AMONG.points] for at in range(ROUNDS)] for me in AMONG.points]
    assert carried(lines()) == expected
    assert together([secured(talk(one.node.number), one) for one in lines()]) == expected


def test_the_carrier_never_sees_a_plain_text_or_a_key() -> None:
    seen = b""

    def carry(at: int, sent: list[list[bytes]]) -> None:
        nonlocal seen
        seen += b"".join(b"".join(one) for one in sent)

    carried(lines(), carry)
    assert b"plain text" not in seen
    for one in lines():
        for peer in AMONG.points:
            assert one.node.drawn("line", b"about", bytes([peer])).bytes(32) not in seen


@pytest.mark.parametrize("at", range(ROUNDS + 1))
@pytest.mark.parametrize("place", [0, 15, 40, -1])
def test_a_changed_message_is_refused(at: int, place: int) -> None:
    def carry(now: int, sent: list[list[bytes]]) -> None:
        if now == at:
            other = bytearray(sent[1][2])
            other[place] ^= 1
            sent[1][2] = bytes(other)

    with pytest.raises(WireError, match="what came as node 2's"):
        carried(lines(), carry)


@pytest.mark.parametrize("at", range(ROUNDS + 1))
@pytest.mark.parametrize("size", [0, 1, 15, 16, 40])
def test_a_short_message_is_refused(at: int, size: int) -> None:
    def carry(now: int, sent: list[list[bytes]]) -> None:
        if now == at:
            sent[1][2] = sent[1][2][:size]

    with pytest.raises(WireError):
        carried(lines(), carry)


def test_a_repeated_message_is_refused() -> None:
    kept: list[bytes] = []

    def carry(now: int, sent: list[list[bytes]]) -> None:
        kept.append(sent[1][2])
        if now >= 2:
            sent[1][2] = kept[1]

    with pytest.raises(WireError, match="not its next message"):
        carried(lines(), carry)


def test_messages_in_another_order_are_refused() -> None:
    later: list[bytes] = []
    carried(lines(), lambda now, sent: later.append(sent[1][2]))  # all is derived: the same keys come again

    def carry(now: int, sent: list[list[bytes]]) -> None:
        if now == 1:
            assert sent[1][2] == later[1]
            sent[1][2] = later[2]

    with pytest.raises(WireError, match="not its next message"):
        carried(lines(), carry)


@pytest.mark.parametrize("at", [0, 1])
def test_a_message_of_or_for_another_peer_is_refused(at: int) -> None:
    def of(now: int, sent: list[list[bytes]]) -> None:
        if now == at:
            sent[1][2] = sent[0][2]

    def back(now: int, sent: list[list[bytes]]) -> None:
        if now == at:
            sent[1][2] = sent[2][1]

    def to(now: int, sent: list[list[bytes]]) -> None:
        if now == at:
            sent[1][2] = sent[1][0]

    for carry in (of, back, to):
        with pytest.raises(WireError, match="what came as node 2's"):
            carried(lines(), carry)


@pytest.mark.parametrize("at", range(ROUNDS + 1))
def test_a_message_of_another_conversation_is_refused(at: int) -> None:
    other: list[bytes] = []
    carried([line(number, b"other") for number in AMONG.points], lambda now, sent: other.append(sent[1][2]))

    def carry(now: int, sent: list[list[bytes]]) -> None:
        if now == at:
            sent[1][2] = other[at]

    with pytest.raises(WireError, match="what came as node 2's"):
        carried(lines(), carry)


def test_nodes_with_different_keys_of_others_do_not_talk() -> None:
    false = [KEYS[0].public, KEYS[1].public, NodeKey(b"x" * 96).public]
    with pytest.raises(WireError, match="not signed by it"):
        carried([replace(line(1), keys=false), line(2), line(3)])


def test_a_handshake_that_the_pinned_identity_has_not_signed_is_refused() -> None:
    with pytest.raises(WireError, match="what came as node 2's is not signed by it"):
        carried([line(1), line(2, identity="stranger"), line(3)])
