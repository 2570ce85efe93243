from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np
import pytest
from tests.seals.quorum.crowds import dealt, keys_of

from hushtune.core.randomness import SimulatedRandomness
from hushtune.privacy.bounds import Box, KHot
from hushtune.seals.quorum.checks import Figures, masked, passed
from hushtune.seals.quorum.field import SMALL, Elements
from hushtune.seals.quorum.layout import Layout, layout_of
from hushtune.seals.quorum.sharing import Common, Crowd, crowd, factors, value_at

NODES = (3, 5, 7)
LENGTH, K = 10, 4
LAYOUT = layout_of(KHot(K, LENGTH))
GOOD = [1] * K + [0] * (LENGTH - K)
BAD = {
    "an entry of two": [2, 1, 1, *[0] * 7],
    "an entry below zero": [-1, 1, 1, 1, 1, 1, *[0] * 4],
    "a vote too many": [1] * (K + 1) + [0] * (LENGTH - K - 1),
    "a vote too few": [1] * (K - 1) + [0] * (LENGTH - K + 1),
}


def coin(seed: int = 0) -> bytes:
    return SimulatedRandomness(seed, "coin").bytes(32)


def commons(among: Crowd) -> list[Common]:
    return [Common(SMALL, among, at, keys) for at, keys in zip(among.points, keys_of(among), strict=True)]


def shared(among: Crowd, ballots: Any, seed: int = 0) -> list[Elements]:
    """What each node holds, shape (ballots, size)."""
    ballots = np.asarray(ballots, dtype=object)
    return [part.reshape(ballots.shape).copy() for part in dealt(SMALL, among, ballots.ravel(), seed)]


def figures(held: list[Elements], layout: Layout = LAYOUT, seed: int = 0) -> list[Elements]:
    return [Figures(layout, coin(seed)).of(part) for part in held]


def checked(among: Crowd, held: list[Elements], layout: Layout = LAYOUT, seed: int = 0) -> tuple[bool, list[bool]]:
    """Whether the batch passes, and which ballots do."""
    rules, each = Figures(layout, coin(seed)), figures(held, layout, seed)
    sent = {
        at: (masked(rules.batched(one), common, b"all"), masked(one, common, b"each"))
        for at, (one, common) in enumerate(zip(each, commons(among), strict=True), 1)
    }
    batch = passed(among, {at: both[0] for at, both in sent.items()})
    assert batch.shape == (1,)
    return bool(batch[0]), passed(among, {at: both[1] for at, both in sent.items()}).tolist()


def good(count: int) -> list[list[int]]:
    source = np.random.default_rng(0)
    return [source.permutation(GOOD).tolist() for _ in range(count)]


@pytest.mark.parametrize("nodes", NODES)
def test_good_ballots_pass_together_and_alone(nodes: int) -> None:
    among = crowd(nodes)
    for seed in range(10):
        assert checked(among, shared(among, good(12), seed), seed=seed) == (True, [True] * 12)


@pytest.mark.parametrize("nodes", NODES)
def test_an_empty_ballot_passes(nodes: int) -> None:
    among = crowd(nodes)
    assert checked(among, shared(among, [*good(2), [0] * LENGTH])) == (True, [True] * 3)


def test_more_ballots_than_are_checked_at_a_time() -> None:
    among = crowd(3)
    held = shared(among, [GOOD] * 5000)
    assert checked(among, held) == (True, [True] * 5000)
    held[1][4999, 3] = 7
    batch, each = checked(among, held)
    assert not batch
    assert each == [True] * 4999 + [False]


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("nodes", NODES)
def test_a_bad_ballot_is_found_and_no_other(nodes: int, kind: str) -> None:
    among, ballots = crowd(nodes), good(8)
    ballots[5] = BAD[kind]
    for seed in range(3):
        batch, each = checked(among, shared(among, ballots, seed), seed=seed)
        assert not batch
        assert each == [at != 5 for at in range(8)]


@pytest.mark.parametrize("nodes", NODES)
def test_a_share_that_is_on_no_polynomial_is_found_at_whichever_node(nodes: int) -> None:
    among = crowd(nodes)
    for node in range(nodes):
        held = shared(among, good(6), node)
        held[node][2, node] = SMALL.add(held[node][2, node : node + 1], SMALL.elements([1]))[0]
        batch, each = checked(among, held)
        assert not batch
        assert each == [at != 2 for at in range(6)]


@pytest.mark.parametrize("nodes", NODES)
def test_shares_of_a_higher_degree_are_found_though_their_secret_is_good(nodes: int) -> None:
    among = crowd(nodes)
    held = shared(among, good(6))
    for at, part in enumerate(held, 1):
        part[4] = SMALL.add(part[4], SMALL.elements([at ** (among.degree + 1)] * LENGTH))
    batch, each = checked(among, held)
    assert not batch
    assert each == [at != 4 for at in range(6)]


@pytest.mark.parametrize("nodes", NODES)
def test_garbage_is_found(nodes: int) -> None:
    among, ballots = crowd(nodes), good(6)
    ballots[0] = [int(value) for value in SMALL.uniform(coin(9), LENGTH)]
    held = shared(among, ballots)
    for part in held:
        part[3] = SMALL.uniform(coin(10 + int(part[0, 0] % 1000)), LENGTH)
    batch, each = checked(among, held)
    assert not batch
    assert each == [False, True, True, False, True, True]


def opposites() -> tuple[int, int]:
    """Two numbers, neither of them a bit, whose b (b - 1) add up to zero."""
    prime = SMALL.prime
    for one in range(2, 99):
        inside = (1 - 4 * one * (one - 1)) % prime
        root = pow(inside, (prime + 1) // 4, prime)
        if root * root % prime == inside:
            return one, (1 + root) * pow(2, -1, prime) % prime
    raise AssertionError("there is no such pair")


def test_bad_entries_do_not_make_up_for_each_other() -> None:
    one, two = opposites()
    assert (one * (one - 1) + two * (two - 1)) % SMALL.prime == 0
    among, layout = crowd(3), layout_of(Box(1, 2))
    assert checked(among, shared(among, [[one, two], [0, 1]]), layout) == (False, [False, True])
    assert checked(among, shared(among, [[one, 0], [two, 1]]), layout) == (False, [False, False])


def test_a_bad_entry_and_a_wrong_total_do_not_make_up_for_each_other() -> None:
    """2 (2 - 1) = 2 at an entry, and S (S - k) = -2 for a total of S = 2 where k = 3."""
    among, layout = crowd(3), layout_of(KHot(3, 4))
    assert checked(among, shared(among, [[2, 0, 0, 0], [1, 1, 1, 0]]), layout) == (False, [False, True])


def test_wrong_shares_of_two_ballots_do_not_make_up_for_each_other() -> None:
    among = crowd(3)
    held = shared(among, good(4))
    held[2][0, 0] = SMALL.add(held[2][0, :1], SMALL.elements([1]))[0]
    held[2][1, 0] = SMALL.add(held[2][1, :1], SMALL.elements([-1]))[0]
    assert checked(among, held) == (False, [False, False, True, True])


def test_each_entry_and_condition_and_ballot_has_a_coin_of_its_own() -> None:
    rules = Figures(LAYOUT, coin())
    drawn = np.concatenate([rules._spread, rules._bits, rules._conditions, rules._draws("ballots", 50)])
    assert len(set(drawn.tolist())) == len(drawn)
    assert not set(drawn.tolist()) & set(Figures(LAYOUT, coin(1))._spread.tolist())


@pytest.mark.parametrize("nodes", NODES)
def test_no_figure_leaves_without_a_mask_and_each_label_has_its_own(nodes: int) -> None:
    among = crowd(nodes)
    for one, common in zip(figures(shared(among, good(5))), commons(among), strict=True):
        first, second = masked(one, common, b"first"), masked(one, common, b"second")
        assert (first != one).all()
        assert (second != one).all()
        assert (first != second).all()
        assert len(set(SMALL.sub(first, one).ravel().tolist())) == first.size  # no mask twice
        assert np.array_equal(first, masked(one, common, b"first"))


def test_of_good_ballots_what_is_opened_does_not_tell_the_figures() -> None:
    """The spread's secret is hidden by a random one, and faults open to zero."""
    among = crowd(5)
    each = zip(figures(shared(among, good(3))), commons(among), strict=True)
    sent = [masked(one, common, b"x") for one, common in each]
    opened = value_at(SMALL, dict(enumerate(sent, 1)))
    spread = SMALL.total(SMALL.mul(SMALL.elements(good(3)), Figures(LAYOUT, coin())._spread), axis=1)
    assert (opened[0] != spread).all()
    assert not opened[1].any()


def test_no_ballots_have_no_figures() -> None:
    among = crowd(3)
    nothing = np.zeros((0, LENGTH), dtype=np.uint64)
    assert checked(among, [nothing] * 3) == (True, [])


def _forged(among: Crowd, start: int) -> list[int]:
    """Shares on no line, whose first two stand for 7, but whose figures of degree 2t add up to zero as a bit's do."""
    prime, (one, two, three) = SMALL.prime, factors(SMALL.prime, among.points)
    for first in count(start):
        second = (2 * first - 7) % prime
        rest = -(one * first * (first - 1) + two * second * (second - 1)) * pow(three, -1, prime) % prime
        root = pow(1 + 4 * rest, (prime + 1) // 4, prime)
        if root * root % prime == (1 + 4 * rest) % prime:
            return [first, second, (1 + root) * pow(2, -1, prime) % prime]
    raise AssertionError


def test_shares_that_only_the_test_of_degree_finds() -> None:
    among, layout = crowd(3), layout_of(Box(1, 2))
    shares = [_forged(among, 5), _forged(among, 50)]
    keys, opened = keys_of(among), {}
    for node in among.points:
        ballots = np.array([[share[node - 1] for share in shares]], np.uint64)
        common = Common(SMALL, among, node, keys[node - 1])
        opened[node] = masked(Figures(layout, b"c" * 32).of(ballots), common, b"label")
    assert value_at(SMALL, {node: figures[1] for node, figures in opened.items()})[0] == 0  # no faults are seen
    assert not passed(among, opened)[0]
