"""The coordinator's ledger in one run: checked before anybody is asked, charged before inputs leave."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hushtune.core.errors import AbortedError, HushtuneError, SpentError, described, is_inside
from hushtune.core.observer import Observer
from hushtune.privacy.accounting import Budget
from hushtune.privacy.ledger import Ledger
from hushtune.run.result import LedgerNote
from hushtune.run.terms import Terms


class Account:
    """What a run does to the coordinator's ledger; a marked simulation has none.

    Args:
        ledger: the coordinator's.
        run: the run's id.
        terms: the run's.
        observer: is told when the cost is reserved.
    """

    def __init__(self, ledger: Ledger | None, run: str, terms: Terms, observer: Observer) -> None:
        self._ledger, self._run, self._terms, self._observer = ledger, run, terms, observer
        self._new = False  # whether this run made the ledger
        self._reserved = self._marked = False
        self.openings = 0  # of this run and of the one it resumes; one may have been made and not kept

    def check(self) -> None:
        """Refuses a run that would overspend, before anybody spends time on scoring."""
        if self._ledger is not None and self._ledger.exists:
            with self._ledger.connected() as ledger:
                if ledger.limit() is not None:
                    ledger.check(self._terms.charge(self._run))

    def reserve(self) -> None:
        """Charges the whole run, once, right before clients are asked for inputs."""
        if self._ledger is None or self._reserved:
            return
        with self._ledger.connected() as ledger:
            self._new = ledger.ensure(self._terms.privacy)
            ledger.reserve(self._terms.charge(self._run))
        self._reserved = True
        if self._terms.privacy is not None:
            self._observer.spent(self._terms.spent.epsilon, self._terms.spent.delta)

    def opened(self, step: int, now: bool) -> None:
        """Counts a step that was opened: now, or before the run was taken up again."""
        if self._ledger is not None and now and not self._marked:
            self._ledger.mark_opened(self._run)
            self._marked = True
        self.openings = step + 1

    @contextmanager
    def told(self) -> Iterator[None]:
        """Has whatever ends a run say what was opened by then; raises SpentError for what is no abort."""
        try:
            yield
        except AbortedError as error:
            raise AbortedError(f"{error}; {self._revealed()}") from None
        except (HushtuneError, OSError) as error:
            if self._ledger is None or not (self._reserved or self.openings):
                raise
            what = type(error).__name__ if is_inside(error) else described(error)
            raise SpentError(
                f"the run failed after its cost was reserved: {what}; {self._revealed()}; see the ledgers"
            ) from error

    def _revealed(self) -> str:
        """What was opened so far."""
        if not self.openings:
            return "nothing was opened"
        return f"{self.openings} of {self._terms.openings} openings had been made, and count as spent"

    def note(self) -> LedgerNote | None:
        """What the result says about the ledger."""
        return note_of(self._ledger, self._run, self._new, self._terms.wanted)


def note_of(ledger: Ledger | None, run: str, new: bool, wanted: Budget | None = None) -> LedgerNote | None:
    """What a result says about the coordinator's ledger."""
    if ledger is None:
        return None
    with ledger.connected() as books:
        terms, charges = books.terms(), [entry.charge for entry in books.entries()]
        return LedgerNote(
            id=terms.id,
            new=new,
            rule=terms.rule.name,
            before=books.spent(without=run),
            runs=len(charges),
            exact=sum(charge.exact for charge in charges),
            limit=books.limit(),
            spent=books.spent(),
            left=books.left(),
            wanted=wanted,
        )
