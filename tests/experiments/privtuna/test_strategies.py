"""PrivTuna's strategies on searches whose outcome is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from experiments.privtuna.strategies import STRATEGIES, SURFACES, Searches, min_points
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
