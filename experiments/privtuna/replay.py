"""PrivTuna's measurement study replayed: from its published searches to configs, and what its grid says of these.

Nothing is trained. A derived config counts with the accuracy of the nearest grid point; see `published` for
how batch size is treated, and `theirs` for the authors' way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from experiments.privtuna.published import Place, Study, load
from experiments.privtuna.strategies import GRIDS, PROCESS, SCALES
from hushtune.core.observer import Observer
from hushtune.core.processes.pool import default_jobs, in_order
from hushtune.core.space import Config

__all__ = ["load", "rows"]
FIXED: Mapping[str, Config] = {  # what knows nothing of any client
    "fixed .5, .6": {"lr": 0.5, "momentum": 0.6},
    "fixed .5, .9": {"lr": 0.5, "momentum": 0.9},
}


def rows(
    studies: Sequence[Study], observer: Observer, jobs: int | None = None, seeds: int = 1
) -> Iterator[dict[str, Any]]:
    """For each case a row with its grid, and one for each strategy, surface, fixed config and published one.

    Args:
        studies: the cases.
        observer: a step for each case and seed.
        jobs: processes; None for one per core.
        seeds: of the order in which configs of equal accuracy are taken, and of the surfaces' forests.
    """
    todo = [(study.seeded(seed), seed) for seed in range(seeds) for study in studies]
    work = in_order(_derived, todo, min(jobs or default_jobs(), max(1, len(todo))))
    seedless: dict[Place, list[Config]] = {}
    with observer.phase("cases", len(todo)) as advance:
        for (study, seed), derived in zip(todo, work, strict=True):
            derived[PROCESS, "log"] = seedless.setdefault(study.place, derived.get((PROCESS, "log"), []))
            yield from _compared(study, derived, seed)
            advance(1)


def _derived(study: Study, seed: int) -> dict[tuple[str, str], list[Config]]:
    """Configs by strategy and scale, and those of the surfaces, whose minima do not depend on a scale.

    One config each, and of PF-DBSCAN up to three, the best first. What no seed changes comes with the first one.
    """
    searches = study.searches
    found: dict[tuple[str, str], list[Config]] = {}
    found |= {(name, scale): [config] for scale in SCALES for name, config in searches.derived(scale).items()}
    found |= {(name, scale): configs for scale in SCALES for name, configs in searches.gridded(scale).items()}
    found |= {(name, "log"): [config] for name, config in searches.minima(study.grid).items()}
    found |= {(name, "theirs"): [config] for name, config in study.whole.derived("linear").items()}
    return found | ({(PROCESS, "log"): [searches.process(study.grid)]} if seed == 0 else {})


def _compared(study: Study, derived: Mapping[tuple[str, str], list[Config]], seed: int) -> Iterator[dict[str, Any]]:
    data, skew, beta, clients = study.place
    named = {"data": data, "skew": skew, "split": f"{skew}:{beta:g}", "clients": clients, "seed": seed}
    best = int(np.argmax(study.accuracy))
    yield {
        **named,
        "arm": "grid",
        **study.grid[best],
        "accuracy": round(float(study.accuracy[best]), 4),
        "mean": round(float(study.accuracy.mean()), 4),
        "mean with batch size": round(float(study.scores.mean()), 4),
        "searched": len(study.searches.losses),
    }
    for (name, scale), configs in derived.items():
        gaps = [theirs(study, config) if scale == "theirs" else ours(study, config) for config in configs]
        row = {**named, "arm": name, "scale": scale, **_rounded(configs[0]), "gap": round(gaps[0], 4)}
        yield row | ({"gap hindsight": round(min(gaps), 4), "clusters": len(configs)} if name in GRIDS else {})
    for name, config in FIXED.items():
        yield {**named, "arm": name, "scale": "fixed", **_rounded(config), "gap": round(ours(study, config), 4)}
    for name, candidates in study.derived.items():
        yield {
            **named,
            "arm": name,
            "scale": "published",
            **_rounded(candidates[0].config),
            "gap": round(ours(study, candidates[0].config), 4),
            "gap first": round(candidates[0].gap, 4),
            "gap hindsight": round(min(candidate.gap for candidate in candidates), 4),
            "candidates": [{**_rounded(candidate.config), "gap": candidate.gap} for candidate in candidates],
        }


def _rounded(config: Config) -> Config:
    return {name: round(value, 4) for name, value in config.items()}


def ours(study: Study, config: Config) -> float:
    """What the nearest grid point by learning rate and momentum is below the best; each at its best batch size."""
    return float(study.accuracy.max() - study.accuracy[study.nearest(config)])


def theirs(study: Study, config: Config) -> float:
    """What the nearest point of the whole grid by plain distance is below the best; batch size has to be derived."""
    return float(study.scores.max() - study.scores[study.nearest_plain(config)])
