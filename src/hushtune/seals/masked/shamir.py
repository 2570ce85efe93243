"""Shamir's secret sharing of 32-byte secrets over the prime field of 2^256 + 297.

Any `threshold` shares give the secret back; fewer say nothing about it (Shamir 1979).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from hushtune.core.errors import WireError
from hushtune.core.randomness import Randomness

PRIME = 2**256 + 297  # the smallest prime above 2^256
SHARE_BYTES = 33
_STEPS = 16  # of Horner's rule between two reductions


def split(secret: bytes, points: Sequence[int], threshold: int, randomness: Randomness) -> list[bytes]:
    """One share per point (distinct integers >= 1): values of a random polynomial with the secret at 0.

    Coefficients are 48 random bytes reduced modulo the prime: within 2^-127 of uniform.
    """
    material = randomness.bytes(48 * (threshold - 1))
    coefficients = [int.from_bytes(material[at : at + 48], "big") % PRIME for at in range(0, len(material), 48)]
    coefficients.append(int.from_bytes(secret, "big"))  # Horner's rule ends at the constant term
    xs, values = np.array(points, dtype=object), np.zeros(len(points), dtype=object)
    for at, coefficient in enumerate(coefficients):
        values = values * xs + coefficient
        if at % _STEPS == _STEPS - 1:  # the points are small, so the values grow slowly
            values %= PRIME
    return [int(value % PRIME).to_bytes(SHARE_BYTES, "big") for value in values]


def join(shares: Mapping[int, bytes], threshold: int) -> bytes:
    """The secret, from exactly `threshold` of the given shares (point -> share)."""
    if len(shares) < threshold:
        raise WireError(f"{threshold} shares are needed, but got {len(shares)}")
    chosen = sorted(shares)[:threshold]
    factors = _factors(tuple(chosen))
    total = sum(factor * int.from_bytes(shares[x], "big") for factor, x in zip(factors, chosen, strict=True)) % PRIME
    if total >= 2**256:
        raise WireError("shares do not fit together")
    return total.to_bytes(32, "big")


@lru_cache(maxsize=256)  # if nobody drops out, the same holders' shares are taken for everybody
def _factors(points: tuple[int, ...]) -> list[int]:
    """Lagrange coefficients at 0: prod over others of x_j / (x_j - x_i). The points are small, so the products stay
    small for long; all denominators are inverted at once (Montgomery's trick)."""
    numerator = math.prod(points)
    denominators = [x * math.prod(other - x for other in points if other != x) for x in points]
    before = [1]
    for denominator in denominators:
        before.append(before[-1] * denominator % PRIME)
    inverse = pow(before[-1], -1, PRIME)
    factors = []
    for denominator, product in zip(reversed(denominators), reversed(before[:-1]), strict=True):
        factors.append(numerator * inverse * product % PRIME)
        inverse = inverse * denominator % PRIME
    return factors[::-1]
