"""Worker processes: this process hands tasks to some of them, and gets outcomes back as they are done.

A worker has one task at a time, and a line of its own to this process. So it is known which task killed its worker,
and no other task suffers from it.

- A task that cannot be pickled, or that its worker cannot read, is done in this process.
- What a task raises is raised here. Whatever is still under way is then stopped, as it is by Ctrl-C.
- Workers end with this process, however it ends (`core/serving.py`).
- They wait a minute for the next call. A fork of this process has none, and leaves its parent's alone.
"""

from __future__ import annotations

import atexit
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from hushtune.core.errors import WorkerError, described

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")
Task = tuple[Any, ...]
"""The arguments of one call."""

_PATIENCE = 60.0  # seconds that a worker waits for the next call
_START = "import json, sys; sys.path[:] = json.loads(sys.argv[2]); from hushtune.core.serving import serve; serve()"
_THREADS = ("OMP", "OPENBLAS", "MKL", "BLIS", "NUMEXPR", "NUMBA")
_LIMITS = (*(f"{library}_NUM_THREADS" for library in _THREADS), "VECLIB_MAXIMUM_THREADS", "LOKY_MAX_CPU_COUNT")


@dataclass(frozen=True)
class Died:
    """What comes of a task that killed its worker.

    Args:
        how: the worker's exit code, or the signal that ended it.
    """

    how: str


def default_jobs() -> int:
    """As many processes as this process may use cores."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def unordered(
    function: Callable[..., _Value], tasks: deque[tuple[_Key, Task]], jobs: int, apart: bool = False
) -> Iterator[tuple[_Key, _Value | Died]]:
    """Calls a function once for each task; gives outcomes under their tasks' keys, in the order in which they are done.

    Args:
        function: called with a task's arguments.
        tasks: what to do. It is emptied; whoever reads the outcomes may add to it meanwhile.
        jobs: how many workers. With one, or with less than two tasks, this process does them itself.
        apart: use a worker even then: what kills it must not be seen.
    """
    if not apart and (jobs == 1 or len(tasks) < 2):
        while tasks:
            key, task = tasks.popleft()
            yield key, function(*task)
        return
    crew: _Crew[_Key] = _Crew(jobs)
    try:
        yield from crew.outcomes(function, tasks)
    finally:
        crew.part()


def in_order(function: Callable[..., _Value], tasks: Iterable[Task], jobs: int) -> Iterator[_Value]:
    """Calls a function once for each task; gives what it returned in the order of tasks. A worker's death is an error.

    Args:
        function: called with a task's arguments.
        tasks: what to do.
        jobs: how many workers. With one, or with less than two tasks, this process does them itself.
    """
    early: dict[int, _Value] = {}
    at = 0
    for key, outcome in unordered(function, deque(enumerate(tasks)), jobs):
        if isinstance(outcome, Died):
            raise WorkerError(f"a worker process died ({outcome.how}); if memory ran out, use fewer jobs")
        early[key] = outcome
        while at in early:
            yield early.pop(at)
            at += 1


class _Crew(Generic[_Key]):
    """The workers of one call."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._threads = max(1, default_jobs() // jobs)  # else every worker would start a thread per core
        self._surroundings = pickle.dumps((_folder(), _environment(self._threads)))
        self._free: list[_Worker] = []
        self._busy: dict[_Worker, tuple[_Key, Task]] = {}

    def outcomes(
        self, function: Callable[..., _Value], tasks: deque[tuple[_Key, Task]]
    ) -> Iterator[tuple[_Key, _Value | Died]]:
        over: deque[tuple[_Key, Task, Any]] = deque()
        raised = False
        while tasks or self._busy or over:
            while tasks and len(self._busy) < self._jobs and not raised:  # first: what is done with outcomes takes time
                key, task = tasks.popleft()
                if not self._begin(function, key, task):
                    over.append((key, task, ("unreadable", None)))
            if not over:
                over.extend(self._ended())
                raised = any(kind == "raised" for *_, (kind, _) in over)
                continue
            key, task, (kind, content) = over.popleft()
            if kind == "raised":
                try:
                    raise content
                finally:
                    del content  # else the error would keep this frame, and all that its callers hold, alive
            yield key, function(*task) if kind == "unreadable" else content

    def _begin(self, function: Callable[..., Any], key: _Key, task: Task) -> bool:
        """Gives a task to a worker; False if it cannot be sent."""
        import cloudpickle

        try:
            content = cloudpickle.dumps((function, task))
        except Exception:  # whatever a user's own class raises
            return False
        worker = self._free.pop() if self._free else _taken(self._threads) or _Worker(self._threads)
        self._busy[worker] = key, task
        worker.send(self._surroundings, content)
        return True

    def _ended(self) -> Iterator[tuple[_Key, Task, Any]]:
        """Waits until a worker has something to say."""
        from multiprocessing.connection import wait

        lines = {worker.line: worker for worker in self._busy}
        for line in wait(list(lines)):
            worker = lines[line]  # type: ignore[index]
            outcome = worker.heard()
            if outcome is None:
                continue
            if worker.alive:
                self._free.append(worker)
            yield *self._busy.pop(worker), outcome

    def part(self) -> None:
        """Ends workers that are still at a task; the others wait for the next call."""
        for worker in self._busy:
            worker.end()
        _leave(self._free)


class _Worker:
    """One worker, seen from here."""

    def __init__(self, threads: int) -> None:
        from multiprocessing import Pipe

        self.threads, self.path, self.alive = threads, _path(), True
        self._ready, self._owner = False, os.getpid()
        self.line, far = Pipe()
        with far:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _START, str(far.fileno()), json.dumps(self.path)],
                env=_environment(threads),
                stdin=subprocess.DEVNULL,
                pass_fds=[far.fileno()],
                process_group=0,  # Ctrl-C is for its parent; and what it starts ends with it
            )
        _ALL.add(self)

    def send(self, surroundings: bytes, content: bytes) -> None:
        """A task."""
        with suppress(OSError):  # if it is dead, that is heard
            self.line.send_bytes(surroundings)
            self.line.send_bytes(content)

    def heard(self) -> tuple[str, Any] | None:
        """What its line has: the outcome of a task; None if it says that it has started."""
        try:
            content = self.line.recv_bytes()
        except (EOFError, OSError):
            how = self.end()
            if not self._ready:
                raise WorkerError(f"a worker process could not be started: it ended with {how}") from None
            return "died", Died(how)
        if not self._ready:
            self._ready = True
            return None
        try:
            kind, value = pickle.loads(content)
        except Exception as error:
            return "raised", WorkerError(f"what a worker process sent cannot be read: {described(error)}")
        return kind, value

    def waits(self) -> bool:
        """Whether it can take a task: one that is dead has cut its line."""
        return not self.line.poll()

    def disown(self) -> None:
        """In a fork: it is another process's worker, which must not find its line open when that process is gone."""
        self.line.close()
        self._process.returncode = 0  # nobody is to wait for it here

    def end(self) -> str:
        """Kills it with all that it has started; says how it ended."""
        if self.alive and os.getpid() == self._owner:
            self.alive = False
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)  # it was not waited for, so nobody else has its number
            self.line.close()
            self._process.wait()
        code = self._process.returncode or 0
        return f"exit code {code}" if code >= 0 else f"signal {-code}"


def _path() -> list[str]:
    return [entry for entry in sys.path if isinstance(entry, str)]


def _folder() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return None


def _environment(threads: int) -> dict[str, str]:
    """This process's own; a library that the user has set no number of threads for gets the worker's share of cores."""
    return {**dict.fromkeys(_LIMITS, str(threads)), **os.environ}


# ---- workers between calls ---------------------------------------------------------------------------

_ALL: WeakSet[_Worker] = WeakSet()
_WAITING: list[_Worker] = []
_LOCK = threading.Lock()
_TIMERS: list[threading.Timer] = []


def _taken(threads: int) -> _Worker | None:
    """A worker that waits, and that was started as a new one would be: elsewhere it may not find the same modules."""
    path = _path()
    with _LOCK:
        for worker in [one for one in _WAITING if one.threads == threads and one.path == path]:
            _WAITING.remove(worker)
            if worker.waits():
                return worker
            worker.end()
    return None


def _leave(workers: Iterable[_Worker]) -> None:
    """Has workers wait for the next call, for a while."""
    with _LOCK:
        _WAITING.extend(workers)
        while _TIMERS:
            _TIMERS.pop().cancel()
        if _WAITING:
            _TIMERS.append(timer := threading.Timer(_PATIENCE, end_waiting))
            timer.daemon = True
            timer.start()


def end_waiting() -> None:
    """Ends the workers that wait for the next call."""
    with _LOCK:
        while _WAITING:
            _WAITING.pop().end()


def _forget() -> None:
    """In a fork, which has no workers yet."""
    global _LOCK  # noqa: PLW0603
    _LOCK = threading.Lock()  # another thread of the parent may have held it
    _WAITING.clear()
    _TIMERS.clear()
    for worker in _ALL:
        worker.disown()


atexit.register(end_waiting)
os.register_at_fork(after_in_child=_forget)
