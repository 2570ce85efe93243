from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import hypergeom

import hushtune as ht
from hushtune.seals.graph import FAILURE, Shape, _threshold, neighbours, shape


@pytest.mark.parametrize(("clients", "degree"), [(100, 32), (1_000, 128), (10_000, 166)])
def test_degrees_at_the_default_shares(clients: int, degree: int) -> None:
    form = shape(clients, clients // 10, clients // 10)
    assert form.degree == degree
    assert _threshold(clients, degree, clients // 10, clients // 10) == form.threshold
    assert _threshold(clients, degree - 2, clients // 10, clients // 10) is None  # no smaller degree is safe


@pytest.mark.parametrize(
    ("clients", "dropped", "corrupt"), [(100, 10, 10), (1_000, 100, 100), (500, 100, 25), (60, 3, 6)]
)
def test_both_bounds_hold(clients: int, dropped: int, corrupt: int) -> None:
    """Recomputed directly from hypergeometric tails, for all clients together."""
    form = shape(clients, dropped, corrupt)
    k, t = form.degree, form.threshold
    both_kinds = clients * hypergeom.sf(2 * t - k - 1, clients - 1, corrupt, k)  # corrupt neighbours >= 2t - k
    stalled = clients * hypergeom.sf(k - t, clients - 1, dropped, k)
    assert both_kinds <= FAILURE
    assert stalled <= FAILURE


@pytest.mark.parametrize(("clients", "degree"), [(10, 9), (50, 16), (101, 32), (100, 15)])
def test_the_graph_is_regular_symmetric_and_connected(clients: int, degree: int) -> None:
    form = Shape(clients, degree, degree // 2 + 1)
    around = [set(neighbours(i, b"seed", form)) for i in range(clients)]
    assert all(len(near) == degree and i not in near for i, near in enumerate(around))
    assert all(i in around[j] for i in range(clients) for j in around[i])
    reached, frontier = {0}, [0]
    while frontier:
        frontier = [j for i in frontier for j in around[i] if j not in reached]
        reached |= set(frontier)
    assert len(reached) == clients


def test_the_seed_orders_the_ring() -> None:
    form = Shape(100, 32, 22)
    assert neighbours(3, b"one", form) == neighbours(3, b"one", form)
    assert neighbours(3, b"one", form) != neighbours(3, b"two", form)


def test_honest_clients_stay_connected_when_others_vanish() -> None:
    form, rng = shape(100, 10, 10), np.random.default_rng(1)
    around = [set(neighbours(i, b"seed", form)) for i in range(100)]
    for _ in range(200):
        left = set(range(100)) - set(rng.choice(100, 20, replace=False).tolist())
        start = next(iter(left))
        reached, frontier = {start}, [start]
        while frontier:
            frontier = [j for i in frontier for j in around[i] & left if j not in reached]
            reached |= set(frontier)
        assert reached == left


def test_parameters_that_cannot_be_met_say_what_could_be() -> None:
    with pytest.raises(ht.SettingError, match="3 dropped and 3 corrupt .* 2 dropped and 2 corrupt would do"):
        shape(10, 3, 3)
    with pytest.raises(ht.SettingError, match="at least 2 clients"):
        shape(1, 0, 0)
    with pytest.raises(ht.SettingError, match="must be even, but got neighbours=3, clients=9"):
        ht.Masked(neighbours=3).shape(9)
