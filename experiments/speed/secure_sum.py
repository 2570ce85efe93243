"""What a masked sum costs: CPU seconds of all clients and the server together, in one process, bytes per client."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hushtune.core import svg
from hushtune.core.files import replace
from hushtune.core.identity import Identity
from hushtune.core.observer import Observer, Silent
from hushtune.core.roster import Roster
from hushtune.seals.masked.seal import Masked
from hushtune.testing.conversation import Conversation


def rows(clients: list[int], degree: int | None, length: int, observer: Observer) -> Iterator[dict[str, Any]]:
    """One row per number of clients: a first sum of a run, pinned and signed, nobody dropping out."""
    _row(4, None, length, Silent())  # imports and tables are not what is measured
    for count in clients:
        yield _row(count, degree, length, observer)


def _row(count: int, degree: int | None, length: int, observer: Observer) -> dict[str, Any]:
    seal = Masked(degree=degree)
    identities = [Identity.new() for _ in range(count)]
    roster = Roster(tuple(f"client-{i}" for i in range(count)), tuple(i.public for i in identities), os.urandom(32))
    vectors = np.random.default_rng(0).integers(0, 2, (count, length))
    start = time.process_time()
    talk = Conversation(seal, roster, identities)
    outcome = talk.open(dict(zip(roster.ids, vectors, strict=True)), count, observer=observer)
    seconds = time.process_time() - start
    shape = seal.shape(count)
    return {
        "name": "secure-sum",
        "clients": count,
        "length": length,
        "degree": shape.degree,
        "threshold": shape.threshold,
        "secure": degree is None,
        "cpu_seconds": round(seconds, 3),
        "cpu_ms_per_client": round(1000 * seconds / count, 2),
        "bytes_per_client": talk.bytes // count,
        "trips": talk.trips,
        "exact": bool((outcome.values == vectors.sum(0)).all() and not outcome.missing),
    }


def draw(found: Sequence[Mapping[str, Any]], path: Path) -> None:
    """CPU seconds against clients, beside a line that grows like n log n from the first point."""
    points = [(row["clients"], row["cpu_seconds"]) for row in found]
    (n, seconds), last = points[0], points[-1][0]
    steps = [n, *(count for count, _ in points[1:])] if last > n else [n, 10 * n]
    guide = [(count, seconds * count * math.log(count) / (n * math.log(n))) for count in steps]
    series = {"measured": points, "n log n": guide}
    seconds_axis = svg.decades("CPU seconds", [y for found_points in series.values() for _, y in found_points])
    title = "A masked sum of 100 integers: CPU seconds of all clients and the server"
    area = svg.Area(90, 40, 530, 285)
    plot = svg.panel(area, title, svg.decades("clients", steps), seconds_axis, series, labels=True)
    replace(path, svg.picture(660, 380, plot))
