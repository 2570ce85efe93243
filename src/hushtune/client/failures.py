"""The rules of failure: what counts as one inside a client, what is kept of it, and who may learn of it.

A failure depends on data, so it is a release too. These rules hold for every search, query and transport:

1. A *config* fails if its loss is not finite, or if scoring it takes longer than the client's policy allows. That is
   a trial like others, with a loss of NaN (`finite_or_nan`, `loss_or_nan`, `LATE`).
2. A *unit* (a client, or one part of its rows) fails if its data cannot be loaded, split or told apart, or if its
   objective cannot be copied or told how many parts there are, raises, exits, returns anything but one number per
   config, kills its process, or uses up the time that the client's policy allows for a run (`attempt`, `attempts`).
   Ctrl-C is no failure.
3. The reason goes to the client's own log. Its last line stays with the unit for this run (`Party.failure`), and the
   trial cache remembers that it failed (`fail`).
4. With an epsilon, a unit that failed in an earlier run at the same task is not tried again: the work that is visibly
   left would tell (`work_of`). Without one it is, and so is one that only took too long.
5. With an epsilon, a unit that failed, or that has no finite loss, answers like any other, with a vector that depends
   on no data. Without one the client refuses, and is named as a dropout (`answer_of`, `kept_inside`).
6. A marked simulation on machines of their own (Flower's engine) has nobody to hide from: there the client refuses,
   with the reason, epsilon or not (`Party.tells`).
7. A task that cannot be sent to a worker process is done in this one (`core/processes/pool.py`): then one that kills
   its process is seen, and nothing ends one that takes too long.
"""

from __future__ import annotations

import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from hushtune.core.arrays import FloatArray
from hushtune.core.errors import HushtuneError, NoLossError, ObjectiveError, RefusedError, described
from hushtune.core.processes.pool import Task, unordered
from hushtune.core.processes.serving import in_worker
from hushtune.core.processes.worker import Died

if TYPE_CHECKING:
    from hushtune.client.party import Party
    from hushtune.client.work import Allowance

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")
BEFORE = "the objective failed in an earlier run; remove trials.db to try again"


class Failure(str):
    """What went wrong inside a unit, in full: for the client's own log."""

    __slots__ = ()


DIED = Failure("the process that scored this client died")
LATE = Failure("scoring took longer than the client's policy allows")


# ---- what counts as a failure ------------------------------------------------------------------------


def finite_or_nan(losses: FloatArray) -> FloatArray:
    """Losses as they are kept: NaN for configs that failed."""
    return np.where(np.isfinite(losses), losses, np.nan)


def loss_or_nan(score: Callable[..., float], *arguments: Any) -> float:
    """One config's loss: NaN if it does not work on this data, such as rows of one class only."""
    try:
        return score(*arguments)
    except Exception:
        return float("nan")


def attempt(function: Callable[..., _Value], *arguments: Any) -> _Value | Failure:
    """What a function that calls a client's own code gives, or what went wrong."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a warning may quote data
            return function(*arguments)
    except BaseException as error:  # also an objective that calls sys.exit
        if isinstance(error, KeyboardInterrupt) and not in_worker():  # Ctrl-C does not reach workers
            raise
        return Failure(traceback.format_exc())


def attempts(
    function: Callable[..., _Value],
    tasks: deque[tuple[_Key, Task]],
    jobs: int,
    apart: bool,
    allowed: Callable[[_Key], tuple[Allowance, int]] | None = None,
) -> Iterator[tuple[_Key, _Value | Failure]]:
    """Outcomes of tasks that call clients' own code, as `unordered` gives them; only the one that fails, fails.

    Args:
        function: called with a task's arguments.
        tasks: what to do; whoever reads the outcomes may add to it.
        jobs: how many workers.
        apart: never do a task in this process.
        allowed: whose time a task takes, and how many configs it scores; None: there is no bound.
    """

    def ends(key: _Key, since: float) -> float:
        assert allowed is not None
        allowance, configs = allowed(key)
        return allowance.ends(key, since, configs)

    for key, outcome in unordered(partial(_timed, function), tasks, jobs, apart, ends if allowed is not None else None):
        took, found = (None, DIED) if isinstance(outcome, Died) else outcome
        if allowed is not None:
            allowed(key)[0].over_for(key, took)
        yield key, LATE if isinstance(outcome, Died) and outcome.late else found


def _timed(function: Callable[..., _Value], *arguments: Any) -> tuple[float, _Value | Failure]:
    """What `attempt` gives, and how many seconds it took."""
    begun = time.monotonic()
    found = attempt(function, *arguments)
    return time.monotonic() - begun, found


def loaded_by(load: Callable[[], Any], what: str = "data cannot be loaded") -> Any:
    """What a client's own loader returns. Whatever it raises is an ordinary error: no sys.exit ends this process."""
    try:
        return load()
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as error:  # sys.exit, or the panic of a library
        raise ObjectiveError(f"{what}: {described(error)}") from None


def refused_by(ask: Callable[[], Any]) -> None:
    """Asks a client's own code whether it refuses something for all to hear: by an error of hushtune's.

    Whatever else it raises is a failure, of which nobody hears before it is called for its client.
    """
    try:
        ask()
    except (HushtuneError, KeyboardInterrupt):
        raise
    except BaseException:
        return


# ---- what is kept of it ------------------------------------------------------------------------------


def cannot(unit: Party, what: str, error: Exception) -> str:
    """Notes in the client's own log what it cannot do; gives the reason."""
    reason = described(error)
    unit.log(f"{what}: {reason}")
    return reason


def unsplit(unit: Party, parts: Sequence[Any]) -> list[str | None]:
    """Why a client's parts cannot be had, where an error stands in the place of their rows; noted once for each."""
    what = "rows cannot be split"
    errors = {described(part): part for part in parts if isinstance(part, Exception)}
    reasons = {reason: f"{what}: {cannot(unit, what, error)}" for reason, error in errors.items()}
    return [reasons[described(part)] if isinstance(part, Exception) else None for part in parts]


def fail(unit: Party, seed: int, asked: str, failure: Failure) -> None:
    """Notes that a unit's objective failed, when this was asked of it: other configs may do."""
    unit.log(f"objective failed: {failure}")
    unit.failure = failure.strip().splitlines()[-1]
    if failure is not LATE:  # next time what was scored is known, and less is left to do
        unit.store.put_failure(unit.data_key, unit.objective_key, seed, asked)


def work_of(unit: Party, seed: int, asked: str, private: bool, left: Callable[[], _Value], doing: str) -> _Value | None:
    """What a unit still has to do; None if it has nothing to do it on, or cannot.

    Args:
        unit: a client, or a part of one. Its failure of an earlier step is forgotten.
        seed: of the search.
        asked: one text for what is searched or scored.
        private: whether the run has an epsilon.
        left: looks up what is left; may raise anything.
        doing: what it is that cannot be done then, for the log.
    """
    if unit.silent:
        return None
    unit.failure, found = None, None
    try:
        found = left()
        if found and private and unit.store.has_failure(unit.data_key, unit.objective_key, seed, asked):
            unit.failure = BEFORE
    except Exception as error:  # the client's own data or objective cannot even be told apart
        unit.failure = cannot(unit, f"cannot {doing}", error)
    return found if unit.failure is None else None


# ---- who may learn of it -----------------------------------------------------------------------------


def check(unit: Party) -> None:
    """Raises what a unit has failed with: inside the client."""
    if unit.failure is not None:
        raise ObjectiveError(unit.failure)


def answer_of(
    unit: Party, query: str, vector: Callable[[], _Value], default: Callable[[], _Value], private: bool
) -> _Value:
    """A unit's vector; if there is none, a refusal, or with an epsilon one that depends on no data.

    Args:
        unit: who answers. The reason goes to its own log only.
        query: its name.
        vector: computes the vector from trials, and checks it.
        default: draws one that depends on no data.
        private: whether the run has an epsilon.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a warning may quote data
            return vector()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        unit.log(f"no answer to '{query}', because: {described(error)}")
        if not private:
            if unit.tells:
                raise RefusedError(f"objective failed: {described(error)}") from None
            known = isinstance(error, NoLossError)
            raise RefusedError(str(error) if known else "objective failed; see the client's own log") from None
        return default()


@contextmanager
def kept_inside(party: Party, units: Sequence[Party], private: bool) -> Iterator[None]:
    """What is raised while a client prepares: with an epsilon, the failure of all its units; without one, an error."""
    try:
        yield
    except Exception as error:
        if not private:
            raise
        reason = cannot(party, "cannot search", error)
        for unit in units:
            unit.failure = reason
