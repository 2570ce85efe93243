"""The published tables of PrivTuna's measurement study: local searches, federated grids, and what was derived.

Batch size is a knob there, in both searches; here it is not derived. A client's accuracy at a learning rate and a
momentum, and the grid's too, is the best over batch sizes, for the best point as for every other.
"""

from __future__ import annotations

import csv
import gzip
import os
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from experiments.privtuna.strategies import Searches
from hushtune.core.arrays import FloatArray
from hushtune.core.errors import SettingError
from hushtune.core.space import Config, Float, Space
from hushtune.data.sources import cache

FILES = {name: f"{name}.csv.gz" for name in ("local_search", "federated_grid", "derived_global_hp")}
KNOBS = ("lr", "momentum", "batch_size")
SPACE = Space(lr=Float(0.01, 0.7, log=True), momentum=Float(0.0, 0.95))
WITH_BATCH = Space(**SPACE.knobs, batch_size=Float(8.0, 64.0))
GRID = Space(lr=Float(0.01, 0.5, log=True), momentum=Float(0.0, 0.9))  # what distances to grid points are scaled by
_SKEWS = {"qty": "quantity"}
Line = Mapping[str, str]
Place = tuple[str, str, float, int]


@dataclass(frozen=True)
class Candidate:
    """A config that the authors derived; the gap is theirs, of the nearest grid point by plain distance."""

    config: Config
    gap: float


@dataclass(frozen=True)
class Study:
    """One case of the study.

    Args:
        place: data set, skew, its degree, and the number of clients.
        searches: over learning rate and momentum, the best over batch sizes.
        whole: over batch size too.
        grid: of learning rate and momentum.
        accuracy: of federated training at these, the best over batch sizes, shape (grid,).
        points: the whole grid, batch size included, shape (points, 3).
        scores: of federated training at these, shape (points,).
        derived: by the authors, by method and version, in the order of their table.
    """

    place: Place
    searches: Searches
    whole: Searches
    grid: tuple[Config, ...]
    accuracy: FloatArray
    points: FloatArray
    scores: FloatArray
    derived: Mapping[str, Sequence[Candidate]]

    def seeded(self, seed: int) -> Study:
        """The same study, whose searches have another seed."""
        return replace(self, searches=replace(self.searches, seed=seed), whole=replace(self.whole, seed=seed))

    def nearest(self, config: Config) -> int:
        """The place of the grid's config at the smallest distance, with axes scaled to [0, 1] and lr by its log."""
        away = GRID.encode(self.grid) - GRID.encode([{name: config[name] for name in GRID.knobs}])
        return int(np.argmin((away**2).sum(axis=1)))

    def nearest_plain(self, config: Config) -> int:
        """The place of the whole grid's point at the smallest distance of plain numbers: batch size decides it."""
        away = self.points - np.array([config[name] for name in KNOBS])
        return int(np.argmin((away**2).sum(axis=1)))


def load() -> list[Study]:
    """All cases that have both searches, from the folder `privtuna_lho` of $HUSHTUNE_DATA or of the user's cache."""
    local = _grouped(_read("local_search"))
    federated = _grouped(_read("federated_grid"))
    derived = _grouped(_read("derived_global_hp"))
    return [
        _study(place, local[place], federated[place], derived.get(place, [])) for place in federated if place in local
    ]


def _read(name: str) -> list[Line]:
    places = [Path(folder) / "privtuna_lho" for folder in (os.environ.get("HUSHTUNE_DATA"), cache()) if folder]
    path = next((place / FILES[name] for place in places if (place / FILES[name]).is_file()), None)
    if path is None:
        raise SettingError(
            f"{FILES[name]} must be in {' or in '.join(map(str, places))}, but is not; put the study's tables into a "
            "folder privtuna_lho and set HUSHTUNE_DATA to the folder above it"
        )
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise SettingError(f"{path} must be whole, but got {type(error).__name__}: {error}") from None


def _grouped(lines: Iterable[Line]) -> dict[Place, list[Line]]:
    found: dict[Place, list[Line]] = {}
    for line in lines:
        skew = _SKEWS.get(line["skew"], line["skew"])
        found.setdefault((line["dataset"], skew, float(line["beta"]), int(line["n_clients"])), []).append(line)
    return found


def _study(place: Place, local: Sequence[Line], federated: Sequence[Line], derived: Sequence[Line]) -> Study:
    points = np.array(
        [[float(line[f"server_{k}"]) for k in KNOBS[:2]] + [float(line["batch_size"])] for line in federated]
    )
    scores = np.array([float(line["accuracy"]) for line in federated])
    best: dict[tuple[float, ...], float] = {}
    for point, score in zip(points, scores, strict=True):
        best[tuple(point[:2])] = max(score, best.get(tuple(point[:2]), 0.0))
    by_method: dict[str, list[Candidate]] = {}
    for line in derived:
        config = {name: float(line[name]) for name in KNOBS}
        name = f"{line['method']}, {line['version'].partition('_')[0]}"
        by_method.setdefault(name, []).append(Candidate(config, float(line["accuracy_gap"])))
    return Study(
        place,
        _searches(SPACE, local, place[1]),
        _searches(WITH_BATCH, local, place[1]),
        tuple(dict(zip(GRID.knobs, key, strict=True)) for key in best),
        np.array(list(best.values())),
        points,
        scores,
        by_method,
    )


def _searches(space: Space, lines: Sequence[Line], skew: str) -> Searches:
    """Losses by client and config; of lines that differ in what the space does not have, the best."""
    keys = [tuple(float(line[name]) for name in space.knobs) for line in lines]
    columns = {key: at for at, key in enumerate(dict.fromkeys(keys))}
    rows = {client: at for at, client in enumerate(dict.fromkeys(line["client"] for line in lines))}
    losses = np.full((len(rows), len(columns)), np.nan)
    for key, line in zip(keys, lines, strict=True):
        at = rows[line["client"]], columns[key]
        losses[at] = np.fmin(losses[at], 1 - float(line["val_accuracy"]))
    return Searches(space, [dict(zip(space.knobs, key, strict=True)) for key in columns], losses, skew)
