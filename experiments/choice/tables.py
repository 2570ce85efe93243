"""What choices cost, as Markdown tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.choice.arms import MAIN, PUBLISHED, SUM, WINNER, WITH_PRIOR
from experiments.choice.experiment import Row
from experiments.choice.goals import goals
from experiments.dp_hype.experiment import ratios
from hushtune.core.files import replace

FIRST = ("adult", "digits", "cifar10")  # data sets on which ballots were compared first
_PRIORS = (0.05, 0.1, 0.25, 0.5)


def write(found: Sequence[Row], folder: Path) -> Path:
    """Writes all tables; returns their path.

    Args:
        found: rows of the experiment.
        folder: where to.
    """
    path = folder / "choice-tables.md"
    replace(path, "\n".join(_lines(found)) + "\n")
    return path


def _lines(found: Sequence[Row]) -> Iterator[str]:
    yield "## Federations\n"
    names = ("opt", "random", "within .01 of opt", "prior", "prior alone")
    yield from _table(
        ["federation", "OPT", "mean", "within .01 of OPT", "prior from", "prior alone"],
        ([_title(row), *map(_cell, (row[name] for name in names))] for row in _federations(found)),
    )
    epsilons = _epsilons(found)
    yield f"\n## Accuracy of the choice: {' / '.join(MAIN)}\n"
    yield from _table(["federation", "OPT", "mean", *map(_epsilon, epsilons)], _short(found, epsilons))
    yield "\n## Accuracy of the choice: mean of the draws, and half its 95% interval\n"
    yield from _table(["federation", "arm", *map(_epsilon, epsilons)], _main(found, epsilons))
    for arm in (SUM, WINNER, WITH_PRIOR):
        yield f"\n## Budget at equal accuracy: {arm}\n"
        yield from _budget(found, arm)
    yield "\n## Goals\n"
    yield from (f"- {line}" for line in goals(found))
    if any(row.get("kind") == "ballot" for row in found):
        yield from _all(found, epsilons)


def _all(found: Sequence[Row], epsilons: Sequence[Any]) -> Iterator[str]:
    for title, first in ((", ".join(FIRST), True), ("the others", False)):
        some = [row for row in found if (row["data"] in FIRST) == first]
        if some:
            yield f"\n## Ballots of a winner: points behind the best of them, mean / worst; {title}\n"
            yield from _behind(some, epsilons)
    yield "\n## Priors\n"
    own = [row for row in found if row.get("kind") == "prior" or row["arm"] in (SUM, WINNER, WITH_PRIOR)]
    few = [epsilon for epsilon in epsilons if epsilon in _PRIORS]
    names = list(dict.fromkeys(row["arm"] for row in own))
    yield from _table(["federation", "arm", *map(_epsilon, few)], _of_arms(found, names, few))
    yield "\n## What clients may do to their own losses first: points gained by the winner, mean (least to most)\n"
    yield from _gains(found, epsilons)


def _short(found: Sequence[Row], epsilons: Sequence[Any]) -> Iterator[list[str]]:
    """A line per federation, the main arms in one cell for each epsilon."""
    known = {(row["name"], row["arm"], row.get("epsilon")): row for row in found}
    for one in _federations(found):
        cells = [
            " / ".join(_cell(known[one["name"], arm, epsilon]["accuracy"]) for arm in MAIN) for epsilon in epsilons
        ]
        yield [_title(one), _cell(one["opt"]), _cell(one["random"]), *cells]


def _main(found: Sequence[Row], epsilons: Sequence[Any]) -> Iterator[list[str]]:
    yield from _of_arms(found, MAIN, epsilons)


def _of_arms(found: Sequence[Row], arms: Sequence[str], epsilons: Sequence[Any]) -> Iterator[list[str]]:
    """A line per federation and arm, a column per epsilon."""
    known = {(row["name"], row["arm"], row.get("epsilon")): row for row in found}
    for federation in _federations(found):
        for arm in arms:
            cells = [known.get((federation["name"], arm, epsilon)) for epsilon in epsilons]
            if any(cells):
                yield [_title(federation), arm, *(_interval(row) for row in cells)]


def _budget(found: Sequence[Row], arm: str) -> Iterator[str]:
    """For each federation: the arm's epsilon for what the published form reaches at its own, and the ratio."""
    compared = {(row["name"], row["epsilon published"]): row for row in ratios(found, arm, PUBLISHED)}
    epsilons = [epsilon for epsilon in _epsilons(found) if epsilon != "inf" and epsilon >= 0.25]
    reached = {(row["name"], row["epsilon"]): row["accuracy"] for row in found if row["arm"] == PUBLISHED}

    def cell(name: str, epsilon: float) -> str:
        row = compared.get((name, epsilon))
        accuracy = _cell(reached[name, epsilon])
        if row is None:
            return f"{accuracy}: not reached"
        return f"{accuracy}: {'≤ ' if row['at least'] else ''}{row['epsilon ours']:.2g} ({row['budget ratio']:.2g}x)"

    lines = ([_title(one), *(cell(one["name"], epsilon) for epsilon in epsilons)] for one in _federations(found))
    yield from _table(["federation", *(f"as published at {epsilon:g}" for epsilon in epsilons)], lines)


def _behind(found: Sequence[Row], epsilons: Sequence[Any]) -> Iterator[str]:
    own = [row for row in found if row.get("kind") == "ballot"]
    best = {(row["name"], row["epsilon"]): 0.0 for row in own}
    for row in own:
        best[row["name"], row["epsilon"]] = max(best[row["name"], row["epsilon"]], row["accuracy"])

    def lost(row: Row) -> float:
        return 100 * float(best[row["name"], row["epsilon"]] - row["accuracy"])

    yield from _by_arm(own, epsilons, lost, lambda losses: f"{np.mean(losses):.1f} / {max(losses):.1f}")


def _gains(found: Sequence[Row], epsilons: Sequence[Any]) -> Iterator[str]:
    usual = {(row["name"], row["epsilon"]): row["accuracy"] for row in found if row["arm"] == WINNER}

    def gained(row: Row) -> float:
        return 100 * float(row["accuracy"] - usual[row["name"], row["epsilon"]])

    own = [row for row in found if row.get("kind") == "client"]
    yield from _by_arm(
        own, epsilons, gained, lambda gains: f"{np.mean(gains):+.1f} ({min(gains):+.1f} to {max(gains):+.1f})"
    )


def _by_arm(
    own: Sequence[Row], epsilons: Sequence[Any], value: Callable[[Row], float], shown: Callable[[list[float]], str]
) -> Iterator[str]:
    """A line per arm: some value over all federations, in a cell for each epsilon."""
    lines = []
    for arm in dict.fromkeys(row["arm"] for row in own):
        mine = [row for row in own if row["arm"] == arm]
        cells = [shown([value(row) for row in mine if row["epsilon"] == epsilon]) for epsilon in epsilons]
        lines.append([arm, str(len({row["name"] for row in mine})), *cells])
    yield from _table(["", "federations", *map(_epsilon, epsilons)], lines)


def _federations(found: Sequence[Row]) -> list[Row]:
    return [row for row in found if row["arm"] == "federation"]


def _epsilons(found: Sequence[Row]) -> list[Any]:
    return list(dict.fromkeys(row["epsilon"] for row in found if "epsilon" in row))


def _title(row: Row) -> str:
    return f"{row['data']} {row['clients']}, {row['split'].replace('dirichlet:', 'alpha ')}"


def _cell(value: Any) -> str:
    return f"{value:.3f}".removeprefix("0") if isinstance(value, float) else str(value)


def _interval(row: Row | None) -> str:
    if row is None:
        return ""
    half = (row["high"] - row["low"]) / 2
    return f"{_cell(row['accuracy'])} ± {_cell(half)}" if half else _cell(row["accuracy"])


def _epsilon(value: Any) -> str:
    return "no noise" if value == "inf" else f"{value:g}"


def _table(head: Sequence[str], lines: Any) -> Iterator[str]:
    for line in (head, ["---"] * len(head), *lines):
        yield f"| {' | '.join(line)} |"
