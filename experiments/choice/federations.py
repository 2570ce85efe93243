"""Federations whose losses and accuracies are known: measured once, and kept as a small file beside this one.

To score and to train takes an hour. Ballots, seals, priors and noise take seconds, and need nothing but these files.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from experiments.ballots import Votes
from experiments.dp_hype.tasks import Case, Measured, grid, measure
from hushtune.client.search.base import Search
from hushtune.core.arrays import FloatArray
from hushtune.core.files import archive, unarchive
from hushtune.core.files import replace as write
from hushtune.core.fingerprint import fingerprint
from hushtune.core.observer import Observer

MEASURED = Path(__file__).parent / "measured"
ROWS: dict[str, int | None] = {"mnist": 10_000, "emnist": 10_000, "cifar10": 4_000}
QUICK = ("digits", "adult", "eeg", "electricity")  # scored on two more splits of each client's rows, in seconds
AGAIN = (1, 2)  # seeds of these


@dataclass(frozen=True)
class Known:
    """A federation, measured.

    Args:
        case: which one.
        votes: its losses and accuracies.
        repeated: the same with each loss a mean over several splits of the client's rows; None where not measured.
    """

    case: Case
    votes: Votes
    repeated: Votes | None


def cases(data: list[str], clients: list[int], splits: list[str], seed: int) -> list[Case]:
    """The federations of all data sets, splits and numbers of clients.

    Args:
        data: names of data sets.
        clients: how many each federation has.
        splits: as `hushtune.data.splits.shares` has them.
        seed: of data, split, weights and mini-batches.
    """
    return [Case(name, count, how, ROWS.get(name), seed) for name in data for how in splits for count in clients]


def known(case: Case, folder: Path, jobs: int | None, observer: Observer) -> Known:
    """A federation's losses and accuracies: those that are kept, or measured and then kept.

    Args:
        case: which one.
        folder: where scoring and training are resumed from.
        jobs: processes; None for one per core.
        observer: who watches.
    """
    path, key = MEASURED / f"{case.name}.npz", fingerprint([asdict(case), grid().text])
    found = unarchive(path) if path.exists() else {}
    if str(found.get("key")) != key:
        measured = measure(case, folder, jobs, observer)
        losses = measured.losses(case.seed)
        again = _again(measured, observer) if case.data in QUICK else np.zeros((0, *losses.shape))
        found = {"key": key, "losses": np.float32(losses), "again": np.float32(again), "accuracy": measured.accuracy}
        write(path, archive(found, pack=True))
    first, more = (found[name].astype(np.float64) for name in ("losses", "again"))
    votes = Votes(grid(), first, case.clients, found["accuracy"], case.seed)
    repeated = replace(votes, losses=np.mean([first, *more], axis=0)) if len(more) else None
    return Known(case, votes, repeated)


def _again(measured: Measured, observer: Observer) -> FloatArray:
    """Losses on other splits of each client's rows, shape (splits, clients, p)."""
    found = []
    for seed in AGAIN:
        name = f"{measured.case.name}: scoring, split {seed}"
        measured.federation.score(Search(seed), measured.candidates, observer, False, name=name)
        found.append(measured.losses(seed))
    return np.array(found)
