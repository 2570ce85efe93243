"""What the DP-HYPE experiments print."""

from __future__ import annotations

from collections.abc import Iterable

from experiments import show
from experiments.dp_hype.experiment import ratios
from experiments.show import Row


def rows(found: Iterable[Row], as_json: bool) -> list[Row]:
    """Federations and their arms, as soon as they are there, then the epsilons they need; or JSON. Gives them back."""
    kept: list[Row] = []
    for row in found:
        kept.append(row)
        if not as_json:
            print(_federation(row) if row["arm"] == "federation" else _arm(row), flush=True)
    compared = ratios(kept)
    if as_json:
        show.rows_as_json(kept, ratios=compared)
    for row in compared if not as_json else []:
        print(_ratio(row))
    return kept


def _federation(row: Row) -> str:
    shown = {name: value for name, value in row.items() if name not in ("arm", "accuracies")}
    return "\n" + "  ".join(f"{name}={value}" for name, value in shown.items())


def _arm(row: Row) -> str:
    interval = f"{row['accuracy']:.3f} [{row['low']:.3f}, {row['high']:.3f}]"
    return f"  {row['arm']:32} epsilon {row['epsilon']!s:5} noise {row['sigma']:8.2f}  {interval}"


def _ratio(row: Row) -> str:
    more = " at least" if row["at least"] else ""
    return (
        f"{row['name']}: {row['accuracy']:.3f} needs epsilon {row['epsilon published']:g} as published and "
        f"{row['epsilon ours']:g} by default:{more} {row['budget ratio']:g} times"
    )
