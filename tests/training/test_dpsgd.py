"""DP-SGD: its noise, its clipping, its sampling and where randomness comes from."""

from __future__ import annotations

import builtins
import math
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn

import hushtune as ht
from hushtune.training import dpsgd
from hushtune.training.dpsgd import DPSGD

pytestmark = pytest.mark.dpsgd

FALSE_ALARM = 1e-7  # of each statistical check


def mlp(width: int = 8, inputs: int = 5, outputs: int = 2) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, outputs))


def dropped() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 2))


def cnn() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(36, 2))


class Odd(nn.Module):
    """A layer used twice and a parameter of its own: what Opacus's hooks do not know."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(5, 4, bias=False), nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.ones(4))
        self.out = nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.tanh(self.two(torch.tanh(self.two(self.one(x))))) * self.scale)


def data(*shape: int, count: int = 60) -> ht.Rows:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(count, *shape)).astype(np.float32)
    return ht.Rows(x, (x[(slice(None), *[0] * len(shape))] > 0).astype(int))


def no_gradient(outputs: Tensor, y: Tensor) -> Tensor:
    return (0.0 * outputs).sum()


def vector(module: nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten() for p in module.parameters()]).double()


def moved(learner: DPSGD, config: ht.Config, rows: ht.Rows, multiplier: float = 0.0, seed: int | None = 1) -> Tensor:
    """How far a training moves each weight."""
    shape = {n: v for n, v in config.items() if n in ("width", "inputs", "outputs")}
    start = learner.objective.network(tuple(shape.items()), 0)
    return vector(learner.train(config, rows, multiplier, seed)) - vector(start)


def recorded(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """The batches that trainings draw from now on."""
    batches: list[Tensor] = []
    original = dpsgd._sampled

    def kept(*arguments: Any) -> Tensor:
        batches.append(original(*arguments))
        return batches[-1]

    monkeypatch.setattr(dpsgd, "_sampled", kept)
    return batches


# ---- noise -------------------------------------------------------------------------------------------


def has_deviation(values: Tensor, deviation: float) -> bool:
    """Whether independent Gaussian values around 0 have it: chi-square, two-sided."""
    total = float((values / deviation).square().sum())
    law = stats.chi2(len(values))
    return bool(min(law.cdf(total), law.sf(total)) > FALSE_ALARM / 2)


def with_noise_times(factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    original = dpsgd.DPOptimizer

    def planted(*arguments: Any, noise_multiplier: float, **others: Any) -> Any:
        return original(*arguments, noise_multiplier=noise_multiplier * factor, **others)

    monkeypatch.setattr(dpsgd, "DPOptimizer", planted)


@pytest.mark.statistical
@pytest.mark.parametrize("count", [0, 3, 40])
def test_the_noise_has_the_declared_deviation_also_without_rows(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """On 8,002 coordinates; false-alarm rate 1e-7. Noise of half the size, or 10% more, is caught."""
    learner = DPSGD(ht.TorchObjective(mlp, loss=no_gradient), batch=10, epochs=2, clip=0.7, rows=40)
    config = {"lr": 0.3, "width": 1000}
    one_step = 0.3 * 1.5 * 0.7 / 10
    declared = one_step * math.sqrt(learner.steps(count))
    rows = data(5).take(np.arange(count))
    assert has_deviation(moved(learner, config, rows, 1.5), declared)
    for factor in (0.5, 1.1):
        with monkeypatch.context() as planted:
            with_noise_times(factor, planted)
            assert not has_deviation(moved(learner, config, rows, 1.5), declared)


@pytest.mark.statistical
def test_noise_is_gaussian_and_new_in_every_step() -> None:
    """Kolmogorov-Smirnov, false-alarm rate 1e-7; correlation of two trainings' noise within 6 deviations of 0."""
    learner = DPSGD(ht.TorchObjective(mlp, loss=no_gradient), batch=60, epochs=1)
    one, two = (moved(learner, {"lr": 1.0, "width": 400}, data(5), 60.0, seed) for seed in (1, 2))
    assert stats.kstest(one.numpy(), "norm").pvalue > FALSE_ALARM
    assert abs(float((one * two).sum())) < 6 * math.sqrt(len(one))


def test_no_multiplier_is_no_noise() -> None:
    learner = DPSGD(ht.TorchObjective(mlp, loss=no_gradient), batch=10, epochs=1)
    assert not moved(learner, {"lr": 1.0}, data(5)).any()


# ---- clipping and the divisor ------------------------------------------------------------------------


def test_one_row_moves_the_model_by_no_more_than_the_clip() -> None:
    """To the clip exactly, for the label that the model gets wrong."""
    huge = data(5, count=1).X * 1e6
    learner = DPSGD(ht.TorchObjective(mlp), batch=50, epochs=1, clip=0.5, rows=50)
    for config, clip in (({"lr": 2.0}, 0.5), ({"lr": 2.0, "clip": 0.1}, 0.1)):
        lengths = [float(moved(learner, config, ht.Rows(huge, np.array([label]))).norm()) for label in (0, 1)]
        assert max(lengths) == pytest.approx(2.0 * clip / 50, rel=1e-4)


def replaced(learner: DPSGD, **settings: Any) -> DPSGD:
    return DPSGD(**{**vars(learner), **settings})


@pytest.mark.parametrize("value", [1.0, 1e6, 1e38, math.inf, math.nan])
@pytest.mark.parametrize("module", [mlp, Odd])
def test_adding_any_row_moves_a_step_by_no_more_than_the_clip(value: float, module: Any) -> None:
    """Also a row whose gradient overflows: it must not turn the sum into NaN, which no noise would hide."""
    loss = "logistic" if module is Odd else "cross_entropy"
    learner = DPSGD(ht.TorchObjective(module, loss=loss), batch=50, epochs=1, clip=0.5, rows=50)
    rows = data(5, count=20)
    more = ht.Rows(np.concatenate([rows.X, np.full((1, 5), value, np.float32)]), np.append(rows.y, 1))
    change = moved(learner, {"lr": 2.0}, more) - moved(learner, {"lr": 2.0}, rows)
    assert float(change.norm()) <= 2.0 * 0.5 / 50 * 1.001


def test_the_sum_is_divided_by_the_public_batch() -> None:
    """Twice the rows make twice the step, because the divisor does not know how many there are."""
    rows = data(5, count=20)
    twice = rows.take(np.tile(np.arange(20), 2))
    learner = DPSGD(ht.TorchObjective(mlp), batch=30, epochs=1, rows=30)
    torch.testing.assert_close(
        2 * moved(learner, {"lr": 1.0}, rows), moved(learner, {"lr": 1.0}, twice), rtol=1e-4, atol=1e-6
    )


def test_the_loss_is_taken_row_by_row() -> None:
    """A sum over the batch or a mean make no difference, so no loss can mix rows."""
    added = ht.TorchObjective(mlp, loss=lambda outputs, y: nn.functional.cross_entropy(outputs, y, reduction="sum"))
    one, two = (moved(DPSGD(o, batch=20, epochs=2), {"lr": 0.5}, data(5)) for o in (added, ht.TorchObjective(mlp)))
    torch.testing.assert_close(one, two)


# ---- sampling ----------------------------------------------------------------------------------------


def is_poisson(batches: list[Tensor], rows: int, rate: float) -> bool:
    """Whether sizes and rows' own counts vary as coins do: three sums within 6 deviations."""
    drawn = torch.zeros(len(batches), rows, dtype=torch.float64)
    for step, batch in enumerate(batches):
        drawn[step, batch] = 1

    def spread(counts: Tensor, trials: int) -> float:
        squares = (counts - trials * rate).square() / (trials * rate * (1 - rate))
        return float((squares.sum() - len(counts)) / math.sqrt(2.1 * len(counts)))

    total = (float(drawn.sum()) - drawn.numel() * rate) / math.sqrt(drawn.numel() * rate * (1 - rate))
    return max(abs(total), abs(spread(drawn.sum(1), rows)), abs(spread(drawn.sum(0), len(batches)))) < 6


@pytest.mark.statistical
def test_every_row_is_sampled_by_a_coin_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """False-alarm rate below 1e-7. Batches of a fixed size, rows in turn, and a rate 10% off are caught."""
    batches = recorded(monkeypatch)
    learner = DPSGD(ht.TorchObjective(mlp), batch=30, epochs=20)
    learner.train({"lr": 0.1}, data(5, count=600), 1.0, 3)
    assert len(batches) == learner.steps(600) == 400
    assert is_poisson(batches, 600, learner.rate(600))
    shuffled = [torch.randperm(600, generator=torch.Generator().manual_seed(step))[:30] for step in range(400)]
    assert not is_poisson(shuffled, 600, 0.05)
    assert not is_poisson(list(torch.arange(600).repeat(20).split(30)), 600, 0.05)
    assert not is_poisson(batches, 600, 0.055)


def test_batches_without_rows_are_steps_too(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = recorded(monkeypatch)
    learner = DPSGD(ht.TorchObjective(cnn), batch=1, epochs=1, rows=40)
    model = learner.train({"lr": 0.1}, data(1, 5, 5, count=3), 1.0, 0)
    assert len(batches) == 40
    assert min(map(len, batches)) == 0 < max(map(len, batches))
    assert vector(model).isfinite().all()


@pytest.mark.parametrize(
    ("settings", "rows", "rate", "steps"),
    [
        ({"batch": 256, "epochs": 10}, 1000, 0.256, 40),
        ({"batch": 256, "epochs": 10}, 100, 1.0, 10),
        ({"batch": 10, "epochs": 3}, 30, 1 / 3, 9),
        ({"batch": 10, "epochs": 1, "rows": 100}, 7, 0.1, 10),
        ({"batch": 10, "epochs": 1, "rows": 100}, 0, 0.1, 10),
    ],
)
def test_rate_and_steps_follow_from_public_numbers(
    settings: dict[str, int], rows: int, rate: float, steps: int
) -> None:
    learner = DPSGD(ht.TorchObjective(mlp), **settings)
    assert learner.rate(rows) == pytest.approx(rate)
    assert learner.steps(rows) == steps


# ---- randomness --------------------------------------------------------------------------------------


def test_a_seed_repeats_a_training_and_none_never_does() -> None:
    learner = DPSGD(ht.TorchObjective(dropped), batch=20, epochs=2)
    one, two, three = (moved(learner, {"lr": 0.1}, data(5), 1.0, seed) for seed in (7, 7, 8))
    assert torch.equal(one, two)
    assert not torch.equal(one, three)
    assert not torch.equal(*(moved(learner, {"lr": 0.1}, data(5), 1.0, None) for _ in range(2)))


@pytest.mark.parametrize("seed", [None, 5])
def test_global_randomness_is_left_alone_and_not_used(seed: int | None) -> None:
    learner = DPSGD(ht.TorchObjective(dropped), batch=20, epochs=1)
    found = []
    for start in (1, 2):
        torch.manual_seed(start)
        before = torch.get_rng_state()
        found.append(moved(learner, {"lr": 0.1}, data(5), 1.0, seed))
        assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(*found) == (seed is not None)


def test_the_generators_whole_state_is_random() -> None:
    """PyTorch takes 32 bits of a seed, whatever it is given: all of these could be tried."""
    same = [torch.rand(1, generator=torch.Generator().manual_seed(seed)) for seed in (5, 5 + 2**32)]
    assert torch.equal(*same)
    one, two = (dpsgd._generator(None).get_state().numpy().view("<u8") for _ in range(2))
    assert (one[dpsgd._STATE] != two[dpsgd._STATE]).sum() > 600
    assert one[dpsgd._STATE].max() < 2**32
    fixed = torch.Generator().get_state().numpy().view("<u8")
    outside = np.delete(np.arange(len(fixed)), np.arange(3, 627))
    assert np.array_equal(one[outside], fixed[outside])


def test_a_cryptographic_generator_is_used_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchcsprng", None)
    assert not dpsgd.secure()
    opened = []

    def device(path: str) -> torch.Generator:
        opened.append(path)
        return torch.Generator().manual_seed(1)

    monkeypatch.setitem(sys.modules, "torchcsprng", SimpleNamespace(create_random_device_generator=device))
    assert dpsgd.secure()
    learner = DPSGD(ht.TorchObjective(mlp), batch=20, epochs=1)
    assert torch.equal(*(moved(learner, {"lr": 0.1}, data(5), 1.0, None) for _ in range(2)))
    assert opened == ["/dev/urandom"] * 2


def test_a_torchcsprng_of_another_pytorch_counts_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def broken(name: str, *others: Any) -> Any:
        if name == "torchcsprng":
            raise OSError("undefined symbol")
        return original(name, *others)

    monkeypatch.setattr(builtins, "__import__", broken)
    assert not dpsgd.secure()
