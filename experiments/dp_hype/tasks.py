"""What DP-HYPE's experiments are about: data sets, networks, the grid; clients' scores and everybody's accuracies.

Scoring and federated training are done once for each case and kept, so that all that varies only the noise or the
ballot costs nothing more.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from hushtune.client.client import Client
from hushtune.client.objectives.neural import TorchObjective
from hushtune.client.party import Party
from hushtune.client.rows import Split, held_out
from hushtune.client.search.base import LARGEST_SEED, Search
from hushtune.core.arrays import FloatArray
from hushtune.core.checks import integer
from hushtune.core.errors import SettingError
from hushtune.core.files import archive, unarchive
from hushtune.core.files import replace as replace_file
from hushtune.core.fingerprint import fingerprint
from hushtune.core.observer import Observer
from hushtune.core.space import Candidates, Float, Space
from hushtune.data import load
from hushtune.data.splits import shares
from hushtune.federation.local import LocalFederation
from hushtune.training import FedAvg

RATES = (0.5, 0.1, 0.05, 5e-4, 1e-4, 1e-6, 5e-7, 1e-7, 5e-8, 1e-8)
DECAYS = (0.0, 0.1, 0.25, 0.99, 1.0)
MOMENTA = (0.0, 0.9)
ROUNDS = 5


def grid() -> Candidates:
    """The published artifact's 100 candidates, in its order; numbers, so that those close to each other are known."""
    space = Space(lr=Float(1e-8, 0.5, log=True), decay=Float(0.0, 1.0), momentum=Float(0.0, 0.9))
    names = ("lr", "decay", "momentum")
    return space.candidates(
        dict(zip(names, values, strict=True)) for values in itertools.product(RATES, DECAYS, MOMENTA)
    )


def adult() -> nn.Module:
    """DP-HYPE's network for Adult."""
    wide = nn.Sequential(nn.Linear(108, 64), nn.ReLU(), nn.Dropout(0.2))
    return nn.Sequential(*wide, nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 1))


def mnist() -> nn.Module:
    """A smaller network than the paper's for MNIST: two convolutions with strides, 7,946 weights."""
    first = nn.Sequential(nn.Conv2d(1, 16, 5, stride=3), nn.ReLU())
    second = nn.Sequential(nn.Conv2d(16, 32, 3, stride=2), nn.ReLU())
    return nn.Sequential(*first, *second, nn.Flatten(), nn.Dropout(0.25), nn.Linear(288, 10))


def cifar10() -> nn.Module:
    """A smaller network than the paper's for CIFAR-10, with GroupNorm in the place of BatchNorm."""
    first = nn.Sequential(nn.Conv2d(3, 16, 5, stride=3), nn.GroupNorm(4, 16), nn.ReLU())
    second = nn.Sequential(nn.Conv2d(16, 32, 3, stride=2), nn.GroupNorm(4, 32), nn.ReLU())
    return nn.Sequential(*first, *second, nn.Flatten(), nn.Dropout(0.25), nn.Linear(512, 10))


def emnist() -> nn.Module:
    """The network for MNIST, with as many outputs as EMNIST has classes."""
    return nn.Sequential(*list(mnist())[:-1], nn.Linear(288, 62))


def digits() -> nn.Module:
    """For a first look: needs no data but what scikit-learn brings."""
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 10))


def table(columns: int) -> Callable[[], nn.Module]:
    """For a table of numbers and two classes.

    Args:
        columns: how many features it has.
    """

    def module() -> nn.Module:
        wide = nn.Sequential(nn.Linear(columns, 64), nn.ReLU(), nn.Dropout(0.2))
        return nn.Sequential(*wide, nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 1))

    return module


def evened(data: Split) -> Split:
    """Each feature less its median, in quartile ranges of the training rows, and at most 5 of them from 0.

    Args:
        data: whose features have scales of their own, and values far out.
    """
    low, middle, high = np.quantile(data.train.X, (0.25, 0.5, 0.75), axis=0)
    width = np.where(high > low, high - low, 1.0)
    return Split(*(replace(rows, X=np.clip((rows.X - middle) / width, -5, 5)) for rows in (data.train, data.test)))


@dataclass(frozen=True)
class Task:
    """A network, what its clients do with it, and what is done to the features before they are handed out."""

    module: Callable[[], nn.Module]
    loss: str = "cross_entropy"
    epochs: int = 5
    features: Callable[[Split], Split] | None = None

    def load(self, name: str, rows: int | None, seed: int, observer: Observer) -> Split:
        """The data set, ready to be split among clients.

        Args:
            name: of the data set.
            rows: training rows in all; None for all there are.
            seed: of the draw of rows.
            observer: who watches while it is fetched.
        """
        found = load(name, rows=rows, seed=seed, observer=observer)
        return found if self.features is None else self.features(found)


TASKS = {
    "mnist": Task(mnist),
    "cifar10": Task(cifar10, epochs=10),
    "adult": Task(adult, loss="logistic"),
    "digits": Task(digits),
    "eeg": Task(table(14), loss="logistic", features=evened),
    "electricity": Task(table(8), loss="logistic", features=evened),
    "emnist": Task(emnist),
}


@dataclass(frozen=True)
class Case:
    """One federation.

    Args:
        data: one of `TASKS`.
        clients: how many.
        split: as `hushtune.data.splits.shares` has it.
        rows: training rows in all; None for all there are.
        seed: of data, split, weights and mini-batches.
    """

    data: str
    clients: int
    split: str = "iid"
    rows: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.data not in TASKS:
            raise SettingError(f"data must be one of {sorted(TASKS)}, but got '{self.data}'")
        integer("clients", self.clients, 2)
        integer("seed", self.seed, 0, LARGEST_SEED)

    @property
    def name(self) -> str:
        """For folders and tables."""
        rows = f"-{self.rows}" if self.rows is not None else ""
        return f"{self.data}-{self.clients}-{self.split.replace(':', '-')}{rows}-{self.seed}"


@dataclass(frozen=True)
class Measured:
    """A federation's scores.

    Args:
        case: which one.
        candidates: p of them.
        federation: the clients, with a trial of every candidate.
        accuracy: of the model that federated training with a candidate gives, on test rows, shape (p,).
        seconds: of scoring and of training; of an earlier run if that did it.
        passes: rows of data that went through a network, forward and back, if each candidate is counted alone.
    """

    case: Case
    candidates: Candidates
    federation: LocalFederation
    accuracy: FloatArray
    seconds: dict[str, float]
    passes: dict[str, int]

    @property
    def parties(self) -> list[Party]:
        """The clients, in the federation's order."""
        return list(self.federation.parties.values())

    def losses(self, seed: int) -> FloatArray:
        """Of all clients on all candidates, shape (clients, p); NaN for what failed.

        Args:
            seed: of the trials that are there.
        """
        return np.array([party.losses(self.candidates.configs, seed) for party in self.parties])


def measure(case: Case, folder: Path, jobs: int | None, observer: Observer) -> Measured:
    """Scores all candidates on all clients and trains with each of them, unless the folder has it."""
    task, candidates, own = TASKS[case.data], grid(), folder / case.name
    objective = TorchObjective(task.module, loss=task.loss, epochs=task.epochs)
    data = task.load(case.data, case.rows, case.seed, observer)
    parts = shares(case.split, data.train, case.clients, case.seed)
    federation = LocalFederation([Client(rows, objective) for rows in parts], own, None, case.seed, jobs)
    kept = _Kept(own / "measured.npz", fingerprint([asdict(case), objective, candidates.text, ROUNDS]))
    start = time.monotonic()
    federation.score(Search(case.seed), candidates, observer, False, name=f"{case.name}: scoring")
    seconds = time.monotonic() - start
    train = [held_out(rows, objective.validation, case.seed).train for rows in parts]
    if kept.found is None:
        kept.write(seconds, *_trained(case, objective, train, data, own, jobs, observer))
    assert kept.found is not None
    one = sum(map(len, train)) * objective.epochs * len(candidates)
    return Measured(
        case,
        candidates,
        federation,
        kept.found["accuracy"],
        {name: float(kept.found[name]) for name in ("scoring", "training")},
        {"scoring": one, "training": one * ROUNDS},
    )


def _trained(
    case: Case,
    objective: TorchObjective,
    train: Any,
    data: Split,
    own: Path,
    jobs: int | None,
    observer: Observer,
) -> tuple[float, FloatArray]:
    start = time.monotonic()
    configs, clients = grid().configs, [Client(rows, objective) for rows in train]
    averaging = FedAvg(ROUNDS, seed=case.seed)
    trained = averaging.train(clients, configs, folder=own, jobs=jobs, observer=observer)
    losses = trained.losses(data.test)
    (own / "training.npz").unlink()
    worst = np.nanmax(losses)
    return time.monotonic() - start, 1 - np.where(np.isfinite(losses), losses, worst)


class _Kept:
    """Accuracies that an earlier run has computed for the same case."""

    def __init__(self, path: Path, key: str) -> None:
        self._path, self._key = path, key
        self.found: dict[str, Any] | None = None
        if path.exists():
            content = unarchive(path)
            if str(content.get("key")) == key:
                self.found = content

    def write(self, scoring: float, training: float, accuracy: FloatArray) -> None:
        self.found = {"key": self._key, "scoring": scoring, "training": training, "accuracy": accuracy}
        replace_file(self._path, archive(self.found))
