"""What a person sees while a run works: bars with the time left, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Advance = Callable[[int], None]


class Progress:
    """Bars on the terminal's error stream; silent when quiet."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet

    def say(self, text: str) -> None:
        """One line."""
        if not self.quiet:
            _error_console().print(text, highlight=False, markup=False)

    @contextmanager
    def phase(self, name: str, total: int) -> Iterator[Advance]:
        """One bar; the value given is called with how many more are done."""
        if self.quiet or total == 0:
            yield lambda done: None
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
        with Bars(*columns, console=_error_console()) as bars:
            task = bars.add_task(name, total=total)
            yield lambda done: bars.advance(task, done)


def _error_console() -> Any:
    from rich.console import Console

    return Console(stderr=True)
