"""The server: tunes privately, then trains with the chosen config through Flower's own FedAvg."""

from __future__ import annotations

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

import hushtune as ht
import hushtune.flower
from flower_vote.task import CANDIDATES, MIDDLE, test_data, with_weights

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    voters, rounds = int(context.run_config["voters"]), int(context.run_config["rounds"])
    settings = hushtune.flower.settings(context)
    nodes = hushtune.flower.FlowerFederation(grid, **settings.federation)
    result = ht.tune(nodes, CANDIDATES, method=ht.Vote(voters=voters), **settings.tune)
    print(result.statement)
    for what, config in (("chosen privately", result.config), ("for comparison, the middle of the space", MIDDLE)):
        strategy = FedAvg(fraction_evaluate=0.0)
        trained = strategy.start(
            grid,
            initial_arrays=ArrayRecord([np.zeros((10, 64)), np.zeros(10)]),
            num_rounds=rounds,
            train_config=ConfigRecord(dict(config)),
        )
        rows = test_data()
        accuracy = with_weights(trained.arrays, config).score(rows.X, rows.y)
        print(f"{what}: {config}; accuracy after {rounds} rounds of FedAvg: {accuracy:.3f}", flush=True)
