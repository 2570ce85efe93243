"""hushtune on Flower's simulation engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from flwr.app import Context
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation

import hushtune as ht
import hushtune.flower

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


@pytest.mark.parametrize(("unit", "voters"), [("client", 1)])
def test_a_masked_vote_equals_the_one_in_process(unit: Any, voters: int) -> None:
    mark = ht.Simulation(seed=5)
    method, privacy = ht.Vote(k=3, voters=voters), ht.Privacy(2.0, unit=unit)
    seen: dict[str, Any] = {}

    def main(grid: Grid, context: Context) -> ht.Result:
        federation_of = hushtune.flower.FlowerFederation
        result = hushtune.flower.tune(
            grid, CANDIDATES, method=method, privacy=privacy, simulation=mark, timeout=120, nodes=NODES, quiet=True
        )
        seen["class"] = federation_of
        return result

    on_flower = simulate(main, NODES, mark)
    clients = [ht.Client(rows(at), distance) for at in range(NODES)]
    in_process = ht.tune(clients, CANDIDATES, method=method, privacy=privacy, simulation=mark, quiet=True)
    assert on_flower.opened == in_process.opened
    assert on_flower.config == in_process.config
    assert on_flower.dropped == {}
