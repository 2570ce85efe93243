"""DP-FTS-DE's experiments (Dai, Low, Jaillet 2021, section 5), every private arm beside its noise-only one.

Arms run on the same seeds, that is the same initial points, functions and draws, and are compared in pairs.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hushtune.bench.fts_simulation import Arm, Task, run
from hushtune.bench.fts_tasks import REAL, repeated, synthetic, tabulated
from hushtune.checks import integer
from hushtune.errors import SettingError
from hushtune.privacy.accounting import epsilon_of
from hushtune.privacy.events import GaussianVector
from hushtune.progress import Progress
from hushtune.search import default_jobs
from hushtune.space import FloatArray

TASKS = ("synthetic", *REAL)
INITIAL = 10
_ITERATIONS = {"synthetic": 40}  # elsewhere 60
_AGENTS = 200  # of the synthetic task
_APART = {"synthetic": 0.02, "different": 1.0}
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
    """

    task: str
    agents: Sequence[int]
    seeds: int
    folder: Path
    jobs: int | None
    epsilons: Sequence[float] = (7.0, 3.0)
    quick: bool = False

    def __post_init__(self) -> None:
        if self.task not in TASKS:
            raise SettingError(f"task must be one of {list(TASKS)}, but got '{self.task}'")
        integer("seeds", self.seeds, 2)
        for agents in self.agents:
            integer("agents", agents, 4)

    @property
    def iterations(self) -> int:
        """T."""
        return _ITERATIONS.get(self.task, 60)


def moments_epsilon(multiplier: float, rate: float, times: int, delta: float) -> float:
    """What the paper states: the moments accountant of Abadi et al. 2016, with whole orders up to 32."""
    event = GaussianVector(multiplier, 1.0, rate)
    return min((times * order * event.rdp(order + 1) - math.log(delta)) / order for order in range(1, _MOMENTS + 1))


def pld_epsilon(multiplier: float, rate: float, times: int, delta: float) -> float:
    """What it really is: by the privacy loss distribution of the Poisson-subsampled Gaussian mechanism."""
    return epsilon_of((GaussianVector(multiplier, 1.0, rate),) * times, delta)


def multiplier_of(epsilon: float, times: int, delta: float) -> float:
    """The noise multiplier with which so many openings, without sampling, cost epsilon."""
    low, high = _LEAST, _MOST
    for _ in range(40):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if pld_epsilon(middle, 1.0, times, delta) > epsilon else (low, middle)
    return high


# ---- arms --------------------------------------------------------------------------------------------


def published(task: str) -> dict[str, Arm]:
    """TS, FTS and FTS-DE, and DP-FTS-DE with the paper's clipping, rates and noise."""
    line = task == "synthetic"
    base = Arm("fts", features=50 if line else 100, norm=1e6, decay=0.5 if line else 1.0, **SHARED[task])
    private = replace(base, regions=2 if line else 4, norm=11.0 * math.sqrt(2 if line else 4))
    rates = (0.15, 0.25, 0.5) if line else (0.1, 0.15, 0.2, 0.25, 0.35)
    noises = (1.0, 1.2, 1.5) if line else (1.0, 1.6, 2.0, 3.0, 4.0)
    usual = 0.25 if line else 0.35
    arms = [replace(base, name="ts", shares=False), base]
    arms += [replace(base, name=f"fts-de P={regions}", regions=regions) for regions in (2, 4)]
    pairs = dict.fromkeys([*((rate, 1.0) for rate in rates), *((usual, noise) for noise in noises)])
    arms += [
        replace(private, name=f"dp-fts-de q={rate:g} z={noise:g}", rate=rate, multiplier=noise) for rate, noise in pairs
    ]
    clipping = (4.0, 22.0, 44.0) if line else ()
    arms += [
        replace(private, name=f"dp-fts-de q={usual:g} z=1 S={norm:g}", rate=usual, multiplier=1.0, norm=norm)
        for norm in clipping
    ]
    arms.append(replace(private, name=f"dp-fts q={usual:g} z=1", regions=1, norm=11.0, rate=usual, multiplier=1.0))
    return {arm.name: arm for arm in arms}


def ours(task: str, agents: int, epsilons: Sequence[float], iterations: int) -> dict[str, Arm]:
    """The default form of `Thompson`, at some epsilons and without noise."""
    raise NotImplementedError


def noise_only(arm: Arm) -> Arm:
    """The same arm, with nothing but noise in what is opened."""
    return replace(arm, name=f"{arm.name}, noise only", signal=False)
