"""PrivTuna's measurement study (Mitic et al. 2024, section IV) with real searches and real federated training.

For every federation each client searches on its own; every strategy and surface derives one config from these
searches; and that config itself is trained federatedly, beside the grid whose best point is the ground truth.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.privtuna.tasks import Case, Measured, Size, measure
from hushtune.core.observer import Observer
from hushtune.core.space import config_key

IID = (10, 20, 50)  # clients
SKEWED = (20, 10)
SPLITS = ("noise:0.02", "dirichlet:1.0", "quantity:0.4")  # Figure 3
MORE = ("noise:0.1", "dirichlet:5.0", "quantity:2.0")  # Figure 6
REST = ("dirichlet:0.1", "quantity:0.1", "quantity:1.0")  # in the paper's averages only


@dataclass(frozen=True)
class Experiment:
    """What to compare.

    Args:
        cases: the federations.
        folder: where searches and trainings are kept.
        jobs: processes; None for one per core.
    """

    cases: Sequence[Case]
    folder: Path
    jobs: int | None = None


def cases(data: Sequence[str], seeds: int, size: Size, every: bool) -> list[Case]:
    """Figure 3's skews with its number of clients first, and all others if `every` is asked for; then equal shares."""
    skews = (*SPLITS, *(MORE + REST if every else ()))
    places = [(split, clients) for clients in SKEWED for split in skews] + [("iid", clients) for clients in IID]
    return [
        Case(name, split, clients, seed, size) for seed in range(seeds) for split, clients in places for name in data
    ]


def rows(experiment: Experiment, observer: Observer) -> Iterator[dict[str, Any]]:
    """For each federation a row with its grid, and one for each strategy and scale."""
    clock = _Clock([case for case in experiment.cases if not case.done(experiment.folder)])
    for number, case in enumerate(experiment.cases, 1):
        observer.say(f"federation {number} of {len(experiment.cases)}: {case.name}; {clock.left()}")
        measured = measure(case, experiment.folder, experiment.jobs, observer)
        clock.tick(case)
        yield from compared(measured)


class _Clock:
    """Tells the time left by the work that is left, which differs much from one data set to another."""

    def __init__(self, todo: Sequence[Case]) -> None:
        self._todo, self._start, self._done = list(todo), time.monotonic(), 0.0

    def tick(self, case: Case) -> None:
        """A federation is done."""
        if case in self._todo:
            self._todo.remove(case)
            self._done += case.work

    def left(self) -> str:
        """How many federations are to do, and the minutes that may take, in words."""
        if not self._done:
            return f"{len(self._todo)} to do"
        seconds = (time.monotonic() - self._start) / self._done * sum(case.work for case in self._todo)
        return f"{len(self._todo)} to do, about {seconds / 60:.0f} minutes left"


def compared(measured: Measured) -> Iterator[dict[str, Any]]:
    """What each derived config gives, and by how much that is below the best grid point."""
    case, grid = measured.case, [dict(config) for config in measured.searches.configs]
    named = {
        "data": case.data,
        "skew": case.skew,
        "split": case.split,
        "clients": case.clients,
        "client lr": case.size.client_lr,
        "seed": case.seed,
    }
    scores = [measured.accuracy[config_key(config)] for config in grid]
    best = max(range(len(grid)), key=scores.__getitem__)
    yield {
        **named,
        "arm": "grid",
        **{knob: grid[best][knob] for knob in ("lr", "momentum")},
        "accuracy": round(scores[best], 4),
        "mean": round(sum(scores) / len(scores), 4),
    }
    for scale, configs in measured.derived.items():
        for name, config in configs.items():
            accuracy = measured.accuracy[config_key(config)]
            yield {
                **named,
                "arm": name,
                "scale": scale,
                **{knob: round(config[knob], 4) for knob in ("lr", "momentum")},
                "accuracy": round(accuracy, 4),
                "gap": round(scores[best] - accuracy, 4),
            }
