"""A client's own secret: what all its random choices are derived from.

A machine that is rolled back to yesterday's disk image draws again. With fresh draws it would answer one request twice
with two noises, and their average tells more than either. Derived draws are repeated instead: the same content under
the same secret gives the same bytes, in any process, and other content gives bytes that nobody can relate to them
(HMAC-SHA-256 as a pseudo-random function, SHAKE-256 to stretch its value).
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

from hushtune.core.errors import CacheError
from hushtune.core.files import create_once, own
from hushtune.core.randomness import DerivedRandomness

_SIZE = 32
_FILE = "secret.key"


class Secret:
    """32 random bytes that never leave their owner's machine.

    Args:
        key: gives the bytes, when they are first needed.
    """

    def __init__(self, key: Callable[[], bytes]) -> None:
        self._found = key

    @cached_property
    def _key(self) -> bytes:
        return self._found()

    def __repr__(self) -> str:
        return "Secret(...)"

    @classmethod
    def kept(cls, folder: Path) -> Secret:
        """The secret in a client's own folder: made when it is first needed, and the same ever after.

        Args:
            folder: the client's.
        """
        return cls(lambda: _kept(folder / _FILE))

    @classmethod
    def simulated(cls, seed: int, name: str) -> Secret:
        """The secret of a client in a marked simulation: repeatable, and kept nowhere. Never for real privacy.

        Args:
            seed: the simulation's.
            name: the client's.
        """
        return cls(hashlib.sha256(f"hushtune simulation secret {seed} {name}".encode()).digest)

    def make(self) -> Secret:
        """Sees to it that the secret is there: a machine that is rolled back to an earlier time would make another."""
        self.derived("made")
        return self

    def derived(self, purpose: str, *content: bytes) -> bytes:
        """32 bytes for a purpose: the same for the same content, and unrelated to those for any other.

        Args:
            purpose: what they are for.
            content: what they depend on; where one item ends and the next begins counts.
        """
        told = b"".join(len(item).to_bytes(8, "big") + item for item in (purpose.encode(), *content))
        return hmac.new(self._key, told, hashlib.sha256).digest()

    def randomness(self, purpose: str, *content: bytes) -> DerivedRandomness:
        """The stream of what is derived for a purpose: a random choice that is the same whenever its content is.

        Args:
            purpose: what is drawn.
            content: what the draw may depend on.
        """
        return DerivedRandomness(self.derived(purpose, *content))


def _kept(path: Path) -> bytes:
    """The bytes in a file, which is made once, from the operating system's source."""

    def write(draft: Path) -> None:
        draft.write_text(f"hushtune secret, keep it to yourself\n{os.urandom(_SIZE).hex()}\n", encoding="ascii")

    create_once(path, write, private=True)
    own(path)
    try:
        key = bytes.fromhex(path.read_text(encoding="ascii").splitlines()[1])
    except (ValueError, IndexError):
        key = b""
    if len(key) != _SIZE:
        raise CacheError(
            f"{path} must be a secret that hushtune made, but it is damaged; put it back from a copy, or remove it to "
            "have another one made"
        )
    return key
