"""FLoRA's evaluation (Zhou et al. 2023, section 3 and Appendix D), and beside it the private average of local models.

Every arm is hushtune's method `Surface`, run as a marked simulation on the same searches. The relative regret
of a config with score a is (a* - a) / (a* - b): a* is the best of a centralised search with the same number of trials,
b the default config; 0 is as good as the one, 1 as good as the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from experiments.epsilons import privacy_of
from experiments.flora.tasks import MODELS, SKEWED, Cell, Searched, searched
from hushtune.client.rows import WHOLE
from hushtune.client.search.adaptive import Adaptive
from hushtune.core.observer import Observer
from hushtune.core.space import Candidates, Config, config_key
from hushtune.methods.base import Facts
from hushtune.methods.surface.method import Surface
from hushtune.methods.surface.models import KINDS
from hushtune.privacy.accounting import Sums
from hushtune.privacy.calibration import calibrate
from hushtune.privacy.noise.base import Noise
from hushtune.run.simulation import Shortcut
from hushtune.seals.base import Seal
from hushtune.seals.clear import Clear
from hushtune.seals.masked.seal import Masked

FEW = 3  # parties, for which trials and pairs sent are varied
GAP = 0.03  # the paper chose its data sets so that a search gains this much or more
NOT_COUNTED = ("pollen",)  # cannot be learned: whatever one does scores .49 to .51
_POINTS, _SUMMED = 4_096, 512


@dataclass(frozen=True)
class Experiment:
    """What to compare.

    Args:
        cells: federations and models; each with the largest number of trials.
        trials: further numbers of trials.
        sends: numbers of pairs that parties send.
        epsilons: of the private surface; `inf` for the exact sum.
        spreads: to which the private surface's contributions are clipped.
        draws: of the noise.
        folder: where searches are kept.
        jobs: processes; None for one per core.
    """

    cells: Sequence[Cell]
    trials: Sequence[int]
    sends: Sequence[int]
    epsilons: Sequence[float]
    spreads: Sequence[float]
    draws: int
    folder: Path
    jobs: int | None = None

    def __post_init__(self) -> None:
        for epsilon in self.epsilons:
            privacy_of(epsilon)  # refuses what no guarantee can have


@dataclass(frozen=True)
class Arm:
    """One way to choose: the method, how the parties searched, and how it was protected."""

    method: Surface
    trials: int
    epsilon: float | None = None  # None: all pairs are opened

    @property
    def name(self) -> str:
        """What the arm is called in tables."""
        if self.epsilon is None:
            return self.method.kind
        spread = f", spread {self.method.spread:g}" if self.method.spread != Surface().spread else ""
        return "private aplm" + spread + (", argmax" if self.method.decode == "argmax" else "")


def arms(cell: Cell, experiment: Experiment) -> list[Arm]:
    """The four surfaces and the private one; for few parties also with fewer trials, or fewer pairs sent."""
    found = [Arm(Surface(kind), cell.trials) for kind in KINDS]
    if cell.parties <= FEW or cell.data in SKEWED:
        fewer = [trials for trials in experiment.trials if trials < cell.trials]
        found += [Arm(Surface(kind), trials) for trials in fewer for kind in KINDS]
        sends = [send for send in experiment.sends if send < cell.trials]
        found += [Arm(Surface(kind, send=send), cell.trials) for send in sends for kind in KINDS]
    for epsilon in experiment.epsilons:
        if math.isinf(epsilon):
            found.append(Arm(Surface("aplm"), cell.trials, epsilon))
            continue
        for spread in experiment.spreads:
            smooth = Surface("aplm", spread=spread)
            found += [Arm(method, cell.trials, epsilon) for method in (smooth, replace(smooth, decode="argmax"))]
    return found


def rows(experiment: Experiment, observer: Observer) -> Iterator[dict[str, Any]]:
    """For each cell a row with its scores, and one for each arm."""
    for cell in experiment.cells:
        found = searched(cell, experiment.folder, experiment.jobs, observer)
        yield from _compared(found, experiment, observer)


def _compared(found: Searched, experiment: Experiment, observer: Observer) -> Iterator[dict[str, Any]]:
    cell = found.cell
    chosen: dict[Arm, list[Config]] = {}
    todo = arms(cell, experiment)
    with observer.phase(f"{cell.name}: surfaces", len(todo)) as advance:
        for arm in todo:
            chosen[arm] = _chosen(found, arm, experiment.draws)
            advance(1)
    default = MODELS[cell.model].default
    found.score([default, *(config for configs in chosen.values() for config in configs)], observer)
    scores = [1 - loss for _, loss in found.central]
    base, best = found.scores[config_key(default)], float(np.nanmax(scores))
    named = {"data": cell.data, "model": cell.model, "parties": cell.parties, "seed": cell.seed}
    query = {name: round(value, 4) for name, value in _figures(found).items()}
    yield {**named, "arm": "cell", "default": round(base, 4), "best": round(best, 4), **query}
    for arm, configs in chosen.items():
        each = [found.scores[config_key(config)] for config in configs]
        score = float(np.mean(each))
        reached = [number for number, other in enumerate(scores, 1) if other >= score]
        yield {
            **named,
            "arm": arm.name,
            "trials": arm.trials,
            "send": arm.method.send or arm.trials,
            "epsilon": None if arm.epsilon is None else arm.epsilon if math.isfinite(arm.epsilon) else "inf",
            "score": round(score, 4),
            "regret": round((best - score) / (best - base), 3) if best > base else None,
            "trainings": reached[0] if reached else None,
        }


def _chosen(found: Searched, arm: Arm, draws: int) -> list[Config]:
    """What an arm chooses, in each draw of the noise if there is any."""
    cell, search = found.cell, Adaptive(found.cell.seed, arm.trials)
    privacy = None if arm.epsilon is None else privacy_of(arm.epsilon)
    seal: Seal = Clear(0.0, 0.0) if arm.epsilon is None else Masked(0.0, 0.0)
    candidates = _points(cell.model, _POINTS if arm.epsilon is None else _SUMMED)
    method = arm.method.settled(Facts(candidates, cell.parties, privacy, seal, search))
    scale = calibrate(method.bounds(candidates), privacy, Sums()).scale if privacy is not None else 0.0
    noise = seal, Noise(scale), cell.parties
    shortcut = Shortcut(found.parties, WHOLE, candidates, search, *noise, cell.seed, found.sums)
    return [method.run(shortcut) for _ in range(draws if privacy is not None else 1)]


@cache
def _points(model: str, count: int) -> Candidates:
    return MODELS[model].space.sample(count)


def _figures(found: Searched) -> Mapping[str, float]:
    """PMin, PMax and gamma_p."""
    cell = found.cell
    return Surface().known(found.parties, _points(cell.model, _SUMMED), cell.search)


# ---- over many cells ---------------------------------------------------------------------------------


Row = Mapping[str, Any]


def full(found: Sequence[Row]) -> list[Row]:
    """The rows of arms with all trials, and all pairs sent."""
    own = [row for row in found if row["arm"] != "cell"]
    most = max((row["trials"] for row in own), default=0)
    return [row for row in own if row["trials"] == row["send"] == most]


def regrets(found: Sequence[Row], data: str, model: str, parties: int, arm: str, epsilon: Any) -> float | None:
    """A cell's regret: the mean over its seeds, as far as there was anything to gain."""
    place = (data, model, parties, arm, epsilon)
    names = ("data", "model", "parties", "arm", "epsilon")
    own = [row["regret"] for row in found if tuple(row.get(name) for name in names) == place]
    known = [regret for regret in own if regret is not None]
    return float(np.mean(known)) if known else None


def gap_of(found: Sequence[Row], data: str, model: str, parties: int) -> float:
    """By how much a centralised search is better than the default config: the mean over a cell's seeds."""
    place = ("cell", data, model, parties)
    names = ("arm", "data", "model", "parties")
    gaps = [row["best"] - row["default"] for row in found if tuple(row[name] for name in names) == place]
    return float(np.mean(gaps)) if gaps else 0.0


def aggregate(found: Sequence[Row], parties: int = FEW, gap: float = 0.0) -> list[dict[str, Any]]:
    """FLoRA's Tables 3 and 10: per model and overall, over the cells that count and have at least such a gap."""
    counted = [row for row in full(found) if row["data"] not in (*NOT_COUNTED, *SKEWED) and row["parties"] == parties]
    places = list(dict.fromkeys((row["data"], row["model"]) for row in counted))
    places = [place for place in places if gap <= gap_of(found, *place, parties)]
    rows = []
    for model in [*dict.fromkeys(model for _, model in places), "overall"]:
        for arm, epsilon in dict.fromkeys((row["arm"], row["epsilon"]) for row in counted):
            each = [
                regrets(counted, data, own, parties, arm, epsilon) for data, own in places if model in ("overall", own)
            ]
            known = [regret for regret in each if regret is not None]
            if known:
                rows.append({"model": model, "arm": arm, "epsilon": epsilon, "parties": parties, **_summary(known)})
    return rows


def _summary(regrets: Sequence[float]) -> dict[str, Any]:
    """Mean, quartiles, wins over the default config, and a one-sided Wilcoxon signed-rank test of them."""
    from scipy.stats import wilcoxon

    gains = 1 - np.array(regrets)
    low, middle, high = np.percentile(regrets, (25, 50, 75))
    test = wilcoxon(gains, alternative="greater") if np.any(gains) else None
    return {
        "cells": len(regrets),
        "mean": round(float(np.mean(regrets)), 2),
        "deviation": round(float(np.std(regrets)), 2),
        "quartiles": [round(float(value), 2) for value in (low, middle, high)],
        "wins": int((gains > 0).sum()),
        "ties": int((gains == 0).sum()),
        "losses": int((gains < 0).sum()),
        "statistic": float(test.statistic) if test is not None else 0.0,
        "p": round(float(test.pvalue), 5) if test is not None else 1.0,
    }
