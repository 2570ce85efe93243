"""DP-HYPE's evaluation (sections V and VI), from one scoring of each federation: accuracy of the choice by epsilon.

Nobody drops out or is corrupt, as in the paper. `opt` is the best candidate, `random` the mean candidate; both know
what no party may know. Every other arm is a method of hushtune, run as a marked simulation: the clients' real
answers, summed, and fresh noise for each run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from experiments.dp_hype.ablations import RawLosses, Subsets
from experiments.dp_hype.tasks import Case, Measured, measure
from experiments.epsilons import privacy_of
from hushtune.client.rows import WHOLE
from hushtune.client.search.base import Search
from hushtune.core.observer import Observer
from hushtune.methods.base import Facts, Method
from hushtune.methods.vote.method import Vote
from hushtune.privacy.accounting import Sums
from hushtune.privacy.calibration import calibrate
from hushtune.privacy.noise.base import Noise
from hushtune.run.simulation import Shortcut
from hushtune.seals.masked.seal import Masked

EQUAL = 0.005  # a difference of accuracies that 20 runs do not tell from none
OURS, PUBLISHED = "hushtune", "dp-hype"
KS = (1, 5, 10, 15, 20, 30)


@dataclass(frozen=True)
class Experiment:
    """What to compare.

    Args:
        cases: the federations.
        epsilons: `inf` for no noise.
        runs: draws of the noise.
        compare: whether all ballots and decodings are run, not only the main arms and the ablations.
        folder: where scores and accuracies are kept.
        jobs: processes; None for one per core.
    """

    cases: Sequence[Case]
    epsilons: Sequence[float]
    runs: int
    compare: bool
    folder: Path
    jobs: int | None = None

    def __post_init__(self) -> None:
        for epsilon in self.epsilons:
            privacy_of(epsilon)  # refuses what no guarantee can have


def arms(compare: bool) -> dict[str, Method]:
    """The methods by name: ours, the paper's, its ablations, and on demand every ballot with every decoding."""
    found: dict[str, Method] = {
        OURS: Vote(),
        PUBLISHED: Vote(decode="argmax"),
        "raw losses": RawLosses(),
        "subsets": Subsets(),
    }
    if compare:
        for decode in ("argmax", "smooth"):
            found |= {f"top {k}, {decode}": Vote(k, decode=decode) for k in KS}
            for k, tolerance in ((15, 0.01), (15, 0.03), (30, 0.03)):
                vote = Vote(k, ballot="approval", tolerance=tolerance, decode=decode)
                found[f"approval {k} within {tolerance:g}, {decode}"] = vote
            found[f"soft, {decode}"] = Vote(ballot="soft", decode=decode)
    return found


def rows(experiment: Experiment, observer: Observer) -> Iterator[dict[str, Any]]:
    """One row per federation, epsilon and arm; and one per federation with its times and accuracies."""
    for case in experiment.cases:
        measured = measure(case, experiment.folder, experiment.jobs, observer)
        yield _summary(measured)
        yield from _compared(measured, experiment, observer)


def _summary(measured: Measured) -> dict[str, Any]:
    accuracy, seconds = measured.accuracy, measured.seconds
    return {
        **_named(measured.case),
        "arm": "federation",
        "opt": round(float(accuracy.max()), 4),
        "random": round(float(accuracy.mean()), 4),
        "within .01 of opt": int((accuracy >= accuracy.max() - 0.01).sum()),
        "scoring seconds": round(seconds["scoring"], 1),
        "training seconds": round(seconds["training"], 1),
        "scoring passes per second": round(measured.passes["scoring"] / max(seconds["scoring"], 1e-9)),
        "training passes per second": round(measured.passes["training"] / max(seconds["training"], 1e-9)),
        "accuracies": np.round(accuracy, 4).tolist(),
    }


def _named(case: Case) -> dict[str, Any]:
    return {"name": case.name, "data": case.data, "clients": case.clients, "split": case.split}


def _compared(measured: Measured, experiment: Experiment, observer: Observer) -> Iterator[dict[str, Any]]:
    methods = arms(experiment.compare)
    sums = _Sums(measured)
    with observer.phase(f"{measured.case.name}: noise", len(methods) * len(experiment.epsilons)) as advance:
        for name, method in methods.items():
            for number, epsilon in enumerate(experiment.epsilons):
                scale, found = sums.accuracies(method, epsilon, experiment.runs, number)
                yield {
                    **_named(measured.case),
                    "arm": name,
                    "epsilon": epsilon if math.isfinite(epsilon) else "inf",
                    "sigma": round(scale, 3),
                    **interval(found),
                    "runs": len(found),
                }
                advance(1)


@dataclass
class _Sums:
    """Runs methods on one federation; each sum of answers is computed once."""

    measured: Measured
    _exact: dict[Any, Any] = field(default_factory=dict)

    def accuracies(self, method: Method, epsilon: float, runs: int, seed: int) -> tuple[float, list[float]]:
        """The noise's scale, and the accuracy of what each run chooses."""
        candidates, accuracy = self.measured.candidates, self.measured.accuracy
        privacy = privacy_of(epsilon)
        search = Search(self.measured.case.seed)
        method = method.settled(Facts(candidates, len(self.measured.parties), privacy, Masked(0.0, 0.0), search))
        scale = calibrate(method.bounds(candidates), privacy, Sums()).scale if privacy is not None else 0.0
        shortcut = Shortcut(
            self.measured.parties,
            WHOLE,
            candidates,
            search,
            Masked(0.0, 0.0),
            Noise(scale),
            len(self.measured.parties),
            seed,
            self._exact,
        )
        return scale, [float(accuracy[candidates.index(method.run(shortcut))]) for _ in range(runs)]


def interval(values: Sequence[float]) -> dict[str, float]:
    """Mean and 95% interval of the mean, by Student's t."""
    from scipy.stats import t

    mean = float(np.mean(values))
    half = 0.0
    if len(values) > 1:
        half = float(t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / math.sqrt(len(values)))
    return {"accuracy": round(mean, 4), "low": round(mean - half, 4), "high": round(mean + half, 4)}


def ratios(found: Sequence[Mapping[str, Any]], ours: str = OURS, published: str = PUBLISHED) -> list[dict[str, Any]]:
    """At equal accuracy, how many times the budget of ours the published form needs, for each of its epsilons.

    The epsilon at which ours reaches the published accuracy, less half a point, is read off between the measured ones,
    on a log scale; if ours reaches it at the smallest epsilon already, the ratio is a lower bound.

    Args:
        found: rows of an experiment.
        ours: the arm whose budget is asked for.
        published: the arm whose accuracy is to be reached.
    """
    rows_ = []
    for name in dict.fromkeys(row["name"] for row in found):
        lines = {arm: _line(found, name, arm) for arm in (ours, published)}
        for epsilon, accuracy in lines[published]:
            need = _reached(lines[ours], accuracy - EQUAL)
            if need is not None:
                rows_.append(
                    {
                        "name": name,
                        "epsilon published": epsilon,
                        "accuracy": accuracy,
                        "epsilon ours": round(need, 4),
                        "budget ratio": round(epsilon / need, 2),
                        "at least": need == lines[ours][0][0],
                    }
                )
    return rows_


def _line(found: Sequence[Mapping[str, Any]], name: str, arm: str) -> list[tuple[float, float]]:
    return [
        (row["epsilon"], row["accuracy"])
        for row in found
        if row["name"] == name and row["arm"] == arm and row["epsilon"] != "inf"
    ]


def _reached(line: Sequence[tuple[float, float]], accuracy: float) -> float | None:
    """The smallest epsilon at which a line, made monotone, reaches an accuracy."""
    best = np.maximum.accumulate([value for _, value in line])
    if not len(best) or accuracy > best[-1]:
        return None
    at = int(np.argmax(best >= accuracy))
    if at == 0:
        return line[0][0]
    low, high = (math.log(line[place][0]) for place in (at - 1, at))
    share = (accuracy - best[at - 1]) / (best[at] - best[at - 1])
    return math.exp(low + share * (high - low))
