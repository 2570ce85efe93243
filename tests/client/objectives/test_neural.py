"""Batched training equals a plain loop, config by config; what it skips changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import hushtune as ht
from experiments.speed.networks import plain_losses
from hushtune.client.objectives import stacked

pytestmark = pytest.mark.torch


def mlp(width: int = 12) -> nn.Module:
    return nn.Sequential(nn.Linear(20, width), nn.ReLU(), nn.Dropout(0.3), nn.Linear(width, 2))


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.ReLU(),
        nn.Dropout2d(0.2),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 6, 3, stride=2, padding=1),
        nn.GroupNorm(2, 6),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(24, 3),
    )


class Odd(nn.Module):
    """A layer without bias, one used twice, a grouped convolution: what the fast layers do not know."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(20, 8, bias=False), nn.Linear(8, 8)
        self.scale = nn.Parameter(torch.ones(8))
        self.conv = nn.Conv1d(8, 8, 1, groups=4)
        self.out = nn.Linear(8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.tanh(self.two(torch.tanh(self.two(self.one(x))))) * self.scale
        return self.out(self.conv(h[..., None])[..., 0])


def minus_loss(outputs: torch.Tensor, y: torch.Tensor) -> float:
    """A smooth metric: accuracies would agree too easily."""
    if outputs.shape[-1] == 1:
        return -float(nn.functional.binary_cross_entropy_with_logits(outputs.flatten(), y.float()))
    return -float(nn.functional.cross_entropy(outputs, y))


def data(*shape: int, classes: int = 2, count: int = 90) -> ht.Rows:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(count, *shape)).astype(np.float32)
    return ht.Rows(x, (x.reshape(count, -1)[:, 0] * classes).astype(int) % classes)


GRID = ht.Space(
    lr=ht.Choice([0.5, 0.05, 1e-3]), decay=ht.Choice([0.0, 0.1, 0.99, 1.0]), momentum=ht.Choice([0.0, 0.9])
).grid()

CASES: dict[str, tuple[Any, ht.Rows, ht.Candidates, dict[str, Any]]] = {
    "mlp": (mlp, data(20), GRID, {}),
    "cnn": (cnn, data(1, 9, 9, classes=3), GRID, {}),
    "odd": (Odd, data(20), GRID, {"loss": "logistic"}),
    "nesterov": (
        mlp,
        data(20),
        ht.Space(lr=ht.Choice([0.1, 0.01]), nesterov=ht.Choice([True]), weight_decay=ht.Choice([0.0, 0.1])).grid(),
        {"fixed": {"momentum": 0.8}},
    ),
    "adam": (
        mlp,
        data(20),
        ht.Space(rate=ht.Choice([0.1, 0.01]), weight_decay=ht.Choice([0.0, 0.1]), decay=ht.Choice([0.5, 1.0])).grid(),
        {"optimiser": "adam", "knobs": {"rate": "lr"}},
    ),
    "widths": (mlp, data(20), ht.Space(lr=ht.Choice([0.1, 0.01]), width=ht.Choice([4, 9])).grid(), {}),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("limit", [500_000_000, 1])
def test_every_config_ends_where_a_plain_loop_ends(name: str, limit: int) -> None:
    """With everything at once, and with one row at a time."""
    module, own, candidates, settings = CASES[name]
    objective = ht.TorchObjective(module, epochs=3, batch=32, metric=minus_loss, limit=limit, **settings)
    found = objective.losses(candidates.configs, own, 3)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, plain_losses(objective, candidates.configs, own, 3), rtol=2e-4, atol=2e-5)


def test_configs_that_part_later_are_trained_once_until_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """3 rates x 2 momenta in the first epoch; then 3 of 4 decays, because the fourth stands still at rate 0."""
    sizes: list[int] = []
    original = stacked.Trainer._epoch

    def counted(self: Any, rows: Any, *rest: Any) -> Any:
        sizes.append(len(rows))
        return original(self, rows, *rest)

    monkeypatch.setattr(stacked.Trainer, "_epoch", counted)
    ht.TorchObjective(mlp, epochs=3).losses(GRID.configs, data(20), 0)
    assert sum(sizes) == 6 + 2 * 18  # instead of 3 x 24


def test_a_diverged_config_is_nan_and_harms_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    candidates = ht.Space(lr=ht.Choice([0.1, 1e6, 1e30, 0.01])).grid()
    objective = ht.TorchObjective(mlp, epochs=4, batch=8, metric=minus_loss)
    steps: list[int] = []
    original = stacked.Trainer._step

    def counted(self: Any, rows: Any, *rest: Any) -> Any:
        steps.append(len(rows))
        return original(self, rows, *rest)

    monkeypatch.setattr(stacked.Trainer, "_step", counted)
    found = objective.losses(candidates.configs, data(20), 0)
    assert np.isnan(found[2])
    alone = objective.losses([candidates.configs[0], candidates.configs[3]], data(20), 0)
    np.testing.assert_allclose(found[[0, 3]], alone, rtol=1e-5)
    assert min(steps) <= 3  # it costs nothing further


def test_all_diverged() -> None:
    found = ht.TorchObjective(mlp, epochs=2, batch=8).losses([{"lr": 1e30}, {"lr": 1e31}], data(20), 0)
    assert np.isnan(found).all()


def test_batch_norm_is_refused_with_what_to_use_instead() -> None:
    def normed() -> nn.Module:
        return nn.Sequential(nn.Linear(20, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))

    with pytest.raises(ht.SettingError, match=r"layer '1' is BatchNorm.*torch.nn.GroupNorm\(8, 8\)"):
        ht.TorchObjective(normed).losses([{"lr": 0.1}], data(20), 0)


def test_the_same_seed_gives_the_same_losses_whatever_was_drawn_before() -> None:
    objective = ht.TorchObjective(mlp, epochs=2, metric=minus_loss)
    first = objective.losses(GRID.configs, data(20), 5)
    torch.manual_seed(99)
    torch.rand(7)
    np.testing.assert_array_equal(first, objective.losses(GRID.configs, data(20), 5))
    assert not np.array_equal(first, objective.losses(GRID.configs, data(20), 6))


def test_a_part_takes_as_many_steps_as_all_rows_would() -> None:
    whole = ht.TorchObjective(mlp, epochs=2, batch=32, metric=minus_loss, full_steps=True)
    part, few = whole.as_part(4), ht.TorchObjective(mlp)
    assert few.as_part(4)._steps(30) == (few.batch, None)
    assert whole._steps(30) == (32, None)
    batch, again = part._steps(30)
    assert batch == 30
    assert len(again) == 4 * 30  # 120 rows are 4 steps of 32
    assert sorted(np.bincount(again)) == [4] * 30
    rows = data(20, count=40)
    found = part.losses(GRID.configs, rows, 5)
    assert np.isfinite(found).any()
    assert not np.array_equal(found, whole.losses(GRID.configs, rows, 5), equal_nan=True)


def test_a_vote_over_networks(tmp_path: Path) -> None:
    clients = [ht.Client(data(20, count=60), ht.TorchObjective(mlp, epochs=2)) for _ in range(4)]
    result = ht.tune(clients, GRID, method=ht.Vote(3), home=tmp_path, observer=ht.Silent(), jobs=1)
    assert sum(result.opened[0].blocks["votes"]) == 12


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"optimiser": "lbfgs"}, "optimiser must be one of"),
        ({"loss": "hinge"}, "loss must be one of"),
        ({"epochs": 0}, "epochs=0"),
        ({"knobs": {"rate": "speed"}}, "'sgd' has the knobs"),
        ({"optimiser": "adam", "fixed": {"momentum": 0.9}}, "'adam' has the knobs"),
        ({"validation": 1.0}, "validation=1.0"),
        ({"parts": 0}, "parts=0"),
    ],
)
def test_bad_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ht.SettingError, match=message):
        ht.TorchObjective(mlp, **settings)


def test_a_mapping_of_names_that_are_not_there() -> None:
    with pytest.raises(ht.SettingError, match="knobs maps 'rate', but the space has"):
        ht.TorchObjective(mlp, knobs={"rate": "lr"}).check(GRID.space)
    with pytest.raises(ht.SettingError, match="needs data as"):
        ht.TorchObjective(mlp).check_data([1, 2])
    with pytest.raises(ht.SettingError, match="must make a torch.nn.Module"):
        ht.TorchObjective(lambda: 3).losses([{"lr": 0.1}], data(20), 0)  # type: ignore[arg-type, return-value]


def test_noise_and_clipping_are_those_of_a_plain_loop() -> None:
    """A constant loss: all that moves the weights is noise, the same for all configs, of the deviation asked for."""
    still = ht.TorchObjective(
        lambda: nn.Linear(200, 100),
        loss=lambda outputs, y: 0.0 * outputs.sum(),
        noise=0.3,
        batch=8,
        epochs=1,
        metric=lambda outputs, y: 0.0,
    )
    (shape,) = still.groups([{"lr": 1.0}])
    trainer = still.trainer(shape, 0)
    x, y = torch.zeros(8, 200), torch.zeros(8, dtype=torch.long)
    knobs = [still.optimiser_knobs({"lr": lr}) for lr in (1.0, 0.5)]
    rows, ends = trainer.train(trainer.start(), knobs, [0, 0], x, y, 1, 0)
    start = trainer.start().weights["weight"][0]
    whole, half = (rows.weights["weight"][end] - start for end in ends)
    assert torch.allclose(whole, 2 * half, atol=1e-6)
    assert abs(float(whole.std()) / 0.3 - 1) < 0.05  # 20,000 values: ten standard errors


def test_a_long_gradient_is_shortened_for_each_config_alone() -> None:
    steep = ht.TorchObjective(
        lambda: nn.Linear(4, 1), loss=lambda outputs, y: 1_000 * outputs.sum(), clip=2.0, batch=8, epochs=1
    )
    (shape,) = steep.groups([{"lr": 1.0}])
    trainer = steep.trainer(shape, 0)
    x, y = torch.ones(8, 4), torch.zeros(8, dtype=torch.long)
    knobs = [steep.optimiser_knobs({"lr": lr}) for lr in (1.0, 0.1)]
    rows, ends = trainer.train(trainer.start(), knobs, [0, 0], x, y, 1, 0)
    before = trainer.start().weights
    for end, lr in zip(ends, (1.0, 0.1), strict=True):
        moved = sum(float((rows.weights[name][end] - before[name][0]).square().sum()) for name in before)
        assert moved**0.5 == pytest.approx(2.0 * lr, rel=1e-4)


def test_texts_reach_a_network_only_if_the_owner_lists_them() -> None:
    objective = ht.TorchObjective(mlp, options={"activation": ["relu", "tanh"]})
    objective.check(ht.Space(lr=ht.Float(0.1, 1.0), width=ht.Int(4, 9), activation=ht.Choice(["relu", None])))
    for knobs, message in (
        ({"activation": ht.Choice(["relu", "os.system"])}, "knob 'activation' may have texts only that .* 'os.system'"),
        ({"weights": ht.Choice(["/tmp/weights"])}, "knob 'weights' may have texts only that the client's owner lists"),
        ({"lr": ht.Choice(["fast"])}, "knob 'lr' of the optimiser must be a number or a boolean"),
        ({"lr": ht.Choice([None])}, "knob 'lr' of the optimiser must be a number or a boolean"),
    ):
        with pytest.raises(ht.SettingError, match=message):
            objective.check(ht.Space(**knobs))
    assert objective.fingerprint() == ht.TorchObjective(mlp).fingerprint()
    with pytest.raises(ht.SettingError, match="options must list texts"):
        ht.TorchObjective(mlp, options={"activation": "relu"})  # type: ignore[dict-item]
