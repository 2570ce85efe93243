"""Messages between nodes, carried by a coordinator who can neither read nor change them.

Every node draws one key for each other node, and sends it sealed to that node's key of the run and signed by its own
pinned identity. All later messages of a conversation are encrypted under these keys (AES-256-GCM-SIV) and numbered:
one that is changed, repeated, or put in another's place does not open. If a machine is rolled back and says something
else under a number that was used, nobody learns more than that it is something else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCMSIV

from hushtune.core.errors import WireError
from hushtune.core.identity import verified
from hushtune.seals.quorum.ceremony import Node
from hushtune.seals.quorum.engine import Steps
from hushtune.seals.quorum.envelopes import NodeKey, sealed
from hushtune.seals.quorum.sharing import KEY_BYTES

T = TypeVar("T")
_SIGNATURE = 64


@dataclass(frozen=True)
class Line:
    """What a node needs to talk to the others in one conversation.

    Args:
        node: this one.
        key: its key of the run.
        keys: the public keys of the run, of all nodes in order.
        about: stands for the conversation, and no other.
    """

    node: Node
    key: NodeKey = field(repr=False)
    keys: Sequence[bytes]
    about: bytes


def secured(program: Steps[T], line: Line) -> Steps[T]:
    """The same program, with every message encrypted and authenticated; one round more, in which keys are given.

    Args:
        program: of this node.
        line: to the others.
    """
    points = line.node.among.points
    own = [line.node.drawn("line", line.about, bytes([peer])).bytes(KEY_BYTES) for peer in points]
    got = yield [_given(line, peer, key) for peer, key in zip(points, own, strict=True)]
    theirs = [_taken(line, peer, content) for peer, content in zip(points, got, strict=True)]
    number, received = 0, None
    while True:
        try:
            sent = program.send(received) if received is not None else next(program)
        except StopIteration as end:
            found: T = end.value
            return found
        nonce = number.to_bytes(12, "big")
        got = yield [AESGCMSIV(key).encrypt(nonce, content, None) for key, content in zip(own, sent, strict=True)]
        received = [
            _opened(key, nonce, content, peer) for peer, (key, content) in enumerate(zip(theirs, got, strict=True), 1)
        ]
        number += 1


def _given(line: Line, peer: int, key: bytes) -> bytes:
    """A key for one other node: sealed, and signed."""
    parcel = sealed(key, line.keys[peer - 1], _purpose(line, line.node.number, peer))
    return line.node.identity.sign(_signed(line, line.node.number, peer, parcel)) + parcel


def _taken(line: Line, peer: int, content: bytes) -> bytes:
    signature, parcel = content[:_SIGNATURE], content[_SIGNATURE:]
    if not verified(line.node.publics[peer - 1], signature, _signed(line, peer, line.node.number, parcel)):
        raise WireError(f"what came as node {peer}'s is not signed by it")
    key = line.key.opened(parcel, _purpose(line, peer, line.node.number))
    if len(key) != KEY_BYTES:
        raise WireError(f"node {peer} must give a key of {KEY_BYTES} bytes")
    return key


def _purpose(line: Line, sender: int, receiver: int) -> bytes:
    everybody = hashlib.sha256(b"".join(line.keys)).digest()
    return b"hushtune quorum line " + bytes([sender, receiver]) + line.about + everybody


def _signed(line: Line, sender: int, receiver: int, parcel: bytes) -> bytes:
    return _purpose(line, sender, receiver) + hashlib.sha256(parcel).digest()


def _opened(key: bytes, nonce: bytes, content: bytes, peer: int) -> bytes:
    try:
        return AESGCMSIV(key).decrypt(nonce, content, None)
    except InvalidTag:
        raise WireError(f"what came as node {peer}'s was changed, or is not its next message") from None
