"""Federated averaging of networks: many configs at once equal each alone, and a plain PyTorch loop."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import hushtune as ht
from hushtune.client.objectives.stacked import order_of
from hushtune.data import load
from hushtune.data.splits import shares
from hushtune.training import FedAvg

pytestmark = pytest.mark.torch

DATA = load("digits")
PARTS = shares("dirichlet:1", DATA.train, 5, seed=0)


def network(width: int = 16) -> nn.Module:
    return nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Dropout(0.2), nn.Linear(width, 10))


def plain() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10))


def clients(objective: ht.TorchObjective) -> list[ht.Client]:
    return [ht.Client(rows, objective) for rows in PARTS]


CONFIGS = [
    {"lr": lr, "momentum": momentum, "decay": decay}
    for lr in (0.5, 0.05, 1e-6)
    for momentum in (0.0, 0.9)
    for decay in (0.0, 0.5, 1.0)
]


def test_many_configs_at_once_equal_each_alone() -> None:
    objective = ht.TorchObjective(network, epochs=2)
    together = FedAvg(3).train(clients(objective), CONFIGS, jobs=1, observer=ht.Silent())
    losses = together.losses(DATA.test)
    assert losses.min() < 0.3
    for place in (0, 5, 11, 17):
        alone = FedAvg(3).train(clients(objective), [CONFIGS[place]], jobs=1, observer=ht.Silent())
        ours, theirs = together.model(place).state_dict(), alone.model(0).state_dict()
        for name, value in ours.items():
            torch.testing.assert_close(value, theirs[name], rtol=1e-3, atol=1e-4)
        assert losses[place] == pytest.approx(alone.losses(DATA.test)[0], abs=0.01)


def test_one_config_equals_a_plain_pytorch_loop() -> None:
    config, rounds, epochs = {"lr": 0.2, "momentum": 0.9, "decay": 0.5}, 2, 2
    objective = ht.TorchObjective(plain, epochs=epochs)
    trained = FedAvg(rounds, seed=4).train(clients(objective), [config], jobs=1, observer=ht.Silent())
    server = objective.network((), 4)
    total = sum(map(len, PARTS))
    for number in range(rounds):
        seed = int(np.random.SeedSequence([4, number]).generate_state(1)[0]) >> 7
        mean = {name: torch.zeros_like(value) for name, value in server.state_dict().items()}
        for rows in PARTS:
            own = plain()
            own.load_state_dict(server.state_dict())
            optimiser = torch.optim.SGD(own.parameters(), config["lr"], config["momentum"])
            schedule = torch.optim.lr_scheduler.StepLR(optimiser, 1, config["decay"])
            x, y = torch.tensor(rows.X, dtype=torch.float32), torch.tensor(rows.y)
            for epoch in range(epochs):
                order = order_of(len(x), seed, epoch)
                for begin in range(0, len(x), 64):
                    batch = order[begin : begin + 64]
                    optimiser.zero_grad()
                    nn.functional.cross_entropy(own(x[batch]), y[batch]).backward()
                    optimiser.step()
                schedule.step()
            for name, value in own.state_dict().items():
                mean[name] += value * (len(rows) / total)
        server.load_state_dict(mean)
    for name, value in trained.model(0).state_dict().items():
        torch.testing.assert_close(value, server.state_dict()[name], rtol=1e-3, atol=1e-5)


def test_architectures_are_grouped_and_the_diverged_are_left_out() -> None:
    objective = ht.TorchObjective(network, epochs=2)
    configs = [{"lr": 0.1, "width": 16}, {"lr": 0.1, "width": 8}, {"lr": 1e30, "width": 8}, {"lr": 0.01, "width": 16}]
    trained = FedAvg(2).train(clients(objective), configs, jobs=1, observer=ht.Silent())
    losses = trained.losses(DATA.test)
    assert len(trained.groups) == 2
    assert np.isnan(losses[2])
    assert np.isfinite(losses[[0, 1, 3]]).all()
    assert trained.model(1)[0].out_features == 8


def test_server_knobs_resuming_and_processes(tmp_path: Path) -> None:
    objective = ht.TorchObjective(network, epochs=1)
    configs = [{"lr": 0.1, "server_lr": 0.7, "server_momentum": 0.5}, {"lr": 0.1}]
    one = FedAvg(2).train(clients(objective), configs, jobs=1, observer=ht.Silent())
    two = FedAvg(2).train(clients(objective), configs, jobs=2, folder=tmp_path, observer=ht.Silent())
    again = FedAvg(2).train(clients(objective), configs, jobs=2, folder=tmp_path, observer=ht.Silent())
    for name, value in one.model(0).state_dict().items():
        torch.testing.assert_close(value, two.model(0).state_dict()[name])
        torch.testing.assert_close(value, again.model(0).state_dict()[name])
    assert not torch.equal(one.model(0)[0].weight, one.model(1)[0].weight)


def test_the_seed_sets_the_start() -> None:
    objective = ht.TorchObjective(network, epochs=1)
    starts = [
        FedAvg(1, seed=s).train(clients(objective), [{"lr": 1e-9}], jobs=1, observer=ht.Silent()).model(0)
        for s in (0, 0, 1)
    ]
    assert torch.equal(starts[0][0].weight, starts[1][0].weight)
    assert not torch.equal(starts[0][0].weight, starts[2][0].weight)
