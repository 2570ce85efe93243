"""What a masked sum costs: CPU seconds of all clients and the server together, in one process, bytes per client."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hushtune import svg
from hushtune.files import replace
from hushtune.identity import Identity
from hushtune.progress import Progress
from hushtune.randomness import SystemRandomness
from hushtune.roster import Roster
from hushtune.seals.masked import Masked
from hushtune.seals.masked_client import MaskedClient

_RUN = "0" * 32


def rows(clients: list[int], neighbours: int | None, length: int, progress: Progress) -> Iterator[dict[str, Any]]:
    """One row per number of clients: a first sum of a run, pinned and signed, nobody dropping out."""
    _row(4, None, length, Progress(quiet=True))  # imports and tables are not what is measured
    for count in clients:
        yield _row(count, neighbours, length, progress)


def _row(count: int, neighbours: int | None, length: int, progress: Progress) -> dict[str, Any]:
    seal = Masked(neighbours=neighbours)
    identities = [Identity.new() for _ in range(count)]
    roster = Roster(tuple(f"client-{i}" for i in range(count)), tuple(i.public for i in identities), os.urandom(32))
    vectors = np.random.default_rng(0).integers(0, 2, (count, length))
    wire = {"bytes": 0}
    start = time.process_time()
    session, setting = seal.session(_RUN, roster, "bench"), seal.setting(_RUN, roster, "bench")
    ends = {
        name: MaskedClient(setting, number, SystemRandomness(), identities[number])
        for number, name in enumerate(roster.ids)
    }
    numbers = {name: number for number, name in enumerate(roster.ids)}

    def exchange(name: str, out: Mapping[str, bytes]) -> Mapping[str, bytes]:
        replies = {}
        with progress.phase(f"{count} clients: {name}", len(out)) as advance:
            for client, message in out.items():
                vector = vectors[numbers[client]]
                replies[client] = ends[client].step(message, lambda _, v=vector: (v, 32))  # type: ignore[misc]
                wire["bytes"] += len(message) + len(replies[client])
                advance(1)
        return replies

    total, missing, _ = session.sum(b"request", length, 32, exchange, last=True, reserve=lambda: None)
    seconds = time.process_time() - start
    return {
        "name": "secure-sum",
        "clients": count,
        "length": length,
        "neighbours": setting.shape.degree,
        "threshold": setting.shape.threshold,
        "secure": neighbours is None,
        "cpu_seconds": round(seconds, 3),
        "cpu_ms_per_client": round(1000 * seconds / count, 2),
        "bytes_per_client": wire["bytes"] // count,
        "trips": session.trips,
        "exact": bool((total == vectors.sum(0)).all() and not missing),
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
    box = svg.Box(90, 40, 530, 285)
    plot = svg.panel(box, title, svg.decades("clients", steps), seconds_axis, series, labels=True)
    replace(path, svg.picture(660, 380, plot))
