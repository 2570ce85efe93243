"""The cryptography of the masked seal: nothing but calls into `cryptography`, each with its purpose bound in.

Every key here lives for one round of one run.
"""

from __future__ import annotations

import hashlib

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from hushtune.core.errors import WireError

TAG_BYTES = 16
_ZERO_NONCE = bytes(12)  # each key encrypts one message


def private_key(secret: bytes) -> X25519PrivateKey:
    """The X25519 key of a 32-byte secret."""
    return X25519PrivateKey.from_private_bytes(secret)


def public_of(key: X25519PrivateKey) -> bytes:
    """Its public key, 32 bytes."""
    return key.public_key().public_bytes_raw()


def exchange(key: X25519PrivateKey, public: bytes) -> bytes:
    """What both sides of an X25519 exchange, and nobody else, can compute. Not a key yet: see `derive`."""
    try:
        return key.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        raise WireError("a public key is not a point worth agreeing on") from None


def agreeable(*publics: bytes) -> bool:
    """Whether an exchange with these public keys works for everybody (a point of small order does not)."""
    probe = private_key(digest(b"any key will do"))
    try:
        return all(exchange(probe, public) for public in publics)
    except WireError:
        return False


def derive(shared: bytes, purpose: bytes, size: int = 32) -> bytes:
    """A key (or several, one after another) from an exchange, bound to its purpose by HKDF."""
    return HKDF(SHA256(), size, salt=None, info=purpose).derive(shared)


def encrypt(key: bytes, content: bytes) -> bytes:
    """Authenticated encryption under a key that is used once."""
    return AESGCM(key).encrypt(_ZERO_NONCE, content, None)


def decrypt(key: bytes, content: bytes) -> bytes:
    """The content, or a WireError if a bit of it was changed."""
    try:
        return AESGCM(key).decrypt(_ZERO_NONCE, content, None)
    except InvalidTag:
        raise WireError("an encrypted share was changed on its way") from None


def mask(seed: bytes, length: int, bits: int) -> NDArray[np.unsignedinteger]:
    """`length` pseudo-random integers below 2^bits (32 or 64) from a 256-bit seed that is used for nothing else.

    AES-256 in counter mode: the key stream of AES-GCM, which costs one call where a bare counter mode costs four.
    """
    stream = AESGCM(seed).encrypt(_ZERO_NONCE, bytes(length * bits // 8), None)
    return np.frombuffer(stream, dtype=f"<u{bits // 8}", count=length)


def digest(content: bytes) -> bytes:
    """The SHA-256 digest of the content, 32 bytes."""
    return hashlib.sha256(content).digest()


def tag(kind: str, holder: int, share: bytes) -> bytes:
    """By which a share is known again; it says nothing about a share, which is uniform over 2^256 values."""
    return digest(f"{kind} {holder} ".encode() + share)[:TAG_BYTES]
