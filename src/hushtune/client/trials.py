"""Trials: (config, loss) pairs that a client has computed once and keeps, so that nothing is scored twice.

The cache lies with the client and holds the client's raw results: it is as private as the data.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hushtune.core.arrays import FloatArray
from hushtune.core.errors import CacheError, SettingError
from hushtune.core.files import make_private, own
from hushtune.core.space import Config, config_key

if TYPE_CHECKING:
    import optuna

_TABLE = """CREATE TABLE IF NOT EXISTS trials (
    data TEXT, objective TEXT, seed INTEGER, config TEXT, loss REAL,
    PRIMARY KEY (data, objective, seed, config)) WITHOUT ROWID"""


_SEARCHES = """CREATE TABLE IF NOT EXISTS searches (
    data TEXT, objective TEXT, search TEXT, number INTEGER, config TEXT, loss REAL,
    PRIMARY KEY (data, objective, search, number)) WITHOUT ROWID"""
_FAILURE = "failed at "  # in place of a config's key, which is always JSON


class TrialStore:
    """Losses by (data fingerprint, objective fingerprint, seed, config), in one SQLite file, made when first used."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._made = False

    def check(self) -> None:
        """Refuses a file of another kind."""
        with self._open():
            pass

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            make_private(self.path)
            for beside in ("-wal", "-shm"):
                own(Path(f"{self.path}{beside}"))
            with closing(sqlite3.connect(self.path, timeout=60, isolation_level=None)) as db:
                if not self._made:
                    db.execute("PRAGMA journal_mode=WAL")
                    db.execute(_TABLE)
                    db.execute(_SEARCHES)
                    self._made = True
                yield db
        except sqlite3.DatabaseError as error:
            raise CacheError(f"{self.path} must be a trial cache, but got: {error}; remove it to score anew") from None

    def get(self, data: str, objective: str, seed: int) -> dict[str, float]:
        """All known losses of one client and objective, by config key. A failed config is NaN."""
        with self._open() as db:
            rows = db.execute(
                "SELECT config, loss FROM trials WHERE data=? AND objective=? AND seed=?",
                (data, objective, seed),
            )
            return {config: np.nan if loss is None else float(loss) for config, loss in rows}

    def put(self, data: str, objective: str, seed: int, configs: Sequence[Config], losses: FloatArray) -> None:
        """Keeps what was scored."""
        rows = [
            (data, objective, seed, config_key(config), None if np.isnan(loss) else float(loss))
            for config, loss in zip(configs, losses, strict=True)
        ]
        with self._open() as db:
            db.execute("BEGIN IMMEDIATE")
            db.executemany("INSERT OR REPLACE INTO trials VALUES (?,?,?,?,?)", rows)
            db.execute("COMMIT")

    def get_search(self, data: str, objective: str, search: str) -> list[tuple[Config, float]]:
        """What an adaptive search has found so far, in its order. A failed config is NaN."""
        with self._open() as db:
            rows = db.execute(
                "SELECT config, loss FROM searches WHERE data=? AND objective=? AND search=? ORDER BY number",
                (data, objective, search),
            )
            return [(json.loads(config), np.nan if loss is None else float(loss)) for config, loss in rows]

    def put_search(
        self, data: str, objective: str, search: str, start: int, found: Sequence[tuple[Config, float]]
    ) -> None:
        """Adds to what an adaptive search has found, from its trial number `start` on; a trial that is there stays."""
        with self._open() as db:
            db.execute("BEGIN IMMEDIATE")
            rows = [
                (data, objective, search, start + at, config_key(config), None if np.isnan(loss) else float(loss))
                for at, (config, loss) in enumerate(found)
            ]
            db.executemany("INSERT OR IGNORE INTO searches VALUES (?,?,?,?,?,?)", rows)
            db.execute("COMMIT")

    def put_failure(self, data: str, objective: str, seed: int, asked: str) -> None:
        """Remembers that the objective failed on this data when this was asked of it."""
        with self._open() as db:
            db.execute("INSERT OR REPLACE INTO trials VALUES (?,?,?,?,NULL)", (data, objective, seed, _FAILURE + asked))

    def has_failure(self, data: str, objective: str, seed: int, asked: str) -> bool:
        """Whether `put_failure` was called for it."""
        key = (data, objective, seed, _FAILURE + asked)
        with self._open() as db:
            found = db.execute("SELECT 1 FROM trials WHERE data=? AND objective=? AND seed=? AND config=?", key)
            return found.fetchone() is not None


class Passing(TrialStore):
    """Knows what a store has and adds to its trials, but keeps searches to itself: for repetitions of a simulation.

    Args:
        kept: the store.
    """

    def __init__(self, kept: TrialStore) -> None:
        super().__init__(kept.path)
        self._trials: dict[tuple[str, str, int], dict[str, float]] = {}
        self._searches: dict[tuple[str, str, str], list[tuple[Config, float]]] = {}
        self._failures: dict[tuple[str, str, int, str], bool] = {}

    def get(self, data: str, objective: str, seed: int) -> dict[str, float]:
        """The losses by config, read from the store once."""
        key = (data, objective, seed)
        if key not in self._trials:
            self._trials[key] = super().get(*key)
        return self._trials[key]

    def put(self, data: str, objective: str, seed: int, configs: Sequence[Config], losses: FloatArray) -> None:
        """Kept in the store."""
        super().put(data, objective, seed, configs, losses)
        self._trials.pop((data, objective, seed), None)

    def get_search(self, data: str, objective: str, search: str) -> list[tuple[Config, float]]:
        """What was added here."""
        return self._searches.get((data, objective, search), [])

    def put_search(
        self, data: str, objective: str, search: str, start: int, found: Sequence[tuple[Config, float]]
    ) -> None:
        """A trial that is there stays."""
        own = self._searches.setdefault((data, objective, search), [])
        own += found[len(own) - start :]

    def put_failure(self, data: str, objective: str, seed: int, asked: str) -> None:
        """Kept in the store."""
        super().put_failure(data, objective, seed, asked)
        self._failures[data, objective, seed, asked] = True

    def has_failure(self, data: str, objective: str, seed: int, asked: str) -> bool:
        """Whether scoring has failed before, read from the store once."""
        key = (data, objective, seed, asked)
        if key not in self._failures:
            self._failures[key] = super().has_failure(*key)
        return self._failures[key]


def from_study(study: optuna.Study) -> dict[str, float]:
    """The completed trials of an existing Optuna study as losses by config key (a maximised value is negated)."""
    import optuna

    if len(study.directions) != 1:
        raise SettingError(f"a study must have one objective, but got {len(study.directions)}")
    sign = -1.0 if study.direction == optuna.study.StudyDirection.MAXIMIZE else 1.0
    complete = (optuna.trial.TrialState.COMPLETE,)
    trials: list[Any] = study.get_trials(deepcopy=False, states=complete)
    return {config_key(trial.params): sign * float(trial.value) for trial in trials}
