"""Worker processes: whatever a task does to its worker, the others go on; and no worker outlives its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hushtune.core.errors import WorkerError
from hushtune.core.processes import worker
from hushtune.core.processes.pool import default_jobs, in_order, unordered
from hushtune.core.processes.serving import in_worker
from hushtune.core.processes.worker import Died, end_waiting


@pytest.fixture(autouse=True)
def _none_left() -> Iterator[None]:
    yield
    end_waiting()


def alive(pid: int) -> bool:
    """Whether a process runs; one that nobody has waited for yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def until(holds: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, "it never came to hold"
        time.sleep(0.01)


def numbered(*tasks: Any) -> deque[tuple[int, tuple[Any, ...]]]:
    return deque(enumerate((task,) for task in tasks))


def pids(jobs: int, tasks: int = 4) -> set[int]:
    return {found for _, found in unordered(_pid, numbered(*range(tasks)), jobs, apart=True)}  # type: ignore[misc]


def _pid(_: Any) -> int:
    return os.getpid()


def _square(x: int) -> int:
    return x * x


# ---- what comes back ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("jobs", "apart"), [(1, False), (1, True), (2, False), (3, True)])
def test_every_task_is_done_once_and_more_may_be_added_meanwhile(jobs: int, apart: bool) -> None:
    queue, found = numbered(*range(5)), []
    for key, outcome in unordered(_square, queue, jobs, apart):
        found.append((key, outcome))
        if key < 5:
            queue.append((key + 5, (key + 5,)))
    assert sorted(found) == [(x, x * x) for x in range(10)]


@pytest.mark.parametrize("jobs", [1, 2])
def test_in_order(jobs: int) -> None:
    assert list(in_order(_square, ((x,) for x in range(20)), jobs)) == [x * x for x in range(20)]
    assert list(in_order(_square, [], jobs)) == []


def test_one_job_needs_no_worker_unless_it_must_be_apart() -> None:
    assert {pid for _, pid in unordered(_pid, numbered(0, 1), 1)} == {os.getpid()}
    assert {pid for _, pid in unordered(_pid, numbered(0), 2)} == {os.getpid()}
    assert os.getpid() not in pids(1)


def _exits(x: int) -> int:
    if x == 1:
        os._exit(3)
    return x


def _is_killed(x: int) -> int:
    if x == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return x


def _dies_with_its_line_open_elsewhere(x: int) -> int:
    if x == 1:
        if os.fork() == 0:
            threading.Event().wait()
        os._exit(4)
    return x


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize(
    ("function", "how"),
    [(_exits, "exit code 3"), (_is_killed, "signal 9"), (_dies_with_its_line_open_elsewhere, "exit code 4")],
)
def test_a_task_that_kills_its_worker_is_named_and_no_other_suffers(
    function: Callable[[int], int], how: str, jobs: int
) -> None:
    found = dict(unordered(function, numbered(*range(6)), jobs, apart=True))
    assert found == {0: 0, 1: Died(how), 2: 2, 3: 3, 4: 4, 5: 5}


def _leaves_a_trap(x: int) -> int:
    assert in_worker()  # nowhere else
    if x == 0:
        pid = os.getpid()
        threading.Thread(target=lambda: (_TRAP.wait(), os.kill(pid, signal.SIGKILL)), daemon=True).start()
    else:
        _TRAP.set()
        if any(thread.daemon and "lambda" in thread.name for thread in threading.enumerate()):
            threading.Event().wait()
    return x


_TRAP = threading.Event()


def test_a_task_does_not_count_as_dead_by_what_another_has_left_behind() -> None:
    assert dict(unordered(_leaves_a_trap, numbered(0, 1), 1, apart=True)) == {0: 0, 1: 1}


def _cuts_its_line_and_stays(x: int) -> int:
    threading.Thread(target=threading.Event().wait).start()  # no daemon: it would keep the process
    os.closerange(3, 50)
    return x


def test_a_worker_without_its_line_ends() -> None:
    ((_, outcome),) = unordered(_cuts_its_line_and_stays, numbered(0), 1, apart=True)
    assert isinstance(outcome, Died)


class _OnceOnlyError(Exception):
    def __init__(self, text: str, other: int) -> None:
        super().__init__(text)


def _raises_what_cannot_be_sent() -> None:
    raise _OnceOnlyError("rows are 1, 2, 3", 0)


def test_an_error_that_cannot_be_sent_does_not_quote_its_text() -> None:
    with pytest.raises(WorkerError, match="a task raised _OnceOnlyError, which cannot be sent") as caught:
        list(unordered(_raises_what_cannot_be_sent, deque([(0, ())]), 1, apart=True))
    assert "rows" not in str(caught.value)


def test_where_nothing_may_be_left_out_a_death_is_an_error() -> None:
    with pytest.raises(WorkerError, match=r"a worker process died \(signal 9\)"):
        list(in_order(_is_killed, ((x,) for x in range(3)), 2))


class _Unsendable:
    def __reduce__(self) -> Any:
        raise ValueError("not to be sent")


class _Unreadable:
    def __reduce__(self) -> Any:
        return _only_in, (os.getpid(),)


def _only_in(pid: int) -> _Unreadable:
    if os.getpid() != pid:
        raise KeyError(pid)
    return _Unreadable()


@pytest.mark.parametrize("odd", [_Unsendable(), _Unreadable()])
def test_what_cannot_be_sent_or_read_is_done_here(odd: Any) -> None:
    found = dict(unordered(_pid, numbered(0, odd, 2), 2))
    assert found[1] == os.getpid()
    assert os.getpid() not in (found[0], found[2])


class _TwoWords(Exception):
    def __init__(self, one: str, other: str) -> None:
        super().__init__(f"{one} {other}")


def _raises(kind: str) -> None:
    if kind == "interrupt":
        raise KeyboardInterrupt
    if kind == "two words":
        raise _TwoWords("hello", "there")
    raise LookupError(kind)


def test_what_a_task_raises_is_raised_here() -> None:
    with pytest.raises(LookupError, match="lost") as caught:
        list(unordered(_raises, numbered("lost"), 1, apart=True))
    assert "_raises" in "".join(caught.value.__notes__)  # where it was
    with pytest.raises(WorkerError, match="a task raised _TwoWords, which cannot be sent"):
        list(unordered(_raises, numbered("two words"), 1, apart=True))
    with pytest.raises(KeyboardInterrupt):
        list(unordered(_raises, numbered("interrupt"), 1, apart=True))


def test_a_value_that_cannot_be_sent_back_is_an_error() -> None:
    with pytest.raises(WorkerError, match=r"what a task returned cannot be sent \(TypeError\)"):
        list(unordered(threading.Lock, deque([(0, ())]), 1, apart=True))


def test_a_worker_that_cannot_be_started_is_no_fault_of_its_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_START", "import sys; sys.exit(7)")
    with pytest.raises(WorkerError, match="could not be started: it ended with exit code 7"):
        list(unordered(_square, numbered(1), 1, apart=True))


# ---- what a worker is --------------------------------------------------------------------------------


def _variable(name: str) -> str | None:
    return os.environ.get(name)


def test_workers_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    for jobs in (1, default_jobs()):
        found = dict(unordered(_variable, numbered("OMP_NUM_THREADS", "LOKY_MAX_CPU_COUNT"), jobs, apart=True))
        assert set(found.values()) == {str(default_jobs() // jobs)}
    monkeypatch.setenv("OMP_NUM_THREADS", "3")  # as the user wants
    assert dict(unordered(_variable, numbered("OMP_NUM_THREADS"), 1, apart=True)) == {0: "3"}


def _here() -> tuple[int, str, str | None]:
    return os.getpid(), os.getcwd(), os.environ.get("HUSHTUNE_TRIED")


def test_a_worker_is_used_again_and_follows_its_parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ((_, first),) = unordered(_here, deque([(0, ())]), 1, apart=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HUSHTUNE_TRIED", "yes")
    ((_, second),) = unordered(_here, deque([(0, ())]), 1, apart=True)
    assert isinstance(first, tuple)
    assert second == (first[0], str(tmp_path), "yes")


def test_a_worker_that_looks_for_modules_elsewhere_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = pids(1)
    monkeypatch.syspath_prepend(tmp_path)
    assert not before & pids(1)


def test_a_worker_that_was_killed_while_it_waited_is_not_used() -> None:
    (pid,) = pids(1)
    os.kill(pid, signal.SIGKILL)
    until(lambda: not alive(pid))
    assert pid not in pids(1)


def test_workers_do_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_PATIENCE", 0.0)
    found = pids(2)
    until(lambda: not any(alive(pid) for pid in found))


def test_a_worker_that_nobody_wants_ends_though_others_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "_PATIENCE", 0.5)
    with monkeypatch.context() as other:
        other.syspath_prepend(tmp_path)
        (unwanted,) = pids(1)
    until(lambda: (pids(1), not alive(unwanted))[1])


def test_a_fork_has_workers_of_its_own_and_leaves_its_parents_alone() -> None:
    one, other = (unordered(_pid, numbered(*range(3)), 1, apart=True) for _ in range(2))
    busy, free = next(one)[1], next(other)[1]
    assert len(list(other)) == 2  # now its worker waits
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            one.close()  # type: ignore[attr-defined]
            own = pids(1)
            os.write(write, f"{len(own)} {len(own & {busy, free})}".encode())
            end_waiting()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 99) == b"1 0"
    assert {pid for _, pid in one} == {busy}
    assert pids(1) <= {busy, free}


# ---- how workers end ---------------------------------------------------------------------------------

PROGRAM = """
import os, signal, subprocess, sys, threading
from collections import deque
from pathlib import Path
from hushtune.core.processes.pool import unordered
signal.signal(signal.SIGINT, signal.default_int_handler)

def task(folder):  # of a script without `if __name__ == "__main__"`
    helper = subprocess.Popen(["sleep", "1000"])
    for pid in (os.getpid(), helper.pid):
        Path(folder, str(pid)).touch()
    threading.Event().wait()

list(unordered(str, deque(enumerate([(1,), (2,)])), 2))
if (fork := os.fork()) == 0:  # outlives its parent, and must not hold on to its workers
    threading.Event().wait()
Path(sys.argv[2]).write_text(str(fork))
for _ in unordered(task, deque(enumerate([(sys.argv[1],)] * 2)), 2):
    pass
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_worker_outlives_its_parent(tmp_path: Path, number: signal.Signals) -> None:
    script, seen = tmp_path / "script.py", tmp_path / "seen"
    script.write_text(PROGRAM)
    seen.mkdir()
    errors, fork = tmp_path / "errors", tmp_path / "fork"
    with open(errors, "w") as file:
        parent = subprocess.Popen([sys.executable, str(script), str(seen), str(fork)], stderr=file)
    until(lambda: len(list(seen.iterdir())) == 4 or parent.poll() is not None)
    found = [int(path.name) for path in seen.iterdir()]
    assert len(found) == 4
    assert all(alive(pid) for pid in found)
    parent.send_signal(number)
    try:
        parent.wait(timeout=60)
        assert ("KeyboardInterrupt" in errors.read_text()) == (number == signal.SIGINT)
        until(lambda: not any(alive(pid) for pid in found))
    finally:
        os.kill(int(fork.read_text()), signal.SIGKILL)


def _waits(path: str) -> None:
    if path:
        Path(path).write_text(str(os.getpid()))
        threading.Event().wait()


def test_whoever_stops_reading_stops_what_is_under_way(tmp_path: Path) -> None:
    path = tmp_path / "pid"

    def read() -> None:
        for _ in unordered(_waits, numbered(str(path), ""), 2):
            until(lambda: path.exists() and path.read_text())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read()
    until(lambda: not alive(int(path.read_text())))


def _sleep(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_task_that_takes_too_long_is_ended_and_the_others_are_done(jobs: int) -> None:
    tasks = numbered(0.0, 3600.0, 0.0)
    found = dict(unordered(_sleep, tasks, jobs, ends=lambda key, since: since + (0.5 if key == 1 else 600.0)))
    assert isinstance(found[1], Died)
    assert found[1].late
    assert [found[0], found[2]] == [0.0, 0.0]


def test_a_limit_keeps_tasks_out_of_this_process() -> None:
    ((_, pid),) = unordered(_pid, numbered(0), 1, ends=lambda key, since: since + 600.0)
    assert pid != os.getpid()


def test_without_a_limit_a_worker_that_died_was_not_late() -> None:
    ((_, found),) = unordered(_kill, numbered(0), 1, apart=True)
    assert isinstance(found, Died)
    assert not found.late


def _kill(_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)
