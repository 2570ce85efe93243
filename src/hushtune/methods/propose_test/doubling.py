"""Propose-test with doubling (Ding and Wu 2022, Algorithm 1): how the threshold moves, for one run or for many.

The threshold is u0 + g (units + step), with `units` and `step` integers: as floats, the bound on the number of tests
does not hold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushtune.core.arrays import FloatArray
from hushtune.core.errors import SettingError

_AT_ONCE = 2_000  # runs


def room(granularity: float, start: float) -> int:
    """How many units of g there are between u0 and 1, rounded up. Both are read as decimals: .7 + 3 (.1) is 1."""
    return -(-(1 - _decimal(start)) // _decimal(granularity))


def _decimal(value: float) -> Fraction:
    return Fraction(repr(float(value)))


def most_tests(units: int) -> int:
    """T_max: a test that is passed gains at least one unit, and only every other one fails while the step is 1."""
    return 2 * units - 1


def moved(units: Any, step: Any, passed: Any) -> tuple[Any, Any]:
    """After a test: what it proposed is reached and the step doubles, or the step is halved. Numbers or arrays."""
    return units + step * passed, np.where(passed, 2 * step, step // 2)


def going(units: Any, step: Any, most: int) -> Any:
    """Whether there is another test."""
    return (step > 0) & (units < most)


def level(units: int, step: int, granularity: float, start: float) -> Fraction:
    """The threshold that is proposed."""
    return _decimal(start) + (units + step) * _decimal(granularity)


def simulate(
    utilities: FloatArray,
    partitions: int,
    epsilon0: float,
    granularity: float,
    start: float,
    tests: int,
    runs: int,
    seed: int,
    watch: Callable[[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]], None] | None = None,
    shape: float = 1.0,
    by_index: bool = False,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Many runs on known utilities, with Laplace noise from a seed: for planning and for figures, never for privacy.

    Args:
        utilities: of the candidates, each in [0, 1], shape (candidates,), or one row per run, shape (runs, candidates).
        partitions: over how many they are averages.
        epsilon0: of one test.
        granularity: g.
        start: u0.
        tests: after how many a run is stopped.
        runs: how many.
        seed: of noise and orders.
        watch: called after every test with the numbers of the runs that made it, and their units and steps.
        shape: of the noise: 1, or more if nodes beyond those counted on add their share to it.
        by_index: whether candidates are visited by their place in the list, as published; else in a random order.

    Returns:
        the place that each run chose (-1: none), and how many tests it made, both of shape (runs,).
    """
    utilities = np.asarray(utilities, dtype=np.float64)
    if utilities.size == 0 or not (utilities.min() >= 0 and utilities.max() <= 1):
        raise SettingError(f"utilities must be numbers in [0, 1], but got {_range(utilities)}")
    chosen, made = np.full(runs, -1), np.zeros(runs, dtype=np.int64)
    every = np.broadcast_to(utilities, (runs, utilities.shape[-1]))
    for first in range(0, runs, _AT_ONCE):
        rng = np.random.default_rng([seed, first])
        block = slice(first, min(runs, first + _AT_ONCE))
        seen = (lambda at, u, s, first=first: watch(at + first, u, s)) if watch is not None else None
        noise = _Noise(2 / (partitions * epsilon0), shape, rng)
        chosen[block], made[block] = _block(every[block], noise, granularity, start, tests, rng, by_index, seen)
    return chosen, made


def _range(utilities: FloatArray) -> str:
    return f"{utilities.min():g} to {utilities.max():g}" if utilities.size else "none"


@dataclass(frozen=True)
class _Noise:
    """Of a test: on its threshold, and twice as much on every utility."""

    scale: float
    shape: float
    rng: np.random.Generator

    def threshold(self, runs: int) -> FloatArray:
        if self.shape == 1:
            return self.rng.laplace(scale=self.scale, size=runs)
        return self.rng.gamma(self.shape, self.scale, runs) - self.rng.gamma(self.shape, self.scale, runs)

    def utilities(self, size: tuple[int, int]) -> NDArray[np.float32]:
        if self.shape != 1:  # fine geometric shares add up to nearly this
            noise = self.rng.standard_gamma(self.shape, size, dtype=np.float32)
            return (noise - self.rng.standard_gamma(self.shape, size, dtype=np.float32)) * np.float32(2 * self.scale)
        noise = self.rng.standard_exponential(size, dtype=np.float32) * np.float32(2 * self.scale)
        signs = self.rng.integers(0, 2, size, dtype=np.int8) * 2 - 1
        return noise * signs.astype(np.float32)


def _block(
    utilities: FloatArray,
    noise: _Noise,
    granularity: float,
    start: float,
    tests: int,
    rng: np.random.Generator,
    by_index: bool,
    watch: Callable[..., None] | None,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    runs, size = utilities.shape
    most = room(granularity, start)
    units, step = np.zeros(runs, dtype=np.int64), np.ones(runs, dtype=np.int64)
    chosen, made = np.full(runs, -1), np.zeros(runs, dtype=np.int64)
    at = np.arange(runs)
    while at.size:
        threshold = start + granularity * (units[at] + step[at]) + noise.threshold(len(at))
        above = utilities[at] + noise.utilities((len(at), size)) >= threshold[:, None]
        passed = above.any(axis=1)
        # In a random order the first of those above is each of them with the same chance.
        order = 1.0 if by_index else rng.random((len(at), size), dtype=np.float32)
        pick = np.where(above, order, -1).argmax(axis=1)
        chosen[at[passed]] = pick[passed]
        units[at], step[at] = moved(units[at], step[at], passed)
        made[at] += 1
        if watch is not None:
            watch(at, units[at], step[at])
        at = at[going(units[at], step[at], most) & (made[at] < tests)]
    return chosen, made
