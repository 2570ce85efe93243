"""Propose-test's Figures 1 and 2 (Ding and Wu 2022), what matters for it, and how fast runs are simulated.

Utilities are uniform, as in the paper, and known; only the tests are random.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hushtune.core import svg
from hushtune.core.arrays import FloatArray
from hushtune.core.errors import SettingError
from hushtune.core.files import replace
from hushtune.methods.propose_test.doubling import most_tests, room, simulate
from hushtune.methods.propose_test.method import STEPS
from hushtune.privacy.accounting import Sums, epsilon_of
from hushtune.privacy.bounds import Scores
from hushtune.privacy.calibration import calibrate
from hushtune.privacy.events.answers import PureTests
from hushtune.privacy.guarantee import Privacy
from hushtune.privacy.noise.base import Noise

CANDIDATES = 100
ORDERS = ("random", "index")
"""In which candidates are visited: another public random one for each test, as hushtune does, or as published."""
_FIRST = 3
_PATHS = 1_000
_DELTA = 1e-5


def _utilities(runs: int, seed: int, size: int = CANDIDATES) -> FloatArray:
    """One row of uniform utilities per run."""
    return np.random.default_rng([seed, 1]).random((runs, size))


def _worst_case(granularity: float, epsilon: float) -> float:
    """epsilon0 of a test, if as many as there can be are to cost epsilon."""
    bound = Scores(CANDIDATES, most_tests(room(granularity, 0.0)), STEPS, STEPS)
    return 2 * STEPS / calibrate((bound,), Privacy(epsilon, _DELTA), Sums(), Noise(0.0, "curator")).scale


def published(runs: int, seed: int, order: str = "random") -> Iterator[dict[str, Any]]:
    """By partitions, at the paper's epsilon0 = .1 and g = .01, and at what the worst case leaves of epsilon 2."""
    for partitions in (10, 50, 100, 500, 1_000):
        for granularity, epsilon0 in ((0.01, 0.1), (0.1, 0.1), (0.1, _worst_case(0.1, 2.0))):
            utilities = _utilities(runs, seed)
            tests = most_tests(room(granularity, 0.0))
            settings = (partitions, epsilon0, granularity, 0.0, tests, runs, seed)
            chosen, made = simulate(utilities, *settings, by_index=order == "index")
            got = np.where(chosen < 0, 0.0, utilities[np.arange(runs), chosen])
            yield {
                "partitions": partitions,
                "order": order,
                "epsilon0": round(epsilon0, 4),
                "granularity": granularity,
                "T_max": tests,
                "tests": round(float(made.mean()), 2),
                "most tests": int(made.max()),
                "epsilon": round(epsilon_of((PureTests(epsilon0, tests),), _DELTA), 3),
                "chosen utility": round(float(got.mean()), 3),
                "best utility": round(float(utilities.max(axis=1).mean()), 3),
                "gap": round(float((utilities.max(axis=1) - got).mean()), 3),
                f"one of the first {_FIRST}": round(float(((chosen >= 0) & (chosen < _FIRST)).mean()), 3),
            }


def worst(runs: int, seed: int) -> Iterator[dict[str, Any]]:
    """Whether the bound on the number of tests is ever exceeded, and the seconds that so many runs take.

    Beside uniform utilities, ones for which a test is passed and failed in turn: all candidates half way up, so that
    noise alone decides.
    """
    for name, utilities in (
        ("uniform", np.random.default_rng(seed).random(CANDIDATES)),
        ("all one half", np.full(CANDIDATES, 0.5)),
        ("one candidate, score 1", np.ones(1)),
    ):
        for granularity, start, epsilon0 in ((0.01, 0.0, 0.1), (0.1, 0.0, 1.0), (0.1, 0.7, 0.01)):
            tests = most_tests(room(granularity, start))
            begin = time.perf_counter()
            _, made = simulate(utilities, 10, epsilon0, granularity, start, 10 * tests, runs, seed)
            yield {
                "utilities": name,
                "granularity": granularity,
                "start": start,
                "epsilon0": epsilon0,
                "runs": runs,
                "T_max": tests,
                "most tests": int(made.max()),
                "exceeded": int((made > tests).sum()),
                "seconds": round(time.perf_counter() - begin, 2),
            }


def draw(folder: Path, seed: int) -> list[Path]:
    """Figures 1 and 2 as SVG, each at the paper's setting and with enough partitions for noise to be small."""
    paths = []
    for name, partitions in (("published", 10), ("quiet", 10_000)):
        paths.append(folder / f"propose-{name}.svg")
        replace(paths[-1], _figure(partitions, seed))
    return paths


def _figure(partitions: int, seed: int) -> str:
    title = f"{_PATHS} runs, {partitions:,} partitions, epsilon0 .1"
    parts = _walks(svg.Area(80, 60, 360, 260), f"step and u, g = .01: {title}", partitions, seed)
    parts += _counts(svg.Area(560, 60, 360, 260), "tests by (u* - u0) / g", partitions, seed)
    return svg.picture(980, 380, *parts)


def _walks(area: svg.Area, title: str, partitions: int, seed: int) -> list[str]:
    """Figure 1: where runs are after each test."""
    walks: list[list[tuple[float, float]]] = [[(1.0, 0.0)] for _ in range(_PATHS)]

    def watch(at: Any, units: Any, step: Any) -> None:
        for run, u, s in zip(at.tolist(), units.tolist(), step.tolist(), strict=True):
            walks[run].append((max(s, 0.5), min(1.4, 0.01 * u)))

    utilities = _utilities(_PATHS, seed)
    simulate(utilities, partitions, 0.1, 0.01, 0.0, most_tests(100), _PATHS, seed, watch)
    largest = max(point[0] for walk in walks for point in walk)
    ticks = [0.5, *(2.0**power for power in range(int(np.log2(largest)) + 2))]
    x = svg.Axis("step (0 is the end)", ticks, log=True, words={0.5: "0"})
    y = svg.Axis("u", [0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4])
    different = {tuple(walk) for walk in walks}
    lines = [svg.polyline([area.place(x, y, point) for point in walk], "line thin s0") for walk in sorted(different)]
    return ["<style>.thin{stroke-width:1;stroke-opacity:.5}</style>", svg.panel(area, title, x, y, {}), *lines]


def _counts(area: svg.Area, title: str, partitions: int, seed: int) -> list[str]:
    """Figure 2: how many tests runs make, by how many units of g there are to the best utility."""
    found: dict[str, list[tuple[float, float]]] = {"mean": [], "most of 1,000": [], "bound": []}
    for units in (5, 10, 20, 50, 100, 200, 500):
        utilities = _utilities(_PATHS, seed)
        tests = most_tests(units)
        _, made = simulate(utilities, partitions, 0.1, 1 / units, 0.0, tests, _PATHS, seed)
        best = float(units * utilities.max(axis=1).mean())
        found["mean"].append((best, float(made.mean())))
        found["most of 1,000"].append((best, float(made.max())))
        found["bound"].append((best, float(tests)))
    x = svg.Axis("(u* - u0) / g", [5, 10, 20, 50, 100, 200, 500], log=True)
    y = svg.Axis("tests", [1, 3, 10, 30, 100, 300, 1000], log=True)
    return [svg.legend(area.left, 24, list(found)), svg.panel(area, title, x, y, found)]


def rows(runs: int, seed: int, order: str = "random") -> Sequence[dict[str, Any]]:
    """The rows of both tables: the published setting, and the bound on tests, which no order changes.

    Args:
        runs: of each setting, in the first table 10,000 at most.
        seed: of utilities, noise and orders.
        order: one of `ORDERS`, for the first table.
    """
    if order not in ORDERS:
        raise SettingError(f"order must be one of {list(ORDERS)}, but got '{order}'")
    return [*published(min(runs, 10_000), seed, order), *worst(runs, seed)]
