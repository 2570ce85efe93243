"""Measures every speed bar of this project: runs the commands that give the figures, and compares.

Each command runs in a process of its own. What is finished is kept in a notebook until the page is written, so that an
interrupted run goes on where it was.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from experiments.machine import machine
from hushtune._version import __version__
from hushtune.core.errors import SettingError
from hushtune.core.files import replace
from hushtune.core.observer import Observer

Row = dict[str, Any]
HUSHTUNE, EXPERIMENTS = "hushtune", "python -m experiments"
MEASURE = f"{EXPERIMENTS} bars"
_STARTED = {HUSHTUNE: ("-c", "from hushtune.cli import main; main()"), EXPERIMENTS: ("-m", "experiments")}
"""The programs that give figures, and what starts each in a Python of its own."""


@dataclass(frozen=True)
class Command:
    """A command line that gives figures.

    Args:
        arguments: of the program; `{scratch}` stands for a folder that is emptied before.
        seconds: about how long it takes on two idle cores, for the time left.
        full: whether it is too long for the quick form.
        program: an experiment prints rows, which figures are read from; of `hushtune` only the time counts.
    """

    arguments: str
    seconds: int
    full: bool = False
    program: str = EXPERIMENTS

    def line(self, scratch: Path) -> str:
        """As a person would type it."""
        return f"{self.program} {self.arguments.replace('{scratch}', str(scratch))}"


@dataclass(frozen=True)
class Measured:
    """What a command has printed and used; `failed` says why there is nothing."""

    rows: Sequence[Mapping[str, Any]]
    seconds: float
    cpu_seconds: float
    others: float | None
    date: str
    failed: str = ""

    def one(self, **wanted: Any) -> Mapping[str, Any]:
        """The only row with these values."""
        (found,) = [row for row in self.rows if all(row.get(name) == value for name, value in wanted.items())]
        return found


@dataclass(frozen=True)
class Bar:
    """One figure, and how good it has to be.

    Args:
        name: for `--only` and JSON.
        group: what it is about.
        what: exactly what is measured.
        command: where its figure comes from.
        figure: reads it.
        unit: of the figure.
        bar: None if none was set.
        reference: what else is known, and from where.
        better: whether a figure below or above the bar meets it.
        why: why the bar is missed, if it is, as far as that is known.
    """

    name: str
    group: str
    what: str
    command: Command
    figure: Callable[[Measured], float]
    unit: str
    bar: float | None
    reference: str = ""
    better: Literal["lower", "higher"] = "lower"
    why: str = ""

    def met(self, figure: float | None) -> bool | None:
        """None if there is nothing to compare."""
        if figure is None or self.bar is None:
            return None
        return figure <= self.bar if self.better == "lower" else figure >= self.bar


def chosen(bars: Sequence[Bar], full: bool, only: Sequence[str]) -> list[Command]:
    """The commands to run: of the bars named, or of all that the form has; each once, in the table's order."""
    names = [bar.name for bar in bars]
    if unknown := sorted(set(only) - set(names)):
        raise SettingError(f"only must name bars of {', '.join(names)}, but got {', '.join(unknown)}")
    wanted = [bar for bar in bars if (bar.name in only if only else full or not bar.command.full)]
    return list(dict.fromkeys(bar.command for bar in wanted))


def measure(bars: Sequence[Bar], commands: Sequence[Command], folder: Path, observer: Observer) -> Iterator[Row]:
    """One row per bar, as soon as its command is done."""
    notebook = _Notebook(folder / "bars.json")
    if done := [command for command in commands if command.arguments in notebook.kept]:
        observer.say(f"{len(done)} of {len(commands)} commands are in {notebook.path}; remove it to measure them anew")
    with observer.phase("bars, by expected seconds", sum(command.seconds for command in commands)) as advance:
        for command in commands:
            measured = notebook.kept.get(command.arguments)
            if measured is None:
                observer.say(command.line(folder / "scratch"))
                measured = _run(command, folder / "scratch")
                notebook.keep(command, measured)
            yield from (_row(bar, measured, folder / "scratch") for bar in bars if bar.command == command)
            advance(command.seconds)


def finished(commands: Sequence[Command], folder: Path) -> None:
    """Forgets what was kept for an interrupted run, once its rows are written."""
    _Notebook(folder / "bars.json").forget(commands)
    shutil.rmtree(folder / "scratch", ignore_errors=True)


def merged(bars: Sequence[Bar], now: Sequence[Row], before: Sequence[Row], folder: Path) -> list[Row]:
    """A row for every bar: of this run, else the one that was kept before, else one that says how to measure it.

    A kept figure is compared with the bar of today; one from another command than today's is none.
    """
    known = {(row["name"], row["command"]): row for row in (*before, *now) if row["measured"]}
    found = []
    for bar in bars:
        stated, row = _stated(bar, folder / "scratch"), known.get((bar.name, bar.command.line(folder / "scratch")))
        unknown = {**stated, **_unmeasured(bar)}
        found.append(unknown if row is None else {**row, **stated, "met": bar.met(row["figure"])})
    return [*found, _total(found, folder / "scratch")]


def read(path: Path) -> list[Row]:
    """The rows that an earlier run has written; none, if there is no such file."""
    if not path.exists():
        return []
    try:
        return list(json.loads(path.read_text())["rows"])
    except (ValueError, LookupError, TypeError) as error:
        raise SettingError(f"{path} must hold rows of bars, but got {type(error).__name__}; remove it") from None


class _Notebook:
    """Measurements of a run that is not finished, by command."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.kept: dict[str, Measured] = {}
        if path.exists():
            try:
                self.kept = {name: Measured(**kept) for name, kept in json.loads(path.read_text()).items()}
            except (ValueError, TypeError, AttributeError) as error:
                raise SettingError(f"{path} must be whole, but got {type(error).__name__}; remove it") from None

    def keep(self, command: Command, measured: Measured) -> None:
        """What failed is tried again."""
        if not measured.failed:
            self.kept[command.arguments] = measured
            self._write()

    def forget(self, commands: Sequence[Command]) -> None:
        """Removes what was measured for these commands."""
        for command in commands:
            self.kept.pop(command.arguments, None)
        if self.kept:
            self._write()
        else:
            self.path.unlink(missing_ok=True)

    def _write(self) -> None:
        replace(self.path, json.dumps({name: vars(kept) for name, kept in self.kept.items()}))


def _run(command: Command, scratch: Path) -> Measured:
    """Runs a command in a process of its own."""
    prints_rows = command.program == EXPERIMENTS
    arguments = [*command.line(scratch).removeprefix(command.program).split(), *(["--json"] if prints_rows else [])]
    shutil.rmtree(scratch, ignore_errors=True)  # nothing may be taken from an earlier run
    others, start, used_before = _others(), time.perf_counter(), _cpu()
    done = subprocess.run(
        [sys.executable, *_STARTED[command.program], *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "HUSHTUNE_HOME": str(scratch / "home")},
    )
    seconds, cpu = time.perf_counter() - start, _cpu() - used_before
    said = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
    failed = "" if done.returncode == 0 else (said or [f"exit code {done.returncode}"])[-1].removeprefix("error: ")
    rows = json.loads(said[-1])["rows"] if prints_rows and not failed else []
    return Measured(rows, round(seconds, 2), round(cpu, 2), others, _now(), failed)


def _cpu() -> float:
    """CPU seconds of all processes that this one has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _others(seconds: float = 1.0) -> float | None:
    """The share of all cores that other processes keep busy, while this one waits; None where it cannot be seen."""
    path = Path("/proc/stat")
    if not path.exists():
        return None
    first = _ticks(path)
    time.sleep(seconds)
    busy, total = (late - early for late, early in zip(_ticks(path), first, strict=True))
    return round(busy / max(1, total), 2)


def _ticks(path: Path) -> tuple[int, int]:
    """Ticks of all cores since the start that were not idle, and all."""
    ticks = [int(word) for word in path.read_text().split("\n", 1)[0].split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d")


def _row(bar: Bar, measured: Measured, scratch: Path) -> Row:
    figure = None if measured.failed else bar.figure(measured)
    return {
        **_stated(bar, scratch),
        "figure": figure,
        "met": bar.met(figure),
        "seconds": measured.seconds,
        "cpu_seconds": measured.cpu_seconds,
        "others": measured.others,
        "measured": measured.date,
        "machine": "{processor}, {cores} cores, Python {python}".format(**machine()),
        "hushtune": __version__,
        "not_measured": measured.failed,
    }


def _stated(bar: Bar, scratch: Path) -> Row:
    names = ("name", "group", "what", "unit", "better", "bar", "reference", "why")
    return {
        **{name: getattr(bar, name) for name in names},
        "command": bar.command.line(scratch),
        "full": bar.command.full,
    }


def _unmeasured(bar: Bar) -> Row:
    empty = dict.fromkeys(("figure", "met", "seconds", "cpu_seconds", "others", "measured", "machine", "hushtune"))
    command = f"{MEASURE} --full" if bar.command.full else MEASURE
    return {**empty, "not_measured": f"not measured yet; `{command}` does"}


def whole(measured: Measured) -> float:
    """Wall seconds of a command, from its start to its end."""
    return measured.seconds


def _total(rows: Sequence[Row], scratch: Path) -> Row:
    """How long the quick form takes: all its commands together."""
    quick = {row["command"]: row["seconds"] or 0.0 for row in rows if not row["full"]}
    what = "the quick form of this page, all commands one after another"
    bar = Bar("bench", "These figures", what, Command("bars", 0), whole, "s", 1_200)
    others = max((row["others"] for row in rows if row["others"] is not None and not row["full"]), default=None)
    used = {row["command"]: row["cpu_seconds"] or 0.0 for row in rows if not row["full"]}
    measured = Measured([], round(sum(quick.values())), round(sum(used.values())), others, _now())
    return _row(bar, measured, scratch)
