"""Polynomials of keys as residues: where serialised objects have them, sums of them, and the common random ones.

What parties tell each other about keys are residues alone, 8 bytes each, modulus after modulus. They are put into
objects that OpenFHE made here, so it reads no key that came from outside, and half of each key is never sent: the
common random polynomials, which every party derives itself. Run beside OpenFHE, too: Python 3.10 and numpy only.
"""

from __future__ import annotations

import hashlib
import struct
from typing import Any, NamedTuple

import numpy as np

_WIDTH = 8  # bytes of a residue


class Mould(NamedTuple):
    """A serialised object of OpenFHE, to be filled with other residues.

    Args:
        content: its bytes.
        ring: the ring's dimension.
        places: where its polynomials begin, one for each modulus, and their moduli.
    """

    content: bytes
    ring: int
    places: list[tuple[int, int]]

    @classmethod
    def of(cls, content: bytes, ring: int) -> Mould:
        """The mould that an object makes, which must have been serialised here."""
        return cls(content, ring, vectors(content, ring))

    def moduli(self, half: int | None = None) -> list[int]:
        """The moduli of its polynomials, or of those in its first or second half."""
        middle = len(self.places) // 2
        chosen = {None: self.places, 0: self.places[:middle], 1: self.places[middle:]}[half]
        return [modulus for _, modulus in chosen]

    def residues(self) -> bytes:
        """All residues of the object."""
        return b"".join(self.content[at : at + _WIDTH * self.ring] for at, _ in self.places)

    def halves(self) -> tuple[bytes, bytes]:
        """The residues of a key's first and second polynomials."""
        whole = self.residues()
        return whole[: len(whole) // 2], whole[len(whole) // 2 :]

    def filled(self, residues: bytes) -> bytes:
        """The same object with these residues."""
        size, found = _WIDTH * self.ring, bytearray(self.content)
        if len(residues) != size * len(self.places):
            raise ValueError("residues of other parameters")
        for number, (at, _) in enumerate(self.places):
            found[at : at + size] = residues[number * size : (number + 1) * size]
        return bytes(found)


def vectors(content: bytes, ring: int) -> list[tuple[int, int]]:
    """Where a serialised object has its residue vectors, and their moduli: a length, the residues, the modulus."""
    mark, size, at, found = struct.pack("<Q", ring), _WIDTH * ring, 0, []
    while (at := content.find(mark, at)) >= 0:
        end = at + 8 + size
        if end + 8 <= len(content):
            (modulus,) = struct.unpack_from("<Q", content, end)
            prime = modulus % (2 * ring) == 1 and 2**28 < modulus < 2**61
            if prime and int(np.frombuffer(content, np.uint64, ring, at + 8).max()) < modulus:
                found.append((at + 8, modulus))
                at = end
                continue
        at += 1
    return found


def received(residues: bytes, moduli: list[int], ring: int) -> bytes:
    """Residues that came from outside, if they can be those of a key; ValueError if not.

    A polynomial that is zero modulo one of the moduli is refused: under such a key a ciphertext hides nothing. That of
    an honest key is uniform.
    """
    if len(residues) != _WIDTH * ring * len(moduli):
        raise ValueError(
            f"a key's message must have {len(moduli)} polynomials and not the common one, which nobody sends, "
            f"but got {len(residues) / (_WIDTH * ring):g}"
        )
    for row, modulus in zip(_rows(residues, ring), moduli, strict=True):
        if int(row.max()) >= modulus:
            raise ValueError("a residue must be below its modulus")
        if not row.any():
            raise ValueError("a polynomial of a key must not be zero")
    return residues


def added(parts: list[bytes], moduli: list[int], ring: int) -> bytes:
    """The sum of residues that came from several parties."""
    total, column = np.zeros((len(moduli), ring), np.uint64), np.array(moduli, np.uint64)[:, None]
    for part in parts:
        total = (total + _rows(received(part, moduli, ring), ring)) % column
    return total.tobytes()


def subtracted(one: Mould, other: Mould) -> bytes:
    """The serialised private key that is the difference of two."""
    if not one.places or one.moduli() != other.moduli():
        raise ValueError("keys of other parameters")
    column = np.array(one.moduli(), np.uint64)[:, None]
    first, second = (_rows(each.residues(), one.ring) for each in (one, other))
    return one.filled(((first + (column - second)) % column).tobytes())


def common(seed: str, label: str, moduli: list[int], ring: int) -> bytes:
    """Uniform residues that everybody derives alike: SHAKE-256 of seed, label, place and modulus.

    Words of 64 bits below the largest multiple of the modulus, reduced, are uniform. A modulus is below 2^61, so at
    least 7 of 8 words are; that fewer than 4 of 5 are has a probability below 2^-700 for 2^14 of them.
    """
    return b"".join(_uniform(f"{seed} {label} {at} {modulus}", modulus, ring) for at, modulus in enumerate(moduli))


def _uniform(text: str, modulus: int, ring: int) -> bytes:
    drawn = hashlib.shake_256(text.encode()).digest(_WIDTH * (ring + ring // 4))
    words = np.frombuffer(drawn, "<u8")
    kept = words[words <= np.uint64(2**64 // modulus * modulus - 1)]
    if len(kept) < ring:
        raise ValueError("too few words below a multiple of the modulus")
    return (kept[:ring] % np.uint64(modulus)).astype(np.uint64).tobytes()


def _rows(residues: bytes, ring: int) -> Any:
    return np.frombuffer(residues, np.uint64).reshape(-1, ring)
