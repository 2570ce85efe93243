"""What a client has answered already: one answer per (run, step), the same bytes again, or a refusal."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from hushtune.errors import LedgerError, RefusedError

_TABLE = """CREATE TABLE IF NOT EXISTS answers (
    run TEXT, step INTEGER, request BLOB, reply BLOB, PRIMARY KEY (run, step)) WITHOUT ROWID"""


class Answers:
    """One SQLite file in the client's folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with closing(sqlite3.connect(self.path, timeout=60, isolation_level=None)) as db:
                db.execute("PRAGMA journal_mode=WAL")
                db.execute("PRAGMA synchronous=FULL")
                db.execute(_TABLE)
                yield db
        except sqlite3.DatabaseError as error:
            raise LedgerError(f"{self.path} must be a record of answers, but it is damaged: {error}") from None

    def earlier(self, run: str, step: int, request: bytes) -> bytes | None:
        """The reply already given to this very request; None if there was none.

        Raises RefusedError if the step was answered for another request, or begun and never finished: drawing
        again would be a second noisy opening of the same input.
        """
        with self._open() as db:
            row = db.execute("SELECT request, reply FROM answers WHERE run=? AND step=?", (run, step)).fetchone()
        if row is None:
            return None
        if row[0] != request:
            raise RefusedError(f"step {step} of this run was answered already, for another request")
        if row[1] is None:
            raise RefusedError(f"step {step} of this run was begun and its state is lost; start a new run")
        return bytes(row[1])

    def begin(self, run: str, step: int, request: bytes) -> None:
        """Marks the step as taken, on disk, before any noise is drawn."""
        with self._open() as db:
            taken = db.execute("INSERT OR IGNORE INTO answers VALUES (?,?,?,NULL)", (run, step, request)).rowcount
        if not taken:
            raise RefusedError(f"step {step} of this run is being answered already")

    def finish(self, run: str, step: int, reply: bytes) -> None:
        """Keeps the reply, so that a retransmission is the same bytes."""
        with self._open() as db:
            db.execute("UPDATE answers SET reply=? WHERE run=? AND step=?", (reply, run, step))
