"""What one of three nodes, which only looks, can try with what is opened: polynomials of degree 2 are factored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def square_root(value: int, prime: int) -> int | None:
    """One of the two, or None; the prime leaves 3 when divided by 4."""
    assert prime % 4 == 3
    root = pow(value, (prime + 1) // 4, prime)
    return root if root * root % prime == value % prime else None


def coefficients(values: Mapping[int, int], prime: int) -> list[int]:
    """Of the polynomial of degree 2 through three points, the constant one first."""
    found = [0, 0, 0]
    for point, value in values.items():
        one, two = (other for other in values if other != point)
        scale = value * pow((point - one) * (point - two), -1, prime)
        for power, part in enumerate((one * two, -(one + two), 1)):
            found[power] = (found[power] + scale * part) % prime
    return found


def roots(polynomial: Sequence[int], prime: int) -> list[int]:
    """Where a polynomial of degree 2 is zero."""
    constant, linear, square = polynomial
    inside = square_root((linear * linear - 4 * square * constant) % prime, prime)
    if inside is None or square % prime == 0:
        return []
    return [(-linear + sign * inside) * pow(2 * square, -1, prime) % prime for sign in (1, -1)]


def factors_at_zero(product: Mapping[int, int], number: int, share: int, prime: int) -> list[int]:
    """What a secret may be, from the opened product of its sharing and another one, and one node's share of it."""
    found = []
    for root in roots(coefficients(product, prime), prime):
        if (number - root) % prime:
            slope = share * pow(number - root, -1, prime) % prime
            found.append(-slope * root % prime)
    return found


def ballots_of_one_bit(faults: Mapping[int, int], coin: int, number: int, share: int, prime: int) -> list[int]:
    """Which bit a node's share may belong to, from the opened coin b (b - 1): b is a line through the share."""
    *_, square = coefficients(faults, prime)
    slope = square_root(square * pow(coin, -1, prime) % prime, prime)
    if slope is None:
        return []
    lines = [((share - sign * slope * number) % prime, sign * slope) for sign in (1, -1)]
    return [
        bit
        for bit, rise in lines
        if bit in (0, 1)
        and all(coin * (line := bit + rise * at) * (line - 1) % prime == value % prime for at, value in faults.items())
    ]
