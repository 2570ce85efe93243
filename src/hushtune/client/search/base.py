"""Search: what fills the clients' trials before they are asked anything."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from statistics import median_low
from typing import Any, Literal

import numpy as np

from hushtune.client import failures
from hushtune.client.failures import Failure
from hushtune.client.objectives.base import checked_losses
from hushtune.client.party import Party
from hushtune.core.arrays import FloatArray
from hushtune.core.checks import integer
from hushtune.core.errors import SettingError
from hushtune.core.observer import Advance, Even
from hushtune.core.space import Candidates, Config, Domain, Space

LARGEST_SEED = 2**31 - 1
_TASKS_PER_JOB = 4


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

    def reach(self, domain: Domain) -> tuple[Space, ...]:
        """Spaces that hold every config which it has clients train with: here the candidates, and no others.

        A search that makes configs of its own names the space that it makes them from.

        Args:
            domain: candidates, or for an adaptive search a space.
        """
        return (self._listed(domain).hull,)

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

        What fails stays with its client: the rules are in `client/failures.py`.

        Args:
            parties: the clients, or the parts of them that answer for themselves.
            domain: the candidates to score.
            jobs: how many worker processes.
            advance: called with the number of configs that are done.
            private: whether the run has an epsilon.
            apart: never score in this process, not even if jobs=1: what kills it must not be seen.
        """
        listed = self._listed(domain)
        configs, asked = listed.configs, sha256(listed.text.encode()).hexdigest()
        todos = [self._todo(party, configs, asked, private) for party in parties]
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
            if not isinstance(outcome, Failure):
                party.keep(part, self.seed, outcome)
            elif party.failure is None:
                failures.fail(party, self.seed, asked, outcome)
            bar.count(len(part))
        bar.end()

    def _todo(self, party: Party, configs: Sequence[Config], asked: str, private: bool) -> list[Config] | None:
        """What a client has to score still; None if it has nothing to score on, or cannot."""
        return failures.work_of(party, self.seed, asked, private, lambda: party.missing(configs, self.seed), "score")

    def _score(
        self, tasks: Sequence[tuple[Party, list[Config]]], jobs: int, apart: bool
    ) -> Iterator[tuple[Party, list[Config], FloatArray | Failure]]:
        """The losses of each task, or what went wrong, as they are found.

        If several configs together took too long, each is scored once more by itself: one of them may be to blame.
        """
        tasks = list(tasks)
        queue = deque((at, self._call(*task)) for at, task in enumerate(tasks))
        bounded = any(party.allowance.bounded for party, _ in tasks)
        allowed = (lambda at: (tasks[at][0].allowance, len(tasks[at][1]))) if bounded else None
        for at, outcome in failures.attempts(checked_losses, queue, jobs, apart, allowed):
            party, todo = tasks[at]
            if outcome is not failures.LATE or party.allowance.over:
                yield party, todo, outcome
                if party.allowance.over:
                    yield from self._given_up(party, tasks, queue)
            elif len(todo) == 1:
                party.log("a config took longer to score than the policy's trial_seconds; it has failed")
                yield party, todo, np.full(1, np.nan)
            else:
                for config in todo:
                    tasks.append((party, [config]))
                    queue.append((len(tasks) - 1, self._call(party, [config])))

    def _given_up(
        self, party: Party, tasks: Sequence[tuple[Party, list[Config]]], queue: deque[tuple[int, tuple[Any, ...]]]
    ) -> Iterator[tuple[Party, list[Config], Failure]]:
        """Takes from the queue what a client, or a part of it, has no time for any more."""
        waiting = list(queue)
        queue.clear()
        for at, call in waiting:
            if tasks[at][0].allowance is party.allowance:
                yield *tasks[at], failures.LATE
            else:
                queue.append((at, call))

    def _call(self, party: Party, configs: list[Config]) -> tuple[Any, ...]:
        return party.objective, configs, party.data, self.seed


def _chunk(todo: int, parties: int, jobs: int) -> int:
    """Whole clients when there are many; parts of a client when there are few."""
    pieces = max(1, -(-_TASKS_PER_JOB * jobs // parties))
    return max(1, -(-todo // pieces))
