from __future__ import annotations

import numpy as np
import pytest
from tests.seals.quorum.crowds import computed, dealt, engines, low_degree, recorded

from hushtune.seals.quorum.engine import LONGEST, Engine, Steps, together
from hushtune.seals.quorum.field import LARGE, SMALL, Elements
from hushtune.seals.quorum.selection import carried, first_of, largest, quotients
from hushtune.seals.quorum.sharing import crowd, factors, value_at

NODES = pytest.mark.parametrize("nodes", [3, 5, 7])
P = SMALL.prime


@NODES
def test_sums_are_carried_over(nodes: int) -> None:
    among, sums = crowd(nodes), [0, 1, 2**31, P // 2, P - 1]
    shares = dealt(SMALL, among, sums)
    assert computed(among, lambda engine, at: carried(engine, shares[at])) == sums


@NODES
def test_every_number_of_primes_is_taken_off(nodes: int) -> None:
    """The first t + 1 nodes' shares, times their factors, are chosen: they add up to the secret and w primes."""
    among = crowd(nodes)
    points = among.points[: among.degree + 1]
    terms = []
    for wraps in range(among.degree + 1):
        for secret in (0, 1, P - 1) if wraps < among.degree else (0, P - 1 - among.degree):
            total, parts = secret + wraps * P, []
            for _ in points:
                parts.append(min(P - 1, total - sum(parts)))
            assert sum(parts) == total
            terms.append((secret, wraps, parts))
    inverses = [SMALL.inverse(factor) for factor in factors(P, points)]
    first = {
        point: SMALL.elements([parts[at] * inverses[at] for _, _, parts in terms]) for at, point in enumerate(points)
    }
    shares = [value_at(SMALL, first, point) for point in among.points]
    assert {wraps for _, wraps, _ in terms} == set(range(among.degree + 1))
    found = computed(among, lambda engine, at: carried(engine, shares[at]))
    assert found == [secret for secret, _, _ in terms]


@NODES
@pytest.mark.parametrize(
    "numbers",
    [
        [7],
        [3, 3],
        [1, 2],
        [2, 1],
        [5, 5, 5, 5, 5],
        [0, 9, 9, 1, 9],
        [-8, -8, -1, -1],
        [0, 0, 0, 0, 0, 0, 15],
        [-16, 0, 15, 15],
    ],
)
def test_the_largest_and_of_several_the_first(nodes: int, numbers: list[int]) -> None:
    among = crowd(nodes)
    shares = dealt(LARGE, among, numbers)
    found = computed(among, lambda engine, at: largest(engine, shares[at], 5))
    assert found == [numbers.index(max(numbers))]


def test_the_largest_of_random_numbers() -> None:
    among, rng = crowd(3), np.random.default_rng(1)
    for size in range(1, 14):
        numbers = rng.integers(0, 6, size).tolist()
        shares = dealt(LARGE, among, numbers, seed=size)
        program = lambda engine, at, shares=shares: largest(engine, shares[at], 3)  # noqa: E731
        assert computed(among, program, seed=size) == [numbers.index(max(numbers))]


def test_one_candidate_needs_no_message() -> None:
    among = crowd(3)
    shares = dealt(LARGE, among, [4])
    found = together([largest(engine, shares[at], 5) for at, engine in enumerate(engines(among))])
    assert [places.tolist() for places in found] == [[0]] * 3


@pytest.mark.parametrize(("nodes", "most"), [(3, 5), (5, 3), (7, 3)])
def test_the_first_of_all_lists_of_bits(nodes: int, most: int) -> None:
    among = crowd(nodes)
    for size in range(1, most + 1):
        for number in range(2**size):
            true = [(number >> at) & 1 for at in range(size)]
            shares = dealt(LARGE, among, true, seed=number)
            program = lambda engine, at, shares=shares: first_of(engine, shares[at])  # noqa: E731
            assert computed(among, program) == [true.index(1) + 1 if any(true) else 0]


@NODES
def test_quotients(nodes: int) -> None:
    among, rng = crowd(nodes), np.random.default_rng(nodes)
    pairs = [(0, 1), (0, 31), (1, 1), (7, 1), (7, 8), (8, 8), (9, 8), (31, 5), (31, 31), (30, 31), (31, 4)]
    pairs += [(int(a), int(b)) for a, b in zip(rng.integers(0, 32, 9), rng.integers(4, 32, 9), strict=True)]
    above, below = (dealt(LARGE, among, [pair[at] for pair in pairs], seed=at) for at in (0, 1))
    found = computed(among, lambda engine, at: quotients(engine, above[at], below[at], 5, 3))
    assert found == [a // b for a, b in pairs]


def test_quotients_of_long_numbers() -> None:
    among, pairs = crowd(3), [(2**70 - 1, 2**69 + 3), (2**70 - 1, 2**66), (12345678901234567890, 987654321987654321)]
    above, below = (dealt(LARGE, among, [pair[at] for pair in pairs], seed=at) for at in (0, 1))
    found = computed(among, lambda engine, at: quotients(engine, above[at], below[at], 70, 4))
    assert found == [a // b for a, b in pairs]


def test_too_long_quotients_are_refused_before_anything_is_sent() -> None:
    among = crowd(3)
    shares = dealt(LARGE, among, [5])
    with pytest.raises(ValueError, match=f"numbers of 1 to {LONGEST} bits"):
        next(quotients(engines(among)[0], shares[0], shares[0], LONGEST - 3, 4))


@NODES
@pytest.mark.parametrize(("name", "opened"), [("largest", 2), ("first_of", 0), ("quotients", 2), ("carried", 1)])
def test_nothing_but_masked_numbers_is_opened_and_no_product(nodes: int, name: str, opened: int) -> None:
    """One opening for each comparison, all of degree t, and the same rounds whatever the numbers are."""
    among = crowd(nodes)
    sizes = []
    for numbers in ([0, 1, 1], [1, 0, 0]):
        shares, ones = dealt(LARGE, among, numbers), dealt(LARGE, among, [1, 1, 1], seed=1)
        small = dealt(SMALL, among, numbers[:1])

        def program(engine: Engine, at: int, shares=shares, ones=ones, small=small) -> Steps[Elements]:
            return {
                "largest": lambda: largest(engine, shares[at], 2),
                "first_of": lambda: first_of(engine, shares[at]),
                "quotients": lambda: quotients(engine, shares[at], ones[at], 2, 2),
                "carried": lambda: carried(engine, small[at]),
            }[name]()

        _, rounds = recorded([program(engine, at) for at, engine in enumerate(engines(among))])
        assert low_degree(among, rounds) == opened
        sizes.append([[[len(message) for message in messages] for messages in sent] for sent in rounds])
    assert sizes[0] == sizes[1]
