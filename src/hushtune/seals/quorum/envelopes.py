"""Sealed envelopes: what a client sends to each node, carried by a coordinator who cannot open any of them.

Each is encrypted by HPKE (RFC 9180) to a key that the node made for this run alone and deletes after it, by X25519 and
ML-KEM-768 together: ballots must stay secret for decades. It is bound to run, request, client, node and the digests of
all m contents of the submission, so that nothing mixes: an envelope of another run, request, client or submission does
not open, or is not what the others hold.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import (
    AEAD,
    KDF,
    KEM,
    MLKEM768X25519PrivateKey,
    MLKEM768X25519PublicKey,
    Suite,
)

from hushtune.core.errors import WireError
from hushtune.core.identity import Identity
from hushtune.core.randomness import Randomness, SystemRandomness
from hushtune.core.wire import pack, unpack

PUBLIC_BYTES = 1184 + 32
_SALT = 32
ENVELOPE_BYTES = 1088 + 32 + 16 + _SALT
"""What an envelope adds to its content: both encapsulations, a tag, and random bytes before the content: all nodes see
its digest, and with t shares in hand, whoever guesses a ballot could compute the others and compare."""
LONGEST_ENVELOPE = 2**25
"""Bytes of an envelope, at most: one that no node can be handed must cost its own client a part, and nobody else."""
_SECRET_BYTES = 64 + 32
_DIGEST = 32
_SIGNATURE = 64


def _suite() -> Suite:
    return Suite(KEM.MLKEM768_X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM)


@dataclass(frozen=True)
class NodeKey:
    """A node's key for the envelopes of one run.

    Args:
        secret: 96 random bytes.
    """

    secret: bytes = field(repr=False)

    @cached_property
    def _key(self) -> MLKEM768X25519PrivateKey:
        lattice = MLKEM768PrivateKey.from_seed_bytes(self.secret[:64])
        return MLKEM768X25519PrivateKey(lattice, X25519PrivateKey.from_private_bytes(self.secret[64:_SECRET_BYTES]))

    @property
    def public(self) -> bytes:
        """What clients seal envelopes with."""
        lattice = MLKEM768PrivateKey.from_seed_bytes(self.secret[:64]).public_key().public_bytes_raw()
        return lattice + X25519PrivateKey.from_private_bytes(self.secret[64:]).public_key().public_bytes_raw()

    def opened(self, envelope: bytes, purpose: bytes) -> bytes:
        """The content, or a WireError: changed on its way, or for somebody or something else."""
        try:
            return _suite().decrypt(envelope, self._key, info=purpose)
        except (InvalidTag, ValueError):
            raise WireError(
                "an envelope does not open: it was changed, or is for another run, client or node"
            ) from None


def sealed(content: bytes, public: bytes, purpose: bytes) -> bytes:
    """An envelope that only the owner of a public key opens, for the same purpose."""
    try:
        lattice = MLKEM768PublicKey.from_public_bytes(public[:-32])
        key = MLKEM768X25519PublicKey(lattice, X25519PublicKey.from_public_bytes(public[-32:]))
        return _suite().encrypt(content, key, info=purpose)
    except ValueError:
        raise WireError(f"a node's key must be {PUBLIC_BYTES} bytes, but got something else") from None


@dataclass(frozen=True)
class Delivery:
    """What one node gets of a client's submission: its own envelope, and what binds it to the others.

    Args:
        digests: of the contents for all nodes, in order.
        carried: of the envelopes of all nodes, in order.
        signature: of the client's identity over all of it; empty if it has none.
        envelope: for this node.
    """

    digests: tuple[bytes, ...]
    carried: tuple[bytes, ...]
    signature: bytes
    envelope: bytes = field(repr=False)

    @property
    def root(self) -> bytes:
        """One digest for the whole submission: what all nodes must hold of a client."""
        return _root(self.digests)

    def signed_part(self, concerning: bytes) -> bytes:
        """What the client signs.

        Args:
            concerning: run, request and client (`about`).
        """
        return _signed(concerning, self.digests, self.carried)

    def opened(self, key: NodeKey, node: int, concerning: bytes) -> bytes:
        """What is in the envelope, if it belongs to this submission; else a WireError.

        Args:
            key: the node's.
            node: its number.
            concerning: run, request and client (`about`).
        """
        if _digest(self.envelope) != self.carried[node - 1]:
            raise WireError("an envelope is not the one that its submission names")
        content = key.opened(self.envelope, _purpose(concerning, node, self.root))
        if _content_digest(node, content) != self.digests[node - 1]:
            raise WireError("an envelope's content is not what its submission says")
        return content[_SALT:]

    def to_bytes(self) -> bytes:
        """The delivery on the wire."""
        return pack({"kind": "delivery"}, b"".join(self.digests), b"".join(self.carried), self.signature, self.envelope)

    @classmethod
    def from_bytes(cls, message: bytes, nodes: int) -> Delivery:
        """What `to_bytes` wrote for so many nodes; a WireError if it is anything else."""
        header, parts = unpack(message)
        if (
            header != {"kind": "delivery"}
            or [len(part) for part in parts[:2]] != [_DIGEST * nodes] * 2
            or len(parts) != 4
        ):
            raise WireError(f"a delivery must hold digests for {nodes} nodes, a signature and an envelope")
        return cls(_split(parts[0]), _split(parts[1]), parts[2], parts[3])


@dataclass(frozen=True)
class Submission:
    """One client's message: an envelope for each node.

    Args:
        digests: of the contents for all nodes, in order.
        envelopes: in the same order.
        signature: of the client's identity over all of it; empty if it has none.
    """

    digests: tuple[bytes, ...]
    envelopes: tuple[bytes, ...] = field(repr=False)
    signature: bytes = b""

    def signed(self, identity: Identity, concerning: bytes) -> Submission:
        """The same, signed by the client.

        Args:
            identity: the client's.
            concerning: run, request and client (`about`).
        """
        return replace(self, signature=identity.sign(_signed(concerning, self.digests, self._carried)))

    @cached_property
    def _carried(self) -> tuple[bytes, ...]:
        return tuple(_digest(envelope) for envelope in self.envelopes)

    def delivery(self, node: int) -> Delivery:
        """What one node gets of it."""
        return Delivery(self.digests, self._carried, self.signature, self.envelopes[node - 1])

    def to_bytes(self) -> bytes:
        """The submission on the wire."""
        return pack({"kind": "submission"}, b"".join(self.digests), self.signature, *self.envelopes)

    @classmethod
    def from_bytes(cls, message: bytes, nodes: int) -> Submission:
        """What `to_bytes` wrote for so many nodes; a WireError if it is anything else."""
        header, parts = unpack(message)
        if header != {"kind": "submission"} or len(parts) != 2 + nodes or len(parts[0]) != _DIGEST * nodes:
            raise WireError(f"a submission must hold {nodes} envelopes and as many digests")
        if len(parts[1]) not in (0, _SIGNATURE):
            raise WireError(f"a signature must have {_SIGNATURE} bytes, but got {len(parts[1])}")
        if (longest := max(map(len, parts[2:]))) > LONGEST_ENVELOPE:
            raise WireError(f"an envelope must have at most {LONGEST_ENVELOPE} bytes, but got {longest}")
        return cls(_split(parts[0]), tuple(parts[2:]), parts[1])


def about(run: str, request: bytes, client: str) -> bytes:
    """What every envelope of a client is about.

    Args:
        run: its id.
        request: the digest of the request that the client answers.
        client: its name.
    """
    return hashlib.sha256(f"{run} {request.hex()} {client}".encode()).digest()


def submitted(
    contents: Sequence[bytes], publics: Sequence[bytes], concerning: bytes, randomness: Randomness | None = None
) -> Submission:
    """Seals one content for each node.

    Args:
        contents: for all nodes in order.
        publics: their keys of this run.
        concerning: run, request and client (`about`).
        randomness: what salts come from: a client's are the same for the same contents. Default: the system's.
    """
    source = randomness or SystemRandomness()
    salted = [source.bytes(_SALT) + content for content in contents]
    digests = tuple(_content_digest(node, content) for node, content in enumerate(salted, 1))
    envelopes = tuple(
        sealed(content, public, _purpose(concerning, node, _root(digests)))
        for node, (content, public) in enumerate(zip(salted, publics, strict=True), 1)
    )
    return Submission(digests, envelopes)


def _purpose(concerning: bytes, node: int, root: bytes) -> bytes:
    """What one envelope is for: it opens for nothing else."""
    return b"hushtune quorum envelope " + bytes([node]) + concerning + root


def _signed(concerning: bytes, digests: Sequence[bytes], carried: Sequence[bytes]) -> bytes:
    return b"hushtune quorum submission " + concerning + _root(digests) + _root(carried)


def _content_digest(node: int, content: bytes) -> bytes:
    return _digest(bytes([node]) + content)


def _root(digests: Sequence[bytes]) -> bytes:
    return _digest(b"".join(digests))


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def _split(content: bytes) -> tuple[bytes, ...]:
    return tuple(content[at : at + _DIGEST] for at in range(0, len(content), _DIGEST))
