"""The ledger: a durable record of privacy spent on one owner's data, and a filter that refuses to overspend.

It stores events and replays them; it never stores an epsilon. Checking and reserving are one transaction that
is on disk before anything leaves, and nothing is ever refunded: a crash can only over-count. A client's ledger
also keeps which steps of which runs it has answered, in the same transaction, so that one cannot be lost without
the other.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from hushtune.core.checks import up
from hushtune.core.errors import BudgetError, LedgerError, RefusedError, SettingError
from hushtune.core.files import create_once
from hushtune.privacy.accounting import (
    Budget,
    Neighbours,
    Unit,
    best_order,
    check_budget,
    epsilon_of,
    rule_from_json,
)
from hushtune.privacy.charges import Charge, Terms, left_of, total_of
from hushtune.privacy.events.registry import event_from_json, event_to_json
from hushtune.privacy.guarantee import Privacy, check_terms

_APPLICATION = 0x48555348  # "HUSH"
_VERSION = 1
_TABLES = """
CREATE TABLE terms (id TEXT, unit TEXT, neighbours TEXT, rule TEXT, renyi_order REAL, made REAL);
CREATE TABLE limits (seq INTEGER PRIMARY KEY, epsilon REAL, delta REAL, made REAL);
CREATE TABLE charges (seq INTEGER PRIMARY KEY, run TEXT UNIQUE, what TEXT, neighbours TEXT, delta REAL,
                      events TEXT, made REAL, link TEXT, opened INTEGER DEFAULT 0);
CREATE TABLE steps (run TEXT, step TEXT, request BLOB, reply BLOB, PRIMARY KEY (run, step)) WITHOUT ROWID;
"""
_TOLERANCE = 1 + 1e-9  # sums of floats


@dataclass(frozen=True)
class Entry:
    """A charge as the ledger keeps it.

    Args:
        charge: what the run costs.
        made: seconds since 1970.
        opened: whether what was reserved has been opened.
    """

    charge: Charge
    made: float
    opened: bool


class Ledger:
    """One SQLite file: what was spent on one owner's data, and a filter that refuses to overspend.

    `Ledger.new` makes it; `Ledger(path)` refers to it, whether it is there yet or not. Unit, relation and rule are
    fixed when it is made. It keeps events and computes every epsilon from them again. Checking and reserving are one
    transaction that is on disk before anything leaves, and nothing is refunded: a crash can only over-count.

    Both rules hold for runs that are chosen adaptively: "sums" by basic composition of each run's own tight (epsilon,
    delta); "renyi" as a filter over divergences of one order, fixed beforehand (Feldman and Zrnic 2021). A run stated
    in another relation is converted to "replace-one" by group privacy, (2 epsilon, (1 + e^epsilon) delta), or refused.

    Args:
        path: of the file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r})"

    @classmethod
    def new(
        cls,
        path: str | os.PathLike[str],
        epsilon: float | None = None,
        delta: float | None = None,
        unit: Unit = "client",
        neighbours: Neighbours = "replace-one",
        rule: str = "sums",
    ) -> Ledger:
        """Makes a ledger. Refused if the file exists.

        Args:
            path: where the file goes.
            epsilon: the limit for everything ever charged. None: the first run with an epsilon sets limit, unit
                and relation; until then, runs without epsilon are recorded.
            delta: the limit's delta.
            unit: "client" or "record": what all charges must be stated for.
            neighbours: "replace-one", "zero-out" or "add-remove": the relation all charges must be stated in.
            rule: "sums" adds up each run's own tight epsilon; "renyi" adds up divergences of one order, chosen
                now to suit the limit: worse for a single run, better from two on.
        """
        limit = None if epsilon is None and delta is None else check_budget(epsilon, delta)
        check_terms(unit, neighbours)
        if rule not in ("sums", "renyi"):
            raise SettingError(f"rule must be 'sums' or 'renyi', but got '{rule}'")
        if rule == "renyi" and limit is None:
            raise SettingError("rule 'renyi' fits its order to a limit: give epsilon and delta")
        order = best_order(limit) if rule == "renyi" and limit is not None else None
        terms = (uuid.uuid4().hex, unit, neighbours, rule, order, time.time())

        def write(draft: Path) -> None:
            with closing(sqlite3.connect(draft, isolation_level=None)) as db:
                db.execute("PRAGMA synchronous=OFF")  # the whole draft is made durable before it gets its name
                db.execute(f"PRAGMA application_id={_APPLICATION}")
                db.execute(f"PRAGMA user_version={_VERSION}")
                db.execute("BEGIN")
                for statement in _TABLES.split(";"):
                    db.execute(statement)
                db.execute("INSERT INTO terms VALUES (?,?,?,?,?,?)", terms)
                if limit is not None:
                    _put_limit(db, limit)
                db.execute("COMMIT")

        ledger = cls(path)
        try:
            made = create_once(ledger.path, write)
        except sqlite3.Error as error:
            raise LedgerError(
                f"{ledger.path} cannot be made: {error}; give a path in a folder that files can be written to"
            ) from None
        if not made:
            raise LedgerError(f"{ledger.path} exists already; open it with Ledger(path)")
        return ledger

    @property
    def exists(self) -> bool:
        """Whether the file is there."""
        return self.path.exists()

    @contextmanager
    def connected(self) -> Iterator[Ledger]:
        """The same ledger with one connection for all that is done inside, each in a transaction of its own."""
        with closing(_Connected(self.path)) as ledger:
            yield ledger

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
            if version != _VERSION:
                raise LedgerError(f"{self.path} must have ledger version {_VERSION}, but got {version}")
            db.execute("PRAGMA synchronous=EXTRA")  # the journal's end is on disk too before anything leaves
        except BaseException:
            db.close()
            raise
        return db

    @contextmanager
    def _open(self, write: bool = False) -> Iterator[sqlite3.Connection]:
        try:
            with self._connection() as db:
                db.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                try:
                    yield db
                    db.execute("COMMIT")
                except BaseException:
                    if db.in_transaction:
                        db.execute("ROLLBACK")
                    raise
        except LedgerError as error:
            if str(self.path) in str(error):
                raise
            raise type(error)(f"{self.path}: {error}") from None
        except sqlite3.OperationalError as error:
            raise LedgerError(f"{self.path} cannot be used now: {error}") from None
        except sqlite3.DatabaseError as error:
            raise LedgerError(f"{self.path} must be a hushtune ledger, but it is damaged or foreign: {error}") from None

    # ---- reading -------------------------------------------------------------------------------------

    def terms(self) -> Terms:
        """Unit, relation and rule."""
        with self._open() as db:
            return _terms(db)

    def limit(self) -> Budget | None:
        """The limit in force; None if no run with an epsilon has been charged yet and nobody set one."""
        with self._open() as db:
            return _limit(db)

    def entries(self) -> list[Entry]:
        """All charges, oldest first. A damaged or altered entry is refused, never skipped."""
        with self._open() as db:
            return self._entries(db)

    def spent(self, without: str | None = None, also: Charge | None = None) -> Budget:
        """What all charges, `without` one run's or with one `also`, come to under the ledger's rule, computed now.

        Args:
            without: a run's id that is left out.
            also: a further charge that is counted.
        """
        with self._open() as db:
            charges = [entry.charge for entry in self._entries(db) if entry.charge.run != without]
            charges += [also] if also is not None else []
            return total_of(_terms(db), charges, _limit(db) or Budget(0.0, 0.0))

    def left(self) -> Budget | None:
        """The largest (epsilon, delta) one more run can have; None without a limit."""
        with self._open() as db:
            limit = _limit(db)
            return limit and left_of(_terms(db), [entry.charge for entry in self._entries(db)], limit)

    def _entries(self, db: sqlite3.Connection) -> list[Entry]:
        link, unit = "", _terms(db).unit
        entries: list[Entry] = []
        rows = db.execute(
            "SELECT run, what, neighbours, delta, events, made, link, opened FROM charges ORDER BY seq"
        ).fetchall()
        for *content, kept, opened in rows:
            link = _link(link, content)
            if link != kept:
                raise LedgerError(f"{self.path} was altered at entry {len(entries) + 1}; restore it from a backup")
            run, what, neighbours, delta, events, made = content
            parsed = tuple(event_from_json(event) for event in json.loads(events))
            entries.append(Entry(Charge(run, what, parsed, delta, unit, neighbours), made, bool(opened)))
        return entries

    # ---- writing -------------------------------------------------------------------------------------

    def set_limit(self, epsilon: float, delta: float) -> None:
        """A new limit from now on. The old one stays in the file's history.

        Args:
            epsilon: for everything ever charged.
            delta: likewise.
        """
        limit = check_budget(epsilon, delta)
        with self._open(write=True) as db:
            _put_limit(db, limit)

    def ensure(self, privacy: Privacy | None) -> bool:
        """Makes the ledger if it is not there; the first epsilon asked for sets the limit. True if it was made.

        Args:
            privacy: what the first run asks for, if it asks for any.
        """
        made = False
        if not self.exists:
            try:
                Ledger.new(self.path)
                made = True
            except LedgerError:
                if not self.exists:  # else another process made it a moment ago
                    raise
        if privacy is not None:
            with self._open(write=True) as db:
                if _limit(db) is None:
                    db.execute("UPDATE terms SET unit=?, neighbours=?", (privacy.unit, privacy.neighbours))
                    _put_limit(db, privacy.budget)
        return made

    def check(self, charge: Charge) -> None:
        """Raises what `reserve` would raise now, and records nothing.

        Args:
            charge: what a run would cost.
        """
        with self._open() as db:
            self._admit(db, charge)

    def _admit(self, db: sqlite3.Connection, charge: Charge) -> bool:
        """False if this very charge is there already; BudgetError if it does not fit."""
        terms, limit = _terms(db), _limit(db)
        charges = [entry.charge for entry in self._entries(db)]
        for known in charges:
            if known.run == charge.run:
                if known != charge:
                    raise LedgerError(f"{self.path} has another charge for run {charge.run} already")
                return False
        if charge.exact:
            if limit is not None:
                raise BudgetError(
                    f"the ledger's limit is epsilon {limit.epsilon:g}, and a run without epsilon exceeds any; "
                    "give privacy=Privacy(...), or use other data"
                )
            return True
        if limit is None:
            raise LedgerError(f"{self.path} has no limit yet; set one: hushtune ledger limit {self.path} ...")
        total = total_of(terms, [*charges, charge], limit)
        if total.epsilon > limit.epsilon * _TOLERANCE or total.delta > limit.delta * _TOLERANCE:
            raise BudgetError(self._refusal(terms, charges, total, limit))
        return True

    def reserve(self, charge: Charge) -> None:
        """Checks and records in one transaction, or raises BudgetError and records nothing.

        Reserving the same run again with the same content changes nothing.

        Args:
            charge: what a run costs.
        """
        epsilon_of(charge.events, charge.delta)  # slow the first time: not inside the transaction
        with self._open(write=True) as db:
            self._record(db, charge)

    def _record(self, db: sqlite3.Connection, charge: Charge) -> None:
        if not self._admit(db, charge):
            return
        content = [
            charge.run,
            charge.what,
            charge.neighbours,
            charge.delta,
            json.dumps([event_to_json(event) for event in charge.events]),
            time.time(),
        ]
        last = db.execute("SELECT link FROM charges ORDER BY seq DESC LIMIT 1").fetchone()
        db.execute(
            "INSERT INTO charges (run, what, neighbours, delta, events, made, link) VALUES (?,?,?,?,?,?,?)",
            (*content, _link(last[0] if last else "", content)),
        )

    # ---- a client's answers --------------------------------------------------------------------------

    def answered(self, run: str, step: str, request: bytes) -> bytes | None:
        """The reply already given to this very request; None if there was none.

        Raises RefusedError if the step was answered for another request: that would be a second noisy opening of the
        same input.

        Args:
            run: the run's id.
            step: what is answered.
            request: the digest of what it is answered for.
        """
        with self._open() as db:
            return _answered(db, run, step, request)

    def knows(self, run: str) -> bool:
        """Whether anything was ever answered in a run.

        Args:
            run: its id.
        """
        with self._open() as db:
            return db.execute("SELECT 1 FROM steps WHERE run=? LIMIT 1", (run,)).fetchone() is not None

    def commit(
        self,
        charge: Charge | None,
        run: str,
        step: str,
        request: bytes,
        reply: bytes,
        also: Sequence[tuple[str, bytes, bytes]] = (),
    ) -> bytes:
        """Reserves the run's cost and keeps the reply, in one transaction, before the reply leaves.

        Gives back the reply on record: if another process was faster, that one's, so that only one ever leaves.

        Args:
            charge: what the run costs; None: nothing leaves that depends on data.
            run: the run's id.
            step: what is answered.
            request: the digest of what it is answered for.
            reply: what leaves.
            also: other (step, request, reply) that are answered thereby; each once, as the step itself.
        """
        if charge is not None:
            epsilon_of(charge.events, charge.delta)
        with self._open(write=True) as db:
            if (earlier := _answered(db, run, step, request)) is not None:
                return earlier
            if charge is not None:
                self._record(db, charge)
            for name, sent, kept in [(step, request, reply), *also]:
                if _answered(db, run, name, sent) is None:
                    db.execute("INSERT INTO steps VALUES (?,?,?,?)", (run, name, sent, kept))
        return reply

    def mark_opened(self, run: str) -> None:
        """Notes that what was reserved for a run has been opened. The cost was counted already.

        Args:
            run: its id.
        """
        with self._open(write=True) as db:
            db.execute("UPDATE charges SET opened=1 WHERE run=?", (run,))

    def _refusal(self, terms: Terms, charges: list[Charge], total: Budget, limit: Budget) -> str:
        left = left_of(terms, charges, limit)
        fits = (
            f"a run with epsilon <= {left.epsilon:.4g}, delta <= {left.delta:.3g} would fit"
            if left.epsilon > 0 and left.delta > 0
            else "nothing fits any more"
        )
        return (
            f"the ledger's limit is epsilon {limit.epsilon:g}, delta {limit.delta:g}, but this run would bring it "
            f"to epsilon {total.epsilon:.4g}, delta {total.delta:.3g} (rule '{terms.rule.name}', "
            f"{len(charges)} earlier runs); {fits}; to raise it: hushtune ledger limit {self.path} "
            f"--epsilon {up(max(total.epsilon, limit.epsilon))} --delta {up(max(total.delta, limit.delta))}"
        )


class _Connected(Ledger):
    """A ledger that keeps its connection, once it has one."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._db: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """The one connection; refused if its file is no longer the one that bears the name."""
        if self._db is None:
            self._db, self._file = self._connect(), _identity(self.path)
        elif _identity(self.path) != self._file:
            raise LedgerError(f"{self.path} was removed or replaced while it was in use; restore it")
        yield self._db

    def close(self) -> None:
        if self._db is not None:
            self._db.close()


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _link(before: str, content: Sequence[object]) -> str:
    return hashlib.sha256(json.dumps([before, *content]).encode()).hexdigest()


def _terms(db: sqlite3.Connection) -> Terms:
    rows = db.execute("SELECT id, unit, neighbours, rule, renyi_order, made FROM terms").fetchall()
    if len(rows) != 1:
        raise LedgerError("a ledger must have one line of terms, but it is damaged; restore it from a backup")
    identity, unit, neighbours, rule, order, made = rows[0]
    return Terms(identity, unit, neighbours, rule_from_json({"name": rule, "order": order}), made)


def _limit(db: sqlite3.Connection) -> Budget | None:
    row = db.execute("SELECT epsilon, delta FROM limits ORDER BY seq DESC LIMIT 1").fetchone()
    return Budget(*row) if row is not None else None


def _put_limit(db: sqlite3.Connection, limit: Budget) -> None:
    db.execute("INSERT INTO limits VALUES (NULL,?,?,?)", (limit.epsilon, limit.delta, time.time()))


def _answered(db: sqlite3.Connection, run: str, step: str, request: bytes) -> bytes | None:
    row = db.execute("SELECT request, reply FROM steps WHERE run=? AND step=?", (run, step)).fetchone()
    if row is None:
        return None
    if row[0] != request:
        raise RefusedError(
            f"step '{step}' of this run was answered already, for another request; if it was interrupted right then, "
            "begin another one in a new folder"
        )
    return bytes(row[1])
