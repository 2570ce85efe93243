"""Ledger and anchor are two files: kill -9 between any two operations, and many processes at once."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import sqlite3
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import hushtune as ht
from hushtune.privacy.accounting import epsilon_of
from hushtune.privacy.anchor import Anchor, State
from hushtune.privacy.charges import Charge
from hushtune.privacy.events.sums import SkellamShift
from hushtune.privacy.ledger_file import LedgerFile
from hushtune.privacy.ledger_rows import state_of

EVENT = SkellamShift(400.0, 2)
COST = epsilon_of((EVENT,), 1e-6)
WATCHED = ("/privacy/anchor.py", "/privacy/ledger", "/core/files.py")


def charge(run: str) -> Charge:
    return Charge(run, "test", (EVENT,), 1e-6, "client", "replace-one")


class Killer:
    """Kills this process at the n-th call or return, of Python's or C's functions, from inside the watched files."""

    def __init__(self, at: int) -> None:
        self.at, self.count = at, 0

    def __call__(self, frame: Any, event: str, argument: Any) -> None:
        if any(part in frame.f_code.co_filename for part in WATCHED):
            self.count += 1
            if self.count == self.at:
                os.kill(os.getpid(), signal.SIGKILL)


def in_child(work: Callable[[], Any], at: int) -> int:
    """Runs `work` in a forked child that is killed at event `at`; the child's exit status."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            sys.setprofile(Killer(at))
            work()
            sys.setprofile(None)
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killed(start: Path, work: Callable[[Path], Any], step: int = 1) -> Iterator[tuple[Path, bool]]:
    """Copies of a folder, in each of which `work` was killed at a later instant; in the last one it came to its end."""
    for at in count(1, step):
        place = start.with_name(f"killed at {at}")
        shutil.copytree(start, place)
        ended = in_child(lambda place=place: work(place), at)  # type: ignore[misc]
        assert ended in (0, -signal.SIGKILL)
        yield place, ended == 0
        shutil.rmtree(place)
        if ended == 0:
            assert at > 50 * step
            return


def commit(path: Path, run: str, left: Path) -> None:
    """A reply that leaves the moment it is on record."""
    reply = ht.Ledger(path).commit(charge(run), run, "0", b"request", b"reply", [("asked", b"question", b"")])
    left.write_bytes(reply)


def state(path: Path) -> State:
    with sqlite3.connect(path) as db:
        return state_of(db)


def test_kill_between_any_two_operations_forgets_nothing_and_locks_nobody_out(tmp_path: Path) -> None:
    start = tmp_path / "start"
    ht.Ledger.new(start / "ledger.db", 10 * COST, 1e-4).reserve(charge("first"))
    found = {"nothing": 0, "on record": 0, "anchor behind": 0}
    for place, left in killed(start, lambda place: commit(place / "ledger.db", "r", place / "left")):
        path = place / "ledger.db"
        behind = state(path) != Anchor(path).read()[0]
        known = [entry.charge.run for entry in ht.Ledger(path).entries()]  # an honest owner is never refused
        assert known in (["first"], ["first", "r"])
        assert ht.Ledger(path).answered("r", "0", b"request") == (b"reply" if "r" in known else None)
        assert Anchor(path).read() == (state(path),)  # whoever opens it first brings the anchor level
        assert (place / "left").exists() == left
        assert "r" in known or not left
        found["on record" if "r" in known else "nothing"] += 1
        found["anchor behind"] += behind
        commit(path, "r", place / "left")  # taken up again
        assert len(ht.Ledger(path).entries()) == 2
        shutil.copy(start / "ledger.db", path)  # from before the reply left
        with pytest.raises(ht.LedgerError, match=r"lacks 1 of 2 charges and 2 of 2 answers"):
            ht.Ledger(path).entries()
    assert all(found.values()), found


def test_nothing_leaves_before_ledger_and_anchor_are_level(tmp_path: Path) -> None:
    """At every instant at which the reply is out, the anchor knows the state with it and no other."""
    path = tmp_path / "ledger.db"
    ht.Ledger.new(path, 10 * COST, 1e-4)
    order: list[str] = []

    def watch(frame: Any, event: str, argument: Any) -> None:
        if event == "c_return" and "ledger_file" in frame.f_code.co_filename and argument.__name__ == "execute":
            committed = "steps 1" if len(state_rows(path)) else "steps 0"
            order.append(f"{committed}, anchor {[known.answers for known in Anchor(path).read()]}")

    sys.setprofile(watch)
    try:
        ht.Ledger(path).commit(charge("r"), "r", "0", b"request", b"reply")
    finally:
        sys.setprofile(None)
    assert list(dict.fromkeys(order)) == ["steps 0, anchor [0]", "steps 1, anchor [0, 1]", "steps 1, anchor [1]"]


def state_rows(path: Path) -> list[Any]:
    """The answers as another process sees them; none while a commit is under way."""
    db = sqlite3.connect(path, timeout=0)
    try:
        return db.execute("SELECT run FROM steps").fetchall()
    finally:
        db.close()


@pytest.mark.parametrize("lost", [False, True])
def test_kill_while_a_ledger_is_made(tmp_path: Path, lost: bool) -> None:
    """It is there or it is not; if it was lost, it stays lost until it is there again."""
    start = tmp_path / "start"
    start.mkdir()
    if lost:
        ht.Ledger.new(start / "ledger.db", 9.0, 1e-4).reserve(charge("first"))
        (start / "ledger.db").unlink()

    def make(place: Path) -> None:
        ht.Ledger.new(place / "ledger.db", 10 * COST, 1e-4, accept_loss=lost)

    made = missing = 0
    for place, _ in killed(start, make, 3):
        ledger = ht.Ledger(place / "ledger.db")
        if ledger.path.exists():
            made += 1
        else:
            missing += 1
            if lost:
                with pytest.raises(ht.LedgerError, match="it is gone"):
                    ledger.ensure(None)
            else:
                assert not ledger.exists
            make(place)
        ledger.reserve(charge("r"))
        assert Anchor(ledger.path).read() == (state(ledger.path),)
    assert made
    assert missing


def test_kill_while_a_loss_is_accepted_leaves_it_refused_or_accepted(tmp_path: Path) -> None:
    start = tmp_path / "start"
    ledger = ht.Ledger.new(start / "ledger.db", 10 * COST, 1e-4)
    ledger.reserve(charge("first"))
    with sqlite3.connect(ledger.path) as db:
        db.execute("DELETE FROM charges")
    seen = set()
    for place, _ in killed(start, lambda at: ht.Ledger(at / "ledger.db").set_limit(COST, 1e-4, accept_loss=True)):
        try:
            limit = ht.Ledger(place / "ledger.db").limit()
            assert limit is not None
            seen.add(limit.epsilon)
        except ht.LedgerError:
            seen.add(0.0)
    assert seen == {0.0, COST}  # never the old limit without the charge


def test_kill_while_a_ledger_of_0_1_gets_its_anchor(tmp_path: Path) -> None:
    start = tmp_path / "start"
    start.mkdir()
    shutil.copy(Path(__file__).with_name("ledger-0.1.sqlite"), start / "ledger.db")
    for place, _ in killed(start, lambda place: ht.Ledger(place / "ledger.db").limit(), 5):
        assert len(ht.Ledger(place / "ledger.db").entries()) == 1


def _many(path: Path, name: str, barrier: Any, outcomes: Any) -> None:
    barrier.wait()
    try:
        for at in range(8):
            run = f"{name} {at}"
            ledger = ht.Ledger(path)
            ledger.commit(charge(run), run, "0", b"request", b"reply")
            assert ledger.answered(run, "0", b"request") == b"reply"
            ledger.limit()
        outcomes.put("")
    except BaseException as error:
        outcomes.put(f"{type(error).__name__}: {error}")


def test_many_processes_at_once_raise_no_false_alarm(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    ht.Ledger.new(path, 100 * COST, 1e-3)
    context = multiprocessing.get_context("fork")
    barrier, outcomes = context.Barrier(5), context.Queue()
    racers = [context.Process(target=_many, args=(path, str(at), barrier, outcomes)) for at in range(5)]
    for racer in racers:
        racer.start()
    assert [outcomes.get(timeout=120) for _ in racers] == [""] * 5
    for racer in racers:
        racer.join()
    assert len(ht.Ledger(path).entries()) == 40
    assert Anchor(path).read() == (state(path),)


def _ensure(path: Path, barrier: Any, outcomes: Any) -> None:
    barrier.wait()
    try:
        outcomes.put(ht.Ledger(path).ensure(ht.Privacy(1.0)))
    except ht.LedgerError as error:
        outcomes.put(str(error))


def test_of_many_that_make_a_ledger_at_once_one_does_and_none_misses_another(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    for attempt in range(5):
        barrier, outcomes = context.Barrier(4), context.Queue()
        path = tmp_path / f"{attempt}.db"
        racers = [context.Process(target=_ensure, args=(path, barrier, outcomes)) for _ in range(4)]
        for racer in racers:
            racer.start()
        assert sorted(outcomes.get(timeout=60) for _ in racers) == [False, False, False, True]
        for racer in racers:
            racer.join()


def test_an_answer_that_another_process_recorded_leaves_only_once_the_anchor_knows_it(tmp_path: Path) -> None:
    """That one was killed after its commit: who finds the answer writes the anchor before giving it out."""
    path = tmp_path / "ledger.db"
    ledger = ht.Ledger.new(path, 10 * COST, 1e-4)
    with ledger.connected() as connected:
        assert connected.answered("r", "0", b"request") is None
        before = state(path)
        ht.Ledger(path).commit(charge("r"), "r", "0", b"request", b"reply")
        Anchor(path).write(before, state(path))  # as it was left
        assert connected.answered("r", "0", b"request") == b"reply"
        assert Anchor(path).read() == (state(path),)
        Anchor(path).write(before, state(path))
        assert connected.commit(charge("r"), "r", "0", b"request", b"a second draw") == b"reply"
        assert Anchor(path).read() == (state(path),)


def test_an_anchor_that_cannot_be_written_undoes_the_charge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "ledger.db"
    ledger = ht.Ledger.new(path, 10 * COST, 1e-4)
    with monkeypatch.context() as full:

        def fails(self: Anchor, *states: State) -> None:
            raise OSError(28, "No space left on device")

        full.setattr(Anchor, "write", fails)
        with pytest.raises(ht.LedgerError, match=r"ledger\.db cannot be used now: .*No space left"):
            ledger.reserve(charge("r"))
    assert ledger.entries() == []
    ledger.reserve(charge("r"))


def test_a_ledger_of_a_later_release_is_refused(tmp_path: Path) -> None:
    ledger = ht.Ledger.new(tmp_path / "ledger.db", 1.0, 1e-4)
    with sqlite3.connect(ledger.path) as db:
        db.execute("PRAGMA user_version=3")
    with pytest.raises(ht.LedgerError, match="must have ledger version 2 or less, but got 3"):
        LedgerFile(ledger.path).transaction().__enter__()


def test_the_anchor_is_written_under_the_write_lock_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else one process could put it back while another commits."""
    path = tmp_path / "ledger.db"
    ledger = ht.Ledger.new(path, 10 * COST, 1e-4)
    real, written = Anchor.write, []

    def locked(self: Anchor, *states: State) -> None:
        other = sqlite3.connect(path, timeout=0, isolation_level=None)
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("BEGIN IMMEDIATE")
        other.close()
        written.append(states)
        real(self, *states)

    monkeypatch.setattr(Anchor, "write", locked)
    before = state(path)
    ledger.reserve(charge("r"))
    assert len(written) == 2
    real(Anchor(path), before, state(path))  # as a process that was killed left it
    ledger.limit()
    assert len(written) == 3
