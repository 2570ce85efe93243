"""What a sidecar does without OpenFHE: messages, noise, and the surgery on serialised keys."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest

from hushtune.seals.threshold import sidecar

RING = 512
PRIMES = (1073479681, 1073184769)  # 1 modulo 1024


def test_messages_survive_the_stream_and_what_is_cut_is_an_end() -> None:
    stream = io.BytesIO()
    sidecar.write_message(stream, {"op": "x"}, [b"", b"abc", bytes(1000)])
    sidecar.write_message(stream, {"op": "y"}, [])
    content = stream.getvalue()
    stream.seek(0)
    assert sidecar.read_message(stream) == ({"op": "x"}, [b"", b"abc", bytes(1000)])
    assert sidecar.read_message(stream) == ({"op": "y"}, [])
    for cut in (0, 3, 20, 900):
        with pytest.raises(EOFError):
            sidecar.read_message(io.BytesIO(content[:cut]))
    with pytest.raises(EOFError):
        sidecar.read_message(io.BytesIO(b"\xff" * 100))


@pytest.mark.statistical
def test_smudging_is_gaussian_in_both_parts() -> None:
    """2^16 numbers; bounds of 7 standard errors, a false-alarm rate below 1e-10. Half the deviation fails."""
    count, deviation = 2**16, 0.25
    drawn = np.array(sidecar.gaussians(count, deviation))
    for part in (drawn.real, drawn.imag):
        assert abs(part.mean()) < 7 * deviation / count**0.5
        assert abs(part.std() / deviation - 1) < 7 / (2 * count) ** 0.5
        assert abs(((part / deviation) ** 4).mean() - 3) < 7 * (96 / count) ** 0.5
        assert abs(np.mean(np.abs(part) > 2 * deviation) - 0.0455) < 7 * (0.0455 / count) ** 0.5
    assert abs(np.mean(drawn.real * drawn.imag)) < 7 * deviation**2 / count**0.5
    assert not np.array_equal(drawn, np.array(sidecar.gaussians(count, deviation)))


def serialised(*polynomials: tuple[np.ndarray, int]) -> bytes:
    """As OpenFHE writes residue vectors: a length, the residues, the modulus, with other things around."""
    found = b"header"
    for residues, modulus in polynomials:
        found += struct.pack("<Q", RING) + residues.astype(np.uint64).tobytes() + struct.pack("<Q", modulus) + b"more"
    return found


def residues(seed: int, modulus: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, modulus, RING).astype(np.uint64)


def test_vectors_are_found_and_what_looks_like_one_is_not() -> None:
    content = serialised(*((residues(at, prime), prime) for at, prime in enumerate(PRIMES)))
    assert [modulus for _, modulus in sidecar.vectors(content, RING)] == list(PRIMES)
    outside = serialised((residues(0, PRIMES[0]) + np.uint64(PRIMES[0]), PRIMES[0]))
    assert sidecar.vectors(outside, RING) == []
    assert sidecar.vectors(serialised((residues(0, 100), 1000)), RING) == []  # no such prime


def test_keys_are_subtracted_modulo_each_prime() -> None:
    one, other = ([residues(seed + at, prime) for at, prime in enumerate(PRIMES)] for seed in (0, 10))
    contents = [serialised(*zip(polynomials, PRIMES, strict=True)) for polynomials in (one, other)]
    found = sidecar.subtracted(*contents, RING)
    for (place, prime), a, b in zip(sidecar.vectors(found, RING), one, other, strict=True):
        assert sidecar._residues(found, place, RING).tolist() == [
            (int(x) - int(y)) % prime for x, y in zip(a, b, strict=True)
        ]
    with pytest.raises(ValueError, match="other parameters"):
        sidecar.subtracted(contents[0], serialised((residues(0, PRIMES[0]), PRIMES[0])), RING)


def test_halves_of_keys_are_taken_and_put_back_and_checked() -> None:
    key = serialised(*((residues(at, PRIMES[at % 2]), PRIMES[at % 2]) for at in range(4)))
    half = sidecar.first_half(key, RING)
    swapped = sidecar.with_second_half(key, half, RING)
    assert sidecar.first_half(swapped, RING) == half
    assert swapped.count(half[: 8 * RING]) == 2
    with pytest.raises(ValueError, match="another length"):
        sidecar.with_second_half(key, half[:-8], RING)
    with pytest.raises(ValueError, match="out of range"):
        sidecar.with_second_half(key, b"\xff" * len(half), RING)
    with pytest.raises(ValueError, match="no evaluation key"):
        sidecar.first_half(b"nothing", RING)
