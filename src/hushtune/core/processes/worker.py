"""One worker process, seen from its parent (`core/processes/pool.py`), and those that wait for the next call."""

from __future__ import annotations

import atexit
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

from hushtune.core.errors import WorkerError, described

_PATIENCE = 60.0  # seconds that a worker waits for the next call; at most twice as many
_SERVING = "hushtune.core.processes.serving"
_START = f"import json, sys; sys.path[:] = json.loads(sys.argv[2]); from {_SERVING} import serve; serve()"
_THREADS = ("OMP", "OPENBLAS", "MKL", "BLIS", "NUMEXPR", "NUMBA")
_LIMITS = (*(f"{library}_NUM_THREADS" for library in _THREADS), "VECLIB_MAXIMUM_THREADS", "LOKY_MAX_CPU_COUNT")


@dataclass(frozen=True)
class Died:
    """What comes of a task that killed its worker.

    Args:
        how: the worker's exit code, or the signal that ended it.
        late: whether it was ended because the task took longer than it may.
    """

    how: str
    late: bool = False


class Worker:
    """One worker, seen from here."""

    def __init__(self, threads: int) -> None:
        from multiprocessing import Pipe

        self.threads, self.path, self.alive = threads, _path(), True
        self.since = time.monotonic()  # waiting for the next call
        self.fresh = True  # whether no task can have left anything behind in it
        self._ready, self._owner, self._surroundings = False, os.getpid(), b""
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

    def send(self, surroundings: bytes, content: bytes, arrays: Sequence[int]) -> None:
        """Gives it a task, with the descriptors of large arrays, and says where its parent now is."""
        from multiprocessing.reduction import send_handle

        with suppress(OSError):  # if it is dead, that is heard
            self.line.send_bytes(b"" if surroundings == self._surroundings else surroundings)
            self.line.send_bytes(b"%d" % len(arrays))
            for descriptor in arrays:
                send_handle(self.line, descriptor, self._process.pid)
            self.line.send_bytes(content)
            self._surroundings = surroundings

    @property
    def ready(self) -> bool:
        """Whether it has started: until then its task has not begun."""
        return self._ready

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
        self.fresh = False
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


def surroundings(threads: int) -> bytes:
    """Where this process is, and its environment: for a worker to be there too."""
    try:
        folder = os.getcwd()
    except OSError:  # it was removed
        folder = None
    return pickle.dumps((folder, _environment(threads)))


def _environment(threads: int) -> dict[str, str]:
    """This process's own; a library that the user has set no number of threads for gets the worker's share of cores."""
    return {**dict.fromkeys(_LIMITS, str(threads)), **os.environ}


# ---- workers between calls ---------------------------------------------------------------------------

_ALL: WeakSet[Worker] = WeakSet()
_WAITING: list[Worker] = []
_LOCK = threading.Lock()
_TIMERS: list[threading.Timer] = []


def taken(threads: int) -> Worker | None:
    """A worker that waits, and that was started as a new one would be: elsewhere it may not find the same modules."""
    path = _path()
    with _LOCK:
        for worker in [one for one in _WAITING if one.threads == threads and one.path == path]:
            _WAITING.remove(worker)
            if worker.waits():
                return worker
            worker.end()
    return None


def leave(workers: Iterable[Worker]) -> None:
    """Has workers wait for the next call, for a while."""
    with _LOCK:
        for worker in workers:
            worker.since = time.monotonic()
            _WAITING.append(worker)
        _look_later()


def _look_later() -> None:
    if _WAITING and not _TIMERS:
        _TIMERS.append(timer := threading.Timer(_PATIENCE, _look))
        timer.daemon = True
        timer.start()


def _look() -> None:
    """Ends workers that have waited for long, whatever the others do: nobody may want them as they were started."""
    with _LOCK:
        _TIMERS.clear()
        for worker in [one for one in _WAITING if one.since + _PATIENCE <= time.monotonic()]:
            _WAITING.remove(worker)
            worker.end()
        _look_later()


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
