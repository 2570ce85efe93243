"""The ledger: a durable record of privacy spent on one owner's data, and a filter that refuses to overspend.

It stores events and replays them; it never stores an epsilon. Checking and reserving are one transaction that
is on disk before anything leaves, and nothing is ever refunded: a crash can only over-count. A client's ledger
also keeps which steps of which runs it has answered, in the same transaction, so that one cannot be lost without
the other. An anchor beside it (`privacy/anchor.py`) notices if something of it is lost.
"""

from __future__ import annotations

import os
import sqlite3
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from hushtune.core.errors import BudgetError, LedgerError, SettingError
from hushtune.core.words import as_set, down, up
from hushtune.privacy.accounting import Budget, Neighbours, Unit, best_order, check_budget, check_rule, epsilon_of
from hushtune.privacy.charges import Charge, Terms, left_of, total_of
from hushtune.privacy.guarantee import EPSILON_RANGE, Privacy, check_terms
from hushtune.privacy.ledger_file import LedgerFile
from hushtune.privacy.ledger_rows import (
    Entry,
    answer_in,
    entries_of,
    limit_of,
    put_charge,
    put_limit,
    terms_of,
)
from hushtune.privacy.pure import impurity

_TOLERANCE = 1 + 1e-9  # of epsilons that are computed in floats; at delta 0 they are exact


class Ledger:
    """One SQLite file: what was spent on one owner's data, and a filter that refuses to overspend.

    `Ledger.new` makes it; `Ledger(path)` refers to it, whether it is there yet or not. Unit, relation and rule are
    fixed when it is made. It keeps events and computes every epsilon from them again. Checking and reserving are one
    transaction that is on disk before anything leaves, and nothing is refunded: a crash can only over-count. A file
    beside it, the anchor, knows what it holds: whatever was deleted, altered or put back from an older copy is refused.

    Both rules hold for runs that are chosen adaptively: "sums" by basic composition of each run's own tight (epsilon,
    delta); "renyi" as a filter over divergences of one order, fixed beforehand (Feldman and Zrnic 2021). A run stated
    in another relation is converted to "replace-one" by group privacy, (2 epsilon, (1 + e^epsilon) delta), or refused.
    Runs at delta 0 add nothing to delta, and their sums are exact.

    Args:
        path: of the file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file = LedgerFile(path)

    @property
    def path(self) -> Path:
        """Where the file is."""
        return self._file.path

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
        accept_loss: bool = False,
    ) -> Ledger:
        """Makes a ledger. Refused if the file exists, or if it did and is gone.

        Args:
            path: where the file goes.
            epsilon: the limit for everything ever charged. None: the first run with an epsilon sets limit, unit
                and relation; until then, runs without epsilon are recorded.
            delta: the limit's delta. 0: only runs fit that open nothing but what is pure, under rule "sums".
            unit: "client" or "record": what all charges must be stated for.
            neighbours: "replace-one", "zero-out" or "add-remove": the relation all charges must be stated in.
            rule: "sums" adds up each run's own tight epsilon; "renyi" adds up divergences of one order, chosen
                now to suit the limit: worse for a single run, better from two on.
            accept_loss: makes it though an earlier one is gone: the limit must be what is certainly left.
        """
        limit = None if epsilon is None and delta is None else check_budget(epsilon, delta)
        check_terms(unit, neighbours)
        if rule not in ("sums", "renyi"):
            raise SettingError(f"rule must be 'sums' or 'renyi', but got '{rule}'")
        if rule == "renyi" and limit is None:
            raise SettingError("rule 'renyi' fits its order to a limit: give epsilon and delta")
        order = None
        if limit is not None:
            check_rule(rule, limit)
            order = best_order(limit) if rule == "renyi" else None
        terms = (uuid.uuid4().hex, unit, neighbours, rule, order, time.time())

        def fill(db: sqlite3.Connection) -> None:
            db.execute("INSERT INTO terms VALUES (?,?,?,?,?,?)", terms)
            if limit is not None:
                put_limit(db, limit)

        ledger = cls(path)
        ledger._file.create(fill, accept_loss)
        return ledger

    @property
    def exists(self) -> bool:
        """Whether the file is there. Raises LedgerError if it was there before and is gone."""
        return self._file.exists

    @contextmanager
    def connected(self) -> Iterator[Ledger]:
        """The same ledger with one connection for all that is done inside, each in a transaction of its own."""
        with self._file.connected() as file:
            ledger = Ledger(self.path)
            ledger._file = file
            yield ledger

    def _open(self, write: bool = False) -> AbstractContextManager[sqlite3.Connection]:
        return self._file.transaction(write)

    # ---- reading -------------------------------------------------------------------------------------

    def terms(self) -> Terms:
        """Unit, relation and rule."""
        with self._open() as db:
            return terms_of(db)

    def limit(self) -> Budget | None:
        """The limit in force; None if no run with an epsilon has been charged yet and nobody set one."""
        with self._open() as db:
            return limit_of(db)

    def limits(self) -> list[Budget]:
        """All limits that were ever set, oldest first."""
        with self._open() as db:
            return [Budget(*row) for row in db.execute("SELECT epsilon, delta FROM limits ORDER BY seq")]

    def entries(self) -> list[Entry]:
        """All charges, oldest first. A damaged or altered entry is refused, never skipped."""
        with self._open() as db:
            return entries_of(db)

    def spent(self, without: str | None = None, also: Charge | None = None) -> Budget:
        """What all charges, `without` one run's or with one `also`, come to under the ledger's rule, computed now.

        Args:
            without: a run's id that is left out.
            also: a further charge that is counted.
        """
        with self._open() as db:
            charges = [entry.charge for entry in entries_of(db) if entry.charge.run != without]
            charges += [also] if also is not None else []
            return total_of(terms_of(db), charges, limit_of(db) or Budget(0.0, 0.0))

    def left(self) -> Budget | None:
        """The largest (epsilon, delta) one more run can have; None without a limit."""
        with self._open() as db:
            limit = limit_of(db)
            return limit and left_of(terms_of(db), [entry.charge for entry in entries_of(db)], limit)

    # ---- writing -------------------------------------------------------------------------------------

    def set_limit(
        self,
        epsilon: float,
        delta: float,
        accept_loss: bool = False,
        unit: Unit | None = None,
        neighbours: Neighbours | None = None,
    ) -> None:
        """A new limit from now on. The old one stays in the file's history.

        Args:
            epsilon: for everything ever charged.
            delta: likewise.
            accept_loss: takes a ledger that lacks entries as it is: what those cost must be taken off the limit.
            unit: what charges must be stated for from now on, if nothing was charged yet. None: as it is.
            neighbours: the relation likewise.
        """
        limit = check_budget(epsilon, delta)
        with self._file.transaction(write=True, accept_loss=accept_loss) as db:
            charged, terms = entries_of(db), terms_of(db)  # what is there must be whole
            check_rule(terms.rule.name, limit)
            wanted = unit or terms.unit, neighbours or terms.neighbours
            if wanted != (terms.unit, terms.neighbours):
                check_terms(*wanted)
                if charged:
                    raise LedgerError(
                        f"{self.path} counts per {terms.unit}, neighbours '{terms.neighbours}', and that is fixed once "
                        "something was charged; use another ledger for other data, or ask for runs of this kind"
                    )
                db.execute("UPDATE terms SET unit=?, neighbours=?", wanted)
            put_limit(db, limit)

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
                if limit_of(db) is None:
                    db.execute("UPDATE terms SET unit=?, neighbours=?", (privacy.unit, privacy.neighbours))
                    put_limit(db, privacy.budget)
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
        terms, limit = terms_of(db), limit_of(db)
        charges = [entry.charge for entry in entries_of(db)]
        for known in charges:
            if known.run == charge.run:
                if known != charge:
                    raise LedgerError(f"{self.path} has another charge for run {charge.run} already")
                return False
        if charge.exact:
            if limit is not None:
                raise BudgetError(
                    f"the ledger's limit is epsilon {as_set(limit.epsilon)}, and a run without epsilon exceeds any; "
                    "give privacy=Privacy(...), or use other data"
                )
            return True
        if charge.delta == 0 and (why := impurity(charge.events)) is not None:
            raise BudgetError(why)
        if limit is None:
            raise LedgerError(f"{self.path} has no limit yet; set one: hushtune ledger limit {self.path} ...")
        total = total_of(terms, [*charges, charge], limit)
        tolerance = _TOLERANCE if limit.delta else 1.0
        if total.epsilon > limit.epsilon * tolerance or total.delta > limit.delta * tolerance:
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
        if self._admit(db, charge):
            put_charge(db, charge)

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
            return answer_in(db, run, step, request)

    def runs(self) -> set[str]:
        """The runs that were charged."""
        with self._open() as db:
            return {run for (run,) in db.execute("SELECT run FROM charges")}

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
            if (earlier := answer_in(db, run, step, request)) is not None:
                return earlier
            if charge is not None:
                self._record(db, charge)
            for name, sent, kept in [(step, request, reply), *also]:
                if answer_in(db, run, name, sent) is None:
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
            f"a run with epsilon <= {down(left.epsilon)}, delta <= {down(left.delta, 3)} would fit"
            if left.epsilon >= EPSILON_RANGE[0]
            else "nothing fits any more"
        )
        return (
            f"the ledger's limit is epsilon {as_set(limit.epsilon)}, delta {as_set(limit.delta)}, but this run would "
            f"bring it to epsilon {up(total.epsilon)}, delta {up(total.delta, 3)} (rule '{terms.rule.name}', "
            f"{len(charges)} earlier runs); {fits}; to raise it: hushtune ledger limit {self.path} "
            f"--epsilon {up(max(total.epsilon, limit.epsilon))} --delta {up(max(total.delta, limit.delta))}"
        )
