"""FLoRA's tables as Markdown, the paper's figures beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.flora.experiment import FEW, GAP, NOT_COUNTED, aggregate, full, regrets
from experiments.flora.tasks import SKEWED
from hushtune.core.files import replace
from hushtune.methods.surface.models import KINDS

Row = Mapping[str, Any]
_PUBLISHED = {  # Tables 7 to 9 and 14: SGM, SGM+U, MPLM, APLM
    ("pollen", "hgb"): (0.43, 0.54, 0.43, 0.69),
    ("electricity", "hgb"): (0.17, 0.14, 0.09, 0.12),
    ("sonar", "hgb"): (1.33, 0.41, 0.92, 0.71),
    ("heart", "hgb"): (0.69, 0.55, 0.89, 0.50),
    ("oil_spill", "hgb"): (0.47, 1.13, 0.46, 0.61),
    ("eeg", "hgb"): (0.14, 0.12, 0.11, 0.12),
    ("pollen", "svm"): (1.35, 1.45, 2.84, 2.30),
    ("sonar", "svm"): (0.17, 0.17, 0.27, 0.17),
    ("heart", "svm"): (0.00, 0.00, 6.80, 0.67),
    ("oil_spill", "svm"): (1.28, 1.16, 1.12, 0.41),
    ("eeg", "svm"): (-0.01, -0.01, -0.02, -0.01),
    ("pollen", "mlp"): (1.88, 1.45, 1.45, 1.31),
    ("electricity", "mlp"): (0.24, 0.41, 0.16, 0.53),
    ("sonar", "mlp"): (0.26, 0.55, 0.52, 0.39),
    ("heart", "mlp"): (0.46, 0.37, 0.42, 0.28),
    ("oil_spill", "mlp"): (0.80, 1.03, 1.00, 0.79),
    ("eeg", "mlp"): (0.99, 0.99, 0.99, 0.99),
    ("mnist:imb1", "mlp"): (0.85, 0.56, 0.29, 0.06),
    ("mnist:imb2", "mlp"): (20.63, 1.53, 0.71, 1.10),
    ("mnist:imb1", "svm"): (0.01, 0.02, 0.01, 0.02),
    ("mnist:imb1", "hgb"): (0.51, 0.92, 0.64, 0.51),
}
_QUARTILES = {  # Table 3
    ("hgb", "sgm"): (0.30, 0.47, 0.68),
    ("hgb", "sgm+u"): (0.27, 0.54, 0.64),
    ("hgb", "mplm"): (0.25, 0.43, 0.67),
    ("hgb", "aplm"): (0.25, 0.50, 0.65),
    ("svm", "sgm"): (0.04, 0.38, 1.11),
    ("svm", "sgm+u"): (0.04, 0.48, 1.07),
    ("svm", "mplm"): (0.38, 0.91, 2.41),
    ("svm", "aplm"): (0.23, 0.54, 0.76),
    ("mlp", "sgm"): (0.36, 0.80, 0.97),
    ("mlp", "sgm+u"): (0.48, 0.99, 1.01),
    ("mlp", "mplm"): (0.47, 0.89, 1.00),
    ("mlp", "aplm"): (0.46, 0.79, 0.95),
    ("overall", "sgm"): (0.22, 0.53, 0.97),
    ("overall", "sgm+u"): (0.32, 0.55, 1.01),
    ("overall", "mplm"): (0.36, 0.61, 0.99),
    ("overall", "aplm"): (0.36, 0.57, 0.79),
}
_WINS = {  # Table 3, "overall"
    "sgm": "16/0/4",
    "sgm+u": "14/1/5",
    "mplm": "15/1/4",
    "aplm": "18/0/2",
}


def write(found: Sequence[Row], folder: Path) -> Path:
    """Writes all tables; returns their path."""
    path = folder / "flora-tables.md"
    parts = [
        _cells(found),
        _aggregate(found, 0.0),
        _aggregate(found, GAP),
        _parties(found),
        _varied(found, "trials"),
        _varied(found, "send"),
    ]
    replace(path, "\n".join(line for part in (*parts, _skewed(found), _multishot(found)) for line in part) + "\n")
    return path


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    if not rows:
        return []
    return [f"\n### {title}\n", *(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *rows))]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _arms(found: Sequence[Row]) -> list[tuple[str, Any]]:
    return list(dict.fromkeys((row["arm"], row["epsilon"]) for row in found if row["arm"] != "cell"))


def _title(arm: str, epsilon: Any) -> str:
    return arm if epsilon is None else f"{arm}, {'exact sum' if epsilon == 'inf' else f'epsilon {epsilon:g}'}"


def _means(rows: Sequence[Row], names: Sequence[str]) -> dict[str, float]:
    return {name: float(np.mean([row[name] for row in rows if name in row])) for name in names}


def _cell_row(found: Sequence[Row], data: str, model: str, parties: int) -> list[str]:
    """Data, model, parties, and the scores that are the same for all arms; means over seeds."""
    own = [row for row in found if row["arm"] == "cell" and _is(row, data, model, parties)]
    mean = _means(own, ("default", "best", "worst local score", "best local score", "gamma_p"))
    scores = [f"{100 * mean[name]:.1f}" for name in ("default", "best", "worst local score", "best local score")]
    gap = f"{100 * (mean['best'] - mean['default']):.1f}"
    return [data, model, str(parties), *scores[:2], gap, *scores[2:], f"{mean['gamma_p']:.2f}"]


_CELL = ("data", "model", "parties", "default", "best", "gap", "PMin", "PMax", "gamma_p")


def _is(row: Row, data: str, model: str, parties: int) -> bool:
    return (row["data"], row["model"], row["parties"]) == (data, model, parties)


def _places(found: Sequence[Row]) -> list[tuple[str, str, int]]:
    return list(dict.fromkeys((row["data"], row["model"], row["parties"]) for row in found))


def _cells(found: Sequence[Row]) -> list[str]:
    """Tables 7 to 9, for few parties."""
    own = full([row for row in found if row["parties"] <= FEW])
    arms, rows = _arms(own), []
    for place in sorted(_places(own), key=lambda place: (list("hsm").index(place[1][0]), place)):
        published = dict(zip(KINDS, _PUBLISHED.get(place[:2], ()), strict=False))
        cells = []
        for arm, epsilon in arms:
            ours = _number(regrets(own, *place, arm, epsilon))
            paper = published.get(arm) if epsilon is None else None  # type: ignore[call-overload]
            cells.append(ours if paper is None else f"{ours} ({paper:.2f})")
        rows.append([*_cell_row(found, *place), *cells])
    head = [*_CELL, *(_title(*arm) for arm in arms)]
    return _table("Relative regret, ours (the paper's): Tables 7, 8 and 9", head, rows)


def _aggregate(found: Sequence[Row], gap: float) -> list[str]:
    rows = []
    for row in aggregate(found, gap=gap):
        quartiles = "[{:.2f}, {:.2f}, {:.2f}]".format(*row["quartiles"])
        published = _QUARTILES.get((row["model"], row["arm"])) if row["epsilon"] is None else None
        wins = _WINS.get(row["arm"], "") if row["model"] == "overall" and row["epsilon"] is None else ""
        rows.append(
            [
                f"{row['model']}, {row['cells']} cells",
                _title(row["arm"], row["epsilon"]),
                f"{row['mean']:.2f} ± {row['deviation']:.2f}",
                quartiles,
                "[{:.2f}, {:.2f}, {:.2f}]".format(*published) if published is not None else "",
                f"{row['wins']}/{row['ties']}/{row['losses']}",
                wins,
                f"{row['statistic']:g}, {row['p']:.4f}",
            ]
        )
    head = ["model", "surface", "mean", "quartiles", "the paper's", "wins/ties/losses", "the paper's", "Wilcoxon"]
    without = ", ".join(NOT_COUNTED)
    some = f"over cells with a gap of {100 * gap:g} points or more" if gap else "over all cells"
    return _table(f"Tables 3 and 10, {some} but those of {without}", head, rows)


def _parties(found: Sequence[Row]) -> list[str]:
    own = full([row for row in found if row["data"] not in SKEWED])
    arms = _arms(own)
    rows = [
        [*_cell_row(found, *place), *(_number(regrets(own, *place, *arm)) for arm in arms)]
        for place in sorted(_places(own), key=lambda place: (place[1], place[0], place[2]))
    ]
    return _table("By the number of parties: Tables 4 and 11", [*_CELL, *(_title(*arm) for arm in arms)], rows)


def _varied(found: Sequence[Row], name: str) -> list[str]:
    """Tables 12 and 13."""
    most = max((row["trials"] for row in found if row["arm"] != "cell"), default=0)
    own = [
        row
        for row in found
        if row["arm"] in KINDS and row["parties"] <= FEW
        if (row["trials"] == row["send"] if name == "trials" else row["trials"] == most)
    ]
    rows = []
    for data, model, parties in sorted(_places(own), key=lambda place: (place[1], place[0])):
        here = [row for row in own if _is(row, data, model, parties)]
        for value in sorted({row[name] for row in here}):
            some = [row for row in here if row[name] == value]
            cells = [_number(regrets(some, data, model, parties, kind, None)) for kind in KINDS]
            rows.append([data, model, str(value), *cells])
    number = {"trials": "Table 12", "send": "Table 13"}[name]
    words = {"trials": "trials of each party", "send": f"pairs sent, of {most} trials"}[name]
    return _table(f"By {words}: {number}", ["data", "model", words, *KINDS], rows)


def _skewed(found: Sequence[Row]) -> list[str]:
    own = full([row for row in found if row["data"] in SKEWED])
    rows = []
    for place in sorted(_places(own)):
        published = _PUBLISHED.get(place[:2], ())
        cells = [_number(regrets(own, *place, kind, None)) for kind in KINDS]
        cells = [f"{a} ({b:.2f})" for a, b in zip(cells, published, strict=True)] if published else cells
        rows.append([*_cell_row(found, *place), *cells])
    return _table("Skewed MNIST, ours (the paper's): Table 14", [*_CELL, *KINDS], rows)


def _multishot(found: Sequence[Row]) -> list[str]:
    """Figure 2: with how many trainings a centralised search is as good."""
    own = [row for row in full(found) if row["epsilon"] in (None, "inf") and row["data"] not in NOT_COUNTED]
    rows = []
    for model in dict.fromkeys(row["model"] for row in own):
        for arm, epsilon in _arms(own):
            some = [row for row in own if (row["model"], row["arm"], row["epsilon"]) == (model, arm, epsilon)]
            better = [row for row in some if row["regret"] is not None and row["regret"] < 1]
            counts = [row["trainings"] or row["trials"] + 1 for row in better]
            if counts:
                quartiles = np.percentile(counts, (25, 50, 75))
                rows.append([model, _title(arm, epsilon), str(len(counts)), " / ".join(f"{q:g}" for q in quartiles)])
    return _table(
        "Federated trainings that a multi-shot search needs to match one: Figure 2",
        ["model", "surface", "cells better than the default", "quartiles"],
        rows,
    )
