"""What PrivTuna's measurement study is about: data sets, networks, grids; every client's search, everybody's training.

The local search tunes the client's own optimiser; federated training has clients with a fixed one and tunes the
server's learning rate and momentum. That the first tells something about the second is the paper's claim.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from experiments.privtuna.strategies import SCALES, Searches
from hushtune.client.client import Client
from hushtune.client.objectives.neural import TorchObjective
from hushtune.client.rows import Rows, Split, held_out
from hushtune.client.search.base import LARGEST_SEED, Search
from hushtune.core.checks import integer, number
from hushtune.core.errors import SettingError
from hushtune.core.files import replace
from hushtune.core.fingerprint import fingerprint
from hushtune.core.observer import Observer
from hushtune.core.space import Candidates, Config, Float, Space, config_key
from hushtune.data import load
from hushtune.data.splits import shares
from hushtune.federation.local import LocalFederation
from hushtune.training import FedAvg

MOMENTUM = 0.01  # of every client in federated training
KINDS = {"iid": "iid", "dirichlet": "label", "noise": "feature", "quantity": "quantity"}
_IID = ((0.001, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5), (0.0, 0.3, 0.6, 0.9, 0.92, 0.93, 0.95))
_SKEWED = ((0.01, 0.03, 0.05, 0.1, 0.3, 0.5), (0.0, 0.3, 0.6, 0.9))


def grid(skew: str) -> Candidates:
    """Table I: 49 configs for iid data, 24 for skewed."""
    rates, momenta = _IID if skew == "iid" else _SKEWED
    space = Space(lr=Float(rates[0], rates[-1], log=True), momentum=Float(momenta[0], momenta[-1]))
    return space.grid(lr=rates, momentum=momenta)


# ---- networks ----------------------------------------------------------------------------------------


def _dense(inputs: int, hidden: int, classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, classes))


def digits() -> nn.Module:
    """For a first look: needs no data but what scikit-learn brings."""
    return _dense(64, 32, 10)


def mnist() -> nn.Module:
    """784 inputs, one hidden layer of 64, 10 classes."""
    return _dense(784, 64, 10)


def emnist() -> nn.Module:
    """784 inputs, one hidden layer of 64, 62 classes."""
    return _dense(784, 64, 62)


def svhn() -> nn.Module:
    """3,072 inputs, one hidden layer of 64, 10 classes."""
    return _dense(3_072, 64, 10)


def network_a() -> nn.Module:
    """Network A of section IV-B2; pooling has stride 2 after each convolution, with which the sizes roughly agree."""
    first = nn.Sequential(nn.Conv2d(1, 32, 5), nn.ReLU(), nn.AvgPool2d(2))
    second = nn.Sequential(nn.Conv2d(32, 32, 5), nn.ReLU(), nn.AvgPool2d(2))
    return nn.Sequential(*first, *second, *_dense(512, 64, 10).children())


def _network_b(channels: int, flat: int, classes: int) -> nn.Module:
    first = nn.Sequential(nn.Conv2d(channels, 6, 5), nn.ReLU(), nn.AvgPool2d(2))
    second = nn.Sequential(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.AvgPool2d(2))
    dense = nn.Sequential(nn.Flatten(), nn.Linear(flat, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU())
    return nn.Sequential(*first, *second, *dense, nn.Linear(84, classes))


def network_b_emnist() -> nn.Module:
    """Network B of section IV-B2 for one colour and 62 classes."""
    return _network_b(1, 256, 62)


def network_b_svhn() -> nn.Module:
    """Network B of section IV-B2 for three colours."""
    return _network_b(3, 400, 10)


@dataclass(frozen=True)
class Task:
    """A small network, the paper's, their inputs, and their classes: a training that diverged counts as guessing."""

    small: Callable[[], nn.Module]
    paper: Callable[[], nn.Module]
    inputs: int
    classes: int


TASKS = {
    "digits": Task(digits, digits, 64, 10),
    "mnist": Task(mnist, network_a, 784, 10),
    "emnist": Task(emnist, network_b_emnist, 784, 62),
    "svhn": Task(svhn, network_b_svhn, 3_072, 10),
}


# ---- cases -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Size:
    """How large everything is.

    Args:
        rows: training rows of all clients together; None for all there are.
        epochs: of the local search.
        rounds: of federated training, with two local epochs each.
        batch: rows per step.
        paper: whether the paper's networks are trained.
        client_lr: of every client in federated training, .01 in the paper. What a client does in a round is this
            times its steps, and with fewer rows than the paper's it has fewer steps.
    """

    rows: int | None = 5_000
    epochs: int = 30
    rounds: int = 30
    batch: int = 32
    paper: bool = False
    client_lr: float = 0.01

    def __post_init__(self) -> None:
        number("client_lr", self.client_lr, 0, 10, "(]")


@dataclass(frozen=True)
class Case:
    """One federation.

    Args:
        data: one of `TASKS`.
        split: as `hushtune.data.splits.shares` has it.
        clients: how many.
        seed: of data, split, weights and mini-batches.
        size: of data and training.
    """

    data: str
    split: str
    clients: int
    seed: int = 0
    size: Size = Size()

    def __post_init__(self) -> None:
        if self.data not in TASKS:
            raise SettingError(f"data must be one of {sorted(TASKS)}, but got '{self.data}'")
        if self.split.partition(":")[0] not in KINDS:
            raise SettingError(f"split must be one of {sorted(KINDS)}, but got '{self.split}'")
        integer("clients", self.clients, 2)
        integer("seed", self.seed, 0, LARGEST_SEED)

    @property
    def skew(self) -> str:
        """As `Searches` names it."""
        return KINDS[self.split.partition(":")[0]]

    @property
    def name(self) -> str:
        """What the case's folder is called."""
        rows = "all" if self.size.rows is None else str(self.size.rows)
        return f"{self.data}-{self.split.replace(':', '-')}-{self.clients}-{rows}-{self.seed}"

    @property
    def file(self) -> str:
        """Where trainings are kept; local searches are the same whatever clients do in federated training."""
        client = "" if self.size.client_lr == Size().client_lr else f"-client-{self.size.client_lr:g}"
        return f"{self.name}/trained{client}.json"

    @property
    def work(self) -> float:
        """Multiplications, roughly and up to a factor: the first layer's weights, for each config."""
        return len(grid(self.skew)) * TASKS[self.data].inputs

    def done(self, folder: Path) -> bool:
        """Whether the folder has trainings of it."""
        return (folder / self.file).exists()

    @property
    def client(self) -> dict[str, float]:
        """The optimiser of every client in federated training."""
        return {"lr": self.size.client_lr, "momentum": MOMENTUM}

    def objective(self) -> TorchObjective:
        """A client's own search: a tenth of its rows is held out."""
        task = TASKS[self.data]
        module = task.paper if self.size.paper else task.small
        return TorchObjective(module, epochs=self.size.epochs, batch=self.size.batch, validation=0.1)


@dataclass(frozen=True)
class Measured:
    """A federation's searches and trainings.

    Args:
        case: which one.
        searches: what every client found.
        derived: configs by strategy, for each scale; surfaces have none and stand under "log".
        accuracy: on test rows after federated training, by config key, of all grid points and derived configs.
    """

    case: Case
    searches: Searches
    derived: dict[str, dict[str, Config]]
    accuracy: dict[str, float]


def measure(case: Case, folder: Path, jobs: int | None, observer: Observer) -> Measured:
    """Searches locally, derives configs, and trains with these and the grid, as far as the folder does not have it."""
    objective, candidates, own = case.objective(), grid(case.skew), folder / case.name
    data = _data(case, observer)
    parts = shares(case.split, data.train, case.clients, case.seed)
    federation = LocalFederation([Client(rows, objective) for rows in parts], own, None, case.seed, jobs)
    federation.score(Search(case.seed), candidates, observer, False, name=f"{case.name}: local searches")
    losses = np.array([party.losses(candidates.configs, case.seed) for party in federation.parties.values()])
    searches = Searches(candidates.space, candidates.configs, losses, case.skew, case.seed)
    derived: dict[str, dict[str, Config]] = {scale: searches.derived(scale) for scale in SCALES}
    derived["log"] |= searches.minima(candidates.configs, federation.jobs)
    wanted = {config_key(config): config for config in candidates}
    wanted |= {config_key(config): config for configs in derived.values() for config in configs.values()}
    named = asdict(case)
    del named["size"]["client_lr"]  # is in case.client
    trained = _Trained(case, folder, fingerprint([named, objective, case.client]))
    train = [held_out(rows, objective.validation, case.seed).train for rows in parts]
    trained.fill(list(wanted.values()), train, data, jobs, observer)
    return Measured(case, searches, derived, {key: trained.accuracy[key] for key in wanted})


def _data(case: Case, observer: Observer) -> Split:
    """Pixels from 0 to 1: on their scale depend the best local learning rate and what a skew's noise means."""
    data = load(case.data, rows=case.size.rows, seed=case.seed, observer=observer)
    if case.data == "digits":  # from 0 to 1 already
        return data
    return Split(*(Rows((part.X + 1) / 2, part.y) for part in (data.train, data.test)))


class _Trained:
    """Accuracies after federated training, kept by config: a config that is new is trained, no other again."""

    def __init__(self, case: Case, folder: Path, key: str) -> None:
        self._case, self._folder, self._key = case, folder / case.name, key
        self._path = folder / case.file
        self.accuracy: dict[str, float] = {}
        if self._path.exists():
            kept = json.loads(self._path.read_text())
            if kept["key"] == key:
                self.accuracy = kept["accuracy"]

    def fill(self, configs: Sequence[Config], train: Any, data: Split, jobs: int | None, observer: Observer) -> None:
        """Trains with all configs that are not here yet, at once; a round that is done is not repeated."""
        missing = [config for config in configs if config_key(config) not in self.accuracy]
        if not missing:
            return
        size = self._case.size
        task = TASKS[self._case.data]
        objective = TorchObjective(task.paper if size.paper else task.small, fixed=self._case.client, batch=size.batch)
        server = [{"server_lr": config["lr"], "server_momentum": config["momentum"]} for config in missing]
        observer.say(f"{self._case.name}: federated training with {len(missing)} configs")
        folder = self._folder / f"training-{fingerprint([self._key, server])[:12]}"
        averaging = FedAvg(size.rounds, epochs=2, seed=self._case.seed)
        clients = [Client(rows, objective) for rows in train]
        losses = averaging.train(clients, server, folder=folder, jobs=jobs, observer=observer).losses(data.test)
        accuracy = np.where(np.isfinite(losses), 1 - losses, 1 / task.classes)
        self.accuracy |= {config_key(c): float(value) for c, value in zip(missing, accuracy, strict=True)}
        replace(self._path, json.dumps({"key": self._key, "accuracy": self.accuracy}))
        (folder / "training.npz").unlink(missing_ok=True)
        folder.rmdir()
