"""FLoRA's Figure 2: with how many federated trainings a search finds as good a config as one surface does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.flora.experiment import FEW, NOT_COUNTED, full
from experiments.flora.tasks import MODELS
from hushtune.core import svg
from hushtune.core.files import replace

_LOW, _HIGH = -0.25, 1.25


def draw(found: Sequence[Mapping[str, Any]], folder: Path) -> Path:
    """A panel per model; a line per data set, from one training with the surface's config to the search's."""
    path = folder / "flora-trainings.svg"
    own = [row for row in full(found) if row["arm"] == "aplm" and row["parties"] <= FEW and row["seed"] == 0]
    models = [model for model in MODELS if any(row["model"] == model for row in own)]
    most = max((row["trials"] for row in own), default=10)
    ticks = [1, *(tick for tick in (2, 5, 10, 20, 50) if tick < most), most]
    x, y = svg.Axis("federated trainings", ticks, log=True), svg.Axis("relative regret", (0, 0.25, 0.5, 0.75, 1.0))
    parts = [
        svg.text(70, 24, "APLM with one training (left) and a search that trains each time, until as good (right)")
    ]
    for number, model in enumerate(models):
        area = svg.Area(70 + 330 * number, 70, 250, 200)
        some = [row for row in own if row["model"] == model and row["data"] not in NOT_COUNTED]
        lines = {
            row["data"]: [(1.0, row["regret"]), (float(row["trainings"] or most), row["regret"])]
            for row in some
            if row["regret"] is not None and 0 <= row["regret"] <= 1
        }
        parts.append(svg.panel(area, model, x, y, lines))
        parts += [
            svg.text(area.place(x, y, line[1])[0], area.place(x, y, line[1])[1] - 7, name, "end")
            for name, line in lines.items()
        ]
    replace(path, svg.picture(70 + 330 * max(1, len(models)), 330, *parts))
    return path
