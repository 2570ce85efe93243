"""Nodes in processes of their own on this machine, and what an opening through them takes."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from experiments.quorum.ballots import RUN, Case, identity_of, roster_of
from hushtune.client.query import Query
from hushtune.client.request import Request
from hushtune.core.secret import Secret
from hushtune.core.wire import pack
from hushtune.federation.nodes.own import Own
from hushtune.federation.nodes.reach import Nodes
from hushtune.privacy.guarantee import Privacy
from hushtune.privacy.noise.base import Noise
from hushtune.seals.ends import Ask, Outcome, Replies, Trip, converse
from hushtune.seals.forms import Form
from hushtune.seals.oracle import Choose
from hushtune.seals.quorum.node import KIND

_NODE = b"hushtune.federation.nodes.inside"
_MB = 2**20


class Room(AbstractContextManager["Room"]):
    """A coordinator and its nodes, which are up when this is entered.

    Args:
        case: what is measured.
    """

    def __init__(self, case: Case) -> None:
        self._case, self._roster = case, roster_of(case)
        self._folder = TemporaryDirectory(prefix="hushtune-quorum-")
        own = lambda entry: Own(entry.name, identity_of(entry.name), Path(self._folder.name))  # noqa: E731
        self._nodes = Nodes(self._roster, Secret.simulated(0, "coordinator"), own)
        self._server = case.seal.server(RUN, self._roster, "")
        self.seconds = 0.0  # of the clock, in openings
        self._began: list[float] = []

    def __enter__(self) -> Room:
        """Processes start when they are first needed: another run begins here, and ends."""
        for what in ({"is": "key", "at": 0}, {"is": "end"}):
            message = pack({"kind": KIND, "run": "f" * 32} | what)
            self._nodes.exchange({node.name: message for node in self._roster.nodes})
        self._began = [*(seconds for seconds, _ in _used()), time.process_time()]
        return self

    def __exit__(self, *raised: object) -> None:
        """Ends the processes, and removes what they kept."""
        self._nodes.close()
        self._folder.cleanup()

    def open(
        self,
        step: int,
        query: Query,
        clients: Callable[[bytes], Replies],
        form: Form | None = None,
        noise: Noise | None = None,
        privacy: Privacy | None = None,
        choose: Choose | None = None,
    ) -> Outcome:
        """One opening.

        Args:
            step: of the run.
            query: what clients are asked.
            clients: their replies to the coordinator's message.
            form: which form of the sum is opened.
            noise: that nodes add.
            privacy: the guarantee, in the request.
            choose: asks about the sums, if they are not opened.
        """
        count, seal, bound = self._case.clients, self._case.seal, query.bound
        noise = noise or seal.noise(0.0)
        request = Request(RUN, step, self._roster.digest(), query, form, seal, noise, privacy, 1, ())
        opens = bound.length if form is None else form.length(query.blocks)
        ask = Ask(
            request.to_bytes(),
            bound.length,
            bound.largest * count,
            seal.needed(count),
            False,
            form,
            opens,
            scores=bound if choose else None,
            units=count,
            choose=choose,
            step=step,
        )

        def exchange(trip: Trip) -> Replies:
            if trip.to == "nodes":
                return self._nodes.exchange(trip.messages)
            return clients(next(iter(trip.messages.values())))

        begun = time.monotonic()
        outcome = converse(self._server.open(ask), exchange, lambda: None)
        self.seconds += time.monotonic() - begun
        return outcome

    def figures(self) -> dict[str, Any]:
        """What was used since it was entered: of nodes the most that one of them did."""
        used, *began = _used(), *self._began
        *nodes, own = (
            now - then for now, then in zip([*(s for s, _ in used), time.process_time()], began, strict=True)
        )
        return {
            "node_cpu_seconds": max(nodes),
            "node_mb": max(peak for _, peak in used),
            "coordinator_cpu_seconds": own,
            "coordinator_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / _MB,
            "cpu_seconds": sum(nodes) + own,
            "wall_seconds": self.seconds,
        }


def _used() -> list[tuple[float, float]]:
    """CPU seconds so far, and the most memory at any time in MB, of each node's process that this one has started."""
    found, tick = [], os.sysconf("SC_CLK_TCK")
    for place in (Path("/proc", child) for child in _children()):
        with suppress(OSError):  # a worker that has ended since
            if _NODE in (place / "cmdline").read_bytes():
                fields = (place / "stat").read_text().rpartition(")")[2].split()
                status = dict(line.split(":", 1) for line in (place / "status").read_text().splitlines())
                found.append(((int(fields[11]) + int(fields[12])) / tick, int(status["VmHWM"].split()[0]) * 1024 / _MB))
    return found


def _children() -> list[str]:
    """The processes that this one's threads have started; a thread may end while it is looked at."""
    found: list[str] = []
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):
            found += (task / "children").read_text().split()
    return found
