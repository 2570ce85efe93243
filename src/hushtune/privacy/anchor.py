"""The anchor: a small file beside a ledger that knows what the ledger held last, so that a loss is noticed.

It holds how many charges there are and the link of the last one, how many answers there are, and a digest of them, of
the terms and of the limits. While a transaction is under way it holds two states, the one before and the one after:
whatever ends the process, the ledger is in one of the two. Then it holds one again, and only then may anything leave.
So a ledger that lacks something was altered, lost or put back from an older copy; no crash does that.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from hushtune.core.errors import LedgerError
from hushtune.core.files import own, replace

_VERSION = 1
_COUNTED = "--unit U, where U is client or record, as it counted"


@dataclass(frozen=True)
class State:
    """What a ledger held at one moment.

    Args:
        ledger: the ledger's own id, made with it.
        charges: how many there are.
        link: of the last charge: a digest of it and of all before it.
        answers: how many there are.
        digest: of which answers these are, of the terms and of the limits.
    """

    ledger: str
    charges: int
    link: str
    answers: int
    digest: str

    @property
    def empty(self) -> bool:
        """Whether nothing was charged or answered: then nothing can be forgotten."""
        return not self.charges and not self.answers


class Anchor:
    """The file beside a ledger.

    Args:
        ledger: the ledger's path.
    """

    def __init__(self, ledger: Path) -> None:
        self.ledger = ledger
        self.path = ledger.with_name(f"{ledger.name}.anchor")

    @property
    def exists(self) -> bool:
        """Whether the file is there."""
        return self.path.exists()

    def read(self) -> tuple[State, ...]:
        """The states that the ledger may be in: one, or two if a transaction was under way; none without a file."""
        own(self.path)
        try:
            raw = json.loads(self.path.read_text(encoding="utf-8"))
            states = tuple(State(**state) for state in raw["states"])
            good = raw["anchor"] == _VERSION and bool(states)
        except FileNotFoundError:
            return ()
        except (ValueError, LookupError, TypeError):
            good = False
        if not good:
            raise LedgerError(
                f"{self.path} must be what hushtune wrote beside the ledger, but it is damaged; {remedy(self.ledger)}"
            )
        return states

    def write(self, *states: State) -> None:
        """Puts the states on disk, in place of those that were there.

        Args:
            states: those that the ledger may be in from now on.
        """
        content = {"anchor": _VERSION, "states": [asdict(state) for state in dict.fromkeys(states)]}
        replace(self.path, json.dumps(content, indent=2) + "\n", private=True)

    def check(self, state: State, known: tuple[State, ...]) -> None:
        """Raises LedgerError if the ledger is in another state than those known, with what is wrong and what to do.

        Args:
            state: the ledger's.
            known: what `read` gave.
        """
        if state in known:
            return
        if not known:
            what = f"its anchor {self.path.name} is gone, so nobody can tell whether entries are missing"
        elif state.ledger not in {other.ledger for other in known}:
            what = "another ledger was here, and what was spent then is not in this one"
        else:
            last = known[-1]
            counts = ((state.charges, last.charges, "charges"), (state.answers, last.answers, "answers"))
            lacking = [f"{most - here} of {most} {name}" for here, most, name in counts if here < most]
            what = f"it lacks {' and '.join(lacking)}" if lacking else "it was altered since it was last used"
        raise LedgerError(f"{self.ledger} must be as it was left, but {what}; {remedy(self.ledger)}")

    def gone(self) -> LedgerError:
        """The error of a ledger that is not there although its anchor is."""
        return LedgerError(
            f"{self.ledger} must be beside its anchor {self.path.name}, but it is gone, and with it the record of what "
            f"was spent; {remedy(self.ledger)} {_COUNTED}"
        )


def remedy(ledger: Path) -> str:
    """What the owner of a ledger can do when something of it is missing. An older copy forgets what came after it."""
    return (
        "put back the newest file, an older copy is refused too; if there is none, find out what the missing runs "
        f"cost, and take that off the limit: hushtune ledger limit {ledger} --epsilon E --delta D --accept-loss"
    )


def remedy_of_damage(ledger: Path) -> str:
    """What the owner can do when the ledger cannot be read as it is: nothing of it can be kept."""
    return (
        "put back the newest file, an older copy is refused too; if there is none, move this one away and make another "
        f"one with what is certainly left: hushtune ledger limit {ledger} --epsilon E --delta D --accept-loss "
        f"{_COUNTED}"
    )
