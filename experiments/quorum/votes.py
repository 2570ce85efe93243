"""A measured vote: clients are made in workers, and nothing is opened but the winner's place."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from experiments.quorum.ballots import Case, roster_of, submissions
from experiments.quorum.room import Room
from hushtune.core.arrays import IntArray
from hushtune.core.processes.pool import unordered
from hushtune.core.roster import Id
from hushtune.privacy.accounting import Sums
from hushtune.privacy.calibration import calibrate
from hushtune.privacy.guarantee import Privacy
from hushtune.seals.ends import Outcome

EPSILON = 0.25
_AT_ONCE = 2000  # clients whose submissions a worker makes in one go
_NOISE = 1000  # times 1 / epsilon: the winner's sum is not further from the largest, but once in e^100 runs


class Crowd(Mapping[Id, bytes]):
    """All clients' replies to one message, made while they are read: those that were read are not kept.

    Args:
        case: what is measured.
        message: the coordinator's.
        jobs: workers.
    """

    def __init__(self, case: Case, message: bytes, jobs: int) -> None:
        starts = range(0, case.clients, _AT_ONCE)
        tasks = deque((at, (case, message, at, min(at + _AT_ONCE, case.clients))) for at in starts)
        self._made = unordered(submissions, tasks, jobs)
        self._ids, self._ready = roster_of(case).ids, dict[Id, bytes]()
        self._last: tuple[Id, bytes] = ("", b"")
        self.sums: IntArray = np.zeros(case.query.bound.length, dtype=np.int64)
        self.cpu_seconds = self.waited = 0.0
        self.bytes = 0

    def __getitem__(self, client: Id) -> bytes:
        """What a client sent; only the last one can be read twice."""
        if client != self._last[0]:
            while client not in self._ready:
                self._more()
            self._last = client, self._ready.pop(client)
        return self._last[1]

    def _more(self) -> None:
        begun = time.monotonic()
        start, made = next(self._made)
        assert isinstance(made, tuple)  # and no worker has died
        self.waited += time.monotonic() - begun
        sent, sums, seconds = made
        self._ready |= zip(self._ids[start : start + len(sent)], sent, strict=True)
        self.sums += sums
        self.cpu_seconds += seconds
        self.bytes += sum(map(len, sent))

    def __iter__(self) -> Iterator[Id]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)


def vote(case: Case, jobs: int) -> dict[str, Any]:
    """What one vote takes, once the nodes' processes are up. Making ballots is not in the time of the clock: clients do
    that at once, each on a machine of its own.

    Args:
        case: what is measured.
        jobs: workers that make ballots.
    """
    query, privacy, crowds = case.query, Privacy(EPSILON, delta=0), []

    def clients(message: bytes) -> Crowd:
        crowds.append(Crowd(case, message, jobs))
        return crowds[0]

    with Room(case) as room:
        noise = calibrate((query.bound,), privacy, Sums(), case.seal.noise(0.0))
        outcome = room.open(0, query, clients, None, noise, privacy, lambda oracle: oracle.noisy_max())
        found = room.figures()
    (crowd,) = crowds
    found["wall_seconds"] -= crowd.waited
    found["cpu_seconds"] += crowd.cpu_seconds
    return row_of(case, crowd.bytes, crowd.cpu_seconds, found, _right(outcome, crowd.sums))


def _right(outcome: Outcome, sums: IntArray) -> bool:
    """Whether nobody was left out, and the winner is one that noise allows."""
    (winner,) = outcome.values
    return not outcome.missing and bool(sums.max() - sums[int(winner)] <= _NOISE / EPSILON)


def row_of(case: Case, size: int, seconds: float, found: Mapping[str, Any], right: bool) -> dict[str, Any]:
    """A row.

    Args:
        case: what was measured.
        size: bytes that all clients sent.
        seconds: of the processor, that they took.
        found: what nodes and coordinator used.
        right: whether what was opened is what it must be.
    """
    return {
        "clients": case.clients,
        "nodes": case.nodes,
        "ballot": case.ballot,
        "signed": case.signed,
        "bytes_per_client": size // case.clients,
        "client_ms": round(1000 * seconds / case.clients, 3),
        **{name: round(value) if name.endswith("_mb") else round(value, 2) for name, value in found.items()},
        "right": right,
    }
