"""One owner's private model by every way to choose its config (central tuning): accuracy against the total epsilon.

Every arm is a whole call of `hushtune.fit`, as a marked simulation: the same candidates, the same splits and seeds. The
reference arms know more than anybody may: `oracle` trains, at the full epsilon, the candidate that does best there on
average; `not private` is the best candidate without noise.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.propose_test.central_tasks import TASKS, Task
from hushtune.client.simulation import Simulation
from hushtune.core import files
from hushtune.core.checks import integer
from hushtune.core.errors import SettingError
from hushtune.core.observer import Observer, Silent
from hushtune.core.processes.pool import default_jobs, in_order
from hushtune.methods.propose_test.method import NoisyMax, ProposeTest
from hushtune.privacy.guarantee import Privacy
from hushtune.training.central import By, fit
from hushtune.training.strategies import RepeatAndSelect, TryAll, Untuned

DELTA = 1e-5
ORACLE, FREE = "oracle", "not private"
QUIET = "noisy-max, parts without noise"
SHARE = 0.2


@dataclass(frozen=True)
class Experiment:
    """What to compare.

    Args:
        data: names of tasks.
        epsilons: of choice and training together.
        seeds: how many.
        folder: where outcomes are kept.
        jobs: processes; None for one per core.
        quick: few epochs and candidates.
    """

    data: Sequence[str]
    epsilons: Sequence[float]
    seeds: int
    folder: Path
    jobs: int | None = None
    quick: bool = False

    def __post_init__(self) -> None:
        integer("seeds", self.seeds, 1)

    def tasks(self) -> list[Task]:
        """The tasks that are asked for by name; smaller ones, if `quick`."""
        for name in self.data:
            if name not in TASKS:
                raise SettingError(f"data must be among {sorted(TASKS)}, but got '{name}'")
        return [TASKS[name].quick() if self.quick else TASKS[name] for name in self.data]


def arms(task: Task) -> dict[str, By]:
    """The ways to choose."""
    return {
        "propose-test": ProposeTest(task.voters, 0.1),
        "propose-test, filter": ProposeTest(task.voters, 0.1, stop="filter", epsilon0=0.1),
        "noisy-max": NoisyMax(task.voters),
        QUIET: NoisyMax(task.voters),
        "repeat-and-select": RepeatAndSelect(mean=len(task.candidates()) / 2),
        "try-all": TryAll(),
        "untuned": Untuned(task.default()),
    }


@dataclass(frozen=True)
class Job:
    """One outcome to be had."""

    task: Task
    arm: str
    epsilon: float
    seed: int
    place: int = 0  # the candidate, for the reference arms

    def path(self, folder: Path) -> Path:
        """Where it is kept."""
        which = f"-{self.place}" if self.arm in (ORACLE, FREE) else ""
        epsilon = "inf" if self.arm == FREE else f"{self.epsilon:g}"
        return folder / self.task.key() / f"{self.arm}{which}-{epsilon}-{self.seed}.json"


def run(job: Job, folder: Path) -> dict[str, Any]:
    """The outcome, from its file or from a run."""
    path = job.path(folder)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        files.replace(path, json.dumps(_outcome(job, folder)))
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def _outcome(job: Job, folder: Path) -> dict[str, Any]:
    task, shares = job.task, job.task.shares(job.seed)
    trainer = task.trainer()
    if job.arm == FREE:
        model = trainer.train(task.candidates()[job.place], shares.train, 0.0, job.seed)
        return {"index": job.place, "accuracy": trainer.score(model, shares.test)}
    method = Untuned(job.place) if job.arm == ORACLE else arms(task)[job.arm]
    fitted = fit(
        shares.train,
        task.candidates(),
        method=method,
        trainer=trainer,
        privacy=Privacy(job.epsilon, DELTA, "record", "add-remove"),
        validation=shares.validation,
        share=SHARE,
        rehearse=job.arm != QUIET,
        simulation=Simulation(job.seed),
        home=folder / "home" / task.key() / str(job.seed),
        jobs=1,
        observer=Silent(),
    )
    multiplier = next(event.multiplier for event in fitted.events if hasattr(event, "multiplier"))
    return {
        "index": fitted.index,
        "accuracy": trainer.score(fitted.model, shares.test),
        "multiplier": multiplier,
        "spent": fitted.spent.epsilon,
    }


def rows(experiment: Experiment, observer: Observer) -> Iterator[dict[str, Any]]:
    """For each data set and epsilon a row for each arm, in points of accuracy on test rows."""
    jobs = [job for task in experiment.tasks() for job in _jobs(experiment, task)]
    _all(experiment, jobs, observer)
    for task in experiment.tasks():
        for epsilon in experiment.epsilons:
            yield from _compared(experiment, task, epsilon)


def _jobs(experiment: Experiment, task: Task) -> list[Job]:
    """Arm by arm: the first one scores parts for its seed and epsilon, and others look them up."""
    places = [(seed, epsilon) for seed in range(experiment.seeds) for epsilon in experiment.epsilons]
    size = range(len(task.candidates()))
    return [
        *(Job(task, arm, epsilon, seed) for arm in arms(task) for seed, epsilon in places),
        *(Job(task, ORACLE, epsilon, seed, at) for seed, epsilon in places for at in size),
        *(Job(task, FREE, 0.0, seed, at) for seed in range(experiment.seeds) for at in size),
    ]


def _all(experiment: Experiment, jobs: Sequence[Job], observer: Observer) -> None:
    todo = [job for job in jobs if not job.path(experiment.folder).exists()]
    with observer.phase("models", len(jobs)) as advance:
        advance(len(jobs) - len(todo))
        for _ in in_order(run, ((job, experiment.folder) for job in todo), experiment.jobs or default_jobs()):
            advance(1)


def _compared(experiment: Experiment, task: Task, epsilon: float) -> Iterator[dict[str, Any]]:
    seeds = range(experiment.seeds)

    def outcomes(arm: str, place: int = 0) -> list[dict[str, Any]]:
        return [run(Job(task, arm, epsilon, seed, place), experiment.folder) for seed in seeds]

    found = {arm: outcomes(arm) for arm in arms(task)}
    size = range(len(task.candidates()))
    for arm in (ORACLE, FREE):
        every = [outcomes(arm, place) for place in size]
        found[arm] = max(every, key=_mean)
    for arm, own in found.items():
        gain = np.array([a["accuracy"] - b["accuracy"] for a, b in zip(own, found["untuned"], strict=True)])
        yield {
            "data": task.name,
            "epsilon": epsilon,
            "arm": arm,
            "accuracy": round(100 * _mean(own), 2),
            "error": round(100 * _error([one["accuracy"] for one in own]), 2),
            "ahead of untuned": round(100 * float(gain.mean()), 2),
            "ahead error": round(100 * _error(gain.tolist()), 2),
            "multiplier": round(float(np.mean([one.get("multiplier", 0.0) for one in own])), 3),
            "chosen": dict(Counter(str(one["index"]) for one in own)),
        }


def _mean(own: Sequence[dict[str, Any]]) -> float:
    return float(np.mean([one["accuracy"] for one in own]))


def _error(values: Sequence[float]) -> float:
    """Standard error of the mean."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0
