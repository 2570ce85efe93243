from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from scipy.stats import hypergeom

import hushtune as ht
from hushtune.seals.masked import graph as graphs
from hushtune.seals.masked.graph import (
    FAILURE,
    STALL,
    Shape,
    _instead,
    _order,
    _threshold,
    committee,
    peers,
    shape,
    widest_gap,
)


def graph(clients: int, degree: int) -> Shape:
    return Shape(clients, degree, degree // 2 + 1, needed=clients, committee=0, quorum=0, gap=0)


@pytest.mark.parametrize(("clients", "degree"), [(100, 52), (1_000, 196), (10_000, 276)])
def test_degrees_at_the_default_shares(clients: int, degree: int) -> None:
    made = shape(clients, clients // 10, clients // 10)
    assert made.degree == degree
    lost = clients // 5
    assert _threshold(clients, degree, lost, clients // 10) == made.threshold
    assert _threshold(clients, degree - 2, lost, clients // 10) is None  # no smaller degree is safe


@pytest.mark.parametrize(
    ("clients", "dropped", "corrupt"), [(100, 10, 10), (1_000, 100, 100), (500, 100, 25), (60, 3, 6)]
)
def test_both_bounds_hold(clients: int, dropped: int, corrupt: int) -> None:
    """Recomputed directly from hypergeometric tails, for all clients together."""
    made = shape(clients, dropped, corrupt)
    k, t = made.degree, made.threshold
    both_kinds = clients * hypergeom.sf(2 * t - k - 1, clients - 1, corrupt, k)  # corrupt peers >= 2t - k
    stalled = clients * hypergeom.sf(k - t, clients - 1, dropped + corrupt, k)  # corrupt peers reveal nothing of use
    assert both_kinds <= FAILURE
    assert stalled <= STALL


@pytest.mark.parametrize(("clients", "degree"), [(10, 9), (50, 16), (101, 32), (100, 15)])
def test_the_graph_is_regular_symmetric_and_connected(clients: int, degree: int) -> None:
    made = graph(clients, degree)
    around = [set(peers(i, b"seed", made)) for i in range(clients)]
    assert all(len(near) == degree and i not in near for i, near in enumerate(around))
    assert all(i in around[j] for i in range(clients) for j in around[i])
    assert len(reached_from(0, around, set(range(clients)))) == clients


def test_the_seed_orders_the_ring() -> None:
    made = graph(100, 32)
    assert peers(3, b"one", made) == peers(3, b"one", made)
    assert peers(3, b"one", made) != peers(3, b"two", made)


@pytest.mark.parametrize(
    ("clients", "dropped", "corrupt"), [(100, 10, 10), (1_000, 100, 100), (10_000, 1_000, 1_000), (400, 80, 10)]
)
def test_one_list_and_one_piece(clients: int, dropped: int, corrupt: int) -> None:
    """Recomputed directly: no second quorum, no stall of the committee, no two stretches that cut the ring."""
    made = shape(clients, dropped, corrupt)
    size, half = made.committee, made.degree // 2
    assert hypergeom.sf(2 * made.quorum - size - 1, clients, corrupt, size) <= FAILURE  # corrupt >= 2 quorum - size
    assert hypergeom.sf(size - made.quorum, clients, dropped + corrupt, size) <= STALL
    assert clients * hypergeom.sf(made.gap, clients, dropped + corrupt, half) <= STALL
    one_stretch = hypergeom.sf(half - made.gap - 1, clients, corrupt, half)
    assert dropped + corrupt < made.degree or (clients * one_stretch) ** 2 <= FAILURE
    assert made.needed == clients - dropped


def test_a_server_that_may_name_the_dropped_cannot_cut_the_ring() -> None:
    """It declares those dropped who, with random corrupt clients, would isolate a stretch; what it may declare in a
    stretch is limited by `gap`, and the rest stays in one piece."""
    made, rng = shape(1_000, 100, 100), np.random.default_rng(1)
    half, order = made.degree // 2, _order(b"seed", 1_000)
    around = [set(peers(i, b"seed", made)) for i in range(1_000)]
    for _ in range(20):
        corrupt = set(rng.choice(1_000, 100, replace=False).tolist())
        honest_run = [[n for n in (order * 2)[at : at + half] if n not in corrupt] for at in range(1_000)]
        first = min(range(1_000), key=lambda at: len(honest_run[at]))
        second = min(
            (at for at in range(first + half + 1, first + 1_000 - half)), key=lambda at: len(honest_run[at % 1_000])
        )
        gone = [*honest_run[first][: made.gap], *honest_run[second % 1_000][: made.gap]]
        assert widest_gap(gone, b"seed", made) <= made.gap
        left = set(range(1_000)) - corrupt - set(gone)
        assert reached_from(next(iter(left)), around, left) == left


def reached_from(start: int, around: list[set[int]], left: set[int]) -> set[int]:
    reached, frontier = {start}, [start]
    while frontier:
        frontier = list(set().union(*(around[i] & left for i in frontier)) - reached)
        reached |= set(frontier)
    return reached


def test_the_widest_gap_is_counted_around_the_ring() -> None:
    made = graph(20, 8)
    order = _order(b"seed", 20)
    assert widest_gap([], b"seed", made) == 0
    assert widest_gap([order[19], order[0], order[1], order[10]], b"seed", made) == 3
    assert widest_gap([order[0], order[4], order[8]], b"seed", made) == 1
    assert widest_gap([order[0], order[3]], b"seed", made) == 2
    assert widest_gap([1, 2, 3], b"seed", graph(5, 4)) == 0  # a complete graph


def test_the_committee_is_drawn_apart_from_the_ring() -> None:
    made = shape(100, 10, 10)
    members = committee(b"seed", made)
    assert len(set(members)) == made.committee == 49
    assert set(members) != set(_order(b"seed", 100)[:49])
    assert set(members) != set(committee(b"other", made))


def test_what_would_do_does_and_nothing_larger() -> None:
    """Recomputed by trying all numbers up to those that were asked for."""
    for clients, dropped, corrupt in [(10, 3, 3), (10, 2, 2), (7, 3, 3), (25, 6, 6), (2, 1, 1), (40, 20, 20)]:
        fewer, some = map(int, re.findall(r"(\d+) dropped and (\d+) corrupt$", _instead(clients, dropped, corrupt))[0])
        assert fewer <= dropped
        assert some <= corrupt
        shape(clients, fewer, some)
        sums = [d + c for d in range(dropped + 1) for c in range(corrupt + 1) if met(clients, d, c)]
        assert fewer + some == max(sums)


def met(clients: int, dropped: int, corrupt: int) -> bool:
    try:
        shape(clients, dropped, corrupt)
    except ht.SettingError:
        return False
    return True


@pytest.mark.parametrize("clients", range(2, 41))
def test_small_federations_count_wrong_holders(clients: int) -> None:
    """Recomputed from the conditions, in the worst case: all that are lost are the peers of one client."""
    for dropped in range(clients // 2 + 1):
        for corrupt in (0, 1, 2):
            if not met(clients, dropped, corrupt):
                continue
            made = shape(clients, dropped, corrupt)
            if not made.complete:
                continue
            holders = clients - 1 + made.own
            assert 2 * made.threshold > holders + corrupt
            assert holders - dropped - made.wrong >= made.threshold
            assert 2 * made.quorum > made.committee + min(corrupt, made.committee)
            assert made.wrong == corrupt or (made.wrong == 1 and corrupt == 0)
            assert made.wrong or 2 * (dropped + 1) >= clients  # none only where there is no room for one


def test_parameters_that_cannot_be_met_say_what_could_be() -> None:
    with pytest.raises(ht.SettingError, match="3 dropped and 3 corrupt .* 2 dropped and 1 corrupt would do"):
        shape(10, 3, 3)
    with pytest.raises(ht.SettingError, match="1 dropped and 1 corrupt .* 1 dropped and 0 corrupt would do"):
        shape(5, 1, 1)
    with pytest.raises(ht.SettingError, match="at least 2 clients"):
        shape(1, 0, 0)
    with pytest.raises(ht.SettingError, match="must be even, but got degree=3, clients=9"):
        ht.Masked(degree=3).shape(9)


@pytest.mark.parametrize(("dropped", "corrupt"), [(0, 4_500), (3_000, 1_000), (500, 2_500)])
def test_whatever_shares_a_server_asks_for_they_are_settled_in_a_few_tries(
    monkeypatch: pytest.MonkeyPatch, dropped: int, corrupt: int
) -> None:
    """0.1 tried every degree: a client was kept busy for half a minute before it refused."""
    tails, tries = graphs._at_most, []

    def counted(*given: Any) -> int:
        tries.append(given)
        return tails(*given)

    monkeypatch.setattr(graphs, "_at_most", counted)
    shape.cache_clear()
    graphs._signers.cache_clear()
    with suppress(ht.SettingError):
        shape(10_000, dropped, corrupt)
    assert 0 < len(tries) < 250
