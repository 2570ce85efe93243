"""DP-FTS-DE's experiments (Dai, Low, Jaillet 2021, section 5), every private arm beside its noise-only one.

Arms run on the same seeds, that is the same initial points, functions and draws, and are compared in pairs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from experiments.dp_fts_de.simulation import Arm, Task, run
from experiments.dp_fts_de.tasks import REAL, repeated, synthetic, tabulated
from hushtune.core.checks import integer
from hushtune.core.errors import SettingError
from hushtune.core.observer import Observer
from hushtune.core.processes.pool import default_jobs, in_order
from hushtune.methods.thompson.method import Thompson
from hushtune.privacy.accounting import epsilon_of
from hushtune.privacy.events.sums import GaussianVector

TASKS = ("synthetic", *REAL)
INITIAL = 10
_ITERATIONS = {"synthetic": 40}  # elsewhere 60
_AGENTS = 200  # of the synthetic task
_APART = {"synthetic": 0.1, "different": 1.0}
_NO_CLIPPING = 1e9
USUAL = ("dp-fts q=0.25 z=1", "dp-fts-de q=0.25 z=1", "dp-fts q=0.35 z=1", "dp-fts-de q=0.35 z=1")
ONLY = ", noise only"
_LINE, _ELSEWHERE = (0.05, 1e-3), (0.01, 1e-6)  # lengthscale and variance of the shared model, as published
_LENGTHSCALES = {"synthetic": 0.05}  # of ours; elsewhere .3
_MOMENTS = 32
_LEAST, _MOST = 0.3, 100.0  # noise multipliers between which one is looked for


@dataclass(frozen=True)
class Experiment:
    """What is run.

    Args:
        task: one of `TASKS`.
        agents: sizes of the federation; none: the task's own.
        seeds: how many.
        folder: where curves and tables are kept.
        jobs: processes.
        epsilons: for the default form.
        quick: a few arms only.
        ablate: the default form only, and what becomes of it when one thing is changed.
    """

    task: str
    agents: Sequence[int]
    seeds: int
    folder: Path
    jobs: int | None
    epsilons: Sequence[float] = (7.0, 3.0)
    quick: bool = False
    ablate: bool = False

    def __post_init__(self) -> None:
        if self.task not in TASKS:
            raise SettingError(f"task must be one of {list(TASKS)}, but got '{self.task}'")
        integer("seeds", self.seeds, 2)
        for agents in self.agents:
            integer("agents", agents, 4)

    @property
    def iterations(self) -> int:
        """How many iterations a run has (T in the paper)."""
        return _ITERATIONS.get(self.task, 60)


def moments_epsilon(multiplier: float, rate: float, times: int, delta: float) -> float:
    """What the paper states: the moments accountant of Abadi et al. 2016, with whole orders up to 32."""
    event = GaussianVector(multiplier, 1.0, rate)
    return min((times * order * event.rdp(order + 1) - math.log(delta)) / order for order in range(1, _MOMENTS + 1))


def pld_epsilon(multiplier: float, rate: float, times: int, delta: float) -> float:
    """What it really is: by the privacy loss distribution of the Poisson-subsampled Gaussian mechanism."""
    return epsilon_of((GaussianVector(multiplier, 1.0, rate),) * times, delta)


def multiplier_of(epsilon: float, times: int, delta: float, rate: float = 1.0) -> float:
    """The noise multiplier with which so many openings cost epsilon."""
    low, high = _LEAST, _MOST
    while high > low * 1.0001:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if pld_epsilon(middle, rate, times, delta) > epsilon else (low, middle)
    return high


# ---- arms --------------------------------------------------------------------------------------------


def published(task: str) -> list[Arm]:
    """TS, FTS and FTS-DE, and DP-FTS-DE with the paper's clipping, rates and noise."""
    line = task == "synthetic"
    lengthscale, variance = _LINE if line else _ELSEWHERE
    base = Arm("fts", True, 1, _NO_CLIPPING, 1.0, 0.0, 50 if line else 100, lengthscale, variance, 0.5 if line else 1.0)
    private = replace(base, regions=2 if line else 4, norm=11.0 * math.sqrt(2 if line else 4))
    rates, noises = (
        ((0.15, 0.25, 0.5), (1.0, 1.2, 1.5)) if line else ((0.1, 0.15, 0.2, 0.25, 0.35), (1.0, 1.6, 2.0, 3.0, 4.0))
    )
    usual = 0.25 if line else 0.35
    pairs = dict.fromkeys([*((rate, 1.0) for rate in rates), *((usual, noise) for noise in noises)])
    return [
        replace(base, name="ts", shares=False),
        replace(base, name="ts P=4", shares=False, regions=4),
        base,
        *(replace(base, name=f"fts-de P={regions}", regions=regions) for regions in (2, 4)),
        replace(private, name=f"dp-fts q={usual:g} z=1", regions=1, norm=11.0, rate=usual, multiplier=1.0),
        *(
            replace(private, name=f"dp-fts-de q={rate:g} z={noise:g}", rate=rate, multiplier=noise)
            for rate, noise in pairs
        ),
        *(
            replace(private, name=f"dp-fts-de q={usual:g} z=1 S={norm:g}", rate=usual, multiplier=1.0, norm=norm)
            for norm in ((4.0, 8.0, 30.0) if line else ())
        ),
    ]


def noise_only(arm: Arm) -> Arm:
    """The same arm, with nothing but noise in what is opened."""
    return replace(arm, name=f"{arm.name}{ONLY}", signal=False)


# ---- runs --------------------------------------------------------------------------------------------


class Curves:
    """Curves by task, arm and seed, kept in a file as they come, so that an interrupted experiment goes on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, dict[str, Any]] = {}
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                with suppress(ValueError):  # the last line of an interrupted experiment may be cut off
                    entry = json.loads(line)
                    self._known[entry["key"]] = entry

    def get(self, key: str) -> dict[str, Any] | None:
        """What a run found, if it is known."""
        return self._known.get(key)

    def keep(self, key: str, found: dict[str, Any]) -> None:
        """Writes one run down."""
        self._known[key] = {"key": key, **found}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(self._known[key]) + "\n")


def _one(task: Task | Callable[[int], Task], arm: Arm, iterations: int, seed: int) -> dict[str, Any]:
    """One run, in whatever process."""
    with threadpool_limits(1):
        curve, facts = run(task(seed) if callable(task) else task, arm, iterations, INITIAL, seed)
    return {"curve": [round(float(value), 6) for value in curve], **facts}


def _key(label: str, arm: Arm, iterations: int, seed: int) -> str:
    what = json.dumps([label, iterations, seed, {**asdict(arm), "name": ""}], sort_keys=True)
    return sha256(what.encode()).hexdigest()[:24]


def measured(
    label: str,
    task: Task | Callable[[int], Task],
    arms: Sequence[Arm],
    experiment: Experiment,
    curves: Curves,
    observer: Observer,
) -> dict[str, list[dict[str, Any]]]:
    """All runs of all arms, by arm and in the order of seeds."""
    keys = {
        (arm.name, seed): _key(label, arm, experiment.iterations, seed)
        for arm in arms
        for seed in range(experiment.seeds)
    }
    todo = [(arm, seed) for seed in range(experiment.seeds) for arm in arms if curves.get(keys[arm.name, seed]) is None]
    calls = ((task, arm, experiment.iterations, seed) for arm, seed in todo)
    with observer.phase(f"{label}: runs", len(todo)) as advance:
        outcomes = in_order(_one, calls, experiment.jobs or default_jobs())
        for (arm, seed), found in zip(todo, outcomes, strict=True):
            curves.keep(keys[arm.name, seed], found)
            advance(1)
    return {arm.name: [curves.get(keys[arm.name, seed]) or {} for seed in range(experiment.seeds)] for arm in arms}


def rows(experiment: Experiment, observer: Observer) -> Iterator[dict[str, Any]]:
    """One row per arm and size of the federation."""
    curves = Curves(experiment.folder / "curves.jsonl")
    fixed = None
    if experiment.task != "synthetic":
        fixed = tabulated(experiment.task, experiment.folder, experiment.jobs, observer)
    for agents in experiment.agents or [len(fixed.values) if fixed is not None else _AGENTS]:
        for name, task in _tasks(experiment, fixed, agents).items():
            arms = _arms(experiment, name, agents)
            found = measured(f"{name}, {agents} agents", task, arms, experiment, curves, observer)
            for arm in arms:
                yield _row(name, agents, arm, experiment, found)


def _tasks(experiment: Experiment, fixed: Task | None, agents: int) -> dict[str, Task | Callable[[int], Task]]:
    if fixed is not None:
        return {experiment.task: repeated(fixed, agents)}
    which = [*_APART][:1] if experiment.quick or experiment.ablate else [*_APART]
    return {name: partial(synthetic, agents, _APART[name]) for name in which}


def _arms(experiment: Experiment, name: str, agents: int) -> list[Arm]:
    """All arms of an experiment, every private one followed by its noise-only one."""
    base = published(experiment.task)
    if experiment.ablate:
        return [
            base[0],
            *(changed for arm in ours(agents, experiment, False)[1:] for changed in _changed(arm, agents, experiment)),
        ]
    if name == "different":
        base = [arm for arm in base if not arm.multiplier]
        base += [
            replace(arm, name=f"{arm.name} decay={decay:g}", decay=decay)
            for arm in base
            if arm.shares
            for decay in (1.0, 2.0)
        ]
    arms = [*base, *ours(agents, experiment, name == "different")]
    if experiment.quick:
        arms = [arm for arm in arms if not arm.multiplier or arm.name.startswith("ours") or arm.name in USUAL]
    return [each for arm in arms for each in ((arm, noise_only(arm)) if arm.multiplier else (arm,))]


def ours(agents: int, experiment: Experiment, plain: bool) -> list[Arm]:
    """The default form of `Thompson`: without noise, and at some epsilons."""
    method = Thompson(iterations=experiment.iterations)
    rounds = method.worthwhile()
    clean = Arm(
        "ours",
        norm=method.norm,
        features=method.features,
        lengthscale=_LENGTHSCALES.get(experiment.task, 0.3),
        variance=method.variance,
        decay=method.decay,
        sends=method.sends,
        uses=method.uses,
        centre=True,
        tight=True,
        rounds=rounds,
    )
    delta = agents**-1.1
    noisy = [
        replace(clean, name=f"ours epsilon={epsilon:g}", multiplier=multiplier_of(epsilon, rounds, delta))
        for epsilon in experiment.epsilons
    ]
    return [clean, *(() if plain else noisy)]


def _changed(arm: Arm, agents: int, experiment: Experiment) -> list[Arm]:
    """A private arm, its noise alone, and the arm with one thing changed, at the same epsilon."""
    delta, every = agents**-1.1, experiment.iterations
    assert arm.rounds is not None
    epsilon = pld_epsilon(arm.multiplier, 1.0, arm.rounds, delta)
    changes: dict[str, dict[str, Any]] = {
        "samples, clipped to 7": {"sends": "sample", "norm": 7.0},
        "clipped to .8": {"norm": 0.8},
        "values as they are": {"centre": False},
        "mean of all openings": {"uses": "mean"},
        "decay .5": {"decay": 0.5},
        "rate .25": {"rate": 0.25, "multiplier": multiplier_of(epsilon, arm.rounds, delta, 0.25)},
        "P = 4": {"regions": 4, "centre": False},
        "P = 4, the paper's bound": {"regions": 4, "centre": False, "tight": False},
        "every iteration opened": {"rounds": every, "multiplier": multiplier_of(epsilon, every, delta)},
        "3 openings": {"rounds": 3, "multiplier": multiplier_of(epsilon, 3, delta)},
        "20 features": {"features": 20},
        "100 features": {"features": 100},
        "half the lengthscale": {"lengthscale": arm.lengthscale / 2},
        "twice the lengthscale": {"lengthscale": arm.lengthscale * 2},
        "four times the lengthscale": {"lengthscale": arm.lengthscale * 4},
    }
    others = [replace(arm, name=f"{arm.name}: {what}", **change) for what, change in changes.items()]
    return [arm, noise_only(arm), *others]


def _row(name: str, agents: int, arm: Arm, experiment: Experiment, found: Mapping[str, Any]) -> dict[str, Any]:
    """One arm: where it ends, how it goes, and by how much it is ahead of standard TS and of its own noise."""
    own = np.array([entry["curve"] for entry in found[arm.name]])
    delta, times = agents**-1.1, min(experiment.iterations, arm.rounds or experiment.iterations)
    row: dict[str, Any] = {"task": name, "agents": agents, "arm": arm.name, "seeds": len(own)}
    row |= {"end": _mean(own[:, -1]), "end error": _error(own[:, -1])}
    row |= {"course": _mean(own[:, 1:].mean(axis=1)), "course error": _error(own[:, 1:].mean(axis=1))}
    if arm.multiplier:
        row |= {"delta": round(delta, 6), "z": round(arm.multiplier, 3), "q": arm.rate}
        row["epsilon"] = round(pld_epsilon(arm.multiplier, arm.rate, times, delta), 3)
        row["epsilon as published"] = round(moments_epsilon(arm.multiplier, arm.rate, times, delta), 3)
    for fact in ("cosine", "agreement", "clipped"):
        if fact in found[arm.name][0] and (fact == "cosine" or arm.norm != _NO_CLIPPING):
            row[fact] = _mean([entry[fact] for entry in found[arm.name]])
    others = {"ts": "ts", "noise": f"{arm.name}{ONLY}", "default": arm.name.partition(":")[0]}
    for what, other in others.items():
        if other in found and other != arm.name:
            than = np.array([entry["curve"] for entry in found[other]])
            ahead = {"course": (than - own)[:, 1:].mean(axis=1), "end": (than - own)[:, -1]}
            for when, values in ahead.items():
                row |= {f"ahead of {what}, {when}": _mean(values), f"ahead of {what}, {when}, error": _error(values)}
    row["curve"] = [round(float(value), 5) for value in own.mean(axis=0)]
    row["curve error"] = [round(float(value), 5) for value in own.std(axis=0, ddof=1) / math.sqrt(len(own))]
    return row


def _mean(values: Any) -> float:
    return round(float(np.mean(values)), 5)


def _error(values: Any) -> float:
    """Standard error of the mean."""
    return round(float(np.std(values, ddof=1) / math.sqrt(len(values))), 5)
