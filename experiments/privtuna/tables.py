"""PrivTuna's measurement study, from trainings of our own, as Markdown tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.privtuna.strategies import COMPARED, STRATEGIES, SURFACES
from hushtune.core.files import replace

Row = Mapping[str, Any]
Place = tuple[Any, ...]
_PLACE = ("data", "split", "clients", "seed")


def write(found: Sequence[Row], folder: Path) -> Path:
    """Writes all tables; returns their path."""
    path = folder / f"privtuna-tables{suffix(found)}.md"
    parts = (*grids(found), *gaps(found), *wins_table(found), *each(found))
    replace(path, "\n".join(parts) + "\n")
    return path


def suffix(found: Sequence[Row]) -> str:
    """What tells files with another learning rate of clients from those with the paper's."""
    others = sorted({row["client lr"] for row in found} - {0.01})
    return "".join(f"-client-{rate:g}" for rate in others)


def table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A title and a table below it; nothing if there are no rows."""
    if not rows:
        return []
    return [f"\n### {title}\n", *(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *rows))]


def points(values: Sequence[float]) -> str:
    """Mean, median and largest gap, in points of accuracy."""
    if not values:
        return "-"
    return " / ".join(f"{100 * figure:.1f}" for figure in (np.mean(values), np.median(values), np.max(values)))


def arms(found: Sequence[Row]) -> list[tuple[str, str]]:
    """The strategies with their scales, and the surfaces, as far as there are rows of them."""
    known = {(row["arm"], row["scale"]) for row in found if "scale" in row}
    listed = [(arm, scale) for arm in (*STRATEGIES, *SURFACES) for scale in ("linear", "log")]
    return [arm for arm in listed if arm in known]


def title(arm: str, scale: str) -> str:
    """A strategy's name, with its scale."""
    return arm.upper() if arm in SURFACES else f"{arm}, {scale}"


def _named(row: Row) -> list[str]:
    return [row["data"], row["split"], str(row["clients"])]


def _percent(row: Row, *names: str) -> list[str]:
    return [f"{100 * row[name]:.1f}" for name in names]


def _truth(found: Sequence[Row]) -> dict[Place, Row]:
    return {tuple(row[name] for name in _PLACE): row for row in found if row["arm"] == "grid"}


def grids(found: Sequence[Row]) -> list[str]:
    """What the federated grid search found."""
    rows = [
        [*_named(row), *(f"{row[name]:g}" for name in ("lr", "momentum")), *_percent(row, "accuracy", "mean")]
        for row in found
        if row["arm"] == "grid"
    ]
    head = ["data", "split", "clients", "best lr", "best momentum", "its accuracy", "mean of the grid"]
    return table("Federated grid search: the ground truth", head, rows)


def gaps(found: Sequence[Row]) -> list[str]:
    """Each strategy's gap, by skew and by data set."""
    own = [row for row in found if row["arm"] != "grid"]
    truth = list(_truth(found).values())
    parts: list[str] = []
    for name in ("skew", "data"):
        values = list(dict.fromkeys(row[name] for row in own))
        rows = [
            [title(*arm)]
            + [
                points([row["gap"] for row in own if (row["arm"], row["scale"]) == arm and row[name] in wanted])
                for wanted in (*([value] for value in values), values)
            ]
            for arm in arms(own)
        ]
        random = [[row["accuracy"] - row["mean"] for row in truth if row[name] in w] for w in (*zip(values), values)]
        rows.append(["a random grid point", *(points(some) for some in random)])
        heads = [f"{value}, {sum(row[name] == value for row in truth)}" for value in values]
        words = "Gap to the best grid point, in points of accuracy: mean / median / largest"
        parts += table(f"{words}; by {name}", [f"{name}, federations", *heads, f"all, {len(truth)}"], rows)
    return parts


def wins(found: Sequence[Row], among: Sequence[str], scale: str) -> dict[str, tuple[int, int]]:
    """How often each arm's lr or momentum is nearest to the best grid point's: alone, and with others."""
    counts = {arm: [0, 0] for arm in among}
    for place, best in _truth(found).items():
        own = {
            row["arm"]: row
            for row in found
            if row["arm"] in among
            and row["scale"] == ("log" if row["arm"] in SURFACES else scale)
            and tuple(row[name] for name in _PLACE) == place
        }
        for knob in ("lr", "momentum"):
            away = {arm: round(abs(row[knob] - best[knob]), 6) for arm, row in own.items()}
            nearest = [arm for arm, distance in away.items() if distance == min(away.values())]
            for arm in nearest:
                counts[arm][len(nearest) > 1] += 1
    return {arm: (alone, shared) for arm, (alone, shared) in counts.items()}


def wins_table(found: Sequence[Row]) -> list[str]:
    """Who is nearest to the ground truth, by linear and by log combination, for skewed data as the paper counts."""
    skewed = [row for row in found if row["skew"] != "iid"]
    counts = [wins(skewed, COMPARED, scale) for scale in ("linear", "log")]
    rows = [
        [arm, *(f"{count[arm][0]} + {count[arm][1]}" for count in counts)] if len(_truth(skewed)) else []
        for arm in COMPARED
    ]
    total = 2 * len(_truth(skewed))
    words = f"Nearest to the best grid point's lr or momentum, of {total}: alone + with others"
    return table(words, ["strategy", "linear", "log"], [row for row in rows if row])


def each(found: Sequence[Row]) -> list[str]:
    """Every federation: what was derived, and its accuracy."""
    rows = []
    truth = _truth(found)
    for place, best in truth.items():
        own = [row for row in found if row["arm"] != "grid" and tuple(row[name] for name in _PLACE) == place]
        for arm in arms(own):
            row = next(row for row in own if (row["arm"], row["scale"]) == arm)
            values = (f"{row['lr']:.3f}", f"{row['momentum']:.2f}", *_percent(row, "accuracy", "gap"))
            rows.append([*_named(best), title(*arm), *values])
    head = ["data", "split", "clients", "strategy", "lr", "momentum", "accuracy", "gap"]
    return table("Every derived config, trained", head, rows)
