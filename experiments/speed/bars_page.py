"""The performance page: every bar with its figure, what missed its bar and why, and the commands."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.machine import machine
from experiments.speed.bars import EXPERIMENTS, HUSHTUNE, MEASURE, Row
from hushtune.core.files import replace

_TIMED = ("s", "CPU s", "times", "of it")  # units of figures that other work on the machine can change
_BUSY = 0.1  # share of all cores that others may use before it is said beside a missed bar

_BEGIN = """# Performance

Every speed bar that this project has set itself, with its figure and, where one is known, a reference beside it.
Written by the command; [the same as JSON]({json}).

```
make bench                              # the quick form; make bench FULL=--full measures the rest too
python -m experiments bars --only NAME  # single bars; what the page says of the others is kept
```
"""
_ELSEWHERE = """## Bars that this command does not measure

- `make test` in under 6 minutes and `make test-all` in under 60, on two cores: pytest prints its time.
- `python -m experiments flora` with its defaults in about two hours, and `python -m experiments privtuna --train` in
  about two hours ([FLoRA's](flora.md) and [PrivTuna's](privtuna.md) pages have their commands; both are resumable). The
  second is **missed**: its three data sets take more than three hours together.
- Landmine's 29,000 fits tabulated in a quarter of an hour: [DP-FTS-DE's](dp-fts-de.md) page says how long it took.
- Precision under encryption, exactness and accuracies are not speeds: [what encryption costs](mhe.md) and the pages of
  the experiments have them.
"""


def summary(rows: Sequence[Row]) -> str:
    """One line: how many bars there are, and which are missed or not measured."""
    bars = [row for row in rows if row["bar"] is not None]
    missed = [row["name"] for row in bars if row["met"] is False]
    unknown = [row["name"] for row in bars if row["met"] is None]
    parts = [f"{len(bars)} bars: {sum(row['met'] is True for row in bars)} met"]
    parts += [f"{len(missed)} missed ({', '.join(missed)})"] if missed else []
    parts += [f"{len(unknown)} not measured ({', '.join(unknown)})"] if unknown else []
    return ", ".join(parts)


def line(row: Row) -> str:
    """A bar in one line of a terminal."""
    if row["figure"] is None:
        return f"{row['name']:20} not measured: {row['not_measured']}"
    bar = "no bar" if row["bar"] is None else f"bar {_number(row['bar'])}, {'met' if row['met'] else 'MISSED'}"
    return f"{row['name']:20} {_number(row['figure'])} {row['unit']} ({bar})"


def write(rows: Sequence[Row], path: Path) -> None:
    """The page, and beside it the rows as JSON."""
    beside = path.with_suffix(".json")
    replace(beside, json.dumps({"machine": machine(), "rows": list(rows)}, indent=1) + "\n")
    replace(path, page(rows, beside.name))


def page(rows: Sequence[Row], beside: str) -> str:
    """The page as Markdown."""
    parts = [_BEGIN.format(json=beside), f"**{summary(rows)}.**", _conditions(rows), _missed(rows), _unmeasured(rows)]
    for group in dict.fromkeys(row["group"] for row in rows):
        parts.append(_table(group, [row for row in rows if row["group"] == group], _latest(rows)))
    parts += [_ELSEWHERE, _commands(rows)]
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def _latest(rows: Sequence[Row]) -> str:
    return max((row["measured"] for row in rows if row["measured"]), default="")


def _conditions(rows: Sequence[Row]) -> str:
    known = [row for row in rows if row["machine"]]
    if not known:
        return ""
    machines = " and on ".join(dict.fromkeys(row["machine"] for row in known))
    text = (
        f"Measured on {machines}, {_latest(rows)} unless a date says otherwise. CPU seconds are those of all processes "
        "that take part, in the last table of all that a command waits for; other seconds are of the clock, and grow "
        "when other work runs on the machine."
    )
    shares = [row["others"] for row in known if row["others"] is not None]
    if shares:
        ends = (_share(min(shares)), _share(max(shares)))
        text += (
            f" In the second before each command, other processes kept {' to '.join(dict.fromkeys(ends))} of all cores "
            "busy."
        )
    return text


def _missed(rows: Sequence[Row]) -> str:
    found = [row for row in rows if row["met"] is False]
    lines = [
        f"- **{row['group']}: {row['what']}** (`{row['name']}`): {_number(row['figure'])} {row['unit']}, bar "
        f"{_number(row['bar'])}. {_reason(row)}"
        for row in found
    ]
    return "## What missed its bar\n\n" + ("\n".join(lines) or "Nothing that was measured.")


def _reason(row: Row) -> str:
    """Why a bar was missed: what is known of it, and other work on the machine where that may count."""
    busy = row["unit"] in _TIMED and row["others"] is not None and row["others"] > _BUSY
    beside = (
        f"Other processes kept {_share(row['others'])} of all cores busy when its command began, which used "
        f"{_number(row['cpu_seconds'])} CPU seconds in all. "
    )
    known = f"Why: {row['why']}." if row["why"] else "No other reason is known." if busy else "Not explained."
    return beside + known if busy else known


def _unmeasured(rows: Sequence[Row]) -> str:
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row["not_measured"]:
            reasons.setdefault(row["not_measured"], []).append(f"`{row['name']}`")
    lines = [f"- {', '.join(names)}: {reason}" for reason, names in reasons.items()]
    return "## What was not measured\n\n" + "\n".join(lines) if lines else ""


def _table(group: str, rows: Sequence[Row], latest: str) -> str:
    lines = [f"## {group}", "", "| what | figure | bar | | reference | name |", "|---|---|---|---|---|---|"]
    for row in rows:
        figure = "not measured" if row["figure"] is None else f"{_number(row['figure'])} {row['unit']}"
        if row["measured"] and (row["full"] or row["measured"] != latest):
            figure += f" ({'full form, ' if row['full'] else ''}{row['measured']})"
        side = "at most" if row["better"] == "lower" else "at least"
        bar = "none set" if row["bar"] is None else f"{side} {_number(row['bar'])}"
        met = {True: "met", False: "**missed**", None: ""}[row["met"]]
        lines.append(f"| {row['what']} | {figure} | {bar} | {met} | {row['reference']} | `{row['name']}` |")
    return "\n".join(lines)


def _commands(rows: Sequence[Row]) -> str:
    lines = [
        "## Where the figures are from",
        "",
        f"`{MEASURE} --only NAME` runs one of these commands; each can be run by hand, with `--json` for one object.",
    ]
    commands = list(dict.fromkeys(row["command"] for row in rows if row["command"] != MEASURE))
    for program in (HUSHTUNE, EXPERIMENTS):
        if own := [command for command in commands if command.startswith(program)]:
            head = f"| {program} ... | form | measured | seconds | CPU seconds | others' share before |"
            lines += ["", head, "|---|---|---|---|---|---|", *(_command(command, program, rows) for command in own)]
    return "\n".join(lines)


def _command(command: str, program: str, rows: Sequence[Row]) -> str:
    row = next(row for row in rows if row["command"] == command)
    values = (row["measured"], row["seconds"], row["cpu_seconds"])
    share = "" if row["others"] is None else _share(row["others"])
    typed = command.removeprefix(f"{program} ")
    return f"| `{typed}` | {'full' if row['full'] else 'quick'} | {' | '.join(map(_cell, values))} | {share} |"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else _number(value)


def _share(value: float) -> str:
    return f"{100 * value:.0f}%"


def _number(value: float) -> str:
    """Three digits that count, and no zero before the point."""
    if abs(value) >= 100 or float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:.3g}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.3g}"
