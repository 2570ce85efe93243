"""kill -9 at some 40 instants spread evenly over all calls of a run.

What left a client is always on record, and a rerun never draws again.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hushtune as ht
from hushtune.client import release
from hushtune.core.wire import unpack
from hushtune.privacy.accounting import Sums
from hushtune.privacy.bounds import KHot
from hushtune.privacy.calibration import calibrate

WATCHED = ("/privacy/", "/run.py", "/runfolder.py", "/files.py", "/federation/", "/seals/")
PRIVACY = ht.Privacy(2.0)
SEALS = {"clear": ht.Clear(), "masked": ht.Masked()}
CANDIDATES = ht.Space(x=ht.Float(0.0, 1.0)).grid(x=4)


class Killer:
    """Kills this process at the n-th call or return inside the watched files."""

    def __init__(self, at: int) -> None:
        self.at, self.count = at, 0

    def __call__(self, frame: Any, event: str, argument: Any) -> None:
        name = frame.f_code.co_filename
        if "hushtune" in name and any(part in name for part in WATCHED) and event in ("call", "return"):
            self.count += 1
            if self.count == self.at:
                os.kill(os.getpid(), signal.SIGKILL)


def tune(seal: str, home: Path, folder: Path, left: Path) -> ht.Result:
    """A real run of three clients; every reply is written to `left` the moment it leaves its client."""
    real = release.respond

    def recorded(message: bytes, party: Any, roster: Any) -> bytes:
        reply = real(message, party, roster)
        number = len(list(left.iterdir()))
        with open(left / f"{party.id}-{os.getpid()}-{number}", "wb") as file:
            file.write(reply)
        return reply

    from hushtune.federation import local

    local.respond = recorded  # type: ignore[attr-defined]
    try:
        clients = [ht.Client((np.zeros((1, 1)), np.array([y])), objective, name=f"c{y}") for y in (0, 1, 2)]
        return ht.tune(
            clients,
            CANDIDATES,
            method=ht.Vote(1),
            privacy=PRIVACY,
            seal=SEALS[seal],
            home=home,
            folder=folder,
            jobs=1,
            observer=ht.Silent(),
        )
    finally:
        local.respond = real  # type: ignore[attr-defined]


@ht.objective
def objective(config: ht.Config, data: ht.Rows) -> float:
    return float(abs(config["x"] - 0.3))


def in_child(work: Any, at: int) -> int:
    """Runs `work` in a forked child that is killed at event `at`; the child's exit status."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            killer = Killer(at)
            sys.setprofile(killer)
            work()
            sys.setprofile(None)
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def events_of_a_run(seal: str, tmp_path: Path) -> int:
    counter = Killer(-1)
    (tmp_path / "left").mkdir()
    sys.setprofile(counter)
    try:
        tune(seal, tmp_path / "home", tmp_path / "run", tmp_path / "left")
    finally:
        sys.setprofile(None)
    return counter.count


def vectors(left: Path, client: str) -> set[bytes]:
    replies = [path.read_bytes() for path in left.glob(f"{client}-*")]
    return {reply for reply in replies if unpack(reply)[0]["kind"] in ("vector", "input")}


@pytest.mark.parametrize(
    ("seal", "instants"),
    [("clear", 5), *(pytest.param(seal, 40, marks=pytest.mark.long) for seal in ("clear", "masked"))],
)
def test_kill_at_any_instant_never_leaves_spending_unrecorded(tmp_path: Path, seal: str, instants: int) -> None:
    calibrate((KHot(1, 4),), PRIVACY, Sums())  # cached: children spend no time on it
    (tmp_path / "count").mkdir()
    total = events_of_a_run(seal, tmp_path / "count")
    assert total > 200
    killed = 0
    for at in range(1, total + 1, max(1, total // instants)):
        place = tmp_path / str(at)
        home, folder, left = place / "home", place / "run", place / "left"
        left.mkdir(parents=True)
        killed += in_child(lambda h=home, f=folder, le=left: tune(seal, h, f, le), at) == -signal.SIGKILL  # type: ignore[misc]
        check_books(home, left)
        resumed = in_child(lambda h=home, f=folder, le=left: tune(seal, h, f, le), -1)  # type: ignore[misc]
        check_books(home, left)
        # Resuming finishes, unless a client had begun to draw: then it refuses, and too few answer.
        assert resumed in (0, 1)
        for client in ("c0", "c1", "c2"):
            assert len(vectors(left, client)) <= 1  # never a second draw for the same run
    assert killed > instants // 2


def check_books(home: Path, left: Path) -> None:
    """Whatever left a client is in that client's ledger and in the coordinator's."""
    for client in ("c0", "c1", "c2"):
        if not vectors(left, client):
            continue
        ledger = ht.Ledger(home / "clients" / client / "ledger.db")
        assert len(ledger.entries()) == 1
        (coordinator,) = (home / "coordinator").glob("*.db")
        assert len(ht.Ledger(coordinator).entries()) == 1
