"""Adaptive local search: every client looks for good configs on its own data, with Optuna."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median_low
from typing import Any, Literal

import numpy as np

from hushtune.client.objectives.base import Objective, checked_losses
from hushtune.client.party import Party, Trial
from hushtune.client.search.base import DIED, Search, attempt, default_jobs
from hushtune.core.checks import integer
from hushtune.core.codec import reads
from hushtune.core.errors import SettingError, described, missing
from hushtune.core.fingerprint import fingerprint
from hushtune.core.observer import Advance, Even
from hushtune.core.space import Domain, Space, space_of

SAMPLERS = ("tpe", "random", "gp")
_PIECES = 10  # a client's search is written down, and may be interrupted, after each of so many pieces
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
Task = tuple[Any, ...]


@dataclass(frozen=True)
class Adaptive(Search):
    """A local search over the candidates' space; made by `Search.adaptive`.

    Trial number t depends on the earlier ones and on the seed only, so that a search that was interrupted goes on as if
    it had not been.

    Args:
        trials: per client.
        sampler: Optuna's "tpe" or "random"; "gp" needs PyTorch.
    """

    trials: int = 100
    sampler: Literal["tpe", "random", "gp"] = "tpe"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "trials", integer("trials", self.trials, 1, 10**6))
        if self.sampler not in SAMPLERS:
            raise SettingError(f"sampler must be one of {list(SAMPLERS)}, but got {self.sampler!r}")

    def key(self, space: Space) -> str:
        """One text per search: the number of trials is not part of it, so that a longer one goes on from a shorter."""
        return fingerprint([space.text, self.sampler, self.seed])

    def work(self, parties: int, domain: Domain) -> int:
        """Each has its trials."""
        return parties * self.trials

    def fill(
        self,
        parties: Sequence[Party],
        domain: Domain,
        jobs: int,
        advance: Advance,
        private: bool,
        apart: bool = False,
    ) -> None:
        """Has every client search until it has its trials; the rules about failures are those of `Search.fill`."""
        self.check()
        space = space_of(domain)
        key = self.key(space)
        first = {at: self._next(party, space, key, private, begins=True) for at, party in enumerate(parties)}
        tasks = {at: task for at, task in first.items() if task is not None}
        bar = self._begun(parties, tasks, space, key, advance)
        searching = len(tasks)

        def after(at: int, outcome: list[Trial] | str) -> Task | None:
            nonlocal searching
            party = parties[at]
            if isinstance(outcome, str):
                piece, *others = self._pieces(self._missing(party, space, key))
                searching -= 1
                party.fail(self.seed, outcome)
                bar.count(piece, at)
                bar.owe(others, bar.done + searching, searching)
                return None
            party.keep_search(key, len(party.searched(key)), outcome)
            bar.count(len(outcome), at)
            return self._next(party, space, key, private, begins=False)

        in_turns(tasks, after, jobs, apart)
        bar.end()

    def _begun(
        self,
        parties: Sequence[Party],
        tasks: Mapping[int, Task],
        space: Space,
        key: str,
        advance: Advance,
    ) -> Even:
        """A bar that has counted what is done already, and that owes what those who cannot search will not do."""
        missing = [
            None if party.failure is not None or party.silent else self._missing(party, space, key) for party in parties
        ]
        typical, bar = median_low([count for count in missing if count is not None] or [self.trials]), Even(advance)
        for at, count in enumerate(missing):
            advance(self.trials - (typical if count is None else count), at)
        for at, count in enumerate(missing):
            if count is None:
                bar.owe(self._pieces(typical), sum(other < at for other in tasks), len(tasks))
        return bar

    def _pieces(self, count: int) -> list[int]:
        """The sizes of the pieces in which so many trials are made: all alike, but for a smaller one to begin with."""
        size = -(-self.trials // _PIECES)
        return [count % size] * (count % size > 0) + [size] * (count // size)

    def check(self) -> None:
        """Refuses a sampler whose library is missing."""
        if self.sampler == "gp":
            _need_torch()

    def found(self, party: Party, space: Space) -> list[Trial]:
        """What the client has found: the trials that it brought, and its search from there on."""
        brought = party.brought(space)
        if party.client.objective is None:
            return brought
        return [*brought, *party.searched(self.key(space))][: max(self.trials, len(brought))]

    def _missing(self, party: Party, space: Space, key: str) -> int:
        """How many trials are still to be made."""
        if party.client.objective is None:
            return 0
        return max(0, self.trials - len(party.brought(space)) - len(party.searched(key)))

    def _next(self, party: Party, space: Space, key: str, private: bool, begins: bool) -> Task | None:
        """The next piece of a client's search; None if there is none, or nothing to search on."""
        if begins:
            party.failure = None if not party.silent else party.failure
        try:
            if party.silent or party.objective is None:
                return None
            missing = self._missing(party, space, key)
            if missing == 0:
                return None
            if private and party.failed_before(self.seed):
                party.failure = "the objective failed in an earlier run; remove trials.db to try again"
                return None
            count, *_ = self._pieces(missing)
            return (party.objective, party.data, space, self.found(party, space), count, self.sampler, self.seed)
        except Exception as error:
            party.failure = described(error)
            party.log(f"cannot search: {party.failure}")
            return None


def search_from_json(raw: Mapping[str, Any]) -> Search:
    """The search that `Search.to_json` wrote, or that a study names."""
    return Adaptive(**raw) if "trials" in raw or "sampler" in raw else Search(**raw)


reads(Search, search_from_json)


def _need_torch() -> None:
    from importlib.util import find_spec

    if find_spec("torch") is None:
        raise missing("sampler 'gp'", "torch", "No module named 'torch'")


def search_on(
    objective: Objective, data: Any, space: Space, known: Sequence[Trial], count: int, sampler: str, seed: int
) -> list[Trial]:
    """`count` more trials after those that are known. A config that fails has a loss of NaN."""
    import optuna

    with _quiet_optuna():
        study = optuna.create_study()
        for config, loss in known:
            study.add_trial(_told(config, loss, space))
        return _trials(study, objective, data, space, range(len(known), len(known) + count), sampler, seed)


@contextmanager
def _quiet_optuna() -> Iterator[None]:
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


def _trials(
    study: Any, objective: Objective, data: Any, space: Space, numbers: Iterable[int], sampler: str, seed: int
) -> list[Trial]:
    import optuna

    found: list[Trial] = []
    for number in numbers:
        study.sampler = _sampler(sampler, seed, number)
        trial = study.ask(space.knobs)
        (loss,) = checked_losses(objective, [dict(trial.params)], data, seed)
        if np.isfinite(loss):
            study.tell(trial, float(loss))
        else:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
        found.append((dict(trial.params), float(loss) if np.isfinite(loss) else np.nan))
    return found


def _told(config: Mapping[str, Any], loss: float, space: Space) -> Any:
    import optuna

    complete, failed = optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.FAIL
    good = bool(np.isfinite(loss))
    return optuna.trial.create_trial(
        params=dict(config),
        distributions=space.knobs,
        value=loss if good else None,
        state=complete if good else failed,
    )


def _sampler(name: str, seed: int, number: int) -> Any:
    """A sampler for one trial: its randomness depends on nothing but the seed and the trial's number."""
    import optuna

    own = int(np.random.SeedSequence([seed, number]).generate_state(1)[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some are marked as experimental
        if name == "random":
            return optuna.samplers.RandomSampler(seed=own)
        if name == "gp":
            return optuna.samplers.GPSampler(seed=own)
        return optuna.samplers.TPESampler(seed=own)


# ---- many searches at once ---------------------------------------------------------------------------


def in_turns(first: Mapping[int, Task], after: Callable[[int, Any], Task | None], jobs: int, apart: bool) -> None:
    """Runs tasks in `jobs` processes; `after` gets each outcome, and gives the next task of the same number, if any."""
    if jobs == 1 and not apart:
        queue = deque(first.items())
        while queue:
            at, task = queue.popleft()
            if (more := after(at, attempt(search_on, *task))) is not None:
                queue.append((at, more))
        return
    from concurrent.futures import FIRST_COMPLETED, wait
    from pickle import PicklingError

    from joblib.externals.loky.process_executor import BrokenProcessPool

    pool = _Pool(jobs)
    try:
        running = {pool.submit(task): (at, task) for at, task in first.items()}
        while running:
            over = wait(running, return_when=FIRST_COMPLETED).done
            for future in [one for one in running if one in over]:  # in the order in which they were begun
                at, task = running.pop(future)
                try:
                    outcome = future.result()
                except BrokenProcessPool:  # this task, or another one, killed its process
                    outcome = _alone(task)
                except (PicklingError, TypeError):  # it cannot be sent to another process
                    outcome = attempt(search_on, *task)
                if (more := after(at, outcome)) is not None:
                    running[pool.submit(more)] = (at, more)
    finally:
        pool.close()


def _alone(task: Task) -> Any:
    """A task in a process that nothing else runs in: so that only the one that kills it fails."""
    from joblib.externals.loky.process_executor import BrokenProcessPool, TerminatedWorkerError

    pool = _Pool(1)
    try:
        return pool.submit(task).result()
    except TerminatedWorkerError:
        return DIED
    except BrokenProcessPool:  # it could not be read there
        return attempt(search_on, *task)
    finally:
        pool.close()


class _Pool:
    """Processes for tasks; made anew when one has died."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._pool = self._make()

    def _make(self) -> Any:
        from joblib.externals.loky.process_executor import ProcessPoolExecutor

        share = str(max(1, default_jobs() // self._jobs))  # else every process would start a thread per core
        return ProcessPoolExecutor(self._jobs, env=dict.fromkeys(_THREADS, share))

    def submit(self, task: Task) -> Any:
        from joblib.externals.loky.process_executor import BrokenProcessPool

        try:
            return self._pool.submit(attempt, search_on, *task)
        except BrokenProcessPool:
            self._pool = self._make()
            return self._pool.submit(attempt, search_on, *task)

    def close(self) -> None:
        """Stops all processes of the pool, whatever they are doing."""
        self._pool.shutdown(wait=True, kill_workers=True)
