from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushtune.core.errors import WireError
from hushtune.core.randomness import SystemRandomness
from hushtune.seals.masked.seal import shamir


def test_the_field_is_prime() -> None:
    """Miller-Rabin with 40 bases: a composite passes with probability below 2^-80."""
    p = shamir.PRIME
    odd, twos = p - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in random.Random(1).sample(range(2, 10**9), 40):
        x = pow(base, odd, p)
        assert x in (1, p - 1) or any((x := x * x % p) == p - 1 for _ in range(twos - 1))


@given(st.binary(min_size=32, max_size=32), st.integers(1, 12), st.integers(0, 8), st.randoms())
def test_any_threshold_of_shares_gives_the_secret(
    secret: bytes, threshold: int, extra: int, rng: random.Random
) -> None:
    points = rng.sample(range(1, 10_000), threshold + extra)
    shares = dict(zip(points, shamir.split(secret, points, threshold, SystemRandomness()), strict=True))
    chosen = rng.sample(points, threshold)
    assert shamir.join({x: shares[x] for x in chosen}, threshold) == secret


def test_fewer_shares_fit_every_secret() -> None:
    """With threshold - 1 shares known, each secret is explained by exactly one value of a missing share."""
    secret, threshold = b"s" * 32, 4
    shares = dict(enumerate(shamir.split(secret, range(1, 6), threshold, SystemRandomness()), start=1))
    known = {x: shares[x] for x in (1, 2, 3)}
    factors = shamir._factors((1, 2, 3, 4))
    for other in (bytes(32), b"t" * 32):
        target = int.from_bytes(other, "big")
        partial = sum(factor * int.from_bytes(known[x], "big") for factor, x in zip(factors, (1, 2, 3), strict=False))
        missing = (target - partial) * pow(factors[3], -1, shamir.PRIME) % shamir.PRIME
        assert shamir.join({**known, 4: missing.to_bytes(33, "big")}, threshold) == other


def test_too_few_shares_are_refused() -> None:
    shares = dict(enumerate(shamir.split(b"s" * 32, range(1, 6), 4, SystemRandomness()), start=1))
    with pytest.raises(WireError, match="4 shares are needed, but got 3"):
        shamir.join({x: shares[x] for x in (1, 2, 3)}, 4)
