"""How good configs really are, which only a marked simulation knows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.conftest import Make, distance, tune

import hushtune as ht


def test_reference_figures_of_a_simulation(make_clients: Make, candidates: ht.Candidates) -> None:
    reference = ht.Client((np.zeros((1, 1)), np.array([0.3])), distance)
    result = tune(make_clients(20), candidates, simulation=ht.Simulation(1, reference, draws=7))
    figures = result.simulation["figures"] if result.simulation else {}
    assert figures["opt"] == 1.0
    assert figures["random_guess"] == pytest.approx(1 - np.mean(np.abs(np.linspace(0, 1, 11) - 0.3)))
    assert figures["draws"] == 7
    assert set(figures["means"]) == {"argmax", "smooth"}
    assert all(figures["random_guess"] < value <= 1 for value in figures["means"].values())


def test_a_reference_with_failed_candidates(make_clients: Make, candidates: ht.Candidates) -> None:
    @ht.objective
    def sometimes(config: ht.Config, data: ht.Rows) -> float:
        return float("nan") if config["x"] > 0.5 else config["x"]

    def figures(objective: Any) -> Any:
        reference = ht.Client((np.zeros((1, 1)), np.zeros(1)), objective)
        return tune(make_clients(5), candidates, simulation=ht.Simulation(1, reference, draws=2)).simulation

    assert figures(sometimes)["figures"]["random_guess"] == pytest.approx((1 + 0.9 + 0.8 + 0.7 + 0.6 + 6 * 0.5) / 11)
    with pytest.raises(ht.SettingError, match="all of them failed"):
        figures(ht.objective(lambda config, data: float("nan")))


@ht.objective
def above(config: ht.Config, data: ht.Rows) -> float:
    return float(config["x"])


def test_clients_that_search_on_their_own_are_measured_by_the_best_that_such_a_search_finds() -> None:
    """There are no common candidates then, and so no mean candidate."""
    space = ht.Space(x=ht.Float(0.0, 1.0))
    clients = [ht.Client((np.zeros((1, 1)), np.zeros(1)), above) for _ in range(4)]
    reference = ht.Client((np.zeros((1, 1)), np.zeros(1)), above)
    result = ht.tune(
        clients,
        space,
        method=ht.Combine("dbscan"),
        search=ht.Search.adaptive(trials=12),
        simulation=ht.Simulation(1, reference, draws=2),
        observer=ht.Silent(),
        jobs=1,
    )
    figures = result.simulation["figures"] if result.simulation else {}
    assert "random_guess" not in figures
    assert 0.5 < figures["opt"] <= 1.0
    assert figures["chosen"] == pytest.approx(1 - result.config["x"])
