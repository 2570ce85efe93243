"""The experiment on records as Markdown tables: means over seeds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.records.experiment import ARMS, USUAL, WINNER
from hushtune.core.files import replace

Row = Mapping[str, Any]
_FEDERATION = ("data", "clients", "split")
_KNOWN = ("opt", "default", "random", "without privacy")
_AT = 1.0  # epsilon of the first table
_HEAD = ["clients, set, split", "rows each", "OPT", "default", "mean", "no privacy"]


def write(found: Sequence[Row], folder: Path, name: str) -> list[Path]:
    """Writes all tables, and the rows they come from; returns the paths.

    Args:
        found: rows of the experiment.
        folder: where to.
        name: of the files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}-tables.md", folder / f"{name}.json"]
    replace(paths[0], "\n".join(_lines(found)) + "\n")
    replace(paths[1], "".join(json.dumps(row) + "\n" for row in found))
    return paths


def mean(found: Sequence[Row], name: str = "accuracy", **wanted: Any) -> float | None:
    """Over seeds, of the rows that have what is wanted; None if there are none.

    Args:
        found: rows of the experiment.
        name: of the value.
        wanted: fields and their values.
    """
    values = [row[name] for row in found if all(row.get(field) == value for field, value in wanted.items())]
    return float(np.mean(values)) if values else None


def _lines(found: Sequence[Row]) -> Iterator[str]:
    seeds = sorted({row["seed"] for row in found})
    yield "# Few large clients: all tables\n"
    yield f"Balanced accuracy of what is chosen, means over draws of the noise and seeds {', '.join(map(str, seeds))}."
    yield from _goal(found)
    for arm in ARMS:
        yield from _usual(found, arm)
    for arm in ARMS:
        yield from _by_voters(found, arm)


def _federations(found: Sequence[Row]) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """Each federation, and the first cells of its lines."""
    for one in dict.fromkeys(tuple(row[name] for name in _FEDERATION) for row in found):
        where = dict(zip(_FEDERATION, one, strict=True))
        rows = mean(found, "rows", arm="federation", **where)
        known = [_shown(mean(found, name, arm="federation", **where)) for name in _KNOWN]
        yield where, [f"{where['clients']}, {where['data']}, {where['split']}", f"{rows:,.0f}", *known]


def _goal(found: Sequence[Row]) -> Iterator[str]:
    """At one epsilon: how far every choice is from the one without privacy, and from the default, in points."""
    yield f"\n## The usual number of voters, epsilon {_AT:g}, in points\n"
    heads = [f"{arm}: {what}" for arm in ARMS for what in ("", "from no privacy", "from default")]
    yield _line([*_HEAD, "voters", *(head.removesuffix(": ") for head in heads)])
    yield _line(["---"] * (len(_HEAD) + 1 + len(heads)))
    for where, cells in _federations(found):
        own = [row for row in found if row.get("voters") == USUAL and row["epsilon"] == _AT]
        exact, default = (mean(found, name, arm="federation", **where) for name in ("without privacy", "default"))
        parts, more = mean(own, "parts", arm=WINNER, **where), []
        for arm in ARMS:
            chosen = mean(own, arm=arm, **where)
            more += [_shown(chosen), _apart(chosen, exact), _apart(chosen, default)]
        yield _line([*cells, "" if parts is None else f"{parts:.0f}", *more])


def _usual(found: Sequence[Row], arm: str) -> Iterator[str]:
    """A line per federation, a column per epsilon."""
    own = [row for row in found if row["arm"] == arm and row["voters"] == USUAL]
    epsilons = list(dict.fromkeys(row["epsilon"] for row in own))
    yield f"\n## {arm}: the usual number of voters\n"
    yield _line([*_HEAD, *(f"{epsilon:g}" for epsilon in epsilons)])
    yield _line(["---"] * (len(_HEAD) + len(epsilons)))
    for where, cells in _federations(found):
        chosen = [
            f"{_shown(mean(own, epsilon=epsilon, **where))} ({mean(own, 'parts', epsilon=epsilon, **where) or 0:.0f})"
            for epsilon in epsilons
        ]
        yield _line([*cells, *chosen])


def _by_voters(found: Sequence[Row], arm: str) -> Iterator[str]:
    """A line per federation and number of voters, a column per epsilon."""
    own = [row for row in found if row["arm"] == arm and row["voters"] != USUAL]
    epsilons = list(dict.fromkeys(row["epsilon"] for row in own))
    yield f"\n## {arm}, by the number of voters\n"
    yield _line([*_HEAD, "voters", *("no noise" if epsilon == "inf" else f"{epsilon:g}" for epsilon in epsilons)])
    yield _line(["---"] * (len(_HEAD) + 1 + len(epsilons)))
    for where, cells in _federations(found):
        here = [row for row in own if all(row[name] == value for name, value in where.items())]
        for voters in dict.fromkeys(row["voters"] for row in here):
            chosen = [_shown(mean(here, voters=voters, epsilon=epsilon)) for epsilon in epsilons]
            yield _line([*cells, voters, *chosen])


def _apart(one: float | None, other: float | None) -> str:
    return "" if one is None or other is None else f"{100 * (one - other):+.1f}"


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}".removeprefix("0")


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
