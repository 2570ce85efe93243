"""The replay of PrivTuna's study as Markdown tables, and a figure of the gaps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.privtuna.figures import bars
from experiments.privtuna.replay import FIXED
from experiments.privtuna.strategies import (
    COMPARED,
    GRIDS,
    KNEE,
    OWN_BEST,
    PROCESS,
    PUBLISHED,
    STRATEGIES,
    SURFACES,
)
from experiments.privtuna.tables import points, table, title, wins
from hushtune.core import svg
from hushtune.core.files import replace

Row = Mapping[str, Any]
_DRAWN = ("mean", "trimmed", PUBLISHED, KNEE, "sgm", "aplm")
_COUNTED = {PUBLISHED: 95, "best-mean": 25, "best-median": 25}  # the paper's, of 144; the last two are one count


def write(found: Sequence[Row], path: Path) -> Path:
    """Writes all tables; returns their path."""
    parts = (
        *_truths(found),
        *_gaps(found, "skew"),
        *_gaps(found, "data"),
        *_returned(found),
        *_theirs(found),
        *_wins(found),
        *_hindsight(found),
        *_seeds(found),
    )
    replace(path, "\n".join(parts) + "\n")
    return path


def _arms(found: Sequence[Row]) -> list[tuple[str, str]]:
    listed = [(arm, scale) for arm in (*STRATEGIES, *GRIDS) for scale in ("linear", "log")]
    listed += [(arm, "log") for arm in (*SURFACES, PROCESS)] + [(arm, "fixed") for arm in FIXED]
    published = dict.fromkeys((row["arm"], "published") for row in found if row.get("scale") == "published")
    return [*listed, *published]


def _title(arm: str, scale: str) -> str:
    if scale == "published":
        return f"{arm}: published, its first"
    if arm == PROCESS:
        return arm.replace("sgm+u", "SGM+U")
    return arm if scale == "fixed" else title(arm, scale)


def _truths(found: Sequence[Row]) -> list[str]:
    """How often each learning rate, and each momentum, is the best grid point's."""
    grids = [row for row in found if row["arm"] == "grid" and row["seed"] == 0]
    rows = []
    for knob in ("lr", "momentum"):
        counts = {value: sum(row[knob] == value for row in grids) for value in sorted({row[knob] for row in grids})}
        rows.append([knob, ", ".join(f"{value:g}: {count}" for value, count in counts.items())])
    return table(f"The best grid points of {len(grids)} cases", ["knob", "how often each value"], rows)


def _gaps(found: Sequence[Row], name: str) -> list[str]:
    """Our way: learning rate and momentum, scaled distance, the best batch size everywhere."""
    grids = [row for row in found if row["arm"] == "grid"]
    values = list(dict.fromkeys(row[name] for row in grids))
    wanted = [*([value] for value in values), values]
    rows = [
        [_title(*arm)]
        + [
            points([row["gap"] for row in found if (row["arm"], row.get("scale")) == arm and row[name] in some])
            for some in wanted
        ]
        for arm in _arms(found)
    ]
    random = [[row["accuracy"] - row["mean"] for row in grids if row[name] in some] for some in wanted]
    rows.append(["a random grid point", *(points(some) for some in random)])
    heads = [f"{value}, {sum(row[name] == value for row in grids)}" for value in values]
    words = f"Gap to the best grid point by {name}, in points of accuracy: mean / median / largest"
    return table(words, [f"{name}, cases x seeds", *heads, f"all, {len(grids)}"], rows)


def _returned(found: Sequence[Row]) -> list[str]:
    """PF-DBSCAN gives up to three clusters: the first is the choice, the best of them is known in hindsight only."""
    rows = []
    for arm, scale in [(arm, scale) for arm in GRIDS for scale in ("linear", "log")]:
        own = [row for row in found if (row["arm"], row.get("scale")) == (arm, scale)]
        first, hindsight = ([row[name] for row in own] for name in ("gap", "gap hindsight"))
        several = sum(row["clusters"] > 1 for row in own)
        rows.append([title(arm, scale), points(first), points(hindsight), f"{several} of {len(own)}"])
    head = ["strategy", "the first", "the best of three, in hindsight", "more than one cluster"]
    return table("PF-DBSCAN returns three clusters at most: mean / median / largest gap", head, rows)


def _theirs(found: Sequence[Row]) -> list[str]:
    """The authors' way, for our strategies on all three knobs, and what they published."""
    rows = []
    for arm in STRATEGIES:
        own = [row["gap"] for row in found if row["arm"] == arm and row["scale"] == "theirs"]
        rows.append([f"{arm}, linear, with batch size", points(own), ""])
    for arm in dict.fromkeys(row["arm"] for row in found if row.get("scale") == "published"):
        own_rows = [row for row in found if row["arm"] == arm]
        first, hindsight = ([row[f"gap {name}"] for row in own_rows] for name in ("first", "hindsight"))
        rows.append([f"{arm}: published", points(first), points(hindsight)])
    grids = [row for row in found if row["arm"] == "grid"]
    rows.append(["a random grid point", points([row["accuracy"] - row["mean with batch size"] for row in grids]), ""])
    words = "The authors' way: plain distance with batch size in it; mean / median / largest gap"
    return table(words, ["strategy", "the config that comes first", "the best of 3 to 5, in hindsight"], rows)


def _wins(found: Sequence[Row]) -> list[str]:
    """Who is nearest to the best grid point's values."""
    total = 2 * sum(row["arm"] == "grid" for row in found)
    known = [row for row in found if row.get("scale") != "theirs"]
    counts = [wins(known, COMPARED, scale) for scale in ("linear", "log")]
    counts += [wins(known, (*COMPARED, OWN_BEST, KNEE, *SURFACES), "linear")]
    rows = []
    for arm in (*COMPARED, OWN_BEST, KNEE, *SURFACES):
        cells = [f"{count[arm][0]} + {count[arm][1]}" if arm in count else "" for count in counts]
        paper = f"{_COUNTED[arm]}" if arm in _COUNTED else ""
        rows.append([title(arm, "").rstrip(", "), *cells, paper])
    words = f"Nearest to the best grid point's lr or momentum, of {total}: alone + with others"
    head = ["strategy", "linear", "log", "linear, with all others", "the paper's, of 144"]
    return table(words, head, rows)


def _hindsight(found: Sequence[Row]) -> list[str]:
    """How often the published clustering is nearest, by which of its candidates is taken."""
    among = [arm for arm in COMPARED if arm != PUBLISHED]
    first = [row for row in found if row["seed"] == 0 and (row["arm"] == "grid" or row["scale"] != "theirs")]
    rows = []
    for name in [arm for arm, scale in _arms(first) if scale == "published" and arm.startswith("DBSCAN")]:
        cells = []
        for pick in (_first, _least, _nearest):
            picked = [_picked(row, first, pick) if row["arm"] == name else row for row in first]
            alone, shared = wins(picked, (*among, name), "linear")[name]
            cells.append(f"{alone} + {shared}")
        rows.append([name, *cells])
    total = 2 * sum(row["arm"] == "grid" for row in first)
    words = f"The published clusterings beside {', '.join(among)} of ours: nearest, of {total}, alone + with others"
    head = ["clustering", "its first candidate", "that with the smallest gap", "for each knob the nearest of all"]
    return table(words, head, rows)


def _picked(row: Row, found: Sequence[Row], pick: Callable[[Row, Row, str], float]) -> Row:
    place = ("data", "split", "clients")
    best = next(r for r in found if r["arm"] == "grid" and all(r[name] == row[name] for name in place))
    return {**row, "scale": "linear", **{knob: pick(row, best, knob) for knob in ("lr", "momentum")}}


def _first(row: Row, best: Row, knob: str) -> float:
    return float(row["candidates"][0][knob])


def _least(row: Row, best: Row, knob: str) -> float:
    return float(min(row["candidates"], key=lambda candidate: candidate["gap"])[knob])


def _nearest(row: Row, best: Row, knob: str) -> float:
    return float(min((candidate[knob] for candidate in row["candidates"]), key=lambda value: abs(value - best[knob])))


def _seeds(found: Sequence[Row]) -> list[str]:
    """How much of the mean gap is the luck of ties and forests."""
    seeds = sorted({row["seed"] for row in found})
    if len(seeds) < 2:
        return []
    rows = []
    for arm in [arm for arm in _arms(found) if arm[1] in ("linear", "log") and arm[0] != PROCESS]:
        own = [row for row in found if (row["arm"], row.get("scale")) == arm]
        means = [100 * float(np.mean([row["gap"] for row in own if row["seed"] == seed])) for seed in seeds]
        rows.append([_title(*arm), f"{min(means):.1f} to {max(means):.1f}"])
    return table(f"Mean gap by seed, the least and the most of {len(seeds)}", ["strategy", "points"], rows)


def draw(found: Sequence[Row], path: Path) -> Path:
    """Mean gaps by skew and by data set, and that of a fixed config."""
    parts = [svg.legend(70, 22, _DRAWN), svg.text(640, 22, "●: lr .5 and momentum .6, always")]
    grids = [row for row in found if row["arm"] == "grid"]
    for number, name in enumerate(("skew", "data")):
        groups, truths = {}, {}
        for value in dict.fromkeys(row[name] for row in grids):
            own = [row for row in found if row[name] == value and row["arm"] != "grid"]
            groups[str(value)] = [_mean(own, arm, "log" if arm in SURFACES else "linear") for arm in _DRAWN]
            truths[str(value)] = [_mean(own, "fixed .5, .6", "fixed")] * len(_DRAWN)
        most = max(figure for figures in groups.values() for figure in figures)
        ticks = np.linspace(0, max(1.0, float(np.ceil(most))), 6).round(1).tolist()
        area = svg.Area(70 + 480 * number, 66, 400, 200)
        parts.append(bars(area, f"mean gap by {name}, points", "points of accuracy", groups, truths, ticks))
    replace(path, svg.picture(980, 320, *parts))
    return path


def _mean(rows: Sequence[Row], arm: str, scale: str) -> float:
    return 100 * float(np.mean([row["gap"] for row in rows if (row["arm"], row["scale"]) == (arm, scale)]))
