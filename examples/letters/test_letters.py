"""The conformance suite, over a transport from outside the package."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace

import pytest
from hushtune_letters import FolderFederation, Machine

import hushtune as ht
from hushtune.testing import check_federation


@contextmanager
def folder_federation(clients: Sequence[ht.Client], place: Path) -> Iterator[FolderFederation]:
    """Machines of which each has its own home; here one thread looks after all of them."""
    names = [f"machine-{at}" for at in range(len(clients))]
    machines = [
        Machine(client, name, place / "shared", place / name) for client, name in zip(clients, names, strict=True)
    ]
    over = Event()

    def serve() -> None:
        while not over.wait(0.01):
            for machine in machines:
                machine.look()

    thread = Thread(target=serve)
    thread.start()
    try:
        yield FolderFederation(place / "shared", names, place / "server", timeout=120)
    finally:
        over.set()
        thread.join()


def test_every_message_gets_there_and_back() -> None:
    check_federation(folder_federation)


def test_it_works_under_a_seal_with_one_trip() -> None:
    check_federation(folder_federation, seal=ht.Clear())


@ht.objective
def distance(config: ht.Config, data: ht.Rows) -> float:
    return float(abs(config["x"] - data.y[0]))


def test_a_machine_that_is_silent_has_dropped_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for it here: time passes as soon as all others have answered."""
    policy = ht.Policy(seals=("clear",), exact=True)  # each machine's owner says what it takes part in
    clients = [ht.Client(([[0.0]], [0.5]), distance, policy=policy) for _ in range(4)]
    candidates = ht.Space(x=ht.Float(0.0, 1.0)).grid(x=5)
    with folder_federation(clients, tmp_path) as there:
        (tmp_path / "shared" / "gone").mkdir()
        names, now = [*there.roster.ids, "gone"], [0.0]

        def clock() -> float:
            if not any(list((tmp_path / "shared" / name).glob("*.letter")) for name in there.roster.ids):
                now[0] += 7.0  # of 20: what has just arrived is still read
            return now[0]

        monkeypatch.setattr("hushtune_letters.time", SimpleNamespace(monotonic=clock, sleep=time.sleep))
        federation = FolderFederation(tmp_path / "shared", names, tmp_path / "server", timeout=20)
        result = ht.tune(federation, candidates, method=ht.Vote(1), seal=ht.Clear(dropouts=0.4), observer=ht.Silent())
    assert result.config == {"x": 0.5}
    assert result.dropped == {"gone": "no answer within 20 s"}
