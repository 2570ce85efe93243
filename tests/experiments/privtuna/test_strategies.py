"""PrivTuna's strategies on searches whose outcome is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from experiments.privtuna.strategies import GRIDS, STRATEGIES, SURFACES, Searches, cells_of, min_points, uncertain
from hushtune.client.pairs import Pairs
from hushtune.core.space import Config, Float, Space

SPACE = Space(lr=Float(0.01, 1.0, log=True), momentum=Float(0.0, 0.9))
RATES, MOMENTA = (0.01, 0.1, 1.0), (0.0, 0.45, 0.9)
CONFIGS: list[Config] = [{"lr": rate, "momentum": momentum} for rate in RATES for momentum in MOMENTA]


def searches(best: list[tuple[float, float]], skew: str = "label", other: float = 0.3) -> Searches:
    """Each client's best config has accuracy .9, all others less."""
    losses = np.full((len(best), len(CONFIGS)), 1 - other)
    for client, (rate, momentum) in enumerate(best):
        losses[client, CONFIGS.index({"lr": rate, "momentum": momentum})] = 0.1
    return Searches(SPACE, CONFIGS, losses, skew)


def test_agreeing_clients_are_followed_by_every_strategy() -> None:
    agreed = searches([(0.1, 0.45)] * 5)
    for scale in ("linear", "log"):
        derived = agreed.derived(scale)  # type: ignore[arg-type]
        assert list(derived) == list(STRATEGIES)
        for config in derived.values():
            assert config == pytest.approx({"lr": 0.1, "momentum": 0.45})
    assert agreed.minima(CONFIGS) == {name: {"lr": 0.1, "momentum": 0.45} for name in SURFACES}


def test_linear_and_log_means_differ_as_they_should() -> None:
    apart = searches([(0.01, 0.0), (1.0, 0.9)])
    assert apart.derived("linear")["mean"] == pytest.approx({"lr": 0.505, "momentum": 0.45})
    assert apart.derived("log")["mean"] == pytest.approx({"lr": 0.1, "momentum": 0.45})


def test_the_cluster_is_the_majoritys_and_not_the_mean() -> None:
    derived = searches([(0.1, 0.9)] * 5 + [(0.01, 0.0)] * 2).derived("linear")
    assert derived["dbscan"] == pytest.approx({"lr": 0.1, "momentum": 0.9})
    assert derived["mean"]["momentum"] == pytest.approx(0.9 * 5 / 7)


def test_without_a_cluster_it_is_the_mean() -> None:
    derived = searches([(0.01, 0.0), (1.0, 0.9)]).derived("linear")
    assert derived["dbscan"] == pytest.approx({"lr": 0.505, "momentum": 0.45})


def test_quantity_skew_needs_fewer_points() -> None:
    assert (min_points("quantity"), min_points("label"), min_points("iid")) == (2, 4, 4)
    derived = searches([(0.1, 0.9)] * 2 + [(0.01, 0.0)], "quantity").derived("linear")
    assert derived["dbscan"] == pytest.approx({"lr": 0.1, "momentum": 0.9})


def test_clients_that_learned_nothing_or_find_everything_good_have_no_say_in_the_published_clustering() -> None:
    some = searches([(0.1, 0.9)] * 4 + [(1.0, 0.0)] * 8)
    some.losses[4:8] = 0.7  # accuracy .3 everywhere
    some.losses[8:] = 0.05  # everything is good
    derived = some.derived("linear")
    assert derived["dbscan"] == pytest.approx({"lr": 0.1, "momentum": 0.9})
    nobody = Searches(SPACE, CONFIGS, some.losses[4:], "label")  # then all have a say
    assert all(math.isfinite(value) for value in nobody.derived("linear")["dbscan"].values())


def test_failed_configs_and_clients_without_any_are_left_out() -> None:
    some = searches([(0.1, 0.45)] * 5)
    some.losses[0] = np.nan
    some.losses[1, 0] = np.nan
    assert len(some.pairs("log")) == 4
    assert len(some.pairs("log")[0].losses) == len(CONFIGS) - 1
    assert some.derived("log")["mean"] == pytest.approx({"lr": 0.1, "momentum": 0.45})


def test_equal_losses_do_not_favour_small_values() -> None:
    flat = Searches(SPACE, CONFIGS, np.full((40, len(CONFIGS)), 0.5), "label")
    first = [tuple(client.best(1).points[0]) for client in flat.pairs("log")]
    assert len(set(first)) > 4
    assert flat.derived("log") == flat.derived("log")


def test_cells_are_another_algorithm_than_dbscan() -> None:
    """A point of a sparse cell joins the dense one beside it, if there is one, and is left out otherwise."""
    unit = Space(x=Float(0.0, 1.0), y=Float(0.0, 1.0))
    crowd, near, apart = [(0.40, 0.40)] * 4, (0.46, 0.40), (0.52, 0.62)  # cells 2, 3 and 3 along x; 2, 2 and 4 along y
    clients = [Pairs(np.array([point]), np.array([0.1])) for point in (*crowd, near, apart)]
    (cluster,) = cells_of(clients, 4, unit)
    assert cluster.size == 5
    assert cluster.centre == pytest.approx([0.412, 0.40])
    (everything,) = cells_of(clients, 5, unit)  # no cell is dense
    assert everything.size == 6


def test_up_to_three_clusters_are_returned_the_best_first() -> None:
    places = [(0.01, 0.0), (1.0, 0.0), (0.01, 0.9), (1.0, 0.9)]
    some = searches([place for place in places for _ in range(4)])
    for client in range(16):
        some.losses[client, CONFIGS.index({"lr": places[client // 4][0], "momentum": places[client // 4][1]})] = (
            0.1 + 0.1 * (client // 4)
        )
    found = some.gridded("linear")
    assert list(found) == list(GRIDS)
    for configs in found.values():
        assert [(round(config["lr"], 6), config["momentum"]) for config in configs] == places[:3]


def test_the_study_clusters_fewer_clients_on_cells_too() -> None:
    some = searches([(0.1, 0.9)] * 4 + [(1.0, 0.0)] * 8)
    some.losses[4:] = 0.05  # everything is good there
    everybody, fewer = (configs[0] for configs in some.gridded("linear").values())
    assert fewer == pytest.approx({"lr": 0.1, "momentum": 0.9})
    assert everybody != fewer


def test_a_process_prefers_what_is_good_and_known() -> None:
    rng = np.random.default_rng(0)
    points = rng.random((60, 1)) / 2  # nothing is known of the right half
    pairs = Pairs(points, (points[:, 0] - 0.3) ** 2 + rng.normal(0, 0.01, 60))
    at = np.linspace(0, 1, 21)[:, None]
    values = uncertain(pairs, at)
    assert at[np.argmin(values), 0] == pytest.approx(0.3, abs=0.051)
    assert values[-1] > values[10]
    agreed = searches([(0.1, 0.45)] * 5)
    assert agreed.process(CONFIGS) == {"lr": 0.1, "momentum": 0.45}
