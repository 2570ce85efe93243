"""What one iteration of DP-FTS-DE costs: all agents and the server, without objectives and without fits."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from experiments.dp_fts_de.simulation import Arm, Simulated, Task
from hushtune.core.checks import integer
from hushtune.core.space import Float, Space

_POINTS, _OBSERVATIONS, _TIMES = 1_000, 50, 5
_PUBLISHED = 17.2 - 0.85  # CPU seconds of an iteration with 29 agents in the authors' code, its objective excluded
_SPACE = Space(x=Float(0.0, 1.0), y=Float(0.0, 1.0))


def rows(agents: Sequence[int]) -> Iterator[dict[str, Any]]:
    """One row per size: wall and CPU seconds of an iteration, the best of several, and per agent."""
    candidates = _SPACE.sample(_POINTS)
    for count in agents:
        values = np.random.default_rng(count).random((integer("agents", count, 4), _POINTS))
        arm = Arm("dp-fts-de", regions=4, rate=0.35, multiplier=1.0, features=100)
        federation = Simulated(Task("speed", _SPACE, candidates.encoded, values), arm, _OBSERVATIONS, seed=0)
        federation.fit()
        found = [_timed(federation, number) for number in range(1, _TIMES + 1)]
        wall, cpu = min(wall for wall, _ in found), min(cpu for _, cpu in found)
        row = {"name": "dp-fts-de iteration", "agents": count, "seconds": round(wall, 4), "cpu_seconds": round(cpu, 4)}
        row["milliseconds per agent"] = round(1_000 * wall / count, 3)
        if count == 29:
            row["ratio"] = round(_PUBLISHED / cpu, 1)
        yield row


def _timed(federation: Simulated, iteration: int) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    federation.open(iteration)
    federation.step(iteration, refit=False)
    return time.perf_counter() - wall, time.process_time() - cpu
