"""The guard: a run belongs to whoever began it, through restarts, and goes when it is ended or forgotten."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.federation.nodes.harness import framed
from tests.seals.quorum.room import RUN, Room, changed, said

from hushtune.core.errors import WireError
from hushtune.core.wire import pack
from hushtune.federation.nodes import guard as guards
from hushtune.federation.nodes.guard import MOST_RUNS, TOKEN_BYTES, Guard

OWN, OTHER = b"o" * TOKEN_BYTES, b"x" * TOKEN_BYTES
DAY = 86400
Make = Callable[..., Guard]


def key(run: str = RUN) -> bytes:
    return pack({"kind": "quorum", "run": run, "is": "key", "at": 0})


def end(run: str = RUN) -> bytes:
    return pack({"kind": "quorum", "run": run, "is": "end"})


def other_run(number: int) -> str:
    return f"{number:032x}"


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


@pytest.fixture
def make(room: Room, tmp_path: Path) -> Make:
    """A guard of node-1, each time as after a start."""

    def made(roster: str = "roster", days: int = 30, most: int | None = MOST_RUNS) -> Guard:
        (tmp_path / "node-1").mkdir(exist_ok=True)
        return Guard(room.node("node-1").step, tmp_path / "node-1", roster, days, most)

    return made


def step(guard: Guard, token: bytes, message: bytes) -> bytes:
    try:
        run = said(message)["run"]
        return guard.step(framed(message, token, run))
    except (WireError, KeyError, AttributeError):
        return guard.step(framed(message, token))


def refused(reply: bytes) -> str:
    header = said(reply)
    assert header["kind"] == "refused", header
    return str(header["reason"])


def test_nothing_is_made_for_a_run_that_nobody_has_begun(make: Make, tmp_path: Path) -> None:
    """Whoever reaches the node could else fill its disk, past the limit of unfinished runs."""
    guard = make(most=4)
    for at in range(20):
        for message in (changed(key(other_run(at)), at=1), pack({"kind": "quorum", "run": other_run(at), "is": "key"})):
            assert "no part in that run" in refused(step(guard, OWN, message))
    assert not list((tmp_path / "node-1").iterdir())


def let_go(guard: Guard) -> None:
    """What its process's end does."""
    for claim in guard._claims.values():
        claim.close()


def test_the_first_token_of_a_run_is_the_only_one(make: Make, tmp_path: Path) -> None:
    guard = make()
    reply = step(guard, OWN, key())
    for again in range(2):
        assert step(guard, OWN, key()) == reply
        for message in (key(), end(), changed(key(), at=1), pack({"kind": "quorum", "run": RUN})):
            assert "token is another one" in refused(step(guard, OTHER, message))
            for frame in (framed(message, OWN[:-1]), framed(message, b""), framed(message, OWN + b"o"), OWN, b""):
                assert "must name its run" in refused(guard.step(frame))
        if not again:
            let_go(guard)
            guard = make()  # it still knows
    kept = (tmp_path / "node-1" / f"{RUN}.token").read_bytes()
    assert OWN not in kept
    assert OWN.hex().encode() not in kept
    assert (tmp_path / "node-1" / f"{RUN}.token").stat().st_mode & 0o077 == 0


def test_nobody_else_moves_a_run(make: Make, room: Room, tmp_path: Path) -> None:
    """What is refused leaves no trace in the journal."""
    guard = make()
    step(guard, OWN, key())
    journal = tmp_path / "node-1" / RUN / "journal"
    before = journal.read_bytes()
    message = changed(room.until("submissions")["node-1"], at=1)
    assert "somebody else began this run" in refused(step(guard, OTHER, message))
    assert journal.read_bytes() == before
    step(guard, OWN, message)
    assert journal.read_bytes() != before


def test_the_end_removes_the_token_too(make: Make, tmp_path: Path) -> None:
    guard = make()
    step(guard, OWN, key())
    for token in (OWN, OWN, OTHER):  # again, after the reply was lost; and there is nothing left to protect
        assert said(step(guard, token, end()))["is"] == "ended"
        assert list((tmp_path / "node-1").iterdir()) == []
    assert "the run is over" in refused(step(guard, OWN, pack({"kind": "quorum", "run": RUN, "is": "round"})))
    assert list((tmp_path / "node-1").iterdir()) == []


def test_killed_at_the_begin_or_the_end_a_run_still_has_its_owner(make: Make, tmp_path: Path) -> None:
    record, folder = tmp_path / "node-1" / f"{RUN}.token", tmp_path / "node-1" / RUN
    guard = make()
    guard._begin(RUN, OWN)  # the token is on record, and nothing else
    assert not folder.exists()
    assert "somebody else" in refused(step(guard, OTHER, key()))
    assert said(step(guard, OWN, key()))["is"] == "key"
    kept = record.read_bytes()
    step(guard, OWN, end())
    record.write_bytes(kept)  # the run is removed, the token is not
    let_go(guard)
    guard = make()
    assert "somebody else" in refused(step(guard, OTHER, end()))
    assert said(step(guard, OWN, end()))["is"] == "ended"
    assert not record.exists()
    assert not folder.exists()
    folder.mkdir()
    for message in (key(), end()):  # which cannot be
        assert "not on record" in refused(step(guard, OWN, message))
    record.write_bytes(b"")
    assert "somebody else" in refused(step(guard, OWN, key()))


def test_a_run_that_cannot_be_removed_keeps_its_owner(tmp_path: Path) -> None:
    guard = Guard(lambda message: pack({"kind": "refused", "reason": "no"}), tmp_path, "roster", 30)
    step(guard, OWN, key())
    assert refused(step(guard, OWN, end())) == "no"
    assert "somebody else" in refused(step(guard, OTHER, end()))
    (tmp_path / RUN / "lock").unlink()
    (tmp_path / RUN).rmdir()
    assert refused(step(guard, OWN, end())) == "no"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "fields",
    [{"run": 12345678901234567890123456789012}, {"run": other_run(1)}, {"run": None}, {"run": RUN + "\n"}, {}],
)
def test_a_message_must_be_of_the_run_that_its_frame_names(make: Make, tmp_path: Path, fields: dict[str, Any]) -> None:
    guard = make()
    for known in range(2):
        for what in ("key", "end", "round"):
            message = pack({"kind": "quorum", "is": what, "at": 0, **fields})
            assert "of the run that its frame names" in refused(guard.step(framed(message, OWN)))
        assert "of kind 'quorum'" in refused(guard.step(framed(pack({"kind": "clear", "is": "key", "run": RUN}), OWN)))
        assert "must start with 'H'" in refused(guard.step(framed(b"garbage", OWN)))
        assert len(list((tmp_path / "node-1").iterdir())) == 2 * known
        step(guard, OWN, key())


@pytest.mark.parametrize("run", ["../" + "0" * 29, "0" * 31 + "\n", "A" * 32, "0" * 31 + "/", "\0" * 32])
def test_names_that_are_no_runs(make: Make, tmp_path: Path, run: str) -> None:
    assert "must name its run" in refused(make().step(framed(key(run), OWN, run)))
    assert list((tmp_path / "node-1").iterdir()) == []


def test_strangers_have_nothing_long_read(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a long header nor many parts; and nobody's parts are read here, whom they cost memory many times over."""
    guard = make()
    bomb = pack({"kind": "quorum", "run": RUN, "is": "key", "at": 0, "more": [[]] * 2000})
    assert "at most 4096 bytes, but got" in refused(step(guard, OWN, bomb))
    assert list((tmp_path / "node-1").iterdir()) == []
    step(guard, OWN, key())
    monkeypatch.setattr(guards, "header_of", pytest.fail)
    assert "somebody else" in refused(step(guard, OTHER, bomb))
    monkeypatch.undo()
    seen: list[int] = []
    monkeypatch.setattr(guards, "unpack", lambda content: seen.append(len(content)) or ({}, []))
    step(guard, OWN, key() + bytes(4 * 10**6))
    assert seen == [len(key())]


def test_there_are_only_so_many_unfinished_runs(make: Make, tmp_path: Path) -> None:
    guard = make(most=3)
    for number in range(3):
        assert said(step(guard, OWN, key(other_run(number))))["is"] == "key"
    (tmp_path / "node-1" / "lock").touch()  # which is no run
    let_go(guard)
    guard = make(most=3)
    assert "at most 3 unfinished runs, and this one has 3" in refused(step(guard, OWN, key(other_run(3))))
    assert not (tmp_path / "node-1" / other_run(3)).exists()
    assert said(step(guard, OWN, key(other_run(1))))["is"] == "key"  # which it has
    step(guard, OWN, end(other_run(0)))
    assert said(step(guard, OWN, key(other_run(3))))["is"] == "key"
    assert said(step(make(most=None), OWN, key(other_run(4))))["is"] == "key"


def test_runs_that_nobody_ends_go_with_their_secrets(make: Make, tmp_path: Path) -> None:
    guard = make()
    for number in range(3):
        step(guard, OWN, key(other_run(number)))
    home = tmp_path / "node-1"

    def age(number: int, days: float, *names: str) -> None:
        when = time.time() - days * DAY
        os.utime(home / f"{other_run(number)}.token", (when, when))
        for path in (home / other_run(number)).iterdir():
            if path.name not in names:
                os.utime(path, (when, when))

    age(0, 31)
    age(1, 29)
    age(2, 31, "journal")  # whose last message is of today
    guard.expire()
    assert guard.runs() == {other_run(1), other_run(2)}
    assert not (home / other_run(0)).exists()
    assert "the run is over" in refused(step(guard, OWN, changed(end(other_run(0)), **{"is": "round"})))
    age(1, 31)
    make().expire()  # another process is at work on it
    assert guard.runs() == {other_run(1), other_run(2)}
    let_go(guard)
    make(roster="other").expire()
    assert guard.runs() == {other_run(2)}
    (home / f"{other_run(2)}.token").unlink()
    age_of = time.time() - 31 * DAY
    for path in (home / other_run(2)).iterdir():
        os.utime(path, (age_of, age_of))
    let_go(guard)
    make().expire()  # what is left without a token
    assert guard.runs() == set()


def test_a_run_does_not_go_on_under_another_roster(make: Make) -> None:
    guard = make()
    step(guard, OWN, key())
    let_go(guard)
    changed_roster = make(roster="another")
    assert "began under another roster" in refused(step(changed_roster, OWN, key()))
    assert "somebody else" in refused(step(changed_roster, OTHER, key()))
    assert said(step(changed_roster, OWN, end()))["is"] == "ended"


def test_two_processes_are_never_at_one_run(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards, "_PATIENCE", 0.05)
    first, second = make(), make()
    step(first, OWN, key())
    assert "another process" in refused(step(second, OWN, key()))
    assert "another process" in refused(step(second, OWN, end()))
    assert said(step(second, OWN, key(other_run(1))))["is"] == "key"
    let_go(first)
    assert said(step(second, OWN, key()))["is"] == "key"
