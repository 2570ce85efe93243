"""A ledger's file with the anchor beside it: connections, and transactions that leave both on disk.

A transaction that changes something is done in this order: take the write lock; see that the ledger is as the anchor
says; make the changes; write the anchor with the state before and the state after; commit; take the lock again and
write the anchor with what is there. The process may be killed between any two of them: the ledger is in a state that
the anchor knows, and whoever opens it next brings the anchor level before it uses anything. No write of the anchor
happens without the lock, so of several processes none puts it back.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from hushtune.core.errors import CacheError, LedgerError
from hushtune.core.files import create_once, own
from hushtune.privacy.anchor import Anchor, State, remedy_of_damage
from hushtune.privacy.ledger_rows import TABLES, DamageError, state_of

_APPLICATION = 0x48555348  # "HUSH"
_UNANCHORED = 1  # as release 0.1 made them: the anchor is written when it is first used
_VERSION = 2


class LedgerFile:
    """Where a ledger is kept.

    Args:
        path: of the file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.anchor = Anchor(self.path)

    @property
    def exists(self) -> bool:
        """Whether the file is there. Raises LedgerError if it is gone: its anchor says that there was one."""
        anchored = self.anchor.exists  # looked at first: another process may make the ledger right now, then this
        if self.path.exists():
            return True
        if anchored:
            raise self.anchor.gone()
        return False

    def create(self, fill: Callable[[sqlite3.Connection], None], accept_loss: bool = False) -> None:
        """Makes the file and its anchor. Refused if the file exists, or if it is gone.

        Args:
            fill: puts the first rows into the tables.
            accept_loss: whether one that is gone is given up.
        """
        with self._told():
            if not accept_loss and self.exists:
                raise self._taken()
            self._create(fill, accept_loss)
            with self.transaction():
                pass  # it writes the anchor

    def _create(self, fill: Callable[[sqlite3.Connection], None], accept_loss: bool) -> None:
        def write(draft: Path) -> None:
            with closing(sqlite3.connect(draft, isolation_level=None)) as db:
                db.execute("PRAGMA synchronous=OFF")  # the whole draft is made durable before it gets its name
                db.execute(f"PRAGMA application_id={_APPLICATION}")
                db.execute(f"PRAGMA user_version={_VERSION}")
                db.execute("BEGIN")
                for statement in TABLES.split(";"):
                    db.execute(statement)
                fill(db)
                db.execute("COMMIT")
                if accept_loss and not self.path.exists():
                    self.anchor.write(*self._given_up(), state_of(db))

        try:
            made = create_once(self.path, write, private=True)
        except (sqlite3.Error, OSError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise LedgerError(
                f"{self.path} cannot be made: {why}; give a path in a folder that files can be written to"
            ) from None
        if not made:
            raise self._taken()

    def _taken(self) -> LedgerError:
        return LedgerError(f"{self.path} exists already; open it with Ledger(path)")

    @contextmanager
    def connected(self) -> Iterator[LedgerFile]:
        """The same file with one connection for all that is done inside, each in a transaction of its own."""
        with closing(_Connected(self.path)) as file:
            yield file

    @contextmanager
    def transaction(self, write: bool = False, accept_loss: bool = False) -> Iterator[sqlite3.Connection]:
        """A connection inside a transaction, which is committed at the end; ledger and anchor are on disk then.

        Args:
            write: whether it changes anything; then nobody else writes meanwhile.
            accept_loss: whether a ledger that is not as the anchor says is taken as it is from now on.
        """
        with self._told(), self._connection() as db:
            if write:
                with self._writing(db, accept_loss):
                    yield db
            else:
                with self._reading(db):
                    yield db

    @contextmanager
    def _reading(self, db: sqlite3.Connection) -> Iterator[None]:
        """What is read may leave, so the anchor knows it: another process may be about to write it, or was killed."""
        while True:
            with _begun(db):
                state, known = self._checked(db)
                if known == (state,) and _version(db) == _VERSION:
                    yield
                    return
            with _begun(db, "IMMEDIATE"):
                self._settle(db)

    @contextmanager
    def _writing(self, db: sqlite3.Connection, accept_loss: bool) -> Iterator[None]:
        with _begun(db, "IMMEDIATE"):
            before = state_of(db) if accept_loss else self._settle(db)
            yield
            after = state_of(db)
            if accept_loss:  # until it is committed, what is here is refused as before
                self.anchor.write(*self._given_up(), after)
            elif after != before:
                self.anchor.write(before, after)
        if after != before or accept_loss:
            with _begun(db, "IMMEDIATE"):
                self._settle(db)

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        with closing(self._connect()) as db:
            yield db

    def _connect(self) -> sqlite3.Connection:
        if not self.exists:
            raise LedgerError(f"{self.path} does not exist; make it with `hushtune ledger limit {self.path} ...`")
        db = sqlite3.connect(self.path, timeout=120, isolation_level=None)
        try:
            kind, version = db.execute(
                "SELECT application_id, user_version FROM pragma_application_id, pragma_user_version"
            ).fetchone()
            if kind != _APPLICATION:
                raise LedgerError(f"{self.path} must be a hushtune ledger, but it is another kind of file")
            if version not in (_UNANCHORED, _VERSION):
                raise LedgerError(f"{self.path} must have ledger version {_VERSION} or less, but got {version}")
            if db.execute("SELECT 1 FROM sqlite_master WHERE type IN ('trigger', 'view')").fetchone() is not None:
                raise DamageError("it has triggers or views, which no ledger has")
            for private in (self.path, Path(f"{self.path}-journal")):  # it is a ledger: nobody else's file is touched
                own(private)
            db.execute("PRAGMA synchronous=EXTRA")  # the journal's end is on disk too before anything leaves
        except BaseException:
            db.close()
            raise
        return db

    def _checked(self, db: sqlite3.Connection) -> tuple[State, tuple[State, ...]]:
        """The ledger's state and those that the anchor knows; refused if it is none of them. Inside a transaction:
        nobody commits between the two readings. A ledger that never had an anchor is trusted on its first use.
        """
        state = state_of(db)  # first: it takes the lock
        known = self.anchor.read()
        if known or not (state.empty or _version(db) == _UNANCHORED):
            self.anchor.check(state, known)
        return state, known

    def _settle(self, db: sqlite3.Connection) -> State:
        """The ledger's state, once the anchor knows it and no other. Under the lock, so that it is never put back."""
        state, known = self._checked(db)
        if known != (state,):
            self.anchor.write(state)
        if _version(db) != _VERSION:
            db.execute(f"PRAGMA user_version={_VERSION}")
        return state

    def _given_up(self) -> tuple[State, ...]:
        """What the anchor knows of a ledger whose loss is accepted: nothing, if it is damaged itself."""
        try:
            return self.anchor.read()
        except LedgerError:
            return ()

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Errors are LedgerErrors that name the file."""
        try:
            yield
        except DamageError as error:
            raise LedgerError(f"{self.path} is damaged: {error}; {remedy_of_damage(self.path)}") from None
        except LedgerError as error:
            if str(self.path) in str(error):
                raise
            raise type(error)(f"{self.path}: {error}") from None
        except CacheError as error:
            raise LedgerError(str(error)) from None
        except (sqlite3.OperationalError, OSError) as error:
            raise LedgerError(f"{self.path} cannot be used now: {error}") from None
        except sqlite3.DatabaseError as error:
            raise LedgerError(
                f"{self.path} must be a hushtune ledger, but it is damaged or foreign: {error}; "
                f"{remedy_of_damage(self.path)}"
            ) from None


class _Connected(LedgerFile):
    """A ledger's file that keeps its connection, once it has one."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._db: sqlite3.Connection | None = None
        self._inode: tuple[int, int] | None = None

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """The one connection; refused if its file is no longer the one that bears the name."""
        if self._db is None:
            self._inode, self._db = _inode(self.path), self._connect()
        elif _inode(self.path) != self._inode:
            raise LedgerError(f"{self.path} was removed or replaced while it was in use; put it back")
        yield self._db

    def close(self) -> None:
        if self._db is not None:
            self._db.close()


@contextmanager
def _begun(db: sqlite3.Connection, how: str = "") -> Iterator[None]:
    """A transaction, which is undone if anything is raised inside."""
    db.execute(f"BEGIN {how}")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _version(db: sqlite3.Connection) -> int:
    (version,) = db.execute("PRAGMA user_version").fetchone()
    return int(version)


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
