"""hushtune on Flower's simulation engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Context
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation

import hushtune as ht
import hushtune.flower

pytestmark = pytest.mark.flower

CANDIDATES = ht.Space(x=ht.Float(0.0, 1.0)).grid(x=21)
NODES = 20


@ht.objective
def distance(config: ht.Config, data: ht.Rows) -> float:
    return float(abs(config["x"] - np.mean(data.y)))


def rows(number: int) -> tuple[Any, Any]:
    return np.zeros((6, 1)), np.random.default_rng(number).normal(0.3, 0.1, 6)


def simulate(main: Callable[[Grid, Context], Any], nodes: int, simulation: ht.Simulation | None = None) -> Any:
    """What `main` gives, run as a ServerApp over simulated nodes."""
    client_app, server_app, found = ClientApp(), ServerApp(), []
    hushtune.flower.register(
        client_app,
        distance,
        data=lambda context: rows(context.node_config["partition-id"]),
        simulation=simulation,
        jobs=1,
    )

    @server_app.main()
    def server(grid: Grid, context: Context) -> None:
        found.append(main(grid, context))

    run_simulation(server_app, client_app, nodes, backend_config={"client_resources": {"num_cpus": 1}})
    return found[0]


def test_masked_votes_equal_those_in_process() -> None:
    """Per client and per record: the same noisy sums, entry by entry."""
    mark = ht.Simulation(seed=5)
    settings: list[dict[str, Any]] = [
        {"method": ht.Vote(k=3), "privacy": ht.Privacy(2.0)},
        {"method": ht.Vote(k=3, voters=3), "privacy": ht.Privacy(2.0, unit="record")},
    ]

    def main(grid: Grid, context: Context) -> list[ht.Result]:
        common: dict[str, Any] = {"simulation": mark, "observer": ht.Silent()}
        own: dict[str, Any] = {"timeout": 120, "nodes": NODES, "simulated": True, "observer": ht.Silent()}
        found = []
        for setting in settings:
            nodes = hushtune.flower.FlowerFederation(grid, **own)
            found.append(ht.tune(nodes, CANDIDATES, **setting, **common))
        return found

    clients = [ht.Client(rows(at), distance, name=f"client-{at}") for at in range(NODES)]
    for setting, on_flower in zip(settings, simulate(main, NODES, mark), strict=True):
        in_process = ht.tune(clients, CANDIDATES, **setting, simulation=mark, observer=ht.Silent())
        assert on_flower.opened == in_process.opened
        assert on_flower.config == in_process.config
        assert on_flower.dropped == {}
        assert on_flower.traffic is not None
        assert on_flower.traffic["trips"] == 4


def test_nodes_of_the_engine_are_marked_by_it_charge_nothing_and_show_their_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody said so: neither the app nor the server. In 0.1 they made ledgers, and failed in silence."""
    monkeypatch.setenv("HUSHTUNE_HOME", str(tmp_path / "home"))

    def main(grid: Grid, context: Context) -> tuple[ht.Result, str]:
        own: dict[str, Any] = {"timeout": 120, "nodes": 4, "observer": ht.Silent()}
        asked: dict[str, Any] = {"method": ht.Vote(k=3), "privacy": ht.Privacy(2.0), "observer": ht.Silent()}
        found = ht.tune(hushtune.flower.FlowerFederation(grid, **own), CANDIDATES, **asked)
        other = ht.Space(y=ht.Float(0.0, 1.0)).grid(y=5)  # a knob that the objective does not know
        try:
            ht.tune(hushtune.flower.FlowerFederation(grid, **own), other, **asked)
        except ht.AbortedError as error:
            return found, str(error)
        raise AssertionError("every node must fail")

    found, error = simulate(main, 4)
    assert found.simulation == {"seed": 0, "figures": None}
    assert "SIMULATION" in found.statement.upper()
    assert "objective failed: " in error
    assert "KeyError: 'x'" in error
    assert not list((tmp_path / "home").glob("**/ledger*.db"))
