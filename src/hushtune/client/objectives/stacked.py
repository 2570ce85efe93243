"""Many configs of one network trained at once: parameters stacked, one row per config, knobs as vectors.

All rows see the same mini-batches and the same dropout masks, in the same order, from the same start: a plain loop over
configs with the same seeds gives the same networks, to rounding. Two things follow from that:

- Configs that have done the same so far share a row. They are trained once, until their learning rates part.
- A row whose learning rate is 0 is done, and a row that has diverged is taken out; neither costs anything further.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from hushtune.client.objectives.layers import quicken
from hushtune.core.errors import SettingError

Tensors = dict[str, Tensor]
Loss = Callable[[Tensor, Tensor], Tensor]
_LARGE = 100_000  # bytes of a row's weights from which skipping the work of momentum pays for more, smaller steps
_CACHED = 50_000_000  # bytes kept for gradients beyond which larger steps cost more than they save
_LOOK = 8  # steps between two looks for diverged rows
_ADAM = (0.9, 0.999, 1e-8)


@dataclass(frozen=True)
class Knobs:
    """What an optimiser may be told. `decay` multiplies the learning rate after every epoch."""

    lr: float = 0.01
    momentum: float = 0.0
    decay: float = 1.0
    weight_decay: float = 0.0
    nesterov: bool = False

    def rate(self, epoch: int) -> float:
        """The learning rate in an epoch."""
        return self.lr * self.decay**epoch


@dataclass
class Rows:
    """Stacked networks: weights and optimiser state, each with the rows as its first dimension."""

    weights: Tensors
    first: Tensors = field(default_factory=dict)  # momentum, or Adam's mean of gradients
    second: Tensors = field(default_factory=dict)  # Adam's mean of squares
    steps: int = 0

    def __len__(self) -> int:
        return len(next(iter(self.weights.values())))

    def slice(self, begin: int, end: int) -> Rows:
        """Some rows in a row, not copied: what is done to them is done to these."""
        weights, first, second = (
            {name: value[begin:end] for name, value in table.items()}
            for table in (self.weights, self.first, self.second)
        )
        return Rows(weights, first, second, self.steps)

    def write(self, rows: Sequence[int], new: Rows) -> None:
        """Puts new content in the place of some rows."""
        at = torch.tensor(list(rows), dtype=torch.long)
        for old, table in ((self.weights, new.weights), (self.first, new.first), (self.second, new.second)):
            for name, value in old.items():
                value[at] = table[name]

    def pick(self, rows: Sequence[int]) -> Rows:
        """Copies of the given rows, in order; a row may be taken several times."""
        at = torch.tensor(list(rows), dtype=torch.long)
        weights, first, second = (
            {name: value[at] for name, value in table.items()} for table in (self.weights, self.first, self.second)
        )
        return Rows(weights, first, second, self.steps)


def joined(parts: Sequence[Rows]) -> Rows:
    """Rows below each other."""
    weights, first, second = (
        {key: torch.cat([getattr(part, name)[key] for part in parts]) for key in getattr(parts[0], name)}
        for name in ("weights", "first", "second")
    )
    return Rows(weights, first, second, parts[0].steps)


@dataclass
class _Done:
    """Rows that train no further, and the configs they belong to."""

    parts: list[Rows] = field(default_factory=list)
    where: dict[int, int] = field(default_factory=dict)

    def add(self, rows: Rows, owners: dict[int, int]) -> None:
        """Keeps the given configs' rows."""
        if not owners and self.parts:
            return
        before, picked = sum(map(len, self.parts)), sorted(set(owners.values()))
        self.parts.append(rows.pick(picked))
        self.where |= {number: before + picked.index(row) for number, row in owners.items()}


class SharedDropout(nn.Module):
    """Dropout whose mask is given from outside, so that all rows have the same one."""

    mask: Tensor

    def __init__(self, p: float, channels: bool) -> None:
        super().__init__()
        self.p, self.channels = p, channels
        self.register_buffer("mask", torch.ones(()), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Keeps what the mask keeps."""
        return x * self.mask if self.training else x


def prepared(module: nn.Module) -> nn.Module:
    """A copy of the network with dropout by shared masks. BatchNorm is refused: its rows would need statistics."""
    made = copy.deepcopy(module)
    for name, child in list(made.named_modules()):
        if isinstance(child, nn.modules.batchnorm._BatchNorm):
            raise SettingError(
                f"layer '{name}' is BatchNorm, which keeps running statistics; replace it, e.g. by "
                f"torch.nn.GroupNorm(8, {child.num_features})"
            )
        if isinstance(child, nn.modules.dropout._DropoutNd):
            owner, _, last = name.rpartition(".")
            plain = type(child) in (nn.Dropout, nn.AlphaDropout, nn.FeatureAlphaDropout)
            setattr(made.get_submodule(owner), last, SharedDropout(child.p, channels=not plain))
        quicken(child)
    return made


class Trainer:
    """Trains rows of one network.

    Args:
        module: as `prepared` gives it.
        loss: of outputs and targets, a mean over the batch.
        optimiser: "sgd" or "adam".
        batch: rows of data per step.
        limit: bytes that rows trained at one time may take.
        clip: the largest norm of a row's gradient in a step.
        noise: standard deviation of Gaussian noise on every coordinate of a step's gradient, the same for all rows.
    """

    def __init__(
        self,
        module: nn.Module,
        loss: Loss,
        optimiser: str,
        batch: int,
        limit: int,
        clip: float | None = None,
        noise: float = 0.0,
    ) -> None:
        self._module, self.loss, self._optimiser = module, loss, optimiser
        self._batch, self._limit, self._clip, self._noise = batch, limit, clip, noise
        self._masked = [name for name, child in module.named_modules() if isinstance(child, SharedDropout)]
        self._shapes: dict[str, tuple[int, ...]] = {}

    def start(self) -> Rows:
        """One row: the network as it was made."""
        return Rows({name: value.detach().clone()[None] for name, value in self._module.named_parameters()})

    def train(
        self, start: Rows, knobs: Sequence[Knobs], at: Sequence[int], x: Tensor, y: Tensor, epochs: int, seed: int
    ) -> tuple[Rows, list[int | None]]:
        """Trains each config from its row `at` of `start`.

        Returns the rows at the end, and the row of each config; None if it diverged.
        """
        self.measure(x)
        size = self._at_once(x, y)
        kinds = [(k.momentum == 0, k.momentum, k.weight_decay, k.nesterov) for k in knobs]  # rows of a kind together
        rows, where = _split(start, list(at), kinds)
        rows = rows.pick(range(len(rows)))
        self._begin(rows)
        live, done = dict(enumerate(where)), _Done()  # config -> row
        for epoch in range(epochs):
            rates = {number: knobs[number].rate(epoch) for number in live}
            done.add(rows, {number: row for number, row in live.items() if rates[number] == 0})
            live = {number: row for number, row in live.items() if rates[number] != 0}
            rows, where = _split(rows, list(live.values()), [rates[number] for number in live])
            live = dict(zip(live, where, strict=True))
            owner = {row: knobs[number] for number, row in live.items()}
            rows, left = self._moved(rows, owner, epoch, x, y, seed, size)
            live = {number: left[row] for number, row in live.items() if row in left}
        done.add(rows, live)
        return joined(done.parts), [done.where.get(number) for number in range(len(knobs))]

    def _moved(
        self, rows: Rows, owner: dict[int, Knobs], epoch: int, x: Tensor, y: Tensor, seed: int, size: int
    ) -> tuple[Rows, dict[int, int]]:
        """The rows after an epoch, without those that diverged, and the new number of each that is left."""
        order = order_of(len(x), seed, epoch)
        kept: list[int] = []
        steps = rows.steps
        apart = rows_bytes(rows) > _LARGE
        for begin, end in _chunks([apart and owner[row].momentum == 0 for row in range(len(rows))], size):
            chunk = rows.slice(begin, end)
            trained, alive = self._epoch(chunk, [owner[row] for row in range(begin, end)], epoch, x, y, order, seed)
            kept += [begin + row for row in alive]
            if len(alive) < end - begin:
                rows.write([begin + row for row in alive], trained)
            steps = max(steps, trained.steps)
        rows.steps = steps
        left = {row: new for new, row in enumerate(kept)}
        return (rows if len(kept) == len(rows) else rows.pick(kept)), left

    def outputs(self, rows: Rows, x: Tensor) -> Tensor:
        """What the networks say, shape (rows, len(x), ...); chunked over rows."""
        if not len(rows):
            return torch.empty(0)
        self._module.eval()
        size = max(1, self._limit // (4 * (rows_bytes(rows) + 64 * x.numel())))
        found = []
        with torch.no_grad():
            for begin in range(0, len(rows), size):
                some = {name: value[begin : begin + size] for name, value in rows.weights.items()}
                found.append(vmap(lambda w: functional_call(self._module, w, (x,)))(some))
        return torch.cat(found)

    # ---- one epoch of a chunk ------------------------------------------------------------------------

    def _epoch(
        self, rows: Rows, knobs: Sequence[Knobs], epoch: int, x: Tensor, y: Tensor, order: Tensor, seed: int
    ) -> tuple[Rows, list[int]]:
        """The rows after an epoch, without those that diverged, and which of them are left."""
        self._module.train()
        vectors = _vectors(knobs, epoch)
        alive = list(range(len(rows)))
        bad = torch.zeros(len(rows), dtype=torch.bool)
        for step, begin in enumerate(range(0, len(x), self._batch)):
            batch = order[begin : begin + self._batch]
            masks = dict(self.masks(len(batch), seed, epoch, step))
            bad |= self._step(rows, vectors, x[batch], y[batch], masks, _seed(seed, epoch, step, 98))
            if (step % _LOOK == _LOOK - 1 or begin + self._batch >= len(x)) and bool(bad.any()):
                good = [row for row in range(len(rows)) if not bad[row]]
                rows, alive = rows.pick(good), [alive[row] for row in good]
                vectors = {name: value[torch.tensor(good, dtype=torch.long)] for name, value in vectors.items()}
                bad = bad[torch.tensor(good, dtype=torch.long)]
                if not alive:
                    break
        return rows, alive

    def _step(self, rows: Rows, vectors: Tensors, x: Tensor, y: Tensor, masks: Tensors, seed: int) -> Tensor:
        """One step of all rows, in place; which of them have no finite loss or weights any more."""
        for value in rows.weights.values():
            value.requires_grad_(True)
        losses = vmap(lambda w: self.loss(functional_call(self._module, {**w, **masks}, (x,)), y))(rows.weights)
        gradients = torch.autograd.grad(losses.sum(), list(rows.weights.values()))
        rows.steps += 1
        drawn = torch.Generator().manual_seed(seed) if self._noise else None
        with torch.no_grad():
            self._shorten(gradients)
            for (name, weight), gradient in zip(rows.weights.items(), gradients, strict=True):
                weight.requires_grad_(False)
                if drawn is not None:
                    gradient.add_(torch.randn(weight.shape[1:], generator=drawn), alpha=self._noise)
                self._update(name, weight, gradient, rows, vectors)
        return ~torch.isfinite(losses.detach())

    def _shorten(self, gradients: Sequence[Tensor]) -> None:
        """Each row's gradient, to the norm it may have."""
        if self._clip is None:
            return
        squares = torch.stack([gradient.flatten(1).square().sum(1) for gradient in gradients]).sum(0)
        factors = (self._clip / squares.sqrt().clamp_min(1e-12)).clamp_max(1.0)
        for gradient in gradients:
            gradient.mul_(factors.view(-1, *[1] * (gradient.dim() - 1)))

    def _update(self, name: str, weight: Tensor, gradient: Tensor, rows: Rows, vectors: Tensors) -> None:
        wide = (-1, *[1] * (weight.dim() - 1))
        lr = vectors["lr"].view(wide)
        if "weight_decay" in vectors:
            gradient = gradient + vectors["weight_decay"].view(wide) * weight
        if self._optimiser == "adam":
            one, two, tiny = _ADAM
            mean, square = rows.first[name], rows.second[name]
            mean.mul_(one).add_(gradient, alpha=1 - one)
            square.mul_(two).addcmul_(gradient, gradient, value=1 - two)
            root = (square / (1 - two**rows.steps)).sqrt_().add_(tiny)
            weight.sub_(lr / (1 - one**rows.steps) * mean / root)
            return
        if "momentum" in vectors:
            momentum, velocity = vectors["momentum"].view(wide), rows.first[name]
            torch.addcmul(gradient, velocity, momentum, out=velocity)  # one pass through memory, which is the cost here
            if "nesterov" in vectors:
                ahead = vectors["nesterov"].view(wide) > 0
                velocity = torch.where(ahead, gradient + momentum * velocity, velocity)
            gradient = velocity
        weight.addcmul_(lr, gradient, value=-1)

    def _begin(self, rows: Rows) -> None:
        rows.steps = 0
        rows.first = {name: torch.zeros_like(value) for name, value in rows.weights.items()}
        if self._optimiser == "adam":
            rows.second = {name: torch.zeros_like(value) for name, value in rows.weights.items()}

    # ---- dropout and memory --------------------------------------------------------------------------

    def masks(self, batch: int, seed: int, epoch: int, step: int) -> Iterator[tuple[str, Tensor]]:
        """One mask per dropout layer, the same for all rows."""
        for number, name in enumerate(self._masked):
            layer = self._module.get_submodule(name)
            assert isinstance(layer, SharedDropout)
            draw = torch.Generator().manual_seed(_seed(seed, epoch, step, number))
            shape = (batch, *self._shapes[name])
            kept = torch.rand(shape, generator=draw) >= layer.p
            yield f"{name}.mask", kept.to(torch.float32) / (1 - layer.p) if layer.p < 1 else torch.zeros(shape)

    def measure(self, x: Tensor) -> None:
        """The shape of what goes through each dropout layer."""
        if not self._masked or self._shapes:
            return

        def note(name: str) -> Callable[..., None]:
            def hook(layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
                shape = tuple(inputs[0].shape[1:])
                channels = isinstance(layer, SharedDropout) and layer.channels
                self._shapes[name] = (shape[0], *[1] * (len(shape) - 1)) if channels else shape

            return hook

        hooks = [self._module.get_submodule(n).register_forward_pre_hook(note(n)) for n in self._masked]
        self._module.eval()
        with torch.no_grad():
            self._module(x[:1])
        for hook in hooks:
            hook.remove()

    def _at_once(self, x: Tensor, y: Tensor) -> int:
        """How many rows are trained at one time: within the limit, and without outgrowing the caches by far."""
        own, kept = self._footprint(x, y)
        return max(1, min(self._limit // (own + kept), max(4, _CACHED // max(1, kept))))

    def _footprint(self, x: Tensor, y: Tensor) -> tuple[int, int]:
        """Bytes of one row in a step: weights, gradients and optimiser state; and what is kept for gradients."""
        sizes: list[int] = []

        def kept(value: Tensor) -> Tensor:
            sizes.append(value.numel() * value.element_size())
            return value

        self._module.train()
        masks = dict(self.masks(min(len(x), self._batch), 0, 0, 0))
        weights = {name: value.detach().clone().requires_grad_(True) for name, value in self._module.named_parameters()}
        with torch.autograd.graph.saved_tensors_hooks(kept, lambda value: value):
            outputs = functional_call(self._module, {**weights, **masks}, (x[: self._batch],))
            self.loss(outputs, y[: self._batch])
        own = sum(value.numel() * value.element_size() for value in weights.values())
        return 6 * own, 2 * sum(sizes)


def rows_bytes(rows: Rows) -> int:
    """Bytes of one row's weights."""
    return sum(value[0].numel() * value.element_size() for value in rows.weights.values()) if len(rows) else 0


def _split(rows: Rows, at: Sequence[int], keys: Sequence[Any]) -> tuple[Rows, list[int]]:
    """One row for each different (row, key), in that order: configs with the same stay together."""
    pairs = list(zip(at, keys, strict=True))
    different = sorted(set(pairs))
    number = {pair: row for row, pair in enumerate(different)}
    picked = [row for row, _ in different]
    return (rows if picked == list(range(len(rows))) else rows.pick(picked)), [number[pair] for pair in pairs]


def _chunks(kinds: Sequence[bool], size: int) -> Iterator[tuple[int, int]]:
    """Stretches of up to `size` rows of one kind."""
    begin = 0
    while begin < len(kinds):
        end = begin + 1
        while end < len(kinds) and end - begin < size and kinds[end] == kinds[begin]:
            end += 1
        yield begin, end
        begin = end


def _vectors(knobs: Sequence[Knobs], epoch: int) -> Tensors:
    """The knobs of all rows; one that is 0 for all of them is left out, with its work."""
    lists = {
        "lr": [k.rate(epoch) for k in knobs],
        "momentum": [k.momentum for k in knobs],
        "weight_decay": [k.weight_decay for k in knobs],
        "nesterov": [float(k.nesterov) for k in knobs],
    }
    return {name: torch.tensor(values) for name, values in lists.items() if any(values)}


def order_of(count: int, seed: int, epoch: int) -> Tensor:
    """The order of the rows of data in an epoch."""
    return torch.randperm(count, generator=torch.Generator().manual_seed(_seed(seed, epoch, 0, 99)))


def _seed(seed: int, epoch: int, step: int, number: int) -> int:
    return ((seed * 1_009 + epoch) * 1_000_003 + step) * 101 + number
