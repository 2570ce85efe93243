"""Where random bits come from: the operating system's cryptographic source, or a marked simulation's seed.

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


class SimulatedRandomness:
    """Repeatable bytes for a marked simulation (SHAKE-256 of seed, label and a counter). Never for real privacy."""

    def __init__(self, seed: int, label: str, drawn: int = 0) -> None:
        self._key = f"hushtune simulation {seed} {label} ".encode()
        self.drawn = drawn  # how often it was asked before: where a stream goes on in another process

    def bytes(self, size: int) -> bytes:
        """The next `size` bytes of this label's stream."""
        self.drawn += 1
        return hashlib.shake_256(self._key + str(self.drawn).encode()).digest(size)


def words(randomness: Randomness, *shape: int) -> NDArray[np.uint64]:
    """Uniform 64-bit words of the given shape."""
    size = int(np.prod(shape))
    return np.frombuffer(randomness.bytes(8 * size), dtype="<u8").astype(np.uint64).reshape(shape)


def drawn_from(seed: int | None, label: str) -> Randomness:
    """The system's randomness, or, in a marked simulation, a stream of its seed."""
    return SystemRandomness() if seed is None else SimulatedRandomness(seed, label)
