"""Observers: what may watch a run, and what a private run lets them see.

A run tells one observer what happens, and knows nothing of terminals or files. Whatever watches a run with an epsilon
stands behind `shown`: it sees the same numbers whoever fails, and is told to keep no times. How long things take can
still be seen while they happen.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from heapq import heappop, heappush
from typing import Any, Protocol

from hushtune.core.errors import HushtuneError, is_inside

_FEW = 16  # of so many it is shown how far each is
_STEPS = 100  # of a phase of a private run


class Advance(Protocol):
    """Called with how many more are done, and whose they are, if that may be shown."""

    def __call__(self, done: int, who: int | None = None, /) -> None:
        """So many more are done."""
        ...


def unseen(done: int, who: int | None = None, /) -> None:
    """An advance that nobody looks at."""


class Observer:
    """What may watch a run. Here every event is ignored: override those that you want to hear of.

    Events come one after the other, in the process that called `tune`, `fit` or `compare`. What an observer raises
    ends the run.
    """

    def phase(self, name: str, total: int, each: Sequence[str] = ()) -> AbstractContextManager[Advance]:
        """Work of a known size begins, and is over with the context that is returned.

        The context's value is called as work is done: `advance(3)`, or `advance(3, 0)` if it was the first of `each`.

        Args:
            name: what is done, in words.
            total: how much there is to do.
            each: who shares the work alike, if it may be seen how far each of them is.
        """
        return nullcontext(unseen)

    def say(self, text: str) -> None:
        """One line for a person.

        Args:
            text: the line.
        """

    def opened(self, step: int, of: int, what: str) -> None:
        """A step's sum, or whatever its method asks for, was opened and is on record.

        Args:
            step: which opening this was, from 1 on.
            of: how many openings the run has announced.
            what: the query's name, such as "top-votes".
        """

    def dropped(self, client: str, reason: str) -> None:
        """A client's answer is missing from the step that is opened next.

        Args:
            client: its name.
            reason: what the transport saw, or the rule by which the client refused. With an epsilon it is never what
                happened inside the client.
        """

    def spent(self, epsilon: float, delta: float) -> None:
        """The run's whole cost was reserved in the coordinator's ledger. Clients are asked for inputs after this.

        Not told by a simulation, which charges nothing, nor by a run that opens exact values, which has no epsilon.

        Args:
            epsilon: of everything the run may open.
            delta: goes with that epsilon.
        """

    def failed(self, reason: str) -> None:
        """The call ended with an error.

        Args:
            reason: the error's one line, or only its class if the text may hold something of the data.
        """

    def done(self, config: Mapping[str, Any] | None) -> None:
        """The call ended well; nothing follows.

        Args:
            config: what was chosen; None after a comparison, which chooses nothing.
        """

    def keep_no_times(self) -> None:
        """This is a real run with an epsilon: who writes down what happens does not write down when, from here on.

        How long clients take depends on their data, and no epsilon covers it.
        """


# ---- what a private run may show ---------------------------------------------------------------------


def shown(observer: Observer, private: bool) -> Observer:
    """The observer as a run may talk to it.

    Args:
        observer: whoever watches.
        private: whether the run has an epsilon.
    """
    return _Shown(observer) if private else observer


class _Shown(Observer):
    """Passes on what does not depend on what happens inside a client. A new event is not passed on by itself."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    @contextmanager
    def phase(self, name: str, total: int, each: Sequence[str] = ()) -> Iterator[Advance]:
        """Without `each`, and in steps that follow from the total alone: how far a client is, and how much of its work
        it has done before, failed in or has none of, depends on its data."""
        with self._observer.phase(name, total) as advance:
            steps, passed, done = min(total, _STEPS), 0, 0

            def of_all(more: int, who: int | None = None, /) -> None:
                nonlocal passed, done
                done += more
                while passed < steps and done >= (mark := total * (passed + 1) // steps):
                    advance(mark - total * passed // steps)
                    passed += 1

            yield of_all
            of_all(total - done)

    def say(self, text: str) -> None:
        """The run's own words: which trip it is, and how many clients are asked."""
        self._observer.say(text)

    def opened(self, step: int, of: int, what: str) -> None:
        """Openings are announced, whatever the data."""
        self._observer.opened(step, of, what)

    def dropped(self, client: str, reason: str) -> None:
        """With an epsilon, a client that fails inside answers like any other: only the transport's reasons are left."""
        self._observer.dropped(client, reason)

    def spent(self, epsilon: float, delta: float) -> None:
        """The cost follows from the settings."""
        self._observer.spent(epsilon, delta)

    def failed(self, reason: str) -> None:
        """Texts of errors hold no value computed from data; `told_failures` gives no others."""
        self._observer.failed(reason)

    def done(self, config: Mapping[str, Any] | None) -> None:
        """The choice follows from what was opened."""
        self._observer.done(config)

    def keep_no_times(self) -> None:
        """It is a rule for whoever watches."""
        self._observer.keep_no_times()


class Even:
    """Counts what will not be done in its turn among what is done, in steps of the same sizes.

    So no leap of a bar says who fails, or has nothing to do.
    """

    def __init__(self, advance: Advance) -> None:
        self._advance = advance
        self._owed: list[tuple[int, int, int]] = []  # when, in which order, and how large
        self._number = 0
        self.done = 0

    def owe(self, sizes: Iterable[int], first: int, every: int = 0) -> None:
        """Pieces that will not be done: to be counted once `first` are done, and the next ones after `every` more."""
        for number, size in enumerate(sizes):
            self._number += 1
            heappush(self._owed, (first + every * number, self._number, size))
        self._pay(self.done)

    def count(self, size: int, who: int | None = None) -> None:
        """A piece that is done."""
        self._advance(size, who)
        self.done += 1
        self._pay(self.done)

    def end(self) -> None:
        """What is owed still, if nobody was left to count along with."""
        self._pay(math.inf)

    def _pay(self, upto: float) -> None:
        while self._owed and self._owed[0][0] <= upto:
            self._advance(heappop(self._owed)[2])


@contextmanager
def told_failures(observer: Observer) -> Iterator[None]:
    """Tells an observer of the error that ends what is done inside: its text, if it can hold nothing of the data."""
    try:
        yield
    except BaseException as error:
        public = isinstance(error, HushtuneError) and not is_inside(error)
        observer.failed(str(error) if public else type(error).__name__)
        raise


# ---- observers ---------------------------------------------------------------------------------------


class Silent(Observer):
    """Ignores every event, so that nothing is shown."""


class Bars(Observer):
    """Shows bars with the time left, on the error stream."""

    def say(self, text: str) -> None:
        """Prints the line on the error stream."""
        _error_console().print(text, highlight=False, markup=False)

    @contextmanager
    def phase(self, name: str, total: int, each: Sequence[str] = ()) -> Iterator[Advance]:
        """One bar; and one for each, if they are a few."""
        if total == 0:
            yield unseen
            return
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        columns: list[Any] = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()]
        columns += [TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn()]
        shared = sys.stdout.isatty()  # only then may output be moved above the bars: a file must get what is printed
        with Progress(*columns, console=_error_console(), redirect_stdout=shared) as bars:
            task = bars.add_task(name, total=total)
            those = few(each)
            own = [bars.add_task(f"  {one}", total=total // len(those)) for one in those]

            def advance(done: int, who: int | None = None, /) -> None:
                bars.advance(task, done)
                if own and who is not None:
                    bars.advance(own[who], done)

            yield advance


def together(*observers: Observer) -> Observer:
    """One observer that tells everything to several."""
    return _Together(observers)


class _Together(Observer):
    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = observers

    @contextmanager
    def phase(self, name: str, total: int, each: Sequence[str] = ()) -> Iterator[Advance]:
        with ExitStack() as stack:
            advances = [stack.enter_context(one.phase(name, total, each)) for one in self._observers]

            def advance(done: int, who: int | None = None, /) -> None:
                for one in advances:
                    one(done, who)

            yield advance

    def say(self, text: str) -> None:
        for one in self._observers:
            one.say(text)

    def opened(self, step: int, of: int, what: str) -> None:
        for one in self._observers:
            one.opened(step, of, what)

    def dropped(self, client: str, reason: str) -> None:
        for one in self._observers:
            one.dropped(client, reason)

    def spent(self, epsilon: float, delta: float) -> None:
        for one in self._observers:
            one.spent(epsilon, delta)

    def failed(self, reason: str) -> None:
        for one in self._observers:
            one.failed(reason)

    def done(self, config: Mapping[str, Any] | None) -> None:
        for one in self._observers:
            one.done(config)

    def keep_no_times(self) -> None:
        for one in self._observers:
            one.keep_no_times()


def bars_unless(quiet: bool) -> Observer:
    """Bars, or nothing if a command was asked to be quiet."""
    return Silent() if quiet else Bars()


def few(each: Sequence[str]) -> Sequence[str]:
    """Who shares the work, if it can be shown how far each of them is: several, but not many."""
    return each if 1 < len(each) <= _FEW else ()


def _error_console() -> Any:
    from rich.console import Console

    return Console(stderr=True)
