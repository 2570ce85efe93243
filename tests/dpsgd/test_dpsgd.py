"""DP-SGD: noise, clipping and sampling are as declared, and equal to a hand-written loop."""

from __future__ import annotations

import builtins
import copy
import math
import pickle
import sys
from collections.abc import Callable
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

import hushtune as ht
import torch
from hushtune.errors import MissingExtraError
from hushtune.training import dpsgd
from hushtune.training.dpsgd import DPSGD
from torch import Tensor, nn

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


# ---- training ----------------------------------------------------------------------------------------


def by_hand(learner: DPSGD, config: ht.Config, rows: ht.Rows, batches: list[Tensor]) -> nn.Module:
    """DP-SGD without noise: a gradient for each row in turn, PyTorch's optimiser and its StepLR."""
    objective, knobs = learner.objective, {n: v for n, v in config.items() if n not in ("clip", "decay")}
    model = objective.network((), 0)
    kind = torch.optim.Adam if objective.optimiser == "adam" else torch.optim.SGD
    optimiser = kind(model.parameters(), **knobs)
    rate, expected = learner.rate(len(rows)), learner.rate(len(rows)) * (learner.rows or len(rows))
    schedule = torch.optim.lr_scheduler.StepLR(optimiser, math.ceil(1 / rate), config.get("decay", 1.0))
    x, y = torch.tensor(rows.X), torch.tensor(rows.y)
    for batch in batches:
        total = [torch.zeros_like(p) for p in model.parameters()]
        for row in batch:
            loss = objective.loss_function()(model(x[row][None]), y[row][None])
            own = torch.autograd.grad(loss, list(model.parameters()))
            norm = torch.cat([g.flatten() for g in own]).norm()
            scale = min(1.0, config.get("clip", learner.clip) / float(norm))
            total = [t + scale * g for t, g in zip(total, own, strict=True)]
        for p, t in zip(model.parameters(), total, strict=True):
            p.grad = t / expected
        optimiser.step()
        schedule.step()
    return model


CASES: dict[str, tuple[Callable[[], nn.Module], dict[str, Any], ht.Config]] = {
    "plain": (mlp, {}, {"lr": 0.5}),
    "clip": (mlp, {}, {"lr": 0.5, "clip": 0.2}),
    "momentum": (mlp, {}, {"lr": 0.5, "momentum": 0.9}),
    "nesterov": (mlp, {}, {"lr": 0.5, "momentum": 0.9, "nesterov": True}),
    "weight decay": (mlp, {}, {"lr": 0.5, "weight_decay": 0.3}),
    "decay": (mlp, {}, {"lr": 0.5, "decay": 0.1}),
    "adam": (mlp, {"optimiser": "adam"}, {"lr": 0.02}),
    "adam decay": (mlp, {"optimiser": "adam"}, {"lr": 0.02, "weight_decay": 0.1, "decay": 0.5}),
    "cnn": (cnn, {}, {"lr": 0.5}),
    "odd": (Odd, {"loss": "logistic"}, {"lr": 0.5}),
}


@pytest.mark.parametrize("at_once", [dpsgd._AT_ONCE, 1])
@pytest.mark.parametrize("name", CASES)
def test_it_equals_a_loop_by_hand(name: str, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six steps, in two of which the learning rate is the first one; with all rows of a batch at once, or in turn."""
    module, settings, config = CASES[name]
    monkeypatch.setattr(dpsgd, "_AT_ONCE", at_once)
    batches = recorded(monkeypatch)
    rows = data(*((1, 5, 5) if module is cnn else (5,)), count=24)
    learner = DPSGD(ht.TorchObjective(module, **settings), batch=16, epochs=3, clip=0.6, rows=32)
    trained = learner.train(config, rows, 0.0, 2)
    assert len(batches) == 6
    wanted = by_hand(learner, config, rows, batches)
    torch.testing.assert_close(vector(trained), vector(wanted), rtol=1e-5, atol=1e-5)
    plain = by_hand(learner, {"lr": config["lr"]}, rows, batches)
    if len(config) > 1:
        assert not torch.allclose(vector(wanted), vector(plain), rtol=1e-3, atol=1e-3)


def test_batches_in_parts_get_noise_once(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = DPSGD(ht.TorchObjective(mlp), batch=20, epochs=2)
    whole = moved(learner, {"lr": 0.5}, data(5), 1.0)
    monkeypatch.setattr(dpsgd, "_AT_ONCE", 3 * 4 * len(whole))
    torch.testing.assert_close(moved(learner, {"lr": 0.5}, data(5), 1.0), whole)


def test_tuned_names_and_widths_reach_their_places() -> None:
    objective = ht.TorchObjective(mlp, knobs={"speed": "lr"}, fixed={"momentum": 0.5})
    learner = DPSGD(objective, batch=20, epochs=1)
    model = learner.train({"speed": 0.5, "width": 3, "clip": 2.0}, data(5), 0.0, 1)
    assert model[0].out_features == 3
    other = DPSGD(ht.TorchObjective(lambda: mlp(3)), batch=20, epochs=1, clip=2.0)
    torch.testing.assert_close(
        vector(model), vector(other.train({"lr": 0.5, "momentum": 0.5}, data(5), 0.0, 1)), rtol=1e-6, atol=1e-7
    )


def test_nesterov_without_momentum_is_plain() -> None:
    learner = DPSGD(ht.TorchObjective(mlp), batch=20, epochs=1)
    ahead, plain = (moved(learner, {"lr": 0.5, "nesterov": nesterov}, data(5)) for nesterov in (True, False))
    assert torch.equal(ahead, plain)


def test_frozen_parameters_stay_as_they_are() -> None:
    def frozen() -> nn.Module:
        made = mlp()
        made[0].requires_grad_(False)
        return made

    learner = DPSGD(ht.TorchObjective(frozen), batch=20, epochs=1)
    model, start = learner.train({"lr": 0.5}, data(5), 1.0, 1), learner.objective.network((), 0)
    assert torch.equal(model[0].weight, start[0].weight)
    assert not torch.equal(model[2].weight, start[2].weight)


def test_the_model_is_plain_and_carries_nothing_but_weights() -> None:
    """Opacus would leave the last sum of gradients on the parameters, without noise."""
    shared = mlp()
    before = vector(shared)
    model = DPSGD(ht.TorchObjective(lambda: shared), batch=20, epochs=1).train({"lr": 0.5}, data(5), 1.0, 1)
    assert type(model) is nn.Sequential
    assert not model.training
    assert all(p.grad is None and not vars(p) for p in model.parameters())
    assert not any(m._forward_hooks or m._backward_hooks or hasattr(m, "activations") for m in model.modules())
    assert torch.equal(vector(pickle.loads(pickle.dumps(model))), vector(model))
    assert torch.equal(vector(shared), before)
    model.train()(torch.randn(3, 5)).sum().backward()


def test_nothing_is_printed_logged_or_warned(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, recwarn: pytest.WarningsRecorder
) -> None:
    DPSGD(ht.TorchObjective(dropped), batch=2, epochs=1, rows=20).train({"lr": 0.5}, data(5, count=4), 1.0)
    assert capfd.readouterr() == ("", "")
    assert not caplog.records
    assert not recwarn.list


def test_it_learns_digits() -> None:
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    rows = ht.Rows((x / 16).astype(np.float32), y).take(np.random.default_rng(0).permutation(len(y)))
    objective = ht.TorchObjective(lambda width: mlp(width, 64, 10), fixed={"momentum": 0.9})
    learner = DPSGD(objective, batch=256, epochs=30)
    model = learner.train({"lr": 0.3, "width": 32}, rows.take(np.arange(1300)), 0.5, 0)
    assert learner.score(model, rows.take(np.arange(1300, len(y)))) > 0.85


# ---- scores ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [1e30, 1e38])
def test_a_diverged_training_is_a_model_that_is_right_about_nothing(rate: float) -> None:
    learner = DPSGD(ht.TorchObjective(mlp), batch=20, epochs=3)
    model = learner.train({"lr": rate}, data(5), 1.0, 1)
    assert not model(torch.randn(3, 5)).isfinite().any()
    assert learner.score(model, data(5)) == 0.0


def test_rows_without_an_answer_are_wrong_and_harm_no_other() -> None:
    learner = DPSGD(ht.TorchObjective(mlp), batch=20, epochs=20)
    rows = data(5)
    model = learner.train({"lr": 1.0}, rows, 0.0, 1)
    whole = learner.score(model, rows)
    assert whole > 0.9
    holes = copy.deepcopy(rows.X)
    holes[:15] = np.nan
    wanted = learner.score(model, rows.take(np.arange(15, 60))) * 0.75
    assert learner.score(model, ht.Rows(holes, rows.y)) == pytest.approx(wanted)
    undefined = replaced(learner, objective=ht.TorchObjective(mlp, metric=lambda outputs, y: math.nan))
    assert undefined.score(model, rows) == 0.0


def test_scores_of_one_output() -> None:
    objective = ht.TorchObjective(lambda: mlp(outputs=1), loss="logistic")
    learner = DPSGD(objective, batch=20, epochs=20)
    assert learner.score(learner.train({"lr": 1.0}, data(5), 0.0, 1), data(5)) > 0.9


# ---- refusals ----------------------------------------------------------------------------------------


class Centred(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(0)


class Carried(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.cumsum(0)


class Unused(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used, self.other = nn.Linear(5, 2), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.used(x)


class Flat(nn.Module):
    """Hands its layer five times as many rows, each of which would be clipped by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.reshape(-1, 1)).reshape(len(x), 5, 2).sum(1)


def between(layer: nn.Module) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(nn.Linear(5, 4), layer, nn.Linear(4, 2))


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (between(nn.BatchNorm1d(4)), "Opacus refuses the module: BatchNorm cannot support training with differential"),
        (between(nn.BatchNorm1d(4, affine=False)), "buffers change.*GroupNorm"),
        (between(nn.BatchNorm1d(4, affine=False, track_running_stats=False)), "must not depend on other rows"),
        (between(nn.InstanceNorm1d(4, affine=True, track_running_stats=True)), "Opacus refuses.*running stats"),
        (between(Centred()), "must not depend on other rows"),
        (between(Carried()), "must not depend on other rows"),
        (Unused, "every parameter must take part in the output, but 'other.weight' does not"),
        (Flat, "the first dimension must be the rows in every layer, but is not where 'layer.weight' is used"),
        (lambda: mlp(inputs=6), "gradients row by row: mat1 and mat2 shapes"),
    ],
)
def test_modules_in_which_rows_meet_are_refused(module: Any, message: str) -> None:
    with pytest.raises(ht.SettingError, match=message) as caught:
        DPSGD(ht.TorchObjective(module), batch=20, epochs=1).train({"lr": 0.1}, data(5), 1.0)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["batch", "batch_size", "epochs"])
def test_knobs_that_change_the_cost_are_refused(name: str) -> None:
    learner = DPSGD(ht.TorchObjective(mlp))
    space = ht.Space(**{"lr": ht.Choice([0.1, 0.2]), name: ht.Choice([10, 20])})
    message = f"every candidate must cost the same privacy, but got the knob '{name}'"
    with pytest.raises(ht.SettingError, match=message):
        learner.check(space.grid(), data(5))
    with pytest.raises(ht.SettingError, match=message):
        learner.train({"lr": 0.1, name: 10}, data(5), 1.0)


def test_other_knobs_are_fine() -> None:
    space = ht.Space(speed=ht.Choice([0.1]), clip=ht.Choice([0.5, 1.0]), width=ht.Choice([4, 8]))
    DPSGD(ht.TorchObjective(mlp, knobs={"speed": "lr"})).check(space.grid(), data(5), data(5))
    with pytest.raises(ht.SettingError, match="knobs maps 'rate'"):
        DPSGD(ht.TorchObjective(mlp, knobs={"rate": "lr"})).check(space.grid(), data(5))


@pytest.mark.parametrize(
    ("knobs", "rows", "message"),
    [
        ({"clip": ht.Float(-1.0, 1.0)}, data(5), "clip"),
        ({"depth": ht.Choice([1, 2])}, data(5), "cannot be made with the candidates' knobs"),
        ({"lr": ht.Float(-1.0, 1.0)}, data(5), "cannot be told so"),
        ({}, data(4), "the module must take the rows in data"),
        ({}, ht.Rows(data(5).X, data(5).y.astype(str)), "labels must be whole numbers"),
        ({}, ht.Rows(data(5).X, data(5).y + 0.5), "labels must be whole numbers"),
        ({}, ht.Rows(data(5).X, data(5).y + 1), "labels must be from 0 to 1, as many as the module tells apart"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_anything_is_spent(knobs: Any, rows: ht.Rows, message: str) -> None:
    space = ht.Space(**{"lr": ht.Float(0.1, 1.0), **knobs})
    candidates = space.grid(**{name: 2 for name, knob in space.knobs.items() if "Float" in type(knob).__name__})
    with pytest.raises(ht.SettingError, match=message):
        DPSGD(ht.TorchObjective(mlp)).check(candidates, rows)


def test_what_a_module_keeps_of_its_inputs_is_not_published() -> None:
    """A buffer that is written in training only, after the network was looked at, would carry rows."""

    class Nosy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.calls = nn.Linear(5, 2), 0
            self.register_buffer("seen", torch.zeros(5))

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            if self.calls > 2 and len(x):
                self.seen.copy_(x[0].detach())
            return self.layer(x)

    model = DPSGD(ht.TorchObjective(Nosy), batch=20, epochs=2).train({"lr": 0.1}, data(5), 1.0, 0)
    assert not model.seen.any()


def test_a_row_without_a_finite_answer_is_one_wrong_answer() -> None:
    """Or a protected row could change all parts' scores at once."""
    objective = ht.TorchObjective(mlp, epochs=1)
    rows, held = data(5), data(5, count=50)
    huge = ht.Rows(held.X.copy(), held.y)
    huge.X[0] = 3e38
    (plain,) = objective.losses([{"lr": 0.1}], ht.Split(rows, held), 0)
    (moved,) = objective.losses([{"lr": 0.1}], ht.Split(rows, huge), 0)
    assert abs(plain - moved) <= 1 / 50 + 1e-9


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"objective": mlp}, "objective must be a TorchObjective"),
        ({"batch": 0}, "batch=0"),
        ({"epochs": 1.5}, "epochs=1.5"),
        ({"clip": 0.0}, "clip=0.0"),
        ({"clip": math.inf}, "clip=inf"),
        ({"rows": 0}, "rows=0"),
    ],
)
def test_bad_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ht.SettingError, match=message):
        DPSGD(**{"objective": ht.TorchObjective(mlp), **settings})


@pytest.mark.parametrize(
    ("config", "rows", "multiplier", "seed", "message"),
    [
        ({}, data(5), -0.1, 1, "multiplier=-0.1"),
        ({}, data(5), math.nan, 1, "multiplier=nan"),
        ({}, data(5), 1.0, -1, "seed=-1"),
        ({"clip": -1.0}, data(5), 1.0, 1, "clip=-1.0"),
        ({"lr": -1.0}, data(5), 1.0, 1, "'sgd' cannot be told so: Invalid learning rate: -1.0"),
        ({}, data(5).X, 1.0, 1, r"DPSGD needs Rows\(X, y\), but got ndarray"),
        ({}, data(5, count=0), 1.0, 1, "rows=0"),
    ],
)
def test_bad_trainings(config: ht.Config, rows: Any, multiplier: float, seed: int, message: str) -> None:
    with pytest.raises(ht.SettingError, match=message):
        DPSGD(ht.TorchObjective(mlp), batch=20, epochs=1).train(config, rows, multiplier, seed)


def test_a_score_needs_rows() -> None:
    with pytest.raises(ht.SettingError, match="score needs rows, but got none"):
        DPSGD(ht.TorchObjective(mlp)).score(mlp(), data(5, count=0))


@pytest.mark.parametrize("missing", ["opacus", "torch.func"])
def test_a_missing_extra_is_named(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.delitem(sys.modules, "hushtune.training.dpsgd")
    with pytest.raises(MissingExtraError, match=r"DPSGD needs Opacus: pip install 'hushtune\[dpsgd\]'"):
        import_module("hushtune.training.dpsgd")
