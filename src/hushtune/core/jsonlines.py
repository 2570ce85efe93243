"""A run as lines of JSON, for programs that watch it or read later what happened.

Each line is one object with `schema`, `kind`, `time` (seconds since 1970; null in a real run with an epsilon) and the
fields of its kind. `FIELDS` is the one list of kinds and fields: `JsonLines` writes them, `read_line` reads them, and
docs/cli.md describes them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, TextIO

from hushtune._version import __version__
from hushtune.core.errors import SettingError
from hushtune.core.observer import Advance, Observer, few

SCHEMA = 1
FIELDS: dict[str, dict[str, type | UnionType]] = {
    "begin": {"hushtune": str},
    "phase": {"phase": int, "name": str, "total": int, "each": list},
    "advance": {"phase": int, "done": int, "each": list},
    "end": {"phase": int, "done": int},
    "say": {"text": str},
    "opened": {"step": int, "of": int, "what": str},
    "dropped": {"client": str, "reason": str},
    "spent": {"epsilon": float | int, "delta": float | int},
    "failed": {"reason": str},
    "done": {"config": dict | NoneType},
}
_COMMON: dict[str, type | UnionType] = {"schema": int, "kind": str, "time": float | int | NoneType}
_STEPS = 100  # a phase writes at most so many advances, however small its steps are


class JsonLines(Observer):
    """Writes every event as one line of JSON; docs/cli.md has the kinds of lines and their fields.

    Lines depend on numbers only, never on a clock, but for the field `time`, which is null as soon as a real run with
    an epsilon has begun. Each is flushed, so that another program can follow.

    Args:
        stream: open for writing text; stays open.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._phases = 0
        self._timed = True
        self._write("begin", hushtune=__version__)

    def _write(self, kind: str, **fields: Any) -> None:
        now = round(time.time(), 3) if self._timed else None
        line = {"schema": SCHEMA, "kind": kind, "time": now, **fields}
        self._stream.write(json.dumps(line, allow_nan=False) + "\n")
        self._stream.flush()

    @contextmanager
    def phase(self, name: str, total: int, each: Sequence[str] = ()) -> Iterator[Advance]:
        """A line when it begins, one for each hundredth that is done, and one when it is over."""
        self._phases += 1
        number, those, done, steps = self._phases, few(each), 0, 0
        own = [0] * len(those)
        self._write("phase", phase=number, name=name, total=total, each=list(those))

        def advance(count: int, who: int | None = None, /) -> None:
            nonlocal done, steps
            done += count
            if own and who is not None:
                own[who] += count
            if (now := done * _STEPS // max(total, 1)) > steps:
                steps = now
                self._write("advance", phase=number, done=done, each=own)

        try:
            yield advance
        finally:
            self._write("end", phase=number, done=done)

    def say(self, text: str) -> None:
        """A line of kind "say"."""
        self._write("say", text=text)

    def opened(self, step: int, of: int, what: str) -> None:
        """A line of kind "opened"."""
        self._write("opened", step=step, of=of, what=what)

    def dropped(self, client: str, reason: str) -> None:
        """A line of kind "dropped"."""
        self._write("dropped", client=client, reason=reason)

    def spent(self, epsilon: float, delta: float) -> None:
        """A line of kind "spent"."""
        self._write("spent", epsilon=epsilon, delta=delta)

    def failed(self, reason: str) -> None:
        """A line of kind "failed"."""
        self._write("failed", reason=reason)

    def done(self, config: Mapping[str, Any] | None) -> None:
        """A line of kind "done"."""
        self._write("done", config=None if config is None else dict(config))

    def keep_no_times(self) -> None:
        """Lines from here on have no time."""
        self._timed = False


@dataclass(frozen=True)
class Line:
    """What one line says.

    Args:
        kind: one of `FIELDS`.
        time: when it was written, in seconds since 1970; None in a real run with an epsilon.
        fields: those of its kind.
    """

    kind: str
    time: float | None
    fields: Mapping[str, Any]


def read_line(text: str) -> Line:
    """Reads back what `JsonLines` wrote.

    Args:
        text: one whole line.

    Raises:
        SettingError: it is no such line: another schema, an unknown kind, or not the fields of its kind.
    """
    try:
        raw = json.loads(text)
    except ValueError:
        raw = None
    if not isinstance(raw, dict):
        raise SettingError(f"a line must be a JSON object, but got {text[:80]!r}")
    if raw.get("schema") != SCHEMA:
        raise SettingError(f"a line must have schema {SCHEMA}, but got {raw.get('schema')!r}")
    kind = str(raw.get("kind"))
    if kind not in FIELDS:
        raise SettingError(f"a line's kind must be one of {list(FIELDS)}, but got '{kind}'")
    wanted = {**_COMMON, **FIELDS[kind]}
    if set(raw) != set(wanted):
        raise SettingError(f"a line of kind '{kind}' must have the fields {list(wanted)}, but got {list(raw)}")
    for name, types in wanted.items():
        if not isinstance(raw[name], types) or isinstance(raw[name], bool):
            raise SettingError(f"`{name}` of a line of kind '{kind}' cannot be {raw[name]!r}")
    return Line(kind, raw["time"], {name: raw[name] for name in FIELDS[kind]})
