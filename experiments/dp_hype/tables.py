"""The DP-HYPE experiments as Markdown tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.dp_hype.experiment import ratios
from hushtune.core.files import replace

Row = Mapping[str, Any]


def write(found: Sequence[Row], folder: Path) -> Path:
    """Writes all tables; returns their path."""
    path = folder / "dp-hype-tables.md"
    replace(path, "\n".join([*_federations(found), *_arms(found), *_ratios(found)]))
    return path


def _federations(found: Sequence[Row]) -> list[str]:
    names = ("opt", "random", "within .01 of opt", "scoring seconds", "training seconds", "training passes per second")
    rows = [
        [_title(row), *(f"{row[name]:,}" if isinstance(row[name], int) else f"{row[name]:.3f}" for name in names[:3])]
        + [f"{row[name]:,.0f}" for name in names[3:]]
        for row in found
        if row["arm"] == "federation"
    ]
    return _table(["federation", *names], rows)


def _arms(found: Sequence[Row]) -> list[str]:
    """A table per federation: a line per arm, a column per epsilon, mean and half the 95% interval."""
    lines: list[str] = []
    for federation in [row for row in found if row["arm"] == "federation"]:
        own = [row for row in found if row["name"] == federation["name"] and row["arm"] != "federation"]
        epsilons = list(dict.fromkeys(row["epsilon"] for row in own))
        rows = []
        for arm in dict.fromkeys(row["arm"] for row in own):
            cells = {row["epsilon"]: row for row in own if row["arm"] == arm}
            rows.append([arm, *(_cell(cells[epsilon]) for epsilon in epsilons)])
        title = f"{_title(federation)}: OPT {federation['opt']:.3f}, mean candidate {federation['random']:.3f}"
        lines += [f"\n{title}\n", *_table(["epsilon", *map(_epsilon, epsilons)], rows)]
    return lines


def _cell(row: Row) -> str:
    half = (row["high"] - row["low"]) / 2
    return f"{row['accuracy']:.3f} ± {half:.3f}" if half else f"{row['accuracy']:.3f}"


def _epsilon(value: Any) -> str:
    return "no noise" if value == "inf" else f"{value:g}"


def _ratios(found: Sequence[Row]) -> list[str]:
    rows = [
        [
            row["name"],
            f"{row['epsilon published']:g}",
            f"{row['accuracy']:.3f}",
            f"{row['epsilon ours']:.3g}",
            ("at least " if row["at least"] else "") + f"{row['budget ratio']:.2g}",
        ]
        for row in ratios(found)
    ]
    return ["\nBudget at equal accuracy\n", *_table(["federation", "as published", "accuracy", "ours", "ratio"], rows)]


def _title(row: Row) -> str:
    return f"{row['data']}, {row['clients']} clients, {row['split']}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *rows)]
