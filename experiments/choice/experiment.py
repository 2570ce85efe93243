"""Accuracy of what is chosen, by federation, arm and epsilon; and what budget an arm needs for another's accuracy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.choice.arms import MAIN, VOTERS, arms
from experiments.choice.federations import Known, cases, known
from experiments.dp_hype.experiment import interval
from experiments.dp_hype.tasks import Case
from experiments.epsilons import privacy_of
from hushtune.core.observer import Observer
from hushtune.methods.prior import Prior

Row = dict[str, Any]
_FROM, _FROM_FOR = "adult", {"adult": "digits"}  # where priors come from: Adult; for Adult itself, digits


@dataclass(frozen=True)
class Experiment:
    """What to compare.

    Args:
        cases: the federations.
        epsilons: `inf` for no noise.
        draws: of the noise.
        all_arms: whether ballots, priors and clients' own means are compared, beside the main arms.
        folder: where scoring and training are resumed from.
        jobs: processes; None for one per core.
    """

    cases: Sequence[Case]
    epsilons: Sequence[float]
    draws: int
    all_arms: bool
    folder: Path
    jobs: int | None = None

    def __post_init__(self) -> None:
        for epsilon in self.epsilons:
            privacy_of(epsilon)  # refuses what no guarantee can have


def rows(experiment: Experiment, observer: Observer) -> Iterator[Row]:
    """One row per federation, and one per federation, arm and epsilon."""
    for case in experiment.cases:
        found = known(case, experiment.folder, experiment.jobs, observer)
        prior = prior_for(case, experiment, observer)
        yield _summary(found, prior)
        every = {name: arm for name, arm in arms(found, prior).items() if experiment.all_arms or name in MAIN}
        with observer.phase(f"{case.name}: noise", len(every) * len(experiment.epsilons)) as advance:
            for name, arm in every.items():
                for number, epsilon in enumerate(experiment.epsilons):
                    draws = experiment.draws
                    _, chosen = arm.votes.accuracies(arm.vote, privacy_of(epsilon), arm.seal, draws, number)
                    yield {
                        **_named(case),
                        "arm": name,
                        "kind": arm.kind,
                        "epsilon": epsilon if math.isfinite(epsilon) else "inf",
                        **interval(chosen.tolist()),
                    }
                    advance(1)


def prior_for(case: Case, experiment: Experiment, observer: Observer) -> Prior:
    """What the same candidates gave on another, public data set, as 30 voters.

    Args:
        case: the federation that it is for.
        experiment: which it belongs to.
        observer: who watches.
    """
    (source,) = cases([_FROM_FOR.get(case.data, _FROM)], [100], ["iid"], case.seed)
    accuracy = known(source, experiment.folder, experiment.jobs, observer).votes.accuracy
    return Prior(accuracy.tolist(), VOTERS, f"{source.data}: accuracy of what each candidate trains")


def _summary(found: Known, prior: Prior) -> Row:
    accuracy = found.votes.accuracy
    return {
        **_named(found.case),
        "arm": "federation",
        "opt": round(float(accuracy.max()), 4),
        "random": round(float(np.mean(accuracy)), 4),
        "within .01 of opt": int((accuracy >= accuracy.max() - 0.01).sum()),
        "prior": prior.source.split(":")[0],
        "prior alone": round(float(accuracy[prior.settled(found.votes.candidates).alone]), 4),
    }


def _named(case: Case) -> Row:
    return {"name": case.name, "data": case.data, "clients": case.clients, "split": case.split}
