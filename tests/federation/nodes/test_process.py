"""A node's process: it dies at any time and says the same afterwards, it never outlives its parent, and what it knows
is in its pipe only."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.federation.nodes.harness import END, KEY, Site, alive, framed, until
from tests.seals.quorum.room import said, seeded

from hushtune.core.errors import SettingError, WorkerError
from hushtune.federation.nodes import process as processes
from hushtune.federation.nodes.own import Own
from hushtune.federation.nodes.process import CERTIFICATE, COMMAND, MESSAGE, Process
from hushtune.federation.nodes.streams import LARGEST, Halt, Halted


@contextmanager
def started(process: Process) -> Iterator[Process]:
    try:
        process.start(Halt())
        yield process
    finally:
        process.close()


def pid_of(process: Process) -> int:
    assert process._child is not None
    return process._child.pid


def ask(process: Process, message: bytes = KEY) -> bytes:
    return process.ask(Halt(), MESSAGE, framed(message))


def test_killed_between_messages_it_says_the_same(tmp_path: Path) -> None:
    with started(Site(tmp_path).process()) as process:
        reply = ask(process)
        first = pid_of(process)
        os.kill(first, signal.SIGKILL)
        assert ask(process) == reply
        assert pid_of(process) != first
        process.close()
        assert not alive(pid_of(process))


def test_killed_over_a_message_another_one_gets_it(tmp_path: Path) -> None:
    site = Site(tmp_path)
    with started(site.process()) as process:
        first = pid_of(process)
        os.kill(first, signal.SIGSTOP)
        found: list[bytes] = []
        asking = threading.Thread(target=lambda: found.append(ask(process)))
        asking.start()
        until(lambda: process._stream is not None)
        os.kill(first, signal.SIGKILL)
        asking.join()
        assert said(found[0])["is"] == "key"
        assert ask(process) == found[0]


def test_one_that_always_dies_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process = Site(tmp_path).process()
    begun: list[int] = []
    start = process.start

    def dies(halt: Halt) -> Any:
        stream = start(halt)
        begun.append(pid_of(process))
        os.kill(begun[-1], signal.SIGKILL)
        return stream

    monkeypatch.setattr(process, "start", dies)
    with pytest.raises(WorkerError, match="ended 3 times over one message, last with signal 9"):
        ask(process)
    assert len(begun) == 3


def test_one_that_cannot_be_started_says_so(tmp_path: Path) -> None:
    site = Site(tmp_path)
    broken = Process(site.own(site.roster.nodes[0]), site.roster, (sys.executable, "-c", "raise SystemExit(7)"))
    with pytest.raises(WorkerError, match="must start, but it ended with exit code 7"):
        broken.start(Halt())
    stranger = Process(Own(None, seeded("stranger"), tmp_path), site.roster)
    with pytest.raises(SettingError, match="3 nodes with other keys"):
        stranger.start(Halt())
    nowhere = Process(Own(None, tmp_path / "none", tmp_path), site.roster)
    with pytest.raises(SettingError, match="none cannot be read: No such file"):
        nowhere.start(Halt())
    assert not alive(pid_of(nowhere))


def test_what_it_knows_is_in_its_pipe_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It starts as it does in earnest, and inherits neither variables nor files."""
    monkeypatch.setenv("HUSHTUNE_SECRET_OF_A_TEST", "x")
    monkeypatch.setenv("PYTHONOPTIMIZE", "2")
    site = Site(tmp_path)
    with (
        (tmp_path / "open").open("w") as other,
        socket.create_server(("127.0.0.1", 0)) as listener,
        ExitStack() as stack,
    ):
        for descriptor in (other.fileno(), listener.fileno()):
            os.set_inheritable(descriptor, True)
        process = stack.enter_context(started(Process(site.own(site.roster.nodes[0]), site.roster)))
        place = Path("/proc", str(pid_of(process)))
        assert place.joinpath("cmdline").read_bytes().split(b"\0")[1:4] == [b"-P", b"-m", COMMAND[-1].encode()]
        told = dict(entry.split(b"=", 1) for entry in place.joinpath("environ").read_bytes().split(b"\0") if entry)
        assert set(told) <= {b"PATH", b"HOME", b"LANG", b"LD_LIBRARY_PATH", b"PYTHONPATH", b"OMP_NUM_THREADS"}
        secret = seeded("node-1").secret
        for shown in ("cmdline", "environ"):
            assert secret.hex().encode() not in place.joinpath(shown).read_bytes()
        targets = [os.readlink(path) for path in place.joinpath("fd").iterdir()]
        assert not [target for target in targets if target.startswith("socket:") or target.endswith("/open")]
        assert f"/{place.name}/fd" not in " ".join(targets)
        assert said(ask(process))["is"] == "key"
        assert secret not in b"".join(path.read_bytes() for path in (tmp_path / "nodes").rglob("*") if path.is_file())


def test_ctrl_c_is_for_its_parent(tmp_path: Path) -> None:
    with started(Site(tmp_path).process()) as process:
        first = pid_of(process)
        assert os.getpgid(first) != os.getpgid(0)
        os.kill(first, signal.SIGINT)
        assert said(ask(process))["is"] == "key"
        assert pid_of(process) == first


PARENT = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.federation.nodes.harness import KEY, Site, framed
from tests.federation.nodes.program import LONG
from tests.seals.quorum.room import RUN
from hushtune.core.wire import pack
from hushtune.federation.nodes.process import MESSAGE
from hushtune.federation.nodes.streams import Halt
process = Site(Path(sys.argv[2])).process()
process.ask(Halt(), MESSAGE, framed(KEY))
print(process._child.pid, flush=True)
header = {"kind": "quorum", "run": RUN, "is": "submissions", "at": 1, "step": 0, "clients": []}
process.ask(Halt(), MESSAGE, framed(pack(header, LONG)))
"""


def test_it_does_not_outlive_its_parent_not_even_at_work(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PARENT, str(Path(__file__).parents[3]), str(tmp_path)]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    assert parent.stderr is not None
    child = int(parent.stdout.readline())
    assert "it takes long\n" in iter(parent.stderr.readline, "")
    assert alive(child)
    parent.kill()
    parent.wait()
    until(lambda: not alive(child))
    parent.communicate()


def test_a_fork_neither_ends_it_nor_keeps_it(tmp_path: Path) -> None:
    with started(Site(tmp_path).process()) as process:
        reply, (waits, go) = ask(process), os.pipe()
        child = os.fork()
        if child == 0:
            os.close(go)
            os.read(waits, 1)
            process.close()
            os._exit(0 if process._stream is None else 1)
        os.close(waits)
        assert ask(process) == reply
        first = pid_of(process)
        process.close()
        assert not alive(first)
        os.close(go)
        assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("halted", [True, False])
def test_halted_or_late_it_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, halted: bool) -> None:
    with started(Site(tmp_path).process()) as process:
        first, halt = pid_of(process), Halt()
        os.kill(first, signal.SIGSTOP)
        if halted:
            threading.Timer(0.05, halt.set).start()
        with pytest.raises(Halted if halted else TimeoutError):
            process.ask(halt, MESSAGE, framed(), patience=60 if halted else 0.05)
        assert not alive(first)
        halt.set()
        monkeypatch.setattr(subprocess, "Popen", pytest.fail)
        with pytest.raises(Halted):
            process.ask(halt, MESSAGE, framed())


def test_frames_that_are_too_long_are_refused_on_both_sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with started(Site(tmp_path).process()) as process:
        with pytest.raises(WorkerError, match="ended 3 times over one message"):
            process.ask(Halt(), MESSAGE, bytes(LARGEST + 100))
        monkeypatch.setattr(processes, "_TRIES", 1)
        process.start(Halt())
        monkeypatch.setattr(type(process._stream), "receive", _short(type(process._stream).receive))
        with pytest.raises(WorkerError):
            process.ask(Halt(), CERTIFICATE)


def _short(receive: Any) -> Any:
    return lambda stream, halt, patience=60.0: receive(stream, halt, patience, 10)


def test_it_goes_when_nobody_has_it_any_more(tmp_path: Path) -> None:
    process = Site(tmp_path).process()
    process.start(Halt())
    first = pid_of(process)
    del process
    until(lambda: not alive(first))


def test_the_end_of_a_run_leaves_nothing(tmp_path: Path) -> None:
    with started(Site(tmp_path).process()) as process:
        ask(process)
        assert said(ask(process, END))["is"] == "ended"
        assert list((tmp_path / "nodes" / "node-1").iterdir()) == []
