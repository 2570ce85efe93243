"""DP-HYPE's Figure 2: how often a private vote chooses a good candidate, simulated, beside Theorem V.1's bound.

n = 250 voters, delta = 1e-5, nobody drops out or is corrupt. Losses of good candidates are normal around 0, of bad ones
around 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hushtune.core import svg
from hushtune.core.arrays import IntArray
from hushtune.core.files import replace
from hushtune.core.observer import Observer
from hushtune.methods.vote.odds import Agreement, bound, counts
from hushtune.privacy.accounting import Sums
from hushtune.privacy.bounds import KHot
from hushtune.privacy.calibration import calibrate
from hushtune.privacy.guarantee import Privacy

VOTERS = 250
KS = (1, 5, 25, 50, 100)
EPSILONS = (0.25, 1.0)
OVERLAPS = (0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
GOODS = (1, 2, 4, 8, 16, 32, 64)
SIZES = (10, 25, 50, 100, 200, 400)
_PANELS = {
    "overlap": svg.Axis("sd of a loss", OVERLAPS, log=True),
    "good": svg.Axis("good candidates, sd .2", GOODS, log=True),
    "candidates": svg.Axis("candidates, 5 good, sd .2", SIZES, log=True),
}


def cases() -> list[tuple[str, float, int, Agreement]]:
    """The figure's panels: what varies, its value, the number of candidates, and how voters agree."""
    return [
        *(("overlap", overlap, 100, Agreement(5, overlap)) for overlap in OVERLAPS),
        *(("good", good, 100, Agreement(good, 0.2)) for good in GOODS),
        *(("candidates", size, size, Agreement(5, 0.2)) for size in SIZES),
    ]


def rows(repetitions: int, seed: int, observer: Observer) -> Iterator[dict[str, Any]]:
    """One row per panel, value, k and epsilon."""
    wanted = cases()
    with observer.phase("cases", len(wanted)) as advance:
        for number, (panel, value, size, agreement) in enumerate(wanted):
            rng = np.random.default_rng([seed, number])
            ks = [k for k in KS if k <= size]
            found = counts(VOTERS, size, ks, agreement, repetitions, rng)
            for k in ks:
                for epsilon in EPSILONS:
                    noise = calibrate((KHot(k, size),), Privacy(epsilon), Sums())
                    yield {
                        "panel": panel,
                        "value": value,
                        "k": k,
                        "epsilon": epsilon,
                        "sigma": round(noise.scale, 3),
                        "success": success(found[k], agreement.good, noise.variance, rng),
                        "bound": round(bound(found[k], agreement.good, noise.variance), 6),
                        "guess": round(agreement.good / size, 4),
                        "repetitions": repetitions,
                    }
            advance(1)


def success(found: IntArray, good: int, variance: float, rng: np.random.Generator) -> float:
    """How often the largest noisy count is a good candidate's, with noise drawn once for each simulated vote."""
    ties = rng.random(found.shape) / 2
    half = np.full(found.shape, variance / 2)
    best = np.argmax(found + rng.poisson(half) - rng.poisson(half) + ties, axis=1)
    return float(np.mean(best < good))


def draw(found: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Success (solid) and bound (dashed) for each k: a column per panel, a row per epsilon."""
    up = svg.Axis("good choice", (0, 0.25, 0.5, 0.75, 1))
    parts = [svg.legend(70, 22, [f"k={k}" for k in KS]), svg.text(470, 22, "dashed: Theorem V.1's bound")]
    for across, (panel, axis) in enumerate(_PANELS.items()):
        for down, epsilon in enumerate(EPSILONS):
            lines: dict[str, dict[str, list[tuple[float, float]]]] = {"success": {}, "bound": {}}
            for row in found:
                if (row["panel"], row["epsilon"]) == (panel, epsilon):
                    for what, series in lines.items():
                        series.setdefault(f"k={row['k']}", []).append((row["value"], row[what]))
            area = svg.Area(70 + 330 * across, 70 + 270 * down, 250, 180)
            parts.append(svg.panel(area, f"epsilon {epsilon:g}", axis, up, lines["success"], lines["bound"]))
    replace(path, svg.picture(1_010, 590, *parts))
