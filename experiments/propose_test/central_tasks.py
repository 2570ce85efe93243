"""Data, networks and candidates of `python -m experiments central`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from hushtune.client.rows import Rows
from hushtune.core.space import Candidates, Choice, Float, Space
from hushtune.data import load

if TYPE_CHECKING:
    from torch import nn

    from hushtune.training.dpsgd import DPSGD

RATES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
MOMENTA = (0.0, 0.9)


def network(inputs: int, hidden: int, outputs: int) -> nn.Module:
    """A network with one hidden layer of tanh units."""
    from torch import nn

    return nn.Sequential(nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, outputs))


@dataclass(frozen=True)
class Shares:
    """Rows to train on, to score candidates on (protected as well), and to test the published model on."""

    train: Rows
    validation: Rows
    test: Rows


@dataclass(frozen=True)
class Task:
    """One data set and its network.

    Args:
        name: of the data set.
        hidden: units of the hidden layer.
        classes: outputs; 1: logistic.
        validation: rows to score on.
        voters: parts of the training rows.
        batch: of DP-SGD, on average.
        epochs: of DP-SGD, on average.
        local: epochs of training on a part, where parts do not rehearse the private training.
        rates: learning rates of the candidates.
        most: training rows, at most.
    """

    name: str
    hidden: int
    classes: int
    validation: int
    voters: int
    batch: int
    epochs: int
    local: int
    rates: tuple[float, ...] = RATES
    most: int | None = None

    def key(self) -> str:
        """Tells tasks apart in a folder."""
        size = f"{self.hidden}-{self.validation}-{self.voters}-{self.batch}-{self.epochs}-{self.local}"
        return f"{self.name}-{size}-{len(self.rates)}-{self.most or 'all'}"

    def quick(self) -> Task:
        """The same task on less data, with fewer epochs, rates and voters."""
        return replace(self, epochs=2, local=2, rates=self.rates[1:4:2], most=1_500, validation=200, voters=20)

    def candidates(self) -> Candidates:
        """Learning rate and momentum."""
        space = Space(lr=Float(min(self.rates), max(self.rates), log=True), momentum=Choice(list(MOMENTA)))
        return space.candidates([{"lr": rate, "momentum": m} for m in MOMENTA for rate in self.rates])

    def default(self) -> int:
        """What one would take without looking: learning rate .1, no momentum."""
        return self.rates.index(0.1)

    def trainer(self) -> DPSGD:
        """Private training by DP-SGD, for this task's network and rows."""
        from hushtune.client.objectives.neural import TorchObjective
        from hushtune.training.dpsgd import DPSGD

        inputs = _loaded(self.name).train.X.shape[1]
        objective = TorchObjective(
            _Made(inputs, self.hidden, self.classes),
            epochs=self.local,
            batch=16,
            loss="logistic" if self.classes == 1 else "cross_entropy",
        )
        return DPSGD(objective, self.batch, self.epochs)

    def shares(self, seed: int) -> Shares:
        """Split anew for every seed; test rows of the data set's own stay the same."""
        data = _loaded(self.name)
        order = np.random.default_rng(seed).permutation(len(data.train))
        rest = order[self.validation :]
        return Shares(
            data.train.take(rest if self.most is None else rest[: self.most]),
            data.train.take(order[: self.validation]),
            data.test,
        )


@dataclass(frozen=True)
class _Made:
    """Makes the network; a class, so that it can be told apart and sent to other processes."""

    inputs: int
    hidden: int
    outputs: int

    def __call__(self) -> nn.Module:
        return network(self.inputs, self.hidden, self.outputs)


def _plain(rows: Rows) -> Rows:
    return Rows(np.asarray(rows.X, dtype=np.float32).reshape(len(rows), -1), np.asarray(rows.y))


def _halved(rows: Rows) -> Rows:
    """Images of half the width and height, by averages: fewer weights, and so a faster DP-SGD."""
    images = np.asarray(rows.X, dtype=np.float32).reshape(len(rows), 14, 2, 14, 2)
    return Rows(images.mean(axis=(2, 4)).reshape(len(rows), -1), np.asarray(rows.y))


def _squashed(rows: Rows) -> Rows:
    """Features into [-1, 1] by a function that knows no data."""
    return Rows(np.tanh(np.asarray(rows.X, dtype=np.float32).reshape(len(rows), -1)), np.asarray(rows.y))


_PREPARED: dict[str, Callable[[Rows], Rows]] = {"mnist": _halved, "adult": _squashed}


@lru_cache(maxsize=4)
def _loaded(name: str) -> Any:
    data = load(name)
    prepared = _PREPARED.get(name, _plain)
    return replace(data, train=prepared(data.train), test=prepared(data.test))


TASKS = {
    "digits": Task("digits", 32, 10, 200, 40, 64, 20, 20),
    "adult": Task("adult", 32, 1, 4_000, 100, 1_024, 5, 10),
    "mnist": Task("mnist", 32, 10, 5_000, 100, 512, 5, 10, most=20_000),
}
