"""What a client has done for servers, and how much more its owner lets it do.

A server that is never charged can still cost a client its time, and watch how long it takes. So a policy bounds the
configs and the seconds of a run, the seconds of a trial, and how many runs may be begun and never charged.
"""

from __future__ import annotations

import math
import sqlite3
import time
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from hushtune.core.errors import CacheError, RefusedError
from hushtune.core.files import make_private
from hushtune.core.locks import Claim
from hushtune.privacy.policy import Policy

_PATIENCE = 3600.0  # seconds to wait until the client has done what it is at
_TABLES = (
    """CREATE TABLE IF NOT EXISTS work (
    run TEXT, step INTEGER, request BLOB, configs INTEGER, PRIMARY KEY (run, step)) WITHOUT ROWID""",
    "CREATE TABLE IF NOT EXISTS times (run TEXT, part TEXT, seconds REAL, PRIMARY KEY (run, part)) WITHOUT ROWID",
)


@dataclass
class Allowance:
    """How long a client, or one part of its rows, may still score in a run.

    A part has a fixed share, whatever the others do: else one slow record would cost other parts their ballots.

    Args:
        seconds: all that the run may take, added up over processes.
        trial: what scoring one config may take.
        used: what the run has taken so far.
        earlier: what parts have taken in earlier steps, by their names.
    """

    seconds: float = math.inf
    trial: float = math.inf
    used: float = 0.0
    earlier: dict[str, float] = field(default_factory=dict, repr=False)
    _parts: dict[str, Allowance] = field(default_factory=dict, repr=False)
    _running: dict[Hashable, float] = field(default_factory=dict, repr=False)  # tasks under way: when they began

    @classmethod
    def of(cls, policy: Policy | None, earlier: Mapping[str, float] | None = None) -> Allowance:
        """What a policy allows; without one there is no bound."""
        if policy is None:
            return cls()
        whole, one, before = policy.seconds, policy.trial_seconds, dict(earlier or {})
        return cls(math.inf if whole is None else whole, math.inf if one is None else one, before.get("", 0.0), before)

    def part(self, name: str, voters: int) -> Allowance:
        """The share of one part.

        Args:
            name: the part's.
            voters: how many parts there are.
        """
        self._parts[name] = Allowance(self.seconds / voters, self.trial, self.earlier.get(name, 0.0))
        return self._parts[name]

    def taken(self) -> dict[str, float]:
        """What the client as a whole, and each of its parts, has taken in this step."""
        each = {"": self, **self._parts}
        return {name: one.used - self.earlier.get(name, 0.0) for name, one in each.items()}

    @property
    def bounded(self) -> bool:
        """Whether there is any bound to keep to."""
        return math.isfinite(self.seconds) or math.isfinite(self.trial)

    @property
    def over(self) -> bool:
        """Whether the run has used up its time, with what is under way."""
        return self._left() <= 0

    def _left(self) -> float:
        now = time.monotonic()
        return self.seconds - self.used - sum(now - begun for begun in self._running.values())

    def ends(self, key: Hashable, since: float, configs: int) -> float:
        """When a task that is under way must be done: by its own configs' time, and by what all tasks have together.

        Args:
            key: of the task.
            since: when it began, by `time.monotonic`.
            configs: how many it scores.
        """
        self._running[key] = since
        shared = time.monotonic() + self._left() / len(self._running)
        return min(since + self.trial * configs, shared)

    def over_for(self, key: Hashable, took: float | None) -> None:
        """Notes that a task is over.

        Args:
            key: of the task.
            took: seconds, as its process measured them; None: it was ended.
        """
        since = self._running.pop(key, None)
        if took is None:
            took = 0.0 if since is None else time.monotonic() - since
        self.used += took


class Work:
    """A client's own record of the work that it did for each run: one SQLite file, which its owner may remove.

    Args:
        path: of the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            make_private(self.path)
            with closing(sqlite3.connect(self.path, timeout=60, isolation_level=None)) as db:
                for table in _TABLES:
                    db.execute(table)
                db.execute("BEGIN IMMEDIATE")
                yield db
                db.execute("COMMIT")
        except sqlite3.DatabaseError as error:
            raise CacheError(f"{self.path} must be a record of work, but got: {error}; remove it") from None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Inside, no other process works for this client: copies of a message do not multiply what a run may take."""
        path = self.path.with_suffix(".lock")
        make_private(path)
        try:
            claim = Claim(path, _PATIENCE)
        except BlockingIOError:
            raise RefusedError("this client is at work for another request; ask again later") from None
        with claim:
            yield

    def begin(
        self, run: str, step: int, request: bytes, configs: int, policy: Policy, charged: Callable[[], Collection[str]]
    ) -> dict[str, float]:
        """Notes that a step of a run is begun, before anything is done for it; gives the seconds that each part of the
        client has had in this run.

        Raises RefusedError if another request was begun in that step, if the run asks for more work than the policy
        allows, or if too many runs were begun and never charged.

        Args:
            run: its id.
            step: of the run.
            request: stands for what is asked.
            configs: how many the step has this client score.
            policy: the client's own.
            charged: gives the runs that the client's ledger has charged.
        """
        with self._open() as db:
            rows = db.execute("SELECT step, configs, request FROM work WHERE run=?", (run,)).fetchall()
            if any(other == step and known != request for other, _, known in rows):
                raise RefusedError(f"step {step} of this run was begun for another request")
            policy.check_work(configs + sum(asked for other, asked, _ in rows if other != step))
            if not rows:
                paid = charged()
                begun = [one for (one,) in db.execute("SELECT DISTINCT run FROM work") if one not in paid]
                policy.check_unpaid(len(begun))
            db.execute("INSERT OR IGNORE INTO work VALUES (?,?,?,?)", (run, step, request, configs))
            return dict(db.execute("SELECT part, seconds FROM times WHERE run=?", (run,)).fetchall())

    def add(self, run: str, taken: Mapping[str, float]) -> None:
        """Notes what scoring has taken.

        Args:
            run: its id.
            taken: seconds, by part.
        """
        rows = [(run, part, seconds, seconds) for part, seconds in taken.items()]
        with self._open() as db:
            db.executemany(
                "INSERT INTO times VALUES (?,?,?) ON CONFLICT (run, part) DO UPDATE SET seconds = seconds + ?", rows
            )
