"""Worker processes: this process hands tasks to some of them, and gets outcomes back as they are done.

A worker has one task at a time, and a line of its own to this process. So it is known during which task it died. That
task is done again in a new worker, unless its worker was new: what an earlier task left behind must not count as its.

- A task that cannot be pickled, or that its worker cannot read, is done in this process.
- What a task raises is raised here. Whatever is still under way is then stopped, as it is by Ctrl-C.
- Workers end with this process, however it ends (`core/processes/serving.py`).
- They wait a minute or two for the next call. A fork of this process has none, and leaves its parent's alone.
"""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from hushtune.core.errors import WorkerError
from hushtune.core.processes.sharing import Sharing
from hushtune.core.processes.worker import Died, Worker, leave, surroundings, taken

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")
_LONGEST = 3600.0  # seconds to wait in one go: systems know no longer waits than some weeks
Task = tuple[Any, ...]
"""The arguments of one call."""


def default_jobs() -> int:
    """As many processes as this process may use cores."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


Ends = Callable[[Any, float], float]
"""When the task with a key, begun at a moment of `time.monotonic`, must be done: asked again whenever one is over."""


def unordered(
    function: Callable[..., _Value],
    tasks: deque[tuple[_Key, Task]],
    jobs: int,
    apart: bool = False,
    ends: Ends | None = None,
) -> Iterator[tuple[_Key, _Value | Died]]:
    """Calls a function once for each task; gives outcomes under their tasks' keys, in the order in which they are done.

    Args:
        function: called with a task's arguments.
        tasks: what to do. It is emptied; whoever reads the outcomes may add to it meanwhile.
        jobs: how many workers. With one, or with less than two tasks, this process does them itself.
        apart: use a worker even then: what kills it must not be seen.
        ends: when each task must be done; a worker that takes longer is ended. A task that is done in this process has
            no such limit.
    """
    if not apart and ends is None and (jobs == 1 or len(tasks) < 2):
        while tasks:
            key, task = tasks.popleft()
            yield key, function(*task)
        return
    crew: _Crew[_Key] = _Crew(jobs, ends)
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

    def __init__(self, jobs: int, ends: Ends | None) -> None:
        self._jobs, self._ends = jobs, ends
        self._threads = max(1, default_jobs() // jobs)  # else every worker would start a thread per core
        self._surroundings = surroundings(self._threads)
        self._sharing = Sharing()
        self._free: list[Worker] = []
        self._busy: dict[Worker, tuple[_Key, Task]] = {}
        self._since: dict[Worker, float] = {}  # when the tasks of those that have started began

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
                over.extend(self._ended(function))
                raised = any(kind == "raised" for *_, (kind, _) in over)
                continue
            key, task, (kind, content) = over.popleft()
            if kind == "raised":
                try:
                    raise content
                finally:
                    del content  # else the error would keep this frame, and all that its callers hold, alive
            yield key, function(*task) if kind == "unreadable" else content

    def _begin(self, function: Callable[..., Any], key: _Key, task: Task, fresh: bool = False) -> bool:
        """Gives a task to a worker, or to a new one; False if it cannot be sent."""
        try:
            content, arrays = self._sharing.dumps((function, task))
        except KeyboardInterrupt:
            raise
        except BaseException:  # whatever a user's own class raises, a library's panic too
            return False
        used = None if fresh else self._free.pop() if self._free else taken(self._threads)
        worker = used or Worker(self._threads)
        self._busy[worker] = key, task
        worker.send(self._surroundings, content, arrays)
        self._time(worker)
        return True

    def _time(self, worker: Worker) -> None:
        """Starts the clock of a worker's task, if the worker has started: starting is not the task's fault."""
        if self._ends is not None and worker.ready:
            self._since[worker] = time.monotonic()

    def _deadlines(self) -> dict[Worker, float]:
        """When the tasks under way must be done, as it is now."""
        if self._ends is None:
            return {}
        return {worker: self._ends(self._busy[worker][0], since) for worker, since in self._since.items()}

    def _late(self) -> Iterator[tuple[_Key, Task, Any]]:
        """Ends workers whose tasks take too long."""
        now = time.monotonic()
        for worker in [one for one, end in self._deadlines().items() if end <= now]:
            key, task = self._busy.pop(worker)
            del self._since[worker]
            yield key, task, ("died", Died(worker.end(), late=True))

    def _ended(self, function: Callable[..., Any]) -> Iterator[tuple[_Key, Task, Any]]:
        """Waits until a worker has something to say. If it died, its task is done again, unless it was its first."""
        from multiprocessing.connection import wait

        lines = {worker.line: worker for worker in self._busy}
        patience = min(self._deadlines().values(), default=math.inf) - time.monotonic()
        for line in wait(list(lines), None if patience == math.inf else max(0.0, min(patience, _LONGEST))):
            worker = lines[line]  # type: ignore[index]
            outcome = worker.heard()
            if outcome is None:
                self._time(worker)
                continue
            if worker.alive:
                self._free.append(worker)
            key, task = self._busy.pop(worker)
            self._since.pop(worker, None)
            if outcome[0] == "died" and not worker.fresh:  # perhaps of what an earlier task has left behind
                self._begin(function, key, task, fresh=True)
            else:
                yield key, task, outcome
        yield from self._late()

    def part(self) -> None:
        """Ends workers that are still at a task; the others wait for the next call."""
        for worker in self._busy:
            worker.end()
        leave(self._free)
        self._sharing.close()
