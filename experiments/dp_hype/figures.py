"""Figures of the DP-HYPE experiments: accuracy by epsilon (the paper's 5, 6, 10, 11) and over candidates (4, 9)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.dp_hype.experiment import OURS, PUBLISHED, ratios
from hushtune.core import svg
from hushtune.core.files import replace

Row = Mapping[str, Any]
_LINES = (OURS, PUBLISHED, "raw losses", "subsets")
_ACROSS, _WIDE, _HIGH = 3, 330, 280
_BINS = 20


def draw(found: Sequence[Row], folder: Path) -> list[Path]:
    """Writes all figures; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / "dp-hype-accuracy.svg", folder / "dp-hype-histograms.svg"]
    replace(paths[0], _accuracy(found))
    replace(paths[1], _histograms(found))
    return paths


def _federations(found: Sequence[Row]) -> list[Row]:
    return [row for row in found if row["arm"] == "federation"]


def _title(row: Row) -> str:
    return f"{row['data']}, {row['clients']} clients, {row['split']}"


def _area(number: int) -> svg.Area:
    return svg.Area(70 + _WIDE * (number % _ACROSS), 100 + _HIGH * (number // _ACROSS), 240, 180)


def _size(count: int) -> tuple[float, float]:
    return 70 + _WIDE * min(_ACROSS, count) - 20, 70 + _HIGH * math.ceil(count / _ACROSS)


def _accuracy(found: Sequence[Row]) -> str:
    """A panel per federation, a line per arm with 95% intervals; dashed: the best and the mean candidate."""
    federations = _federations(found)
    wide = max(_size(len(federations))[0], 700)
    parts = [
        svg.legend(70, 22, _LINES),
        svg.text(
            70,
            44,
            "dashed: OPT and the mean candidate; budget: DP-HYPE's epsilon over ours, at its accuracy there",
        ),
    ]
    for number, federation in enumerate(federations):
        own = [row for row in found if row["name"] == federation["name"] and row["arm"] in _LINES]
        finite = sorted({row["epsilon"] for row in own if row["epsilon"] != "inf"})
        if not finite:
            continue
        last = finite[-1] * 3
        ticks = [*finite, last] if any(row["epsilon"] == "inf" for row in own) else finite
        x = svg.Axis("epsilon", ticks, log=len(ticks) > 1, words={last: "no noise"})
        y = _up([federation["opt"], federation["random"], *(end for row in own for end in (row["low"], row["high"]))])
        area = _area(number)
        series = {arm: [(_at(row, last), row["accuracy"]) for row in own if row["arm"] == arm] for arm in _LINES}
        level = {name: [(ticks[0], federation[name]), (ticks[-1], federation[name])] for name in ("opt", "random")}
        parts.append(svg.panel(area, _title(federation), x, y, series))
        parts.append(svg.text(area.left, area.top - 26, _times(found, federation["name"])))
        parts += [svg.polyline([area.place(x, y, p) for p in line], "line dashed s5") for line in level.values()]
        for row in own:
            parts.append(svg.whisker(area, x, y, _at(row, last), (row["low"], row["high"]), _LINES.index(row["arm"])))
    return svg.picture(wide, _size(len(federations))[1], *parts)


def _times(found: Sequence[Row], name: str) -> str:
    """How many times the budget the published form needs for the accuracy it has at some epsilons."""
    own = [row for row in ratios(found) if row["name"] == name]
    words = [f"{row['epsilon published']:g}: {'≥' if row['at least'] else ''}{row['budget ratio']:.2g}x" for row in own]
    return "budget " + ", ".join(words[-4:]) if words else ""


def _at(row: Row, last: float) -> float:
    return last if row["epsilon"] == "inf" else float(row["epsilon"])


def _up(values: Sequence[float]) -> svg.Axis:
    low, high = max(0.0, math.floor(10 * min(values)) / 10), min(1.0, math.ceil(10 * max(values)) / 10)
    steps = max(2, round((high - low) / 0.1))
    every = 2 if steps > 6 else 1
    ticks = [round(low + 0.1 * at, 1) for at in range(0, steps + 1, every)]
    return svg.Axis("accuracy", ticks if ticks[-1] >= high else [*ticks, round(ticks[-1] + 0.1 * every, 1)])


def _histograms(found: Sequence[Row]) -> str:
    """How many candidates give which accuracy."""
    parts = [svg.text(70, 22, "How many of the 100 candidates give which accuracy, trained by everybody together")]
    federations = _federations(found)
    for number, federation in enumerate(federations):
        area = _area(number)
        counts, edges = np.histogram(federation["accuracies"], bins=_BINS, range=(0, 1))
        most = 10 * math.ceil(max(counts) / 10)
        x, y = svg.Axis("accuracy", (0, 0.25, 0.5, 0.75, 1)), svg.Axis("candidates", (0, most / 2, most))
        parts.append(svg.panel(area, _title(federation), x, y, {}))
        for count, left in zip(counts, edges, strict=False):
            if count:
                place, top = area.place(x, y, (left, count))
                parts.append(svg.bar(place, top, area.width / _BINS - 1, area.top + area.height - top))
    wide, high = _size(len(federations))
    return svg.picture(max(wide, 700), high, *parts)
