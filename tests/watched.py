"""An observer that remembers what it was told, in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import hushtune as ht
from hushtune.core.observer import Advance


class Watched(ht.Observer):
    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []
        self.timed = True

    def kinds(self, *wanted: str) -> list[tuple[Any, ...]]:
        """The events of some kinds."""
        return [event for event in self.events if event[0] in wanted]

    @contextmanager
    def phase(self, name: str, total: int, each: Sequence[str] = ()) -> Iterator[Advance]:
        self.events.append(("phase", name, total, list(each)))
        yield lambda done, who=None: self.events.append(("advance", done, who))
        self.events.append(("end", name))

    def say(self, text: str) -> None:
        self.events.append(("say", text))

    def opened(self, step: int, of: int, what: str) -> None:
        self.events.append(("opened", step, of, what))

    def dropped(self, client: str, reason: str) -> None:
        self.events.append(("dropped", client, reason))

    def spent(self, epsilon: float, delta: float) -> None:
        self.events.append(("spent", epsilon, delta))

    def failed(self, reason: str) -> None:
        self.events.append(("failed", reason))

    def done(self, config: Mapping[str, Any] | None) -> None:
        self.events.append(("done", config))

    def keep_no_times(self) -> None:
        self.timed = False
