"""Adaptive local search: every client looks for good configs on its own data, with Optuna."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median_low
from typing import Any, Literal

import numpy as np

from hushtune.client import failures
from hushtune.client.failures import Failure
from hushtune.client.objectives.base import Objective, checked_losses
from hushtune.client.party import Party, Trial
from hushtune.client.search.base import Search
from hushtune.core.checks import integer
from hushtune.core.codec import reads
from hushtune.core.errors import SettingError, missing
from hushtune.core.fingerprint import fingerprint
from hushtune.core.observer import Advance, Even
from hushtune.core.processes.pool import Task
from hushtune.core.space import Domain, Space, space_of

SAMPLERS = ("tpe", "random", "gp")
_PIECES = 10  # a client's search is written down, and may be interrupted, after each of so many pieces


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

    def reach(self, domain: Domain) -> tuple[Space, ...]:
        """All of the space: whatever candidates there are, clients search."""
        return (space_of(domain),)

    def fill(
        self,
        parties: Sequence[Party],
        domain: Domain,
        jobs: int,
        advance: Advance,
        private: bool,
        apart: bool = False,
    ) -> None:
        """Has every client search until it has its trials."""
        self.check()
        space = space_of(domain)
        key = self.key(space)
        first = {at: self._next(party, space, key, private) for at, party in enumerate(parties)}
        tasks = {at: task for at, task in first.items() if task is not None}
        bar = self._begun(parties, tasks, space, key, advance)
        searching, queue = len(tasks), deque(tasks.items())
        bounded = any(party.allowance.bounded for party in parties)
        allowed = (lambda at: (parties[at].allowance, _count_of(tasks[at]))) if bounded else None
        for at, outcome in failures.attempts(search_on, queue, jobs, apart, allowed):
            party = parties[at]
            if outcome is failures.LATE and not party.allowance.over:
                tasks[at] = _slower(tasks[at])
                queue.append((at, tasks[at]))
                continue
            if isinstance(outcome, Failure):
                piece, *others = self._pieces(self._missing(party, space, key))
                searching -= 1
                failures.fail(party, self.seed, key, outcome)
                bar.count(piece, at)
                bar.owe(others, bar.done + searching, searching)
                continue
            party.keep_search(key, len(party.searched(key)), outcome)
            bar.count(len(outcome), at)
            if (more := self._next(party, space, key, private)) is not None:
                tasks[at] = more
                queue.append((at, more))
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

    def _next(self, party: Party, space: Space, key: str, private: bool) -> Task | None:
        """The next piece of a client's search; None if there is none, or nothing to search on, or it cannot."""
        return failures.work_of(party, self.seed, key, private, lambda: self._piece(party, space, key), "search")

    def _piece(self, party: Party, space: Space, key: str) -> Task | None:
        missing = self._missing(party, space, key)
        if missing == 0:
            return None
        count, *_ = self._pieces(missing)
        return (party.objective, party.data, space, self.found(party, space), count, self.sampler, self.seed)


def _count_of(task: Task) -> int:
    """How many trials a piece of a search makes."""
    return int(task[4])


def _slower(task: Task) -> Task:
    """A piece that took too long, once more: with one trial, or, if it had one, without scoring it."""
    objective, data, space, known, count, sampler, seed = task
    return (objective if count > 1 else None, data, space, known, 1, sampler, seed)


def search_from_json(raw: Mapping[str, Any]) -> Search:
    """The search that `Search.to_json` wrote, or that a study names."""
    return Adaptive(**raw) if "trials" in raw or "sampler" in raw else Search(**raw)


reads(Search, search_from_json)


def _need_torch() -> None:
    from importlib.util import find_spec

    if find_spec("torch") is None:
        raise missing("sampler 'gp'", "torch", "No module named 'torch'")


def search_on(
    objective: Objective | None, data: Any, space: Space, known: Sequence[Trial], count: int, sampler: str, seed: int
) -> list[Trial]:
    """`count` more trials after those that are known. A config that fails has a loss of NaN.

    Without an objective nothing is scored: every trial has failed.
    """
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
    study: Any, objective: Objective | None, data: Any, space: Space, numbers: Iterable[int], sampler: str, seed: int
) -> list[Trial]:
    import optuna

    found: list[Trial] = []
    for number in numbers:
        study.sampler = _sampler(sampler, seed, number)
        trial = study.ask(space.knobs)
        loss = np.full(1, np.nan)
        if objective is not None:
            loss = checked_losses(objective, [dict(trial.params)], data, seed)
        if np.isfinite(loss[0]):
            study.tell(trial, float(loss[0]))
        else:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
        found.append((dict(trial.params), float(failures.finite_or_nan(loss)[0])))
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
