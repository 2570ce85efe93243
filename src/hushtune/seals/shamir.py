"""Shamir's secret sharing of 32-byte secrets over the prime field of 2^256 + 297.

Any `threshold` shares give the secret back; fewer say nothing about it (Shamir 1979).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hushtune.errors import WireError
from hushtune.randomness import Randomness

PRIME = 2**256 + 297  # the smallest prime above 2^256
SHARE_BYTES = 33


def split(secret: bytes, points: Sequence[int], threshold: int, randomness: Randomness) -> list[bytes]:
    """One share per point (distinct integers >= 1): values of a random polynomial with the secret at 0.

    Coefficients are 48 random bytes reduced modulo the prime: within 2^-127 of uniform.
    """
    material = randomness.bytes(48 * (threshold - 1))
    coefficients = [int.from_bytes(material[at : at + 48], "big") % PRIME for at in range(0, len(material), 48)]
    coefficients.append(int.from_bytes(secret, "big"))  # Horner's rule ends at the constant term
    shares = []
    for x in points:
        value = 0
        for coefficient in coefficients:
            value = (value * x + coefficient) % PRIME
        shares.append(value.to_bytes(SHARE_BYTES, "big"))
    return shares


def fits(shares: Mapping[int, bytes], threshold: int, point: int, share: bytes) -> bool:
    """Whether one more share lies on the polynomial through `threshold` others.

    The secret at 0 is the same, whichever `threshold` of the shares it is computed from.
    """
    swapped = dict(sorted(shares.items())[1:])
    try:
        return join({**swapped, point: share}, threshold) == join(shares, threshold)
    except WireError:
        return False


def join(shares: Mapping[int, bytes], threshold: int) -> bytes:
    """The secret, from exactly `threshold` of the given shares (point -> share)."""
    if len(shares) < threshold:
        raise WireError(f"{threshold} shares are needed, but got {len(shares)}")
    chosen = sorted(shares)[:threshold]
    weights = _weights(tuple(chosen))
    total = sum(w * int.from_bytes(shares[x], "big") for w, x in zip(weights, chosen, strict=True)) % PRIME
    if total >= 2**256:
        raise WireError("shares do not fit together")
    return total.to_bytes(32, "big")


def _weights(points: tuple[int, ...]) -> list[int]:
    """Lagrange coefficients at 0: prod over others of x_j / (x_j - x_i). The points are small, so the products stay
    small for long and one modular inversion per point is all the heavy work."""
    numerator = 1
    for x in points:
        numerator *= x
    weights = []
    for x in points:
        denominator = x
        for other in points:
            if other != x:
                denominator *= other - x
        weights.append(numerator * pow(denominator, -1, PRIME) % PRIME)
    return weights
