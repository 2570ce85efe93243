"""Two prime fields: a small one in which ballots are shared, checked and added up, and a large one to compute in.

`Small` is GF(2^61 - 1) on numpy's 64-bit words: a million ballots are checked in seconds. Its elements are too short to
hide a number behind a random one that is much larger, which is how numbers are compared on shares. So the few sums that
are computed with go into `Large`, GF(2^255 - 19) on Python's integers.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from numpy.typing import NDArray

from hushtune.core.errors import WireError

Elements = NDArray[Any]
"""Elements of a field: uint64 words in the small one, Python's integers in the large one."""

_ZERO_NONCE = bytes(12)  # each key makes one stream
_WORD = np.uint64
_P61 = _WORD(2**61 - 1)
_LOW29, _LOW30, _LOW31, _LOW32 = (_WORD(2**bits - 1) for bits in (29, 30, 31, 32))
_BITS29, _BITS30, _BITS31, _BITS32, _BITS61 = (_WORD(bits) for bits in (29, 30, 31, 32, 61))


def stream(key: bytes, size: int) -> bytes:
    """Pseudo-random bytes of a 256-bit key that is used for nothing else (AES-256 in counter mode)."""
    return AESGCM(key).encrypt(_ZERO_NONCE, bytes(size), None)[:size]


class Field(ABC):
    """Arithmetic modulo a prime on arrays of any shape."""

    prime: ClassVar[int]
    width: ClassVar[int]  # bytes of an element on the wire
    material: ClassVar[int]  # bytes of a stream for one uniform element

    @abstractmethod
    def elements(self, values: Any) -> Elements:
        """Integers of any sign as elements."""

    @abstractmethod
    def add(self, one: Elements, other: Elements) -> Elements:
        """The sum, entry by entry."""

    @abstractmethod
    def mul(self, one: Elements, other: Elements) -> Elements:
        """The product, entry by entry."""

    @abstractmethod
    def total(self, values: Elements, axis: int = 0) -> Elements:
        """The sum along an axis."""

    @abstractmethod
    def uniform(self, key: bytes, count: int) -> Elements:
        """Uniform elements from the stream of a key, shape (count,)."""

    @abstractmethod
    def to_bytes(self, values: Elements) -> bytes:
        """All entries, little endian, one after the other."""

    @abstractmethod
    def from_bytes(self, content: bytes, count: int) -> Elements:
        """What `to_bytes` wrote, shape (count,); a WireError if it is anything else."""

    def sub(self, one: Elements, other: Elements) -> Elements:
        """The difference, entry by entry."""
        return self.add(one, self.neg(other))

    def neg(self, values: Elements) -> Elements:
        """What must be added to get zero."""
        return self.mul(values, self.elements(-1))

    def inverse(self, value: int) -> int:
        """Of one element other than zero."""
        return pow(value, -1, self.prime)


class Small(Field):
    """GF(2^61 - 1): sums of bits of a million clients stay far below the prime."""

    prime: ClassVar[int] = 2**61 - 1
    width: ClassVar[int] = 8
    material: ClassVar[int] = 8

    def elements(self, values: Any) -> Elements:
        """Integers of any sign as words below the prime."""
        return np.asarray(np.asarray(values, dtype=object) % self.prime, dtype=_WORD)

    def add(self, one: Elements, other: Elements) -> Elements:
        """Both are below 2^61, so nothing wraps."""
        return _below(one + other)

    def neg(self, values: Elements) -> Elements:
        """The prime minus the value, and zero for zero."""
        return _below(_P61 - values)

    def mul(self, one: Elements, other: Elements) -> Elements:
        """By halves of 31 bits: 2^62 counts as 2, and 2^61 as 1."""
        high, low = one >> _BITS31, one & _LOW31
        other_high, other_low = other >> _BITS31, other & _LOW31
        middle = high * other_low + low * other_high  # below 2^62, to be multiplied by 2^31
        upper = _reduced(high * other_high * _WORD(2) + (middle >> _BITS30))
        return _below(_reduced(upper + _reduced((middle & _LOW30) << _BITS31) + _reduced(low * other_low)))

    def total(self, values: Elements, axis: int = 0) -> Elements:
        """By halves of 32 bits, so that 2^32 of them can be added up before anything is reduced. The upper ones' sum
        times 2^32: what goes above 2^61 counts from 1 again."""
        low, high = (values & _LOW32).sum(axis=axis), (values >> _BITS32).sum(axis=axis)
        high = _below(high)
        return _below(_reduced(low) + ((high & _LOW29) << _BITS32) + (high >> _BITS29))

    def uniform(self, key: bytes, count: int) -> Elements:
        """61 bits each; the one pattern that is no element is drawn again, from a stream of its own."""
        found: Elements = np.frombuffer(stream(key, 8 * count), dtype="<u8").astype(_WORD) & _P61
        while (again := np.flatnonzero(found == _P61)).size:  # a chance of 2^-61 each
            key = hashlib.sha256(b"again " + key).digest()
            found[again] = np.frombuffer(stream(key, 8 * len(again)), dtype="<u8").astype(_WORD) & _P61
        return found

    def to_bytes(self, values: Elements) -> bytes:
        """Eight bytes for each, little endian."""
        return values.astype("<u8").tobytes()

    def from_bytes(self, content: bytes, count: int) -> Elements:
        """Words below the prime; a WireError if there is another."""
        if len(content) != 8 * count:
            raise WireError(f"{8 * count} bytes of shares are expected, but got {len(content)}")
        found: Elements = np.frombuffer(content, dtype="<u8").astype(_WORD)
        if (found >= _P61).any():
            raise WireError("a share must be below the prime")
        return found


class Large(Field):
    """GF(2^255 - 19): a number of 70 bits behind a random one of 200 leaves less than 2^-128 to be seen."""

    prime: ClassVar[int] = 2**255 - 19
    width: ClassVar[int] = 32
    material: ClassVar[int] = 48  # reduced modulo the prime: within 2^-128 of uniform

    def elements(self, values: Any) -> Elements:
        """Integers of any sign, reduced modulo the prime."""
        return np.asarray(np.asarray(values, dtype=object) % self.prime, dtype=object)

    def add(self, one: Elements, other: Elements) -> Elements:
        """Reduced modulo the prime at once."""
        return (one + other) % self.prime

    def sub(self, one: Elements, other: Elements) -> Elements:
        """Reduced modulo the prime at once."""
        return (one - other) % self.prime

    def neg(self, values: Elements) -> Elements:
        """The prime minus the value, and zero for zero."""
        return -values % self.prime

    def mul(self, one: Elements, other: Elements) -> Elements:
        """Reduced modulo the prime at once."""
        return (one * other) % self.prime

    def total(self, values: Elements, axis: int = 0) -> Elements:
        """Reduced once, at the end."""
        return self.elements(values.sum(axis=axis))

    def uniform(self, key: bytes, count: int) -> Elements:
        """384 bits for each, reduced modulo the prime."""
        return integers(key, count, 8 * self.material) % self.prime

    def to_bytes(self, values: Elements) -> bytes:
        """32 bytes for each, little endian."""
        return b"".join(int(value).to_bytes(32, "little") for value in values.ravel())

    def from_bytes(self, content: bytes, count: int) -> Elements:
        """Integers below the prime; a WireError if there is another."""
        if len(content) != 32 * count:
            raise WireError(f"{32 * count} bytes of shares are expected, but got {len(content)}")
        found = _split(content, 32)
        if (found >= self.prime).any():
            raise WireError("a share must be below the prime")
        return found


def integers(key: bytes, count: int, bits: int) -> Elements:
    """Uniform integers below 2^bits, a multiple of 8, from the stream of a key; shape (count,)."""
    return _split(stream(key, count * bits // 8), bits // 8)


def _split(content: bytes, width: int) -> Elements:
    found = np.empty(len(content) // width, dtype=object)
    read: Callable[[int], int] = lambda at: int.from_bytes(content[at : at + width], "little")  # noqa: E731
    found[:] = [read(at) for at in range(0, len(content), width)]
    return found


def _reduced(values: Elements) -> Elements:
    """Below 2^61 + 8, from any word."""
    return (values & _P61) + (values >> _BITS61)


def _below(values: Elements) -> Elements:
    """Below the prime, from any word. What is below it already becomes huge where the prime is taken off."""
    reduced = _reduced(values)
    with np.errstate(over="ignore"):
        return np.asarray(np.minimum(reduced, reduced - _P61))


SMALL, LARGE = Small(), Large()
