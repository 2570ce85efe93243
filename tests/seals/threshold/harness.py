"""Parties of the threshold seal and its server, joined by a wire that tests can cut or tamper with."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import hushtune as ht
from hushtune.core.errors import HushtuneError
from hushtune.core.randomness import SystemRandomness
from hushtune.core.roster import Roster
from hushtune.federation.base import Dropped
from hushtune.seals.ends import Ask, Due, Seat, Trip, converse
from hushtune.seals.forms import Form
from hushtune.seals.threshold import sidecar
from hushtune.seals.threshold.circuits import Circuit, inputs, offset_of, segments
from hushtune.seals.threshold.client import Task, ThresholdClient
from hushtune.seals.threshold.environment import interpreter
from hushtune.seals.threshold.server import ThresholdServer

RUN = "a" * 32


def joint(task: str, **given: Any) -> dict[str, Any]:
    """What `joint.py` prints."""
    command = [str(interpreter()), str(Path(__file__).with_name("joint.py")), str(Path(sidecar.__file__).parents[1])]
    done = subprocess.run(
        command,
        input=json.dumps({"task": task, **given}),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


def measured(circuit: Circuit, form: Form | None, blocks: list[dict[str, Any]], largest: int, deviation: float) -> Any:
    """A circuit's outcome for the clients' blocks, by the joint secret and by everybody's shares."""
    made = [inputs(circuit, form, block, len(blocks), largest) for block in blocks]
    return joint(
        "errors",
        parameters=vars(circuit.parameters),
        clients=len(blocks),
        kind=circuit.kind,
        series=circuit.series,
        segments=segments(circuit) if circuit.kind == "comparison" else [],
        offset=offset_of(form, largest) if form is not None and circuit.newton else None,
        levels=made[0][1],
        inputs=[[values.tolist() for values in one] for one, _ in made],
        finer=circuit.finer,
        deviation=deviation,
        length=len(blocks[0][form.block] if form is not None else blocks[0]["sum"]),
    )


@dataclass
class Room:
    """`clients` parties, each with a sidecar of its own, and their server."""

    clients: int
    seal: ht.Threshold = field(default_factory=lambda: ht.Threshold(ring=2**14, smudging=0.0))
    fail: Callable[[str, int], bool] = lambda trip, number: False
    tamper: Callable[[str, int, bytes, bool], bytes] = lambda trip, number, content, is_reply: content
    circuits: Any = None

    def __post_init__(self) -> None:
        self.ids = tuple(f"client-{at}" for at in range(self.clients))
        roster = Roster(self.ids)
        self.circuit = self.circuits or self.seal.circuit
        seats = [Seat(RUN, roster, at, "terms", SystemRandomness()) for at in range(self.clients)]
        self.ends = [ThresholdClient(seat, self.task) for seat in seats]
        self.server = ThresholdServer(RUN, roster, lambda *given: (self.circuit(*given), 0.0))
        self.sent: list[tuple[str, int, bytes, bytes]] = []
        self.reserved = 0

    def task(self, due: Due) -> Task:
        """What each client derives from a request."""
        circuit = self.circuit(due.form, self.clients, due.largest, due.opens)
        return Task(circuit, due.form, due.largest, self.seal.deviation(due.form, self.clients))

    def due(self, form: Form | None, block: dict[str, Any], largest: int) -> Due:
        whole = np.concatenate([np.asarray(values) for values in block.values()])
        return Due(form, {name: len(values) for name, values in block.items()}, largest, lambda: whole)

    def open(self, form: Form | None, blocks: list[dict[str, Any]], largest: int, last: bool = False) -> Any:
        """What the server opens of the clients' blocks."""
        length = sum(map(len, blocks[0].values())) if form is None else len(blocks[0][form.block])
        dues = [self.due(form, block, largest) for block in blocks]

        def exchange(trip: Trip) -> dict[str, Any]:
            replies: dict[str, Any] = {}
            name = trip.name
            for client, message in trip.messages.items():
                number = self.ids.index(client)
                if self.fail(name, number):
                    replies[client] = Dropped("its machine is gone")
                    continue
                sent = self.tamper(name, number, message, False)
                try:
                    carries = name in ("keys", "input")
                    reply = self.ends[number].step(sent, dues[number] if carries else None)
                except HushtuneError as error:
                    replies[client] = Dropped(f"refused: {error}")
                    continue
                self.sent.append((name, number, sent, reply))
                replies[client] = self.tamper(name, number, reply, True)
            return replies

        def reserve() -> None:
            self.reserved += 1

        ask = Ask(b"request", len(dues[0].blocks), largest, self.clients, last, form, length)
        return converse(self.server.open(ask), exchange, reserve).values

    def close(self) -> None:
        for end in self.ends:
            end.close()
        self.server.close()
