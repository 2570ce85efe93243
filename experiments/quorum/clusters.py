"""PrivTuna's clusters under seal Quorum: the two openings that `experiments/speed/mhe.py` makes under Threshold."""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from experiments.quorum.ballots import Case, end_of, roster_of
from experiments.quorum.room import Room
from experiments.quorum.votes import row_of
from experiments.speed.mhe import Vectors, clusters_of, counts_of, parties_of
from hushtune.client.query import Query
from hushtune.core.roster import Id
from hushtune.seals.forms import Form
from hushtune.seals.quorum.questions import GRID


class Everybody:
    """All clients, and what they have sent so far."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self.seconds, self.bytes = 0.0, 0

    def open(self, room: Room, step: int, vectors: Vectors, query: Query, form: Form) -> tuple[Any, bool]:
        """What is opened of their vectors, and whether it is as exact as the grid of quotients lets it be."""
        whole = [np.concatenate(list(vectors[name].values())) for name in roster_of(self._case).ids]

        def replies(message: bytes) -> dict[Id, bytes]:
            begun = time.process_time()
            sent = [end_of(self._case, at)(query, message, vector) for at, vector in enumerate(whole)]
            self.seconds += time.process_time() - begun
            self.bytes += sum(map(len, sent))
            return dict(zip(roster_of(self._case).ids, sent, strict=True))

        values = room.open(step, query, replies, form).values
        exact = form.of({name: np.sum([own[name] for own in vectors.values()], axis=0) for name in query.blocks})
        return values, bool(np.abs(values - exact).max() <= 1 / GRID)


def clusters(case: Case) -> dict[str, Any]:
    """PF-DBSCAN without epsilon: which cells are dense, and then the means of clusters; two openings of one run.

    Args:
        case: what is measured.
    """
    everybody, seal = Everybody(case), case.seal
    with Room(case) as room, TemporaryDirectory() as folder:
        parties = parties_of(roster_of(case).ids, Path(folder))
        vectors, query, form, _ = counts_of(seal, parties)
        dense, first = everybody.open(room, 0, vectors, query, form)
        sums, asked, quotient, _ = clusters_of(seal, parties, dense > 0)
        _, second = everybody.open(room, 1, sums, asked, quotient)
        found = room.figures()
    found["cpu_seconds"] -= found["coordinator_cpu_seconds"]  # whose process clients were in
    found["coordinator_cpu_seconds"] -= everybody.seconds
    found["cpu_seconds"] += found["coordinator_cpu_seconds"] + everybody.seconds
    found["wall_seconds"] -= everybody.seconds
    return row_of(case, everybody.bytes, everybody.seconds, found, first and second)
