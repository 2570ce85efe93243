"""Residues without OpenFHE: found in serialised objects and put back, added, refused, and the common random ones."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from hushtune.seals.threshold import residues
from hushtune.seals.threshold.residues import Mould

RING = 512
PRIMES = [1073479681, 1073184769]  # 1 modulo 1024


def drawn(seed: int, modulus: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, modulus, RING).astype(np.uint64)


def polynomials(seed: int) -> bytes:
    return b"".join(drawn(seed + at, prime).tobytes() for at, prime in enumerate(PRIMES))


def serialised(*parts: tuple[np.ndarray, int]) -> bytes:
    """As OpenFHE writes residue vectors: a length, the residues, the modulus, with other things around."""
    found = b"header"
    for values, modulus in parts:
        found += struct.pack("<Q", RING) + values.astype(np.uint64).tobytes() + struct.pack("<Q", modulus) + b"more"
    return found


def mould(seed: int) -> Mould:
    return Mould.of(serialised(*((drawn(seed + at, prime), prime) for at, prime in enumerate(PRIMES))), RING)


def test_vectors_are_found_and_what_looks_like_one_is_not() -> None:
    assert mould(0).moduli() == PRIMES
    assert (mould(0).moduli(0), mould(0).moduli(1)) == (PRIMES[:1], PRIMES[1:])
    outside = serialised((drawn(0, PRIMES[0]) + np.uint64(PRIMES[0]), PRIMES[0]))
    assert residues.vectors(outside, RING) == []
    assert residues.vectors(serialised((drawn(0, 100), 1000)), RING) == []  # no such prime


def test_a_mould_takes_other_residues_and_nothing_else() -> None:
    one = mould(0)
    assert one.residues() == polynomials(0) == b"".join(one.halves())
    filled = one.filled(polynomials(10))
    assert filled == mould(10).content != one.content
    with pytest.raises(ValueError, match="other parameters"):
        one.filled(polynomials(10)[:-8])


def test_keys_are_added_and_subtracted_modulo_each_prime() -> None:
    one, other = polynomials(0), polynomials(10)
    total = residues.added([one, other, other], PRIMES, RING)
    less = Mould.of(residues.subtracted(mould(0), mould(10)), RING).residues()
    for at, prime in enumerate(PRIMES):
        a, b, plus, minus = (
            np.frombuffer(part, np.uint64).reshape(-1, RING)[at].astype(object) for part in (one, other, total, less)
        )
        assert ((a + 2 * b) % prime == plus).all()
        assert ((a - b) % prime == minus).all()
    with pytest.raises(ValueError, match="other parameters"):
        residues.subtracted(mould(0), Mould.of(serialised((drawn(0, PRIMES[0]), PRIMES[0])), RING))


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (bytes(len(polynomials(0))), "must not be zero"),
        (polynomials(0)[: 8 * RING] + bytes(8 * RING), "must not be zero"),  # modulo one of the primes
        (polynomials(0) * 2, "2 polynomials and not the common one, which nobody sends, but got 4"),
        (polynomials(0)[:-8], "must have 2 polynomials"),
        (b"\xff" * len(polynomials(0)), "below its modulus"),
    ],
)
def test_what_cannot_be_a_key_is_refused(part: bytes, message: str) -> None:
    for use in (residues.received, lambda part, *given: residues.added([polynomials(1), part], *given)):
        with pytest.raises(ValueError, match=message):
            use(part, PRIMES, RING)
    assert residues.received(polynomials(0), PRIMES, RING) == polynomials(0)


def test_common_polynomials_are_the_same_for_the_same_seed_only() -> None:
    one = residues.common("seed", "public", PRIMES, RING)
    assert residues.received(one, PRIMES, RING) == one == residues.common("seed", "public", PRIMES, RING)
    others = [
        residues.common("another", "public", PRIMES, RING),
        residues.common("seed", "switch", PRIMES, RING),
        residues.common("seed", "public", [*PRIMES, PRIMES[0]], RING)[16 * RING :],
    ]
    rows = [np.frombuffer(each, np.uint64).reshape(-1, RING)[0] for each in (one, *others)]
    assert all((rows[0] != other).mean() > 0.9 for other in rows[1:])


@pytest.mark.statistical
def test_common_polynomials_are_uniform() -> None:
    """2^15 values in 64 bins, one seed: chi-squared below 160 with 63 degrees of freedom, false alarms below 1e-9."""
    for modulus in (1073479681, 0x1FFFFFFFE28001, 0xFFFFFFFFFFC0001):
        values = np.frombuffer(residues.common("seed", "", [modulus], 2**15), np.uint64)
        counts = np.bincount((values.astype(np.float64) / modulus * 64).astype(int), minlength=64)
        assert ((counts - 512) ** 2 / 512).sum() < 160
