"""Identities: Ed25519 keys that the operator pins in a roster, so that a server cannot put its own in their place."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hushtune.core.errors import CacheError, SettingError
from hushtune.core.files import create_once, own


@dataclass(frozen=True)
class Identity:
    """A client's long-term signing key. It signs what the client advertises and is never shared out.

    Args:
        secret: 32 random bytes: an Ed25519 private key.
    """

    secret: bytes = field(repr=False)

    @classmethod
    def new(cls) -> Identity:
        """A fresh identity, from 32 random bytes of the operating system."""
        return cls(os.urandom(32))

    @property
    def public(self) -> bytes:
        """The public key, 32 bytes; this goes into the roster."""
        public: bytes = self._key().public_key().public_bytes_raw()
        return public

    def _key(self) -> Any:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return Ed25519PrivateKey.from_private_bytes(self.secret)

    def sign(self, message: bytes) -> bytes:
        """A signature, 64 bytes.

        Args:
            message: of any length.
        """
        signature: bytes = self._key().sign(message)
        return signature

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the secret key to a new file that only its owner can read.

        Args:
            path: of a file that does not exist yet.
        """

        def write(draft: Path) -> None:
            draft.write_text(f"hushtune identity, keep secret\n{self.secret.hex()}\n", encoding="ascii")

        if not create_once(Path(path), write, private=True):
            raise SettingError(f"{path} exists already; an identity is never overwritten")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Identity:
        """The identity in a file.

        Args:
            path: of a file that `save` or `hushtune identity new` made.
        """
        try:
            lines = Path(path).read_text(encoding="ascii").splitlines()
            secret = bytes.fromhex(lines[1])
        except OSError as error:
            raise SettingError(f"{path} cannot be read: {error.strerror}") from None
        except (ValueError, IndexError):
            secret = b""
        if len(secret) != 32:
            raise SettingError(f"{path} must be a file made by `hushtune identity new`")
        try:
            own(Path(path))
        except CacheError as error:
            raise SettingError(str(error)) from None
        return cls(secret)


def verified(public: bytes, signature: bytes, message: bytes) -> bool:
    """Whether the signature is by the owner of the public key."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True
