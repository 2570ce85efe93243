"""Figures and tables of `python -m experiments central`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.propose_test.central import FREE, ORACLE, QUIET, Experiment, arms
from experiments.propose_test.central_tasks import Task
from hushtune.core import svg
from hushtune.core.files import replace

Row = Mapping[str, Any]
_HIDDEN = ("propose-test, filter", QUIET)  # in the tables only: more lines than colours
_SHAPES = {  # full search, trainings, which of them must be private
    "propose-test": ("yes", "{parts} on parts, 1", "the last"),
    "propose-test, filter": ("yes", "{parts} on parts, 1", "the last"),
    "noisy-max": ("yes", "{parts} on parts, 1", "the last"),
    QUIET: ("yes", "{parts} on parts, 1", "the last"),
    "repeat-and-select": ("no", "K, mean {half}", "all"),
    "try-all": ("yes", "{size}", "all"),
    "untuned": ("no", "1", "all"),
    ORACLE: ("yes", "{size}, not accounted for", "all"),
    FREE: ("yes", "{size}", "none"),
}


def write(experiment: Experiment, found: Sequence[Row], folder: Path) -> list[Path]:
    """A figure and two tables for every data set; gives their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for task in experiment.tasks():
        own = [row for row in found if row["data"] == task.name]
        paths += [folder / f"central-{task.name}{end}" for end in (".svg", ".md", "-table1.md")]
        replace(paths[-3], _figure(task, own, experiment.epsilons))
        replace(paths[-2], _accuracies(own, experiment.epsilons))
        replace(paths[-1], _costs(task, own, experiment.epsilons))
    return paths


def _figure(task: Task, own: Sequence[Row], epsilons: Sequence[float]) -> str:
    names = [name for name in arms(task) if name not in _HIDDEN]
    area = svg.Area(80, 80, 560, 280)
    series = {name: sorted((row["epsilon"], row["accuracy"]) for row in own if row["arm"] == name) for name in names}
    free = next(row["accuracy"] for row in own if row["arm"] == FREE)
    least = min(row["accuracy"] for row in own)
    low = 10 * (least // 10)
    ticks = sorted(epsilons) if len(epsilons) > 1 else [epsilons[0] / 2, epsilons[0], epsilons[0] * 2]
    x = svg.Axis("total epsilon", ticks, log=True)
    y = svg.Axis("test accuracy, %", [low + (100 - low) * at / 5 for at in range(6)])
    parts = [svg.legend(area.left, 24, names), svg.panel(area, task.name, x, y, series)]
    for number, name in enumerate(names):
        for row in own:
            if row["arm"] == name:
                ends = (row["accuracy"] - row["error"], row["accuracy"] + row["error"])
                parts.append(svg.whisker(area, x, y, row["epsilon"], ends, number))
    oracle = sorted((row["epsilon"], row["accuracy"]) for row in own if row["arm"] == ORACLE)
    parts.append(svg.polyline([area.place(x, y, point) for point in oracle], "line dashed s5"))
    parts.append(svg.text(area.left, 48, "dotted: the best candidate, known for free; above: without privacy"))
    parts.append(svg.polyline([area.place(x, y, (end, free)) for end in (x.ticks[0], x.ticks[-1])], "line dashed s0"))
    return svg.picture(700, 420, *parts)


def _accuracies(own: Sequence[Row], epsilons: Sequence[float]) -> str:
    lines = ["| arm | " + " | ".join(f"epsilon {epsilon:g}" for epsilon in epsilons) + " |"]
    lines.append("|---|" + "---|" * len(epsilons))
    for arm in dict.fromkeys(row["arm"] for row in own):
        cells = []
        for epsilon in epsilons:
            row = next(row for row in own if row["arm"] == arm and row["epsilon"] == epsilon)
            ahead = f" ({row['ahead of untuned']:+.1f} ± {row['ahead error']:.1f})" if arm != "untuned" else ""
            cells.append(f"{row['accuracy']:.1f} ± {row['error']:.1f}{ahead}")
        lines.append(f"| {arm} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _costs(task: Task, own: Sequence[Row], epsilons: Sequence[float]) -> str:
    size = len(task.candidates())
    numbers = {"parts": f"{size} x {task.voters}", "half": f"{size / 2:g}", "size": size}
    heads = " | ".join(f"noise at epsilon {epsilon:g}" for epsilon in epsilons)
    lines = [f"| method | full search | trainings | private | {heads} |", "|---|---|---|---|" + "---|" * len(epsilons)]
    for arm, (full, trainings, private) in _SHAPES.items():
        noise = [
            next(row["multiplier"] for row in own if row["arm"] == arm and row["epsilon"] == epsilon)
            for epsilon in epsilons
        ]
        cells = " | ".join(f"{value:.2f}" for value in noise)
        lines.append(f"| {arm} | {full} | {trainings.format(**numbers)} | {private} | {cells} |")
    return "\n".join(lines) + "\n"
