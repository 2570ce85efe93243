"""PrivTuna's Figures 2 to 5 from trainings of our own: derived values and accuracies as bars, the truth as dots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.privtuna.strategies import COMPARED, PUBLISHED, SURFACES
from experiments.privtuna.tables import suffix
from hushtune.core import svg
from hushtune.core.files import replace

Row = Mapping[str, Any]
_QUANTITIES = {"lr": "learning rate", "momentum": "momentum", "accuracy": "accuracy"}
_TICKS = {
    "lr": (0, 0.1, 0.2, 0.3, 0.4, 0.5),
    "momentum": (0, 0.2, 0.4, 0.6, 0.8, 1.0),
    "accuracy": (0, 0.2, 0.4, 0.6, 0.8, 1.0),
}
_SKEWS = ("feature", "label", "quantity")
_TRUTH = "●: the best grid point"


def draw(found: Sequence[Row], folder: Path) -> list[Path]:
    """Writes the figures there are rows for; returns their paths."""
    parts = {
        "iid": _by_clients(found, "iid", "mean"),
        "strategies": _by_strategy(found),
        "dbscan": _by_clients(found, "label", PUBLISHED),
        "surfaces": _surfaces(found),
    }
    paths = []
    for name, content in parts.items():
        if content is not None:
            paths.append(folder / f"privtuna-{name}{suffix(found)}.svg")
            replace(paths[-1], content)
    return paths


def bars(
    area: svg.Area,
    title: str,
    quantity: str,
    groups: Mapping[str, Sequence[float]],
    truths: Mapping[str, Sequence[float]],
    ticks: Sequence[float] | None = None,
) -> str:
    """Groups of bars, each bar with its dot; a value that is not known is NaN and leaves its place empty."""
    centres = {at + 0.5: name for at, name in enumerate(groups)}
    x = svg.Axis("", [0, *centres, max(1, len(groups))], words={0: "", len(groups): "", **centres})
    y = svg.Axis(_QUANTITIES.get(quantity, quantity), ticks or _TICKS[quantity])
    parts = [svg.panel(area, title, x, y, {})]
    for at, (name, values) in enumerate(groups.items()):
        wide = 0.84 / len(values)
        for number, value in enumerate(values):
            left = at + 0.08 + number * wide
            place, bottom = area.place(x, y, (left, 0))
            right, top = area.place(x, y, (left + wide, value if np.isfinite(value) else 0))
            parts.append(svg.bar(place, top, right - place - 1, bottom - top, number))
            if np.isfinite(truth := truths[name][number]):
                parts.append(svg.text((place + right) / 2, area.place(x, y, (left, truth))[1] + 4, "●", "middle"))
    return "\n".join(parts)


def value(found: Sequence[Row], quantity: str, **where: Any) -> float:
    """The mean of a quantity over the rows that are so; NaN if there are none."""
    own = [row[quantity] for row in found if all(row.get(name) == wanted for name, wanted in where.items())]
    return float(np.mean(own)) if own else float("nan")


def _listed(found: Sequence[Row], name: str) -> list[Any]:
    return list(dict.fromkeys(row[name] for row in found))


def _first_split(found: Iterable[Row]) -> Any:
    return next((row["split"] for row in found), None)


def _by_clients(found: Sequence[Row], skew: str, strategy: str) -> str | None:
    """Figures 2 and 4: one strategy, a bar for each number of clients."""
    own = [row for row in found if row["skew"] == skew]
    split = _first_split(own)
    own = [row for row in own if row["split"] == split]
    if not own:
        return None
    counts = sorted(_listed(own, "clients"))
    parts = [svg.legend(70, 22, [f"{count} clients" for count in counts]), svg.text(420, 22, _TRUTH)]
    for number, quantity in enumerate(_QUANTITIES):
        groups, truths = {}, {}
        for data in _listed(own, "data"):
            places = [{"data": data, "clients": count} for count in counts]
            groups[data] = [value(own, quantity, arm=strategy, scale="linear", **place) for place in places]
            truths[data] = [value(own, quantity, arm="grid", **place) for place in places]
        area = svg.Area(70 + 330 * number, 66, 250, 180)
        parts.append(bars(area, f"{_QUANTITIES[quantity]}, {split}, {strategy}", quantity, groups, truths))
    return svg.picture(1_020, 300, *parts)


def _by_strategy(found: Sequence[Row]) -> str | None:
    """Figure 3: every strategy; a row of panels for each skew, for the larger number of clients."""
    skewed = [row for row in found if row["skew"] in _SKEWS]
    if not skewed:
        return None
    count = max(_listed(skewed, "clients"))
    parts = [svg.legend(70, 22, COMPARED), svg.text(640, 22, f"{_TRUTH}; {count} clients")]
    skews = [skew for skew in _SKEWS if skew in _listed(skewed, "skew")]
    for line, skew in enumerate(skews):
        split = _first_split(row for row in skewed if row["skew"] == skew)
        own = [row for row in skewed if row["split"] == split and row["clients"] == count]
        for number, quantity in enumerate(_QUANTITIES):
            groups, truths = {}, {}
            for data in _listed(own, "data"):
                groups[data] = [value(own, quantity, data=data, arm=arm, scale="linear") for arm in COMPARED]
                truths[data] = [value(own, quantity, data=data, arm="grid")] * len(COMPARED)
            area = svg.Area(70 + 330 * number, 66 + 250 * line, 250, 180)
            if groups:
                parts.append(bars(area, f"{_QUANTITIES[quantity]}, {split}", quantity, groups, truths))
    return svg.picture(1_020, 50 + 250 * len(skews), *parts)


def _surfaces(found: Sequence[Row]) -> str | None:
    """Figure 5: FLoRA's surfaces beside the clustering, over all skews' degrees and numbers of clients."""
    arms = (PUBLISHED, *SURFACES)
    skews = [skew for skew in _SKEWS if any(row["skew"] == skew for row in found)]
    if not skews:
        return None
    parts = [svg.legend(70, 22, arms), svg.text(420, 22, _TRUTH)]
    for number, skew in enumerate(skews):
        own = [row for row in found if row["skew"] == skew and row.get("scale") != "log"]
        own += [row for row in found if row["skew"] == skew and row["arm"] in SURFACES]
        groups = {d: [value(own, "accuracy", data=d, arm=arm) for arm in arms] for d in _listed(own, "data")}
        truths = {data: [value(own, "accuracy", data=data, arm="grid")] * len(arms) for data in groups}
        area = svg.Area(70 + 330 * number, 66, 250, 180)
        parts.append(bars(area, f"accuracy, {skew} skew", "accuracy", groups, truths))
    return svg.picture(1_020, 300, *parts)
