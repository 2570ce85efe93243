"""How much faster all candidates at once are than one after another: a plain PyTorch loop, in the same process.

100 candidates of DP-HYPE's grid (10 learning rates x 5 decays x 2 momenta), 5 epochs, batches of 64, one thread each,
after a warm-up. Both give the same losses, which is checked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from experiments.dp_hype.tasks import adult, mnist
from hushtune.client.objectives.neural import TorchObjective, tensors
from hushtune.client.objectives.stacked import SharedDropout, order_of, prepared
from hushtune.client.rows import Rows, held_out
from hushtune.core.arrays import FloatArray
from hushtune.core.observer import Observer
from hushtune.core.space import Candidates, Choice, Config, Space

RATES = (0.5, 0.1, 0.05, 1e-3, 5e-3, 1e-5, 1e-6, 5e-6, 5e-7, 1e-7)
DECAYS = (0.0, 0.1, 0.25, 0.99, 1.0)
MOMENTA = (0.0, 0.9)


def paper_grid() -> Candidates:
    """The 100 candidates of DP-HYPE's Table III."""
    return Space(lr=Choice(RATES), decay=Choice(DECAYS), momentum=Choice(MOMENTA)).grid()


def tiny() -> nn.Module:
    """A network of 64 inputs, 32 hidden units and 1 output."""
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1))


def mlp() -> nn.Module:
    """A network of 784 inputs, 64 hidden units and 10 outputs."""
    return nn.Sequential(nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))


def cnn() -> nn.Module:
    """Two convolutions over 8x8 pixels."""
    first = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2))
    return nn.Sequential(*first, nn.Conv2d(8, 16, 2), nn.ReLU(), nn.Flatten(), nn.Linear(64, 10))


_CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], str, int]] = {
    "adult": (adult, (108,), "logistic", 2),
    "tiny": (tiny, (64,), "logistic", 2),
    "mlp": (mlp, (784,), "cross_entropy", 10),
    "cnn": (cnn, (1, 8, 8), "cross_entropy", 10),
    "mnist": (mnist, (1, 28, 28), "cross_entropy", 10),
}


def rows(count: int, observer: Observer) -> Iterator[dict[str, Any]]:
    """One row per network: CPU seconds of both ways, on `count` rows of random data."""
    configs = paper_grid().configs
    torch.set_num_threads(1)
    peak = _peak()
    with observer.phase("networks", len(_CASES)) as advance:
        for name, (module, shape, loss, classes) in _CASES.items():
            rng = np.random.default_rng(0)
            data = Rows(rng.normal(size=(count, *shape)).astype(np.float32), rng.integers(0, classes, count))
            objective = TorchObjective(module, loss=loss)
            objective.losses(configs[:4], data, 0)  # the first steps of a process cost seconds
            plain_losses(objective, configs[:1], data, 0)
            batched, found = _timed(lambda o=objective, d=data: o.losses(configs, d, 0))  # type: ignore[misc]
            plain, expected = _timed(lambda o=objective, d=data: plain_losses(o, configs, d, 0))  # type: ignore[misc]
            train = count - round(objective.validation * count)
            passes = len(configs) * objective.epochs * train
            speed = _worked(objective, configs) * train * _operations(module(), data.X[:64]) / batched / 1e9
            yield {
                "name": name,
                "candidates": len(configs),
                "ratio": round(plain / batched, 2),
                "plain_seconds": round(plain, 3),
                "batched_seconds": round(batched, 3),
                "plain_passes_per_second": round(passes / plain),
                "batched_passes_per_second": round(passes / batched),
                "batched_gflops": round(speed, 1),
                "of_peak": round(speed / peak, 2),
                "equal": bool(np.allclose(found, expected, atol=0.05, equal_nan=True)),
            }
            advance(1)


def _worked(objective: TorchObjective, configs: Sequence[Config]) -> int:
    """Epochs that are really trained: beginnings that configs share count once, a rate of 0 not at all."""
    knobs = [objective.optimiser_knobs(config) for config in configs]
    done = {
        (k.momentum, k.weight_decay, k.nesterov, tuple(k.rate(e) for e in range(epoch + 1)))
        for k in knobs
        for epoch in range(objective.epochs)
        if k.rate(epoch) != 0
    }
    return len(done)


def _operations(network: nn.Module, x: Any) -> float:
    """Floating-point operations of products, for one row forward and back: three times those forward."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network(torch.tensor(x))
    return 3 * counter.get_total_flops() / len(x)


def _peak(size: int = 1_024, times: int = 5) -> float:
    """What this machine does in a large matrix product, in 1e9 operations per second of one thread."""
    a = torch.rand(size, size)
    a @ a
    return max(2 * size**3 / 1e9 / _timed(lambda: torch.mm(a, a).numpy())[0] for _ in range(times))


def _timed(work: Callable[[], FloatArray]) -> tuple[float, FloatArray]:
    start = time.process_time()
    found = work()
    return time.process_time() - start, found


def _with_masks(network: nn.Module) -> nn.Module:
    """The network with torch's own layers, but for dropout, whose masks must be the same."""
    found = prepared(network)
    for name, layer in list(found.named_modules()):
        if not isinstance(layer, SharedDropout) and name:
            with_own_class = network.get_submodule(name)
            layer.__class__ = type(with_own_class)
    return found


def plain_losses(objective: TorchObjective, configs: Sequence[Config], data: Any, seed: int) -> FloatArray:
    """One config after another, with torch's own layers, optimisers and schedule."""
    torch.set_num_threads(objective.threads)
    split = held_out(data, objective.validation, seed)
    (x, y), (held_x, held_y) = tensors(split.train), tensors(split.test)
    found = np.full(len(configs), np.nan)
    for shape, members in objective.groups(configs).items():
        trainer = objective.trainer(shape, seed)
        trainer.measure(x)
        for at in members:
            knobs = objective.optimiser_knobs(configs[at])
            network = _with_masks(objective.network(shape, seed))
            if objective.optimiser == "adam":
                optimiser: Any = torch.optim.Adam(network.parameters(), knobs.lr, weight_decay=knobs.weight_decay)
            else:
                optimiser = torch.optim.SGD(
                    network.parameters(), knobs.lr, knobs.momentum, 0, knobs.weight_decay, knobs.nesterov
                )
            schedule = torch.optim.lr_scheduler.StepLR(optimiser, 1, knobs.decay)
            finite = True
            for epoch in range(objective.epochs):
                network.train()
                order = order_of(len(x), seed, epoch)
                for step, begin in enumerate(range(0, len(x), objective.batch)):
                    batch = order[begin : begin + objective.batch]
                    for name, mask in trainer.masks(len(batch), seed, epoch, step):
                        layer = network.get_submodule(name.removesuffix(".mask"))
                        assert isinstance(layer, SharedDropout)
                        layer.mask = mask
                    optimiser.zero_grad()
                    loss = trainer.loss(network(x[batch]), y[batch])
                    finite &= bool(loss.isfinite())
                    loss.backward()
                    optimiser.step()
                schedule.step()
            network.eval()
            with torch.no_grad():
                outputs = network(held_x)
            if finite and bool(outputs.isfinite().all()):
                found[at] = 1 - objective.metric(outputs, held_y)
    return found
