"""What a person sees while a run works: bars with the time left, or nothing."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from heapq import heappop, heappush
from typing import Any, Protocol

_MOST_BARS = 16


class Advance(Protocol):
    """Called with how many more are done, and whose they are, if that may be shown."""

    def __call__(self, done: int, who: int | None = None, /) -> None:
        """So many more."""
        ...


def unseen(done: int, who: int | None = None, /) -> None:
    """An advance that nobody looks at."""


class Even:
    """Counts what will not be done in its turn among what is done, in steps of the same sizes.

    So a bar shows the same numbers whoever fails, or has nothing to do. How long each takes can still be seen.
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


class Progress:
    """Bars on the terminal's error stream; silent when quiet."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet

    def say(self, text: str) -> None:
        """One line."""
        if not self.quiet:
            _error_console().print(text, highlight=False, markup=False)

    @contextmanager
    def phase(self, name: str, total: int, each: Sequence[str] = ()) -> Iterator[Advance]:
        """One bar, and one for `each` of a few who share the work alike; the value given is called as they advance."""
        if self.quiet or total == 0:
            yield unseen
            return
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.progress import Progress as Bars

        columns: list[Any] = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()]
        columns += [TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn()]
        shared = sys.stdout.isatty()  # only then may output be moved above the bars: a file must get what is printed
        with Bars(*columns, console=_error_console(), redirect_stdout=shared) as bars:
            task = bars.add_task(name, total=total)
            few = each if 1 < len(each) <= _MOST_BARS else ()
            own = [bars.add_task(f"  {one}", total=total // len(few)) for one in few]

            def advance(done: int, who: int | None = None, /) -> None:
                bars.advance(task, done)
                if own and who is not None:
                    bars.advance(own[who], done)

            yield advance


def _error_console() -> Any:
    from rich.console import Console

    return Console(stderr=True)
