"""Search: what fills the clients' trials before they are asked anything."""

from __future__ import annotations

import atexit
import os
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import median_low
from typing import Any, Literal, TypeVar

from hushtune.client.objectives.base import Objective, checked_losses
from hushtune.client.party import Party
from hushtune.core.arrays import FloatArray
from hushtune.core.checks import integer
from hushtune.core.errors import SettingError, described
from hushtune.core.observer import Advance, Even
from hushtune.core.space import Candidates, Config, Domain

LARGEST_SEED = 2**31 - 1
_TASKS_PER_JOB = 4
_Outcome = TypeVar("_Outcome")


@dataclass(frozen=True)
class Search:
    """Scores every candidate on every client.

    Args:
        seed: given to the objective (initial weights, splits). It is public and has nothing to do with noise.
    """

    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", integer("seed", self.seed, 0, LARGEST_SEED))

    @staticmethod
    def adaptive(trials: int = 100, sampler: Literal["tpe", "random", "gp"] = "tpe", seed: int = 0) -> Search:
        """Each client searches the candidates' space on its own, with Optuna, instead of scoring the candidates.

        Args:
            trials: how many configs each client tries.
            sampler: "tpe", "random", or "gp", which needs PyTorch.
            seed: of the sampler and of the objective. Public.
        """
        from hushtune.client.search.adaptive import Adaptive

        return Adaptive(seed, trials, sampler)

    def check(self) -> None:
        """Refuses what cannot be done on this machine."""

    def to_json(self) -> dict[str, Any]:
        """Its settings; `adaptive.search_from_json` reads them."""
        return asdict(self)

    def work(self, parties: int, domain: Domain) -> int:
        """How many configs so many clients, or parts of them, will score.

        Args:
            parties: clients, or parts of them.
            domain: candidates, or for an adaptive search a space.
        """
        return parties * len(self._listed(domain))

    def _listed(self, domain: Domain) -> Candidates:
        if not isinstance(domain, Candidates):
            raise SettingError("a space cannot be scored config by config: use Search.adaptive()")
        return domain

    def fill(
        self,
        parties: Sequence[Party],
        domain: Domain,
        jobs: int,
        advance: Advance,
        private: bool,
        apart: bool = False,
    ) -> None:
        """Scores what is missing, in parallel over clients and configs; keeps each part as it arrives.

        A client whose objective fails keeps the reason to itself (`Party.failure`, and its own log). In a private
        run it is not tried again in the next one either: the work that is visibly left would tell that it failed.

        Args:
            parties: the clients, or the parts of them that answer for themselves.
            domain: the candidates to score.
            jobs: how many processes.
            advance: called with the number of configs that are done.
            private: whether the run has an epsilon.
            apart: never score in this process, not even if jobs=1: what kills it must not be seen.
        """
        configs = self._listed(domain).configs
        todos = [self._todo(party, configs, private) for party in parties]
        typical = median_low([len(todo) for todo in todos if todo is not None] or [len(configs)])
        bar = Even(advance)
        tasks: list[tuple[Party, list[Config]]] = []
        for todo in todos:
            advance(len(configs) - (typical if todo is None else len(todo)))
        for party, todo in zip(parties, todos, strict=True):
            size = _chunk(typical if todo is None else len(todo), len(parties), jobs)
            if todo is None:
                bar.owe((min(size, typical - at) for at in range(0, typical, size)), len(tasks))
            else:
                tasks += [(party, todo[at : at + size]) for at in range(0, len(todo), size)]
        for party, part, outcome in self._score(tasks, jobs, apart):
            if not isinstance(outcome, str):
                party.keep(part, self.seed, outcome)
            elif party.failure is None:
                party.fail(self.seed, outcome)
            bar.count(len(part))
        bar.end()

    def _todo(self, party: Party, configs: Sequence[Config], private: bool) -> list[Config] | None:
        """What a client has to score still; None if it has nothing to score on, or cannot."""
        if party.silent:
            return None
        party.failure = None
        try:
            todo = party.missing(configs, self.seed)
            if todo and private and party.failed_before(self.seed):
                party.failure = "the objective failed in an earlier run; remove trials.db to try again"
        except Exception as error:  # the client's own data or objective cannot even be told apart
            party.failure = described(error)
            party.log(f"cannot score: {party.failure}")
        return todo if party.failure is None else None

    def _score(
        self, tasks: list[tuple[Party, list[Config]]], jobs: int, apart: bool
    ) -> Iterator[tuple[Party, list[Config], FloatArray | str]]:
        work = [(party.objective, todo, party.data, self.seed) for party, todo in tasks]
        if jobs > 1 and len(work) > 1:
            outcomes = _pool(work, jobs)
        else:
            outcomes = (_alone(at, *task) if apart else _numbered(at, *task) for at, task in enumerate(work))
        for at, outcome in outcomes:
            yield *tasks[at], outcome


def default_jobs() -> int:
    """As many processes as this process may use cores."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _chunk(todo: int, parties: int, jobs: int) -> int:
    """Whole clients when there are many; parts of a client when there are few."""
    pieces = max(1, -(-_TASKS_PER_JOB * jobs // parties))
    return max(1, -(-todo // pieces))


_OTHERS: dict[int, Any] = {}  # for each process the one that scores for it: what was forked has none yet
DIED = "the process that scored this client died"
_IDLE = 60  # seconds after which that one ends
_Task = tuple[Objective | None, Sequence[Config], Any, int]


def _pool(work: Sequence[_Task], jobs: int) -> Iterator[tuple[int, FloatArray | str]]:
    """Outcomes with their task's number, in the order in which processes finish.

    If a task kills its process, the tasks left over run in processes of their own, so that only the culprit fails.
    """
    from pickle import PicklingError

    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import BrokenProcessPool

    left = dict(enumerate(work))
    calls = [delayed(_numbered)(at, *task) for at, task in left.items()]
    try:
        for at, outcome in Parallel(n_jobs=jobs, backend="loky", return_as="generator_unordered")(calls):
            del left[at]
            yield at, outcome
    except (BrokenProcessPool, PicklingError):
        for at, task in left.items():
            yield _alone(at, *task)


def _alone(at: int, *task: Any) -> tuple[int, FloatArray | str]:
    """The outcome of one task in another process; if it cannot be sent there at all, in this one."""
    from pickle import PicklingError

    from joblib.externals.loky.process_executor import BrokenProcessPool, ProcessPoolExecutor, TerminatedWorkerError

    me = os.getpid()
    if me not in _OTHERS:
        _OTHERS[me] = ProcessPoolExecutor(1, timeout=_IDLE)
        atexit.register(_end, me)
    try:
        found: tuple[int, FloatArray | str] = _OTHERS[me].submit(_numbered, at, *task).result()
        return found
    except TerminatedWorkerError:
        _end(me)
        return at, DIED
    except BrokenProcessPool:  # it could not be read there
        _end(me)
    except (PicklingError, TypeError):
        pass
    except BaseException:  # Ctrl-C: what runs there is not waited for
        _end(me)
        raise
    return _numbered(at, *task)


def _end(process: int) -> None:
    if process == os.getpid() and process in _OTHERS:
        _OTHERS.pop(process).shutdown(wait=True, kill_workers=True)


def _numbered(at: int, *task: Any) -> tuple[int, FloatArray | str]:
    return at, _attempt(*task)


def _attempt(objective: Objective | None, configs: Sequence[Config], data: Any, seed: int) -> FloatArray | str:
    """Losses, or the text of what went wrong."""
    assert objective is not None
    return attempt(checked_losses, objective, configs, data, seed)


def attempt(function: Callable[..., _Outcome], *arguments: Any) -> _Outcome | str:
    """What a function that calls an objective gives, or the text of what went wrong."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a warning may quote data
            return function(*arguments)
    except KeyboardInterrupt:
        raise
    except BaseException:  # also an objective that calls sys.exit
        return traceback.format_exc()
