"""What the experiment on records is about: data sets, splits, parts; every part's losses, and everybody's accuracies.

A case is scored once and kept, so that whatever differs in ballots, seals or noise alone costs nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from experiments.records.linear import Linear, Scale, balanced
from hushtune.client.objectives.base import for_part
from hushtune.client.rows import Parts, Rows, Split, held_out
from hushtune.core.arrays import FloatArray
from hushtune.core.errors import SettingError
from hushtune.core.files import archive, replace, unarchive
from hushtune.core.fingerprint import fingerprint
from hushtune.core.observer import Observer, Silent
from hushtune.core.processes.pool import default_jobs, in_order
from hushtune.core.space import Candidates, Config, Float, Space
from hushtune.data import load
from hushtune.data.splits import shares

RATES = (0.001, 0.01, 0.03, 0.1, 0.3, 1.0)
PENALTIES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
DEFAULT: Config = {"lr": 0.01, "weight_decay": 1e-4}  # what one would take without any tuning
ROUNDS = 5  # of federated averaging with the chosen config, one local epoch each
FEWEST = 8  # rows of a part
ROWS: dict[str, int | None] = {
    "adult": None,
    "eeg": None,
    "electricity": None,
    "pc3": None,
    "digits": None,
    "mnist": 10_000,
}


def grid() -> Candidates:
    """Six learning rates and five penalties."""
    space = Space(lr=Float(1e-3, 1.0, log=True), weight_decay=Float(1e-5, 0.1, log=True))
    return space.candidates({"lr": rate, "weight_decay": penalty} for rate, penalty in product(RATES, PENALTIES))


@dataclass(frozen=True)
class Case:
    """One federation, and into how many parts its clients' rows are split.

    Args:
        data: one of `ROWS`.
        clients: how many.
        split: as `hushtune.data.splits.shares` has it.
        voters: parts of each client's rows; 1: a client is one voter.
        full_steps: whether a part takes as many steps as all of its client's rows would.
        seed: of data, split and order of rows.
    """

    data: str
    clients: int
    split: str = "iid"
    voters: int = 1
    full_steps: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        if self.data not in ROWS:
            raise SettingError(f"data must be one of {sorted(ROWS)}, but got '{self.data}'")

    @property
    def federation(self) -> str:
        """Of its data, clients and split, for folders and tables."""
        return f"{self.data}-{self.clients}-{self.split.replace(':', '-')}-{self.seed}"

    @property
    def name(self) -> str:
        """Of the case, for files."""
        return f"{self.federation}-{self.voters}{'' if self.full_steps else '-few-steps'}"


@lru_cache(maxsize=1)
def data_of(name: str, seed: int) -> tuple[Split, int]:
    """Rows to train on, rows to test on, and how many labels there are.

    Args:
        name: one of `ROWS`.
        seed: of the draw of rows.
    """
    found = load(name, rows=ROWS[name], seed=seed)
    return found, int(found.train.y.max()) + 1


def clients_of(case: Case) -> list[Rows]:
    """Each client's rows.

    Args:
        case: which.
    """
    return shares(case.split, data_of(case.data, case.seed)[0].train, case.clients, case.seed)


def rows_per_part(case: Case) -> float:
    """Of an average part.

    Args:
        case: which.
    """
    return len(data_of(case.data, case.seed)[0].train) / case.clients / case.voters


def rows_of(case: Case) -> dict[str, int]:
    """How many rows a client has on average, and how many it is said to have: the rarest label's, for each label.

    Args:
        case: whose number of voters does not matter.
    """
    _, counts = np.unique(data_of(case.data, case.seed)[0].train.y, return_counts=True)
    return {
        "rows": round(counts.sum() / case.clients),
        "stated rows": max(1, round(counts.min() * len(counts) / case.clients)),
    }


def losses(case: Case, folder: Path, jobs: int | None, observer: Observer = Silent()) -> FloatArray:
    """Every part's losses, kept, shape (clients * voters, candidates); NaN for a part without rows to train on.

    Args:
        case: which.
        folder: where they are kept.
        jobs: processes; None for one per core.
        observer: who watches.
    """
    objective = Linear(data_of(case.data, case.seed)[1], full_steps=case.full_steps)
    kept = _Kept(folder / f"{case.name}.npz", fingerprint([asdict(case), objective, grid().text]))
    if (found := kept.found("losses")) is None:
        tasks = [(case, objective, client) for client in range(case.clients)]
        with observer.phase(case.name, len(tasks)) as advance:
            each = []
            for one in in_order(_client_losses, tasks, jobs or default_jobs()):
                each.append(one)
                advance(1)
        found = np.concatenate(each)
        kept.write(losses=found)
    return found


def _client_losses(case: Case, objective: Linear, client: int) -> FloatArray:
    rows, parts = clients_of(case)[client], Parts(case.voters)
    scorer = for_part(objective, case.voters)
    key = case.seed.to_bytes(32, "big")  # of a simulation: who shares a part is no secret
    return np.stack([_part_losses(scorer, part, case.seed) for part in parts.of(rows, key)])


def _part_losses(objective: Linear, part: Any, seed: int) -> FloatArray:
    if isinstance(part, Exception) or not len(part):
        return np.full(len(grid()), np.nan)
    return objective.losses(grid().configs, part, seed)


def accuracy(case: Case, folder: Path) -> tuple[FloatArray, float]:
    """Balanced accuracy on the test rows after federated averaging, of each candidate and of the default config.

    Args:
        case: whose number of voters does not matter.
        folder: where they are kept.
    """
    kept = _Kept(folder / f"{case.federation}.npz", fingerprint([case.federation, grid().text, DEFAULT, ROUNDS]))
    if (found := kept.found("accuracy")) is None:
        found = _averaged(case)
        kept.write(accuracy=found)
    return found[:-1], float(found[-1])


def _averaged(case: Case) -> FloatArray:
    """Each client scales its own features; test rows are on the scale of all training rows."""
    data, classes = data_of(case.data, case.seed)
    objective, configs = Linear(classes), [*grid().configs, DEFAULT]
    train = [held_out(rows, objective.validation, case.seed, alike=True).train for rows in clients_of(case)]
    scaled = [(Scale.of(rows.X).of_rows(rows), np.asarray(rows.y)) for rows in train]
    share = np.array([len(rows) for rows in train]) / sum(map(len, train))
    weights = np.zeros((len(configs), scaled[0][0].shape[1], classes), np.float32)
    for round_ in range(ROUNDS):
        trained = [objective.trained(weights, configs, x, y, case.seed * ROUNDS + round_, 1) for x, y in scaled]
        weights = np.tensordot(share, np.stack(trained), 1).astype(np.float32)
    found = balanced(weights, Scale.of(data.train.X).of_rows(data.test), np.asarray(data.test.y))
    return np.where(np.isfinite(found), found, 1 / classes)


class _Kept:
    """Arrays that an earlier run has computed for the same case."""

    def __init__(self, path: Path, key: str) -> None:
        self._path, self._key = path, key

    def found(self, name: str) -> FloatArray | None:
        """One of them; None if it is not there, or is of another case."""
        content = unarchive(self._path) if self._path.exists() else {}
        if str(content.get("key")) != self._key:
            return None
        values: FloatArray = content[name]
        return values

    def write(self, **arrays: FloatArray) -> None:
        """Keeps all of them under the case's key."""
        replace(self._path, archive({"key": self._key, **arrays}, pack=True))


def cases(
    data: Sequence[str], clients: Sequence[int], splits: Sequence[str], voters: Sequence[int], seed: int
) -> list[Case]:
    """All combinations in which an average part has rows enough.

    Args:
        data: data sets.
        clients: numbers of clients.
        splits: of the rows.
        voters: parts of each client.
        seed: of all.
    """
    every = [Case(*one, seed=seed) for one in product(data, clients, splits, voters)]
    return [case for case in every if rows_per_part(case) >= FEWEST]
