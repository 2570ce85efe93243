"""Figures and tables of DP-FTS-DE's experiments: convergence, privacy against performance, the size that it takes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.dp_fts_de.experiment import ONLY, USUAL
from hushtune.core import svg
from hushtune.core.files import replace

Row = Mapping[str, Any]
_SHOWN = 6  # lines in one panel: as many as there are colours


def write(found: Sequence[Row], folder: Path) -> list[Path]:
    """Writes a figure and a table for every task and size of federation, and one for all sizes; gives their paths."""
    paths = []
    places = dict.fromkeys((row["task"], row["agents"]) for row in found)
    for task, agents in places:
        own = [row for row in found if (row["task"], row["agents"]) == (task, agents)]
        paths += [folder / f"fts-{task}-{agents}.svg", folder / f"fts-{task}-{agents}.md"]
        replace(paths[-2], _picture(task, agents, own))
        replace(paths[-1], _table(own))
    for task in dict.fromkeys(task for task, _ in places):
        sizes = sorted({agents for name, agents in places if name == task})
        if len(sizes) > 1:
            paths.append(folder / f"fts-{task}-sizes.svg")
            replace(paths[-1], _sizes(task, [row for row in found if row["task"] == task], sizes))
    return paths


def _picture(task: str, agents: int, own: Sequence[Row]) -> str:
    free = [row for row in own if "epsilon" not in row]
    private = [row for row in own if "epsilon" in row]
    parts = _course(svg.Area(70, 80, 400, 240), f"{task}, {agents} agents: without noise", free[:_SHOWN])
    if private:
        parts += _trade(svg.Area(570, 80, 380, 240), "mean over iterations, by epsilon", private, free)
    return svg.picture(1_000, 380, *parts)


def _course(area: svg.Area, title: str, rows: Sequence[Row]) -> list[str]:
    """What is missing to 1, by iteration, with standard errors."""
    steps = len(rows[0]["curve"]) - 1
    values = [value for row in rows for value in row["curve"]]
    x, y = svg.Axis("iteration", _ticks(0, steps)), svg.Axis("1 - best value", _ticks(min(values), max(values)))
    series = {row["arm"]: [(at, value) for at, value in enumerate(row["curve"])] for row in rows}
    parts = [svg.legend(area.left, 24, list(series)), svg.panel(area, title, x, y, {})]
    for number, (row, points) in enumerate(zip(rows, series.values(), strict=True)):
        parts.append(svg.polyline([area.place(x, y, point) for point in points], f"line s{number}"))
        for at in range(0, steps + 1, max(1, steps // 8)):
            value, error = row["curve"][at], row["curve error"][at]
            parts.append(svg.whisker(area, x, y, at, (value - error, value + error), number))
    return parts


def _trade(area: svg.Area, title: str, private: Sequence[Row], free: Sequence[Row]) -> list[str]:
    """How private arms do over all iterations, beside their noise-only arms and standard TS."""
    groups = {
        "published": [row for row in private if not row["arm"].startswith("ours") and not row["arm"].endswith(ONLY)],
        "its noise only": [row for row in private if not row["arm"].startswith("ours") and row["arm"].endswith(ONLY)],
        "ours": [row for row in private if row["arm"].startswith("ours") and not row["arm"].endswith(ONLY)],
        "our noise only": [row for row in private if row["arm"].startswith("ours") and row["arm"].endswith(ONLY)],
    }
    alone = next((row["course"] for row in free if row["arm"] == "ts"), None)
    ends = [row["course"] for row in private] + ([alone] if alone is not None else [])
    spread = max(row["course error"] for row in private)
    x = svg.Axis("epsilon", _ticks(0, max(row["epsilon"] for row in private)))
    y = svg.Axis("1 - best value, mean", _ticks(min(ends) - spread, max(ends) + spread))
    parts = [svg.legend(area.left, 48, list(groups)), svg.panel(area, title, x, y, {})]
    for number, rows in enumerate(groups.values()):
        for row in rows:
            place = area.place(x, y, (row["epsilon"], row["course"]))
            low, high = row["course"] - row["course error"], row["course"] + row["course error"]
            parts += [svg.dot(*place, 4, number), svg.whisker(area, x, y, row["epsilon"], (low, high), number)]
    if alone is not None:
        ends_of = [area.place(x, y, (at, alone)) for at in (x.ticks[0], x.ticks[-1])]
        parts += [
            svg.polyline(ends_of, "line dashed s5"),
            svg.text(ends_of[1][0] - 4, ends_of[1][1] - 6, "TS", "course"),
        ]
    return parts


def _sizes(task: str, found: Sequence[Row], sizes: Sequence[int]) -> str:
    """By how much arms are ahead of their own noise, by the number of agents."""
    rows = [row for row in found if "ahead of noise, course" in row]
    names = [name for name in dict.fromkeys(row["arm"] for row in rows) if _usual(name)][:_SHOWN]
    series = {
        name: sorted((row["agents"], row["ahead of noise, course"]) for row in rows if row["arm"] == name)
        for name in names
    }
    values = [value for points in series.values() for _, value in points]
    area = svg.Area(80, 70, 520, 240)
    x, y = svg.decades("agents", sizes), svg.Axis("ahead of noise only", _ticks(min(0, *values), max(values)))
    return svg.picture(
        660, 370, svg.legend(80, 24, names), svg.panel(area, f"{task}: mean over iterations", x, y, series)
    )


def _usual(name: str) -> bool:
    """The arms that are shown by size: one published setting each, and ours."""
    return name.startswith("ours") or name in USUAL


def _ticks(low: float, high: float) -> list[float]:
    """A few round numbers around an interval."""
    if high <= low:
        high = low + 1e-6
    step = 10 ** math.floor(math.log10((high - low) / 2))
    step *= next(factor for factor in (1, 2, 2.5, 5, 10) if (high - low) / (step * factor) <= 6)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [round(step * at, 10) for at in range(first, last + 1)]


_COLUMNS = {
    "arm": "arm",
    "epsilon": "epsilon",
    "epsilon as published": "as published",
    "course": "mean over iterations",
    "end": "at the end",
    "ahead of ts, course": "ahead of TS",
    "ahead of noise, course": "ahead of its noise",
    "ahead of default, course": "ahead of the default",
    "cosine": "cosine",
    "agreement": "agreement",
    "clipped": "clipped",
}


def _table(own: Sequence[Row]) -> str:
    columns = {name: word for name, word in _COLUMNS.items() if any(name in row for row in own)}
    lines = ["| " + " | ".join(columns.values()) + " |", "|" + "---|" * len(columns)]
    for row in own:
        lines.append("| " + " | ".join(_cell(row, name) for name in columns) + " |")
    return "\n".join(lines) + "\n"


def _cell(row: Row, name: str) -> str:
    if name not in row:
        return ""
    value = row[name]
    if isinstance(value, str):
        return value
    error = row.get(f"{name} error", row.get(f"{name}, error"))
    if error is not None:
        return f"{value:.4f} ± {error:.4f}"
    return f"{value:.2f}"
