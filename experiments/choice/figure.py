"""The picture: accuracy of the choice by epsilon, for three data sets, with 95% bands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from experiments.choice.arms import MAIN
from experiments.choice.experiment import Row
from hushtune.core import svg
from hushtune.core.files import replace

_SHOWN = 3
_WIDE, _HIGH, _INSIDE = 330, 300, (240, 190)
_TITLES = {
    "adult": "Census income (Adult)",
    "digits": "Digits",
    "mnist": "MNIST, 10,000 images",
    "electricity": "Electricity prices",
    "eeg": "EEG eye state",
    "cifar10": "CIFAR-10, 4,000 images",
    "emnist": "EMNIST, 10,000 images",
}


def draw(found: Sequence[Row], path: Path) -> Path:
    """Writes the picture: the first three data sets, each with its first split.

    Args:
        found: rows of the experiment.
        path: an SVG file.
    """
    first: dict[str, Row] = {}
    for row in found:
        if row["arm"] == "federation":
            first.setdefault(row["data"], row)
    shown = list(first.values())[:_SHOWN]
    parts = [svg.legend(70, 22, MAIN), svg.text(620, 22, "dotted: the best candidate; bands: 95%")]
    for number, federation in enumerate(shown):
        area = svg.Area(70 + _WIDE * number, 76, *_INSIDE)
        parts.append(_panel(area, federation, [row for row in found if row["name"] == federation["name"]]))
    replace(path, svg.picture(70 + _WIDE * len(shown) - 20, _HIGH + 20, *parts))
    return path


def _panel(area: svg.Area, federation: Row, own: Sequence[Row]) -> str:
    lines = {arm: [row for row in own if row["arm"] == arm and row["epsilon"] != "inf"] for arm in MAIN}
    x = svg.Axis("epsilon", [row["epsilon"] for row in lines[MAIN[0]]], log=True)
    low, high = min(row["low"] for line in lines.values() for row in line), federation["opt"]
    steps = range(math.floor(10 * low), math.ceil(10 * high) + 1)
    y = svg.Axis("accuracy" if area.left < _WIDE else "", [step / 10 for step in steps])
    bands = []
    for number, line in enumerate(lines.values()):
        ends = [(row["epsilon"], row["low"], min(row["high"], y.ticks[-1])) for row in line]
        bands.append(svg.band(area, x, y, ends, number))
    series = {arm: [(row["epsilon"], row["accuracy"]) for row in line] for arm, line in lines.items()}
    title = _TITLES.get(federation["data"]) or str(federation["data"])
    level = [area.place(x, y, (tick, federation["opt"])) for tick in (x.ticks[0], x.ticks[-1])]
    best = svg.polyline(level, "line dashed level")
    return "\n".join([*bands, svg.panel(area, title, x, y, series), best])
