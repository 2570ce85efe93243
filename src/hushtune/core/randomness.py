"""Where random bits come from: the operating system's cryptographic source, a client's own secret, or a marked
simulation's seed.

Noise, ballots and tie-breaks draw from nothing else.
"""

from __future__ import annotations

import hashlib
import os
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Randomness(Protocol):
    """A source of uniform bytes."""

    def bytes(self, size: int) -> bytes:
        """`size` fresh uniform bytes."""
        ...


class SystemRandomness:
    """The operating system's cryptographic generator. Has no seed and no state to save."""

    def bytes(self, size: int) -> bytes:
        """`size` fresh uniform bytes."""
        return os.urandom(size)


class DerivedRandomness:
    """The stream of a key: as unpredictable as the key is, and the same whenever the key is (SHAKE-256 of the key and
    a counter).

    Args:
        key: bytes that nobody else can know (`core/secret.py`); a simulation's are public.
        drawn: how often the stream was asked before: where it goes on in another process.
    """

    def __init__(self, key: bytes, drawn: int = 0) -> None:
        self._key = key
        self.drawn = drawn

    def bytes(self, size: int) -> bytes:
        """The next `size` bytes of the stream."""
        self.drawn += 1
        return hashlib.shake_256(self._key + str(self.drawn).encode()).digest(size)


class SimulatedRandomness(DerivedRandomness):
    """Repeatable bytes for a marked simulation: one stream for each seed and label. Never for real privacy."""

    def __init__(self, seed: int, label: str, drawn: int = 0) -> None:
        super().__init__(f"hushtune simulation {seed} {label} ".encode(), drawn)


def words(randomness: Randomness, *shape: int) -> NDArray[np.uint64]:
    """Uniform 64-bit words of the given shape."""
    size = int(np.prod(shape))
    return np.frombuffer(randomness.bytes(8 * size), dtype="<u8").astype(np.uint64).reshape(shape)


def drawn_from(seed: int | None, label: str) -> Randomness:
    """The system's randomness, or, in a marked simulation, a stream of its seed."""
    return SystemRandomness() if seed is None else SimulatedRandomness(seed, label)
