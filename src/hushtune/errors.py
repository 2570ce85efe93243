"""Everything hushtune raises on purpose. One root, so that a caller can catch it all.

A message is one line: the constraint, the value got, what to do next. It never holds a secret or a value
computed from a client's data.
"""

from __future__ import annotations


class HushtuneError(Exception):
    """Root of all errors raised by hushtune."""


class SettingError(HushtuneError, ValueError):
    """A setting, argument or study file breaks a stated constraint."""


class CacheError(SettingError):
    """A trial cache cannot be used. Its message names a file of the client's, so it stays there."""


class BoundError(HushtuneError):
    """A client's answer breaks the bound its query declared. Stays inside the client."""


class ObjectiveError(HushtuneError):
    """A client's objective failed. Stays inside the client when epsilon is set."""


class NoLossError(ObjectiveError):
    """A client has nothing to contribute, because no config has a finite loss there."""

    def __init__(self) -> None:
        super().__init__("no config has a finite loss here")


class RefusedError(HushtuneError):
    """A client refuses a request: its policy, its ledger or its own record says no."""


class LedgerError(HushtuneError):
    """A ledger file is missing, foreign, damaged, or made for another unit or relation."""


class BudgetError(LedgerError):
    """Reserving would exceed a ledger's limit."""


class AbortedError(HushtuneError):
    """Too few clients answered; nothing was opened."""


class WireError(HushtuneError):
    """A message does not follow the wire format."""


class MissingExtraError(HushtuneError, ImportError):
    """An optional dependency is not installed; the message names the extra."""


def described(error: BaseException) -> str:
    """An error's class and text; the class alone if its text cannot be had."""
    try:
        return f"{type(error).__name__}: {error}"
    except BaseException:
        return type(error).__name__
