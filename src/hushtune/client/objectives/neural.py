"""A PyTorch network as an objective: all candidates are trained together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

import numpy as np

from hushtune.client.objectives.options import Options, check_options, check_undeclared, values_of
from hushtune.client.rows import Split, held_out, repeated
from hushtune.core.arrays import FloatArray
from hushtune.core.checks import integer, number
from hushtune.core.errors import SettingError, missing
from hushtune.core.fingerprint import fingerprint
from hushtune.core.space import Config, Space

try:
    import torch
    from torch import Tensor, nn
    from torch.nn import functional

    from hushtune.client.objectives.stacked import Knobs, Trainer, prepared
except ImportError as error:
    raise missing("TorchObjective", "torch", error) from None

_OPTIMISERS = {
    "sgd": ("lr", "momentum", "decay", "weight_decay", "nesterov"),
    "adam": ("lr", "decay", "weight_decay"),
}
_LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cross_entropy": functional.cross_entropy,
    "logistic": lambda outputs, y: functional.binary_cross_entropy_with_logits(outputs.flatten(), y.to(outputs.dtype)),
}


def accuracy(outputs: Tensor, y: Tensor) -> float:
    """The share of right answers: the largest of several outputs, or the sign of one."""
    said = (outputs.flatten() > 0).long() if outputs.dim() == 1 or outputs.shape[-1] == 1 else outputs.argmax(-1)
    return float((said == y.long()).double().mean())


def scored(metric: Callable[[Tensor, Tensor], float], outputs: Tensor, y: Tensor) -> float:
    """The metric; NaN if outputs are not finite.

    An accuracy counts rows without finite outputs as wrong, as long as there are others: a single row may change it by
    one answer only, whatever the row is.
    """
    said = outputs.flatten(1).isfinite().all(1) if outputs.dim() > 1 else outputs.isfinite()
    if bool(said.all()):
        return metric(outputs, y)
    if metric is not accuracy or not bool(said.any()):
        return float("nan")
    return accuracy(outputs[said], y[said]) * float(said.double().mean())


@dataclass(frozen=True)
class TorchObjective:
    """Trains a network with every config at once and scores it on held-out rows of the same client.

    The loss is `1 - metric`. A config that diverges is NaN, which ranks last. All configs start from the same weights
    and see the same mini-batches and dropout masks: results equal a plain loop over configs with the same seeds.

    Args:
        module: makes the network; called with the knobs that are not the optimiser's (layer widths, say). Any
            `nn.Module` without data-dependent control flow and without BatchNorm.
        knobs: which tuned name is which knob of the optimiser, e.g. {"rate": "lr"}. Default: by the same name.
        fixed: the optimiser's knobs that are not tuned, e.g. {"momentum": 0.9}.
        optimiser: "sgd" (lr, momentum, decay, weight_decay, nesterov) or "adam" (lr, decay, weight_decay). `decay`
            multiplies the learning rate after every epoch (StepLR).
        epochs: over the client's training rows.
        batch: rows per step.
        loss: "cross_entropy", "logistic" (one output), or a function of (outputs, targets).
        metric: a function of (outputs, targets), larger is better. Default: accuracy.
        validation: share of rows held out for scoring.
        clip: the largest norm of a step's mean gradient; longer ones are shortened. None: any.
        noise: standard deviation of Gaussian noise on every coordinate of a step's mean gradient. Both are to score
            configs for a private training, which will clip and have noise; here they protect nothing.
        limit: bytes that configs trained at one time may take; more are trained in turns.
        threads: of this process.
        options: by knob of the network, the texts that it may have. Default: numbers, booleans and None only.
        full_steps: whether one of several parts of a client's rows (unit "record") takes as many steps in an epoch as
            all rows would. It costs as many times more as there are parts; where it was measured, so many steps on few
            rows chose no better.
        parts: how many equal parts the rows are one of; the parts of a run are told so.
    """

    module: Callable[..., nn.Module]
    knobs: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    optimiser: Literal["sgd", "adam"] = "sgd"
    epochs: int = 5
    batch: int = 64
    loss: str | Callable[[Tensor, Tensor], Tensor] = "cross_entropy"
    metric: Callable[[Tensor, Tensor], float] = accuracy
    validation: float = 0.2
    clip: float | None = None
    noise: float = 0.0
    limit: int = 500_000_000
    threads: int = 1
    options: Options = field(default_factory=dict)
    full_steps: bool = False
    parts: int = 1

    def __post_init__(self) -> None:
        if self.optimiser not in _OPTIMISERS:
            raise SettingError(f"optimiser must be one of {sorted(_OPTIMISERS)}, but got '{self.optimiser}'")
        if not callable(self.loss) and self.loss not in _LOSSES:
            raise SettingError(f"loss must be one of {sorted(_LOSSES)} or a function, but got {self.loss!r}")
        for name in ("epochs", "batch", "limit", "threads", "parts"):
            integer(name, getattr(self, name), 1)
        number("validation", self.validation, 0, 1, "()")
        if self.clip is not None:
            number("clip", self.clip, 0, 1e6, "(]")
        number("noise", self.noise, 0, 1e6)
        check_options(self.options)
        allowed = _OPTIMISERS[self.optimiser]
        for name in (*self.knobs.values(), *self.fixed):
            if name not in allowed:
                raise SettingError(f"'{self.optimiser}' has the knobs {list(allowed)}, but got '{name}'")

    def fingerprint(self) -> str:
        """Equal for equal networks, settings and PyTorch."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("limit", "threads", "options")}
        return fingerprint([own, torch.__version__])

    def check(self, space: Space) -> None:
        """Refuses a mapping of names that the space does not have, and texts that nobody has allowed.

        Args:
            space: holds all that will be tried.
        """
        for name in self.knobs:
            if name not in space.knobs:
                raise SettingError(f"knobs maps '{name}', but the space has {sorted(space.knobs)}")
        for name, knob in space.knobs.items():
            if self._role(name) is None:
                check_undeclared(name, knob, self.options)
            elif not all(isinstance(value, int | float) for value in values_of(knob)):
                raise SettingError(f"knob '{name}' of the optimiser must be a number or a boolean, but got {knob}")

    def check_data(self, data: Any) -> None:
        """Refuses a kind of data it cannot use.

        Args:
            data: the client's own.
        """
        if not isinstance(data, Split) and not all(hasattr(data, a) for a in ("X", "y", "take")):
            raise SettingError(
                f"TorchObjective needs data as (X, y) or with X, y and take(indices), but got {type(data).__name__}"
            )

    def losses(self, configs: Sequence[Config], data: Any, seed: int) -> FloatArray:
        """One loss per config; configs that differ in architecture are trained group by group."""
        torch.set_num_threads(self.threads)
        split = held_out(data, self.validation, seed, alike=self.parts > 1)
        batch, again = self._steps(len(split.train))
        train, kept = tensors(split.train), tensors(split.test)
        if again is not None:
            train = train[0][again], train[1][again]
        found = np.full(len(configs), np.nan)
        for shape, members in self.groups(configs).items():
            trainer = self.trainer(shape, seed, batch)
            knobs = [self.optimiser_knobs(configs[at]) for at in members]
            rows, ends = trainer.train(trainer.start(), knobs, [0] * len(members), *train, self.epochs, seed)
            outputs = trainer.outputs(rows, kept[0])
            scores = [scored(self.metric, output, kept[1]) for output in outputs]
            for at, row in zip(members, ends, strict=True):
                if row is not None:
                    found[at] = 1 - scores[row]
        return found

    def as_part(self, parts: int) -> TorchObjective:
        """The objective of one of so many equal parts of a client's rows.

        Args:
            parts: how many there are.
        """
        return replace(self, parts=parts)

    def _steps(self, rows: int) -> tuple[int, Any]:
        """Rows in a step, and which rows an epoch goes through; None: each once."""
        if self.parts == 1 or not self.full_steps or not rows:
            return self.batch, None
        batch = min(self.batch, rows)
        return batch, repeated(rows, batch, -(-rows * self.parts // self.batch))

    def trainer(self, shape: tuple[tuple[str, Any], ...], seed: int, batch: int | None = None) -> Trainer:
        """What trains the configs of one architecture, which all start from the same weights.

        Args:
            shape: names and values of the knobs that the network is made with.
            seed: of the first weights.
            batch: rows in a step. Default: the objective's.
        """
        module, size = prepared(self.network(shape, seed)), batch or self.batch
        return Trainer(module, self.loss_function(), self.optimiser, size, self.limit, self.clip, self.noise)

    def loss_function(self) -> Callable[[Tensor, Tensor], Tensor]:
        """Of outputs and targets, a mean over the rows."""
        return _LOSSES[self.loss] if isinstance(self.loss, str) else self.loss

    def network(self, shape: tuple[tuple[str, Any], ...], seed: int) -> nn.Module:
        """A network with the weights that the seed gives.

        Args:
            shape: names and values of the knobs that the network is made with.
            seed: of the weights.
        """
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            made = self.module(**dict(shape))
        if not isinstance(made, nn.Module):
            raise SettingError(f"module must make a torch.nn.Module, but got {type(made).__name__}")
        return made

    def groups(self, configs: Sequence[Config]) -> dict[tuple[tuple[str, Any], ...], list[int]]:
        """The places of the configs that share an architecture.

        Args:
            configs: what will be trained.
        """
        found: dict[tuple[tuple[str, Any], ...], list[int]] = {}
        for at, config in enumerate(configs):
            found.setdefault(tuple((n, v) for n, v in config.items() if self._role(n) is None), []).append(at)
        return found

    def optimiser_knobs(self, config: Config) -> Knobs:
        """What the optimiser is told for a config.

        Args:
            config: tuned names and their values.
        """
        tuned = {role: value for name, value in config.items() if (role := self._role(name)) is not None}
        return Knobs(**{**self.fixed, **tuned})

    def _role(self, name: str) -> str | None:
        """Which of the optimiser's knobs a tuned name is."""
        if name in self.knobs:
            return self.knobs[name]
        return name if name in _OPTIMISERS[self.optimiser] else None


def tensors(rows: Any) -> tuple[Tensor, Tensor]:
    """Features and labels of rows."""
    return torch.tensor(np.asarray(rows.X), dtype=torch.float32), torch.tensor(np.asarray(rows.y)).long()
