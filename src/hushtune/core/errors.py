"""Everything hushtune raises on purpose. One root, so that a caller can catch it all.

A message is one line: the constraint, the value got, what to do next. It never holds a secret or a value
computed from a client's data.
"""

from __future__ import annotations


class HushtuneError(Exception):
    """Root of all errors raised by hushtune on purpose. Catching it catches all of them."""


class SettingError(HushtuneError, ValueError):
    """A setting, argument or file breaks a stated constraint. Raised where it is given or read; by `tune` and `fit`
    before anything is spent.
    """


class CacheError(SettingError):
    """A trial cache or another private file cannot be used. Its message names a file of the client's, so it stays
    there.
    """


class BoundError(HushtuneError):
    """A client's answer breaks the bound its query declared. Stays inside the client."""


class ObjectiveError(HushtuneError):
    """A client's objective failed. Stays inside the client when epsilon is set."""


class NoLossError(ObjectiveError):
    """A client has nothing to contribute, because no config has a finite loss there."""

    def __init__(self) -> None:
        super().__init__("no config has a finite loss here")


class RefusedError(HushtuneError):
    """A client refuses a request: its policy, its ledger or its own record says no.

    Raised inside the client, whatever its data; the server sees a dropout, with the rule that said no.
    """


class LedgerError(HushtuneError):
    """A ledger file is missing, foreign, damaged, or made for another unit or relation. Raised when it is used."""


class BudgetError(LedgerError):
    """Reserving would exceed a ledger's limit. Raised before anything leaves; nothing is recorded."""


class AbortedError(HushtuneError):
    """A run cannot go on: too few clients answered, none has a finite loss, or what was opened is nothing that clients
    can have sent. Raised with what was opened before in its message; what was reserved by then stays reserved.
    """


class SpentError(HushtuneError):
    """A run failed after its cost was reserved, for another reason than clients that did not answer: a full disk, or
    losses that a method cannot use. Raised with what was opened by then in its message; the ledgers have the run.
    """


class WorkerError(HushtuneError):
    """A worker process could not be started, died where nothing may be left out, or sent what cannot be read."""


class WireError(HushtuneError):
    """A message does not follow the wire format."""


class MissingExtraError(HushtuneError, ImportError):
    """An optional dependency is not installed; the message names the extra. Made by `missing`."""


_BROUGHT = {"torch": "PyTorch", "dpsgd": "PyTorch and Opacus", "flower": "Flower"}  # extra -> what it installs


def missing(what: str, extra: str, why: ImportError | str) -> MissingExtraError:
    """The error of something whose extra is not installed, or cannot be imported: `why` tells which."""
    got = " ".join(str(why).split())
    return MissingExtraError(f"{what} needs {_BROUGHT[extra]}, but got: {got}; run `pip install 'hushtune[{extra}]'`")


def described(error: BaseException) -> str:
    """An error's class and text; the class alone if its text cannot be had."""
    try:
        return f"{type(error).__name__}: {error}"
    except BaseException:
        return type(error).__name__


def is_inside(error: BaseException) -> bool:
    """Whether what an error says is for the client it comes from, and for nobody else."""
    return isinstance(error, (ObjectiveError, BoundError, CacheError, WorkerError))
