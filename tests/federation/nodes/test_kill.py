"""kill -9 of nodes and of the coordinator at every stage of a run: the outcome is the same to the byte, noise is drawn
once, and ledgers are charged once."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import hushtune as ht
from hushtune.core.errors import AbortedError
from hushtune.core.observer import Observer
from hushtune.core.roster import Id
from hushtune.core.wire import unpack
from hushtune.federation.base import Dropped
from hushtune.federation.local import LocalFederation
from hushtune.seals.ends import Trip
from hushtune.testing.toys import SPACE, toy_clients

CANDIDATES = SPACE.grid(x=4)
NAMES = ("node-1", "node-2", "node-3")
SUM, WINNER = "sum", "winner"  # of a noisy sum, noise that was drawn anew would be seen


class Cut(Exception):
    """The coordinator has stopped."""


class Wire(LocalFederation):
    """Clients of this process and nodes in processes of their own, with something that happens before each trip.

    Args:
        home: of clients and nodes.
        before: gets the number of the trip, counted from 0, and the trip.
    """

    def __init__(self, home: Path, before: Callable[[Wire, int, Trip], None] = lambda wire, at, trip: None) -> None:
        super().__init__(toy_clients(4, CANDIDATES, None), home, jobs=1)
        self.before, self.stages, self.asked = before, list[str](), 0
        self.away: dict[int, Id] = {}

    def exchange(self, trip: Trip, observer: Observer) -> Mapping[Id, bytes | Dropped]:
        at = len(self.stages)
        self.before(self, at, trip)
        self.stages.append(str(unpack(trip.messages["node-1"])[0]["is"]) if trip.to == "nodes" else "clients")
        self.asked += trip.to == "clients"
        if at not in self.away:
            return super().exchange(trip, observer)
        gone = self.away[at]
        others = {name: message for name, message in trip.messages.items() if name != gone}
        return {**super().exchange(Trip(trip.name, others, trip.inputs, trip.to), observer), gone: Dropped("gone")}

    def pid(self, name: Id) -> int:
        """Of a node's process."""
        child = self.nodes()._ways[name]._process._child  # type: ignore[attr-defined]
        return int(child.pid) if child is not None else 0

    def kill(self, name: Id) -> None:
        if pid := self.pid(name):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def tune(wire: Wire, folder: Path, opens: str) -> ht.Result:
    method = ht.Vote(k=1, opens="winner" if opens == WINNER else "sum")
    privacy = ht.Privacy(0.5, 0.0 if opens == WINNER else 1e-5)
    return ht.tune(
        wire, CANDIDATES, method=method, seal=ht.Quorum(), privacy=privacy, folder=folder, observer=ht.Silent()
    )


class Begun:
    """A run whose nodes and clients have drawn all that they draw, to be gone on with as often as one likes.

    Args:
        place: of the original.
        opens: what is opened.
    """

    def __init__(self, place: Path, opens: str) -> None:
        self.place, self.opens = place, opens

        def cut(wire: Wire, at: int, trip: Trip) -> None:
            if wire.asked and trip.to == "nodes":
                raise Cut

        with pytest.raises(Cut):
            tune(Wire(place / "home", cut), place / "run", opens)
        self.stages: list[str] = []
        self.expected = self.finished(place.with_name(f"{place.name} undisturbed"), self.noted)

    def noted(self, wire: Wire, at: int, trip: Trip) -> None:
        """Remembers the stages of an undisturbed run."""
        self.stages = wire.stages

    def copied(self, place: Path) -> Path:
        shutil.copytree(self.place, place)
        return place

    def finished(self, place: Path, before: Callable[[Wire, int, Trip], None]) -> list[Any]:
        """What comes of a copy."""
        self.copied(place)
        return self.commanded(place, Wire(place / "home", before))

    def commanded(self, place: Path, wire: Wire) -> list[Any]:
        """What the same command opens, and leaves behind: no client is asked again, or pays again."""
        result = tune(wire, place / "run", self.opens)
        assert wire.asked == 0
        for path in (place / "home" / "clients").iterdir():
            assert len(ht.Ledger(path / "ledger.db").entries()) == 1
        assert len(wire.coordinator_ledger().entries()) == 1
        assert not list((place / "home" / "nodes").rglob("journal"))
        assert result.dropped == {}
        return [opened.blocks for opened in result.opened]


@pytest.fixture(scope="module", params=[SUM])
def begun(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Begun:
    return Begun(tmp_path_factory.mktemp(request.param) / "begun", request.param)


def chosen(stages: list[str]) -> dict[int, Id]:
    """One trip of each kind, the first and the last of the rounds, with a node for each."""
    rounds = [at for at, stage in enumerate(stages) if stage == "round"]
    asked = stages.index("question")
    picked = {stages.index(stage) for stage in ("key", "submissions", "list", "question", "end")}
    picked |= {rounds[2], max(at for at in rounds if at < asked), rounds[-1]}
    return {at: NAMES[number % 3] for number, at in enumerate(sorted(picked))}


def test_nodes_that_are_killed_on_the_way_change_nothing(begun: Begun, tmp_path: Path) -> None:
    """One before a trip of each kind: key, submissions, list, rounds of the ceremony, question, rounds, end."""
    due = chosen(begun.stages)

    def killed(wire: Wire, at: int, trip: Trip) -> None:
        if at in due:
            wire.kill(due[at])

    assert begun.finished(tmp_path / "it", killed) == begun.expected


COMMAND = """
import os, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.federation.nodes.test_kill import Wire, tune

def stop(wire, at, trip):
    if at == {at}:
        print(*(wire.pid(name) for name in ("node-1", "node-2", "node-3")), flush=True)
        os.kill(os.getpid(), 9)

tune(Wire(Path({place!r}) / "home", stop), Path({place!r}) / "run", {opens!r})
"""


def killed_coordinator(begun: Begun, place: Path, at: int) -> None:
    """The coordinator's own process is killed before a trip, and with it, by their pipes, all nodes."""
    root = str(Path(__file__).parents[3])
    text = COMMAND.format(root=root, at=at, place=str(place), opens=begun.opens)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert len(done.stdout.split()) == 3


def test_after_all_that_nobody_pays_again(begun: Begun, tmp_path: Path) -> None:
    """A node that stays away, and nothing is opened; then the coordinator is killed; then the same command finishes."""
    place, at = begun.copied(tmp_path / "it"), begun.stages.index("question")
    first = Wire(place / "home")
    first.away = {at: "node-2"}
    with pytest.raises(
        AbortedError, match="all nodes must answer, but node-2: gone; when it is there again, .* nothing was"
    ):
        tune(first, place / "run", begun.opens)
    assert (place / "run" / "submissions-0").exists()
    killed_coordinator(begun, place, len(begun.stages) - begun.stages[::-1].index("question"))
    assert begun.commanded(place, Wire(place / "home")) == begun.expected
    assert not (place / "run" / "submissions-0").exists()


# ---- in long -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[SUM, WINNER])
def either(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Begun:
    return Begun(tmp_path_factory.mktemp(f"long-{request.param}") / "begun", request.param)


@pytest.mark.long
@pytest.mark.parametrize("first", range(3))
def test_one_of_them_is_killed_before_every_trip(either: Begun, tmp_path: Path, first: int) -> None:
    def killed(wire: Wire, at: int, trip: Trip) -> None:
        wire.kill(NAMES[(at + first) % 3])

    assert either.finished(tmp_path / "it", killed) == either.expected


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_nodes_are_killed_while_they_are_at_work(either: Begun, tmp_path: Path, seed: int) -> None:
    """One in each trip, at any moment: between what is on record and the reply, or in the middle of a file. Not in the
    first trip, in which all of them start."""
    source, timers = random.Random(seed), list[threading.Timer]()

    def killed(wire: Wire, at: int, trip: Trip) -> None:
        for timer in timers:
            timer.join()
        if at:
            timers.append(threading.Timer(source.uniform(0.0, 0.03), wire.kill, [NAMES[at % 3]]))
            timers[-1].start()

    try:
        assert either.finished(tmp_path / "it", killed) == either.expected
    finally:
        for timer in timers:
            timer.join()


@pytest.mark.long
def test_the_coordinator_is_killed_at_one_trip_after_the_other(either: Begun, tmp_path: Path) -> None:
    """One command for each trip, or for every sixth: each goes on where the last one was killed."""
    place, trips = either.copied(tmp_path / "it"), len(either.stages)
    for at in range(0, trips, max(1, trips // 12)):
        killed_coordinator(either, place, at)
    assert either.commanded(place, Wire(place / "home")) == either.expected
