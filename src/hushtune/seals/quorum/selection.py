"""What nodes compute of sums that nobody sees: the largest, the first that is large enough, which are, and quotients.

Each is a program for one node (`hushtune.seals.quorum.engine`); what it ends in are shares. Nothing but what is opened
afterwards is learnt: how many rounds there are depends on public numbers only.
"""

from __future__ import annotations

import numpy as np

from hushtune.seals.quorum.engine import Engine, Steps
from hushtune.seals.quorum.field import LARGE, SMALL, Elements
from hushtune.seals.quorum.sharing import factors


def carried(engine: Engine, sums: Elements) -> Steps[Elements]:
    """Shares in the large field of what shares in the small field stand for.

    The first t + 1 nodes' shares, each times its factor, add up to the secret and up to t times the small prime. They
    are put in and added up, and so many primes are taken off as there are.

    Args:
        engine: of this node.
        sums: this node's shares in the small field, of numbers that are below the small prime.
    """
    points = engine.among.points[: engine.among.degree + 1]
    own = None
    if engine.number in points:
        factor = factors(SMALL.prime, points)[engine.number - 1]
        own = SMALL.mul(sums, SMALL.elements(factor)).astype(object)
    dealt = yield from engine.input(points, own, len(sums))
    total = LARGE.total(np.stack(list(dealt.values())))
    most = engine.among.degree
    primes = np.repeat(np.arange(1, most + 1).astype(object) * SMALL.prime, len(sums))
    width = (most * SMALL.prime).bit_length() + 1
    over = yield from engine.at_least_zero(LARGE.sub(np.tile(total, most), primes), width)
    wraps = LARGE.total(over.reshape(most, len(sums)))
    return LARGE.sub(total, LARGE.mul(wraps, LARGE.elements(SMALL.prime)))


def largest(engine: Engine, numbers: Elements, bits: int) -> Steps[Elements]:
    """Shares of the place of the largest number; of several, the first. Shape (1,).

    Args:
        engine: of this node.
        numbers: shares of numbers whose differences lie from -2^bits up to 2^bits - 1.
        bits: as above.
    """
    places = np.arange(len(numbers)).astype(object)
    while len(numbers) > 1:
        pairs = len(numbers) // 2
        a, b, rest = slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2), slice(2 * pairs, None)
        first = yield from engine.at_least_zero(LARGE.sub(numbers[a], numbers[b]), bits)
        lead = np.concatenate([LARGE.sub(numbers[a], numbers[b]), LARGE.sub(places[a], places[b])])
        chosen = yield from engine.mul(np.concatenate([first, first]), lead)
        numbers = np.concatenate([LARGE.add(numbers[b], chosen[:pairs]), numbers[rest]])
        places = np.concatenate([LARGE.add(places[b], chosen[pairs:]), places[rest]])
    return places


def first_of(engine: Engine, true: Elements) -> Steps[Elements]:
    """Shares of one more than the place of the first 1 among shares of bits; of 0 if there is none. Shape (1,).

    Args:
        engine: of this node.
        true: shares of bits, in the order in which they are looked at.
    """
    places = LARGE.mul(true, np.arange(1, len(true) + 1).astype(object))
    while len(true) > 1:
        pairs = len(true) // 2
        a, b, rest = slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2), slice(2 * pairs, None)
        left, right = np.concatenate([true[a], true[a]]), np.concatenate([true[b], places[b]])
        both = yield from engine.mul(left, right)
        true = np.concatenate([LARGE.sub(LARGE.add(true[a], true[b]), both[:pairs]), true[rest]])
        places = np.concatenate([LARGE.sub(LARGE.add(places[a], places[b]), both[pairs:]), places[rest]])
    return places


def quotients(engine: Engine, above: Elements, below: Elements, bits: int, size: int) -> Steps[Elements]:
    """Shares of above / below rounded down, by long division: the quotient's bits, the highest first.

    Args:
        engine: of this node.
        above: shares of numbers from 0 up to 2^bits - 1.
        below: shares of numbers from 1 up to 2^bits - 1.
        bits: as above.
        size: bits of the quotients, which are below 2^size.
    """
    left, found = above, LARGE.elements(np.zeros(len(above), dtype=object))
    for at in range(size - 1, -1, -1):
        scaled = LARGE.mul(below, LARGE.elements(1 << at))
        fits = yield from engine.at_least_zero(LARGE.sub(left, scaled), bits + at + 1)
        taken = yield from engine.mul(fits, scaled)
        left = LARGE.sub(left, taken)
        found = LARGE.add(found, LARGE.mul(fits, LARGE.elements(1 << at)))
    return found
