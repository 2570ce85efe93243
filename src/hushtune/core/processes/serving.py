"""Inside a worker process (`core/processes/pool.py`): it does one task after the other, until its line is cut."""

from __future__ import annotations

import os
import pickle
import select
import signal
import sys
import threading
import traceback
from contextlib import suppress
from typing import Any

from hushtune.core.errors import WorkerError
from hushtune.core.processes.sharing import loads

_working = False


def in_worker() -> bool:
    """Whether this process is a worker."""
    return _working


def serve() -> None:
    """Does what comes over the line, whose number is the first argument of this process, and ends the process then."""
    global _working  # noqa: PLW0603
    _working = True
    try:
        _serve()
    finally:  # whatever a task has left behind must not keep the process: its parent waits for it
        with suppress(Exception):
            sys.stdout.flush()
        os._exit(1)


def _serve() -> None:
    """One task after the other, until the line is cut."""
    from multiprocessing.connection import Connection
    from multiprocessing.reduction import recv_handle

    number = int(sys.argv[1])
    os.set_inheritable(number, False)
    line: Connection[bytes, bytes] = Connection(number)
    os.register_at_fork(after_in_child=line.close)  # else the line of a worker that died would stay open
    threading.Thread(target=_end_with_parent, args=(number,), daemon=True).start()
    line.send_bytes(b"started")
    with suppress(EOFError):
        while True:
            if surroundings := line.recv_bytes():  # else they are what they were
                _enter(*pickle.loads(surroundings))
            arrays = [recv_handle(line) for _ in range(int(line.recv_bytes()))]
            line.send_bytes(_outcome(line.recv_bytes(), arrays))


def _end_with_parent(number: int) -> None:
    """Waits until nobody is at the other end; kills this process then, whatever it does, and what it has started.

    Not by asking the system for a signal when the parent dies (prctl): that is sent when the parent's thread ends.
    """
    poll = select.poll()
    poll.register(number, 0)  # nothing but the end of the line
    poll.poll()
    os.killpg(0, signal.SIGKILL)


def _enter(folder: str | None, environment: dict[str, str]) -> None:
    """Works where its parent now is, and with its environment: either may have changed since the worker was started."""
    if folder is not None:
        with suppress(OSError):
            os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)


def _outcome(content: bytes, arrays: list[int]) -> bytes:
    """What a task gave: its value, what it raised, or that it cannot be read here."""
    import cloudpickle

    kind: str
    value: Any
    try:
        function, task = loads(content, arrays)
    except BaseException:  # a class that is found in the parent only, or whatever a user's own class raises
        return pickle.dumps(("unreadable", None))
    try:
        kind, value = "done", function(*task)
    except BaseException as error:
        error.add_note(f"\nIn a worker process:\n{traceback.format_exc()}")
        kind, value = "raised", error
    try:
        found: bytes = cloudpickle.dumps((kind, value))
        if kind == "raised":
            pickle.loads(found)  # not every error can be made again
    except Exception as error:
        what = f"a task raised {type(value).__name__}, which" if kind == "raised" else "what a task returned"
        found = pickle.dumps(("raised", WorkerError(f"{what} cannot be sent ({type(error).__name__})")))
    return found
