"""Runs every command that README, CONTRIBUTING, docs/ and the examples' READMEs show, once, in a scratch copy.

    python tools/docs_check.py           all of them; the first that fails or prints a traceback ends it
    python tools/docs_check.py --list    what would run, and how

`docs_rules.py` says which commands run in a smaller form, and which are run by a test instead.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import docs_pages
import docs_rules
from docs_pages import PageError, Shown
from docs_shell import Ran, Scratch

ROOT = Path(__file__).resolve().parent.parent
WRONG = ("Traceback (most recent call last)", "does not provide the extra")
Say = Callable[[str], None]
LIMIT = 600.0
"""Seconds for one command; what takes longer needs a rule."""


@dataclass
class Row:
    """One documented command: what runs in its place, and what came of it."""

    place: str
    shown: str
    how: str
    runs: str
    needs: tuple[str, ...]
    inline: bool
    again: str
    outcome: str = ""
    seconds: float = 0.0
    cpu_seconds: float = 0.0


def rows_of(root: Path, only: str = "") -> list[Row]:
    """All commands in the order in which they run; those that change folder or variables stay with the chosen ones."""
    found: list[Row] = []
    for page in docs_pages.pages(root):
        shown = docs_pages.commands(root, page)
        chosen = {command for command in shown if only in command.text or only in command.page}
        found += [_row(root, one) for one in shown if one in chosen or (chosen and _changes_state(one.text))]
    return found


def _row(root: Path, command: Shown) -> Row:
    rule = docs_rules.rule_for(command)
    if rule is None:
        return Row(command.place, command.text, "as it is", command.text, (), command.inline, "")
    runs = docs_rules.what_runs(command, rule)
    how = rule.why
    if rule.covered:
        how += f": {docs_rules.covered_by(root, command, rule)}" + (", options checked here" if rule.help else "")
    return Row(command.place, command.text, how, runs, rule.needs, command.inline, rule.again)


def _changes_state(text: str) -> bool:
    return re.search(r"(^|&& )(cd|export) ", text) is not None


def missing(needs: tuple[str, ...]) -> str | None:
    """What a command needs and is not here: an extra, or the folder of data sets."""
    for need in needs:
        if need == docs_rules.DATA:
            if not Path(os.environ.get(docs_rules.DATA, "nowhere")).is_dir():
                return need
        elif importlib.util.find_spec(docs_rules.MODULES[need]) is None:
            return f"extra {need}"
    return None


def _ran(row: Row, scratch: Scratch) -> Ran:
    for left in (2, 1, 0):
        ran = scratch.run(row.runs, LIMIT, at_top=row.inline)
        if not (row.again and row.again in ran.output and left):
            break
    return ran


def judged(row: Row, ran: Ran) -> str:
    """'ok', or what is wrong."""
    if wrong := next((text for text in WRONG if text in ran.output), None):
        return f"FAILED: printed {wrong!r}"
    if ran.code != 0:
        return f"FAILED: {'took too long' if ran.seconds >= LIMIT else f'exit code {ran.code}'}"
    if row.runs.endswith(" --help") and not row.shown.endswith(" --help"):
        unknown = [o for o in re.findall(r"(?<=\s)--[a-z][a-z-]*", row.shown) if not re.search(rf"{o}\b", ran.output)]
        return f"FAILED: the help does not know {', '.join(unknown)}" if unknown else "ok"
    return "ok"


def run(rows: list[Row], scratch: Scratch, say: Say) -> bool:
    """Runs them in order until one fails."""
    page, done = "", dict[tuple[str, str], tuple[str, Ran]]()
    for row in rows:
        if (now := row.place.rpartition(":")[0]) != page:
            page = now
            scratch.begin()
        key = (str(scratch.tree) if row.inline else scratch.where, row.runs)
        if not row.runs:
            row.outcome = "covered"
        elif lack := missing(row.needs):
            row.outcome = f"not run: needs {lack}"
        else:
            before = done.get(key) if not _changes_state(row.runs) else None
            ran = before[1] if before else _ran(row, scratch)
            row.outcome = judged(row, ran)
            if row.outcome != "ok":
                say(f"\n{row.place}: {row.shown}\nran: {row.runs}\n{ran.output[-6000:]}\n{row.outcome}\n")
                return False
            if before:
                row.outcome = f"ran at {before[0]}"
            else:
                row.seconds, row.cpu_seconds = round(ran.seconds, 1), round(ran.cpu_seconds, 1)
                done[key] = (row.place, ran)
        say(_line(row))
    return True


def _line(row: Row) -> str:
    seconds = f"{row.seconds:6.1f} s" if row.outcome == "ok" else " " * 8
    result = seconds if row.outcome == "ok" else row.outcome
    changed = f"\n{'':34}{row.how}: {row.runs}" if row.runs not in ("", row.shown) and row.outcome == "ok" else ""
    return f"{row.place:33} {result}  {row.shown}{changed}"


def _listed(rows: list[Row], say: Say) -> None:
    for row in rows:
        lack = missing(row.needs)
        say(f"{row.place}: {row.shown}\n    {row.how}" + (f"; not run: needs {lack}" if lack else ""))
        if row.runs not in ("", row.shown):
            say(f"    {row.runs}")


def _closing(rows: list[Row], say: Say) -> None:
    ran = sorted((row for row in rows if row.seconds), key=lambda row: -row.seconds)
    say("\nseconds   CPU s   command")
    for row in ran:
        say(f"{row.seconds:7.1f} {row.cpu_seconds:7.1f}   {row.place} {row.runs}")
    kinds = Counter(re.sub(r"^ran at .*", "same as one that ran", row.outcome) or "not reached" for row in rows)
    say(f"{sum(row.seconds for row in ran):7.1f} {sum(row.cpu_seconds for row in ran):7.1f}   in all")
    say("; ".join(f"{count} {kind}" for kind, count in kinds.most_common()))
    for row in rows:
        if row.outcome.startswith(("not run", "FAILED")):
            say(f"{row.outcome}: {row.place} {row.shown}")


def main() -> int:
    """0: all that could run ran well."""
    parser = argparse.ArgumentParser(description="Run every command that the documentation shows.")
    parser.add_argument("--list", action="store_true", help="say what would run, and how; run nothing")
    parser.add_argument("--only", default="", metavar="TEXT", help="commands, or pages, that hold this text")
    parser.add_argument("--allow-missing", action="store_true", help="succeed although extras are not installed")
    parser.add_argument("--json", action="store_true", help="print one JSON object; everything else to stderr")
    given = parser.parse_args()
    say: Say = partial(print, file=sys.stderr if given.json else sys.stdout, flush=True)
    try:
        rows = rows_of(ROOT, given.only)
    except PageError as error:
        say(str(error))
        return 1
    fine = True
    if given.list:
        _listed(rows, say)
    else:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # leaves the scratch copy in order, too
        with Scratch(ROOT) as scratch:
            fine = run(rows, scratch, say)
        _closing(rows, say)
    if given.json:
        print(json.dumps({"rows": [asdict(row) for row in rows]}))
    lacking = any(row.outcome.startswith("not run: needs extra") for row in rows)
    return 0 if fine and (given.allow_missing or not lacking) else 1


if __name__ == "__main__":
    sys.exit(main())
