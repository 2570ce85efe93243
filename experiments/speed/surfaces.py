"""What surfaces and adaptive searches cost."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from hushtune.client.pairs import Pairs
from hushtune.client.search.adaptive import search_on
from hushtune.core.arrays import FloatArray
from hushtune.core.processes.pool import default_jobs
from hushtune.core.space import Config, Float, Int, Space
from hushtune.methods.surface.models import KINDS, loss_surfaces

_SPACE = Space(a=Float(1e-4, 1.0, log=True), b=Float(0.0, 1.0), c=Int(1, 100), d=Float(1e-3, 10.0, log=True))
_POINTS = 4_096
_WORK = 0.2  # seconds of an objective


class _Bowl:
    """Takes its time, without keeping a core busy."""

    def losses(self, configs: Sequence[Config], data: Any, seed: int) -> FloatArray:
        time.sleep(_WORK * len(configs))
        return np.array([(np.log10(config["a"]) + 2) ** 2 + config["b"] for config in configs])


def rows(clients: int, trials: int) -> Iterator[dict[str, Any]]:
    """Seconds of all four surfaces with their minimisers; and the share of a search that is not its objective."""
    rng = np.random.default_rng(0)
    candidates = _SPACE.sample(_POINTS)
    pairs = [_pairs(rng, trials) for _ in range(clients)]
    at = np.concatenate([candidates.encoded, *(own.points for own in pairs)])
    start = time.monotonic()
    found = loss_surfaces(KINDS, pairs, at, jobs=default_jobs())
    best = [int(np.argmin(found[kind])) for kind in KINDS]
    yield {
        "name": "four surfaces",
        "clients": clients,
        "trials": trials,
        "points": len(at),
        "seconds": round(time.monotonic() - start, 2),
        "minimisers": len(best),
    }
    start = time.monotonic()
    search_on(_Bowl(), None, _SPACE, [], trials, "tpe", 0)
    seconds = time.monotonic() - start
    yield {
        "name": "adaptive search",
        "trials": trials,
        "seconds": round(seconds, 2),
        "overhead": round(seconds / (_WORK * trials) - 1, 3),
    }


def _pairs(rng: np.random.Generator, trials: int) -> Pairs:
    points = rng.random((trials, _SPACE.width))
    return Pairs(points, ((points - 0.5) ** 2).sum(axis=1) + 0.05 * rng.random(trials))
