"""DP-SGD: what it learns, how models are scored, and what is refused."""

from __future__ import annotations

import copy
import math
import pickle
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch
from tests.training.test_dpsgd import Odd, cnn, data, dropped, mlp, moved, recorded, replaced, vector
from torch import Tensor, nn

import hushtune as ht
from hushtune.core.errors import MissingExtraError
from hushtune.training import dpsgd
from hushtune.training.dpsgd import DPSGD

pytestmark = pytest.mark.dpsgd

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
    with pytest.raises(MissingExtraError, match=r"DPSGD needs PyTorch and Opacus, but got: .*'hushtune\[dpsgd\]'"):
        import_module("hushtune.training.dpsgd")
