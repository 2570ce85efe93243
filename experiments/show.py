"""What experiments print: their rows as tables, or as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from experiments.machine import machine
from hushtune.cli.options import print_json

Row = dict[str, Any]


def rows(found: Iterable[Row], as_json: bool, hidden: Sequence[str] = ()) -> list[Row]:
    """The rows of an experiment, as they come, or one object with all of them. Gives them back.

    Some of a row's values may be too long for a line: they are `hidden` there.
    """
    kept = []
    for row in found:
        kept.append(row)
        if not as_json:
            print("  ".join(f"{name}={value}" for name, value in row.items() if name not in hidden), flush=True)
    if as_json:
        rows_as_json(kept)
    return kept


def rows_as_json(found: Sequence[Row], **more: Any) -> None:
    """One object: the machine, the rows, and what an experiment has beside them."""
    print_json({"machine": machine(), "rows": found, **more})


def files(written: Iterable[Path], as_json: bool) -> None:
    """The files that were written; with JSON nothing is said of them."""
    for path in written:
        if not as_json:
            print(f"wrote {path}")
