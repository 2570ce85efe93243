"""Private training of one network: DP-SGD through Opacus."""

from __future__ import annotations

import copy
import io
import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from hushtune.client.rows import Rows
from hushtune.core.checks import integer, kind, number
from hushtune.core.errors import SettingError, missing
from hushtune.core.observer import Advance, unseen
from hushtune.core.randomness import SystemRandomness, words
from hushtune.core.space import Candidates, Config
from hushtune.training.parts import CLIP, Rehearsal

try:
    import torch
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer
    from opacus.validators import ModuleValidator
    from torch import Tensor, nn
    from torch.func import vmap

    from hushtune.client.objectives.neural import TorchObjective, accuracy, scored, tensors
    from hushtune.client.objectives.stacked import Knobs
except ImportError as error:
    raise missing("DPSGD", "dpsgd", error) from None

_COSTLY = {"batch": "batch", "batch_size": "batch", "epochs": "epochs"}  # knob -> the setting it must be instead
_LARGEST_CLIP = 1e6
_LARGEST_MULTIPLIER = 1e5
_START = 0  # seed of the first weights, which are public
_STATE = slice(3, 627)  # where torch.Generator.get_state() has the Mersenne Twister's 624 words, as 64-bit words
_SCORED = 8192  # rows scored at one time
_AT_ONCE = 8_000_000  # bytes of gradients: the system hands out larger blocks anew in every step, at 3 times the cost


def secure() -> bool:
    """Whether real noise and sampling come from a cryptographic generator: torchcsprng, on the system's /dev/urandom.

    Without it they come from PyTorch's Mersenne Twister, whose whole state (19,937 bits) is drawn from the system's
    cryptographic source for every training: it cannot be guessed, but it could in principle be computed from enough of
    its outputs, which only a cryptographic generator rules out. Either way each noise value is half the sum of four
    draws (Opacus's `secure_mode`), so that the gaps between floating-point numbers do not tell what the noise was added
    to (Holohan and Braghin 2021), and it can reach 11.5 standard deviations instead of 5.8. What neither way protects
    from: rounding in the sum of gradients itself, and the time that a step takes, which grows with its batch.
    """
    try:
        import torchcsprng  # noqa: F401
    except (ImportError, OSError):  # OSError: built for another PyTorch
        return False
    return True


@dataclass(frozen=True)
class DPSGD:
    """DP-SGD (Abadi et al. 2016) through Opacus: one network, trained so that its weights say little about any row.

    In every step each row is sampled with chance `rate`, by a coin of its own; the sampled rows' gradients are clipped
    to the norm `clip` and added up; Gaussian noise of standard deviation `multiplier * clip` is added to every
    coordinate of the sum, also when no row was sampled; the sum is divided by the public number of rows expected.
    Adding or removing a row changes a step's sum by at most `clip`, with chance `rate`: a training is
    `steps` times `GaussianVector(multiplier, 1, rate)`. The unit is one row, whoever's it is (`subjects` is not read).

    Neighbours: "add-remove". The cost of all steps is that of the Poisson-subsampled Gaussian mechanism, composed
    numerically by privacy loss distributions; under a ledger of rule "renyi" by Rényi divergences.

    Args:
        objective: its module, loss, metric and knobs are used; its batch, epochs and validation are not. The loss is
            taken row by row. `decay` multiplies the learning rate after every `ceil(1 / rate)` steps.
        batch: rows per step, on average.
        epochs: passes over the rows, on average.
        clip: largest norm of one row's gradient; a config's knob `clip` goes before it.
        rows: the public number of rows that rate and steps follow from. Default: as many as there are, which is then
            public.
    """

    objective: TorchObjective
    batch: int = 256
    epochs: int = 10
    clip: float = 1.0
    rows: int | None = None

    def __post_init__(self) -> None:
        kind("objective", self.objective, TorchObjective, optional=False)
        integer("batch", self.batch, 1)
        integer("epochs", self.epochs, 1)
        number("clip", self.clip, 0, _LARGEST_CLIP, "(]")
        if self.rows is not None:
            integer("rows", self.rows, 1)

    def rate(self, rows: int) -> float:
        """The chance of each row to be in a step's batch.

        Args:
            rows: how many there are; not looked at if the trainer's own `rows` is set.
        """
        return self._expected(rows) / self._public(rows)

    def steps(self, rows: int) -> int:
        """ceil(epochs / rate).

        Args:
            rows: as for `rate`.
        """
        return -(-self.epochs * self._public(rows) // self._expected(rows))

    def check(self, candidates: Candidates, rows: Rows, validation: Rows | None = None) -> None:
        """Refuses candidates that would not all cost the same or cannot be trained, and rows that do not fit them.

        Args:
            candidates: the public list.
            rows: to train on.
            validation: to score on, if any.
        """
        _refuse_costly(candidates.space.knobs)
        self.objective.check(candidates.space)
        own = [{name: value for name, value in config.items() if name != CLIP} for config in candidates.configs]
        for config in candidates.configs:
            number("clip", config.get(CLIP, self.clip), 0, _LARGEST_CLIP, "(]")
        for shape, members in self.objective.groups(own).items():
            network = self._made(shape)
            for at in members:
                _optimiser(self.objective.optimiser, network, self.objective.optimiser_knobs(own[at]))
            for name, given in (("data", rows), ("validation", validation)):
                if given is not None:
                    _fits(name, network, _checked(given))

    def _made(self, shape: tuple[tuple[str, Any], ...]) -> nn.Module:
        try:
            return self.objective.network(shape, _START)
        except TypeError as error:
            raise SettingError(f"the module cannot be made with the candidates' knobs: {_line(error)}") from None

    def train(
        self,
        config: Config,
        data: Rows,
        multiplier: float,
        seed: int | None = None,
        advance: Advance = unseen,
    ) -> nn.Module:
        """The network after all steps, in evaluation mode, with finite weights or not.

        Args:
            config: knobs of the optimiser, `clip`, and what the module is made with.
            data: the private rows.
            multiplier: the noise's standard deviation in units of `clip`. 0 is no privacy, for comparison only.
            seed: makes sampling and noise repeatable, in a simulation. Never for real privacy.
            advance: called with 1 after every step.
        """
        _refuse_costly(config)
        noise = number("multiplier", multiplier, 0, _LARGEST_MULTIPLIER)
        clip = number("clip", config.get(CLIP, self.clip), 0, _LARGEST_CLIP, "(]")
        own = {name: value for name, value in config.items() if name != CLIP}
        (shape,), knobs = self.objective.groups([own]), self.objective.optimiser_knobs(own)
        rows, generator = len(_checked(data)), _generator(seed)
        rate, steps, epoch = self.rate(rows), self.steps(rows), -(-self._public(rows) // self._expected(rows))
        torch.set_num_threads(self.objective.threads)
        x, y = tensors(data)
        with _undisturbed(generator):
            start = self.objective.network(shape, _START)
            network = _wrapped(copy.deepcopy(start), x.shape[1:])
            optimiser = DPOptimizer(
                _optimiser(self.objective.optimiser, network, knobs),
                noise_multiplier=noise,
                max_grad_norm=clip,
                expected_batch_size=self._expected(rows),
                generator=generator,
                secure_mode=True,
            )
            stepper = _Stepper(network, optimiser, self.objective.loss_function())
            for step in range(steps):
                stepper.step(x, y, _sampled(rows, rate, generator), knobs.rate(step // epoch))
                advance(1)
        # A network without traces: Opacus leaves the last sum, as it was BEFORE the noise, on the one it trained; and
        # noise protects parameters, not what else a module may keep of its inputs.
        trained = copy.deepcopy(start)
        with torch.no_grad():
            for own_weight, weight in zip(trained.parameters(), network.parameters(), strict=True):
                own_weight.copy_(weight)
        return trained.eval()

    def score(self, model: nn.Module, rows: Rows) -> float:
        """The objective's metric; 0 where it cannot be told.

        Args:
            model: a trained network.
            rows: at least one.
        """
        if not len(_checked(rows)):
            raise SettingError("score needs rows, but got none; score on rows that were not trained on")
        torch.set_num_threads(self.objective.threads)
        x, y = tensors(rows)
        with torch.no_grad():
            outputs = torch.cat([model.eval()(part) for part in x.split(_SCORED)])
        found = scored(self.objective.metric, outputs, y)
        return found if math.isfinite(found) else 0.0

    @property
    def counts(self) -> bool:
        """Whether a score is a share of right answers, which one row changes by one answer."""
        return self.objective.metric is accuracy

    def rehearsal(self, multiplier: float, rows: int) -> Rehearsal:
        """What parts do to find out which config is best for such a training.

        Args:
            multiplier: the noise's standard deviation in units of `clip`.
            rows: as for `rate`.
        """
        expected, public = self._expected(rows), self._public(rows)
        return Rehearsal(expected, -(-public // expected), self.epochs, self.clip, multiplier * self.clip / expected)

    def untrained(self, config: Config) -> nn.Module:
        """The network as it is before training, which depends on no data.

        Args:
            config: what the network is made with.
        """
        own = {name: value for name, value in config.items() if name != CLIP}
        (shape,) = self.objective.groups([own])
        return copy.deepcopy(self.objective.network(shape, _START)).eval()

    def dumped(self, model: nn.Module) -> bytes:
        """The network's weights as `torch.load` reads them.

        Args:
            model: a network.
        """
        buffer = io.BytesIO()
        torch.save(model.state_dict(), buffer)
        return buffer.getvalue()

    def secure(self) -> bool:
        """Whether noise comes from a cryptographic generator: see `secure`."""
        return secure()

    def to_json(self) -> dict[str, Any]:
        """Its public settings, and what stands for the network."""
        settings = {name: getattr(self, name) for name in ("batch", "epochs", "clip", "rows")}
        return {"name": "dp-sgd", **settings, "objective": self.objective.fingerprint()}

    def _public(self, rows: int) -> int:
        """The number of rows that rate and steps follow from."""
        return self.rows or integer("rows", rows, 1)

    def _expected(self, rows: int) -> int:
        """The rows in a batch, on average: the public number times the rate."""
        return min(self.batch, self._public(rows))


class _Stepper:
    """Makes the steps of one training."""

    def __init__(
        self, network: GradSampleModule, optimiser: DPOptimizer, loss: Callable[[Tensor, Tensor], Tensor]
    ) -> None:
        self._network, self._optimiser = network, optimiser
        # One row at a time: a loss that mixed rows would not be bounded by clipping each row's gradient.
        self._losses = vmap(lambda output, target: loss(output[None], target[None]))
        self._at_once = max(1, _AT_ONCE // sum(p.numel() * p.element_size() for p in optimiser.params))

    def step(self, x: Tensor, y: Tensor, batch: Tensor, rate: float) -> None:
        """One step with the given rows and learning rate; gradients of a large batch are added up part by part."""
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        *others, last = batch.split(self._at_once)
        for part in (*others, last):
            self._optimiser.zero_grad(set_to_none=True)
            self._gradients(x[part], y[part])
            self._optimiser.signal_skip_step(part is not last)
            self._optimiser.step()

    def _gradients(self, x: Tensor, y: Tensor) -> None:
        """Leaves a gradient per row on every parameter, shape (rows, *parameter)."""
        if not len(x):  # many layers fail without rows, and the step must be made with noise alone
            for p in self._optimiser.params:
                p.grad_sample = p.new_zeros((0, *p.shape))
            return
        self._losses(self._network(x), y).sum().backward()
        for p in self._optimiser.params:
            # Clipping makes 0 * inf = NaN of a row that overflows, and NaN would show through any noise.
            p.grad_sample.nan_to_num_(0.0, 0.0, 0.0)


def _checked(data: Any) -> Rows:
    if not isinstance(data, Rows):
        raise SettingError(f"DPSGD needs Rows(X, y), but got {type(data).__name__}")
    return data


def _fits(name: str, network: nn.Module, rows: Rows) -> None:
    """Refuses rows that a network cannot be trained or scored on."""
    labels = np.asarray(rows.y)
    if labels.dtype.kind not in "iufb" or not np.isfinite(labels).all() or (labels != np.floor(labels)).any():
        raise SettingError(f"labels must be whole numbers from 0 on, but {name} has others; number the classes")
    x, _ = tensors(rows.take(np.arange(min(2, len(rows)))))
    try:
        with torch.no_grad():
            outputs = copy.deepcopy(network).eval()(x)
    except RuntimeError as error:
        raise SettingError(f"the module must take the rows in {name}, but it does not: {_line(error)}") from None
    classes = 2 if outputs.dim() == 1 or outputs.shape[-1] == 1 else outputs.shape[-1]
    if labels.min() < 0 or labels.max() >= classes:
        raise SettingError(
            f"labels must be from 0 to {classes - 1}, as many as the module tells apart, but {name} has "
            f"{int(labels.min())} to {int(labels.max())}"
        )


def _refuse_costly(names: Iterable[str]) -> None:
    for name in names:
        if name in _COSTLY:
            raise SettingError(
                f"every candidate must cost the same privacy, but got the knob '{name}', which changes the cost; "
                f"set DPSGD({_COSTLY[name]}=...) instead"
            )


def _sampled(rows: int, rate: float, generator: torch.Generator) -> Tensor:
    """The places of a batch's rows: Poisson sampling, each row by a coin of its own.

    Opacus's loader does the same, but collates row by row, which makes a small network's step half as long again; and
    its coins have 24 bits, which is too coarse for small rates.
    """
    return (torch.rand(rows, generator=generator, dtype=torch.float64) < rate).nonzero().flatten()


def _generator(seed: int | None) -> torch.Generator:
    """Where sampling and noise come from: see `secure`."""
    if seed is not None:
        return torch.Generator().manual_seed(integer("seed", seed, 0, 2**63 - 1))
    if secure():
        import torchcsprng

        return torchcsprng.create_random_device_generator("/dev/urandom")
    generator = torch.Generator()
    state = generator.get_state().numpy().view("<u8")
    state[_STATE] = words(SystemRandomness(), 624) >> 32  # `manual_seed` would use 32 bits, few enough to try them all
    generator.set_state(torch.from_numpy(state.view("u1")))
    return generator


@contextmanager
def _undisturbed(generator: torch.Generator) -> Iterator[None]:
    """Dropout and the like draw from a stream of their own; no warnings of Opacus's hooks."""
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(int(torch.randint(2**62, (), generator=generator)))
        yield


def _optimiser(name: str, network: nn.Module, knobs: Knobs) -> torch.optim.Optimizer:
    """PyTorch's own, with Nesterov's step only where there is momentum."""
    weights = [p for p in network.parameters() if p.requires_grad]
    try:
        if name == "adam":
            return torch.optim.Adam(weights, knobs.lr, weight_decay=knobs.weight_decay)
        nesterov = knobs.nesterov and knobs.momentum > 0
        return torch.optim.SGD(weights, knobs.lr, knobs.momentum, weight_decay=knobs.weight_decay, nesterov=nesterov)
    except ValueError as error:
        raise SettingError(f"'{name}' cannot be told so: {_line(error)}") from None


def _wrapped(module: nn.Module, shape: Iterable[int]) -> GradSampleModule:
    """The network with a gradient per row."""
    errors = ModuleValidator.validate(module.train())
    if errors:
        raise SettingError(f"Opacus refuses the module: {_line(errors[0])}")
    try:
        network = GradSampleModule(module, loss_reduction="sum")
        _examine(network, torch.randn(3, *shape, requires_grad=True))
    except RuntimeError as error:
        raise SettingError(f"Opacus cannot take the module's gradients row by row: {_line(error)}") from None
    return network


def _examine(network: GradSampleModule, x: Tensor) -> None:
    """Refuses a network in which rows meet, by what becomes of the middle one of three random rows.

    Opacus looks at the types of trainable layers only: it lets `BatchNorm1d(8, affine=False)` pass, and whatever else
    a module's `forward` does across rows.
    """
    before = {name: value.clone() for name, value in network.named_buffers()}
    network(x)[1].sum().backward()
    if any(not torch.equal(value, before[name]) for name, value in network.named_buffers()):
        raise SettingError(
            "a module must keep nothing of its inputs, which no noise would protect, but this one's buffers change; "
            "use a layer without running statistics, e.g. torch.nn.GroupNorm"
        )
    if bool(x.grad[::2].any()):
        raise SettingError(
            "a row's output must not depend on other rows, but this module's does; "
            "use layers that keep rows apart, e.g. torch.nn.GroupNorm for BatchNorm"
        )
    for name, p in network.named_parameters():
        own = name.removeprefix("_module.")
        if p.requires_grad and p.grad_sample is None:
            raise SettingError(f"every parameter must take part in the output, but '{own}' does not; freeze it")
        if p.requires_grad and (len(p.grad_sample) != len(x) or bool(p.grad_sample[::2].any())):
            raise SettingError(
                f"the first dimension must be the rows in every layer, but is not where '{own}' is used; "
                "keep the other dimensions behind it"
            )
    network.zero_grad(set_to_none=True)


def _line(error: Exception) -> str:
    """The first two sentences, in one line."""
    return ". ".join(" ".join(str(error).split()).split(". ")[:2])
