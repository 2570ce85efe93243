"""Tuning by private trainings: the best of a secret number of them, of all of them, or the only one.

Each way trains models with DP-SGD and gives one of them back, with its config.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, ClassVar, Protocol

import numpy as np

from hushtune.core.checks import integer, number
from hushtune.core.errors import SettingError
from hushtune.core.randomness import Randomness
from hushtune.privacy.events.sums import Event, GaussianVector
from hushtune.privacy.events.training import SelectedRuns, TrainingSteps
from hushtune.privacy.noise.laplace import uniform

Attempt = Callable[[int], tuple[Any, float]]
"""Trains the candidate at a place, with fresh noise, and scores it."""

_DIGITS = 60
_MOST_NOISE = 1e4  # right answers
_BITS = 192  # of the draw that decides how many runs there are


class Trying(Protocol):
    """One way to choose among candidates by training them privately."""

    name: ClassVar[str]

    @property
    def scores(self) -> bool:
        """Whether models are compared, so that rows to score on are needed."""
        ...

    def events(self, step: TrainingSteps, candidates: int, protected: bool) -> tuple[Event, ...]:
        """What it costs, if one training costs `step`, and models are scored on protected rows or not."""
        ...

    def choose(self, attempt: Attempt, candidates: int, randomness: Randomness) -> tuple[int | None, Any]:
        """A candidate's place and its model; None if nothing was trained."""
        ...


@dataclass(frozen=True)
class RepeatAndSelect:
    """The best of K private trainings, K drawn in secret (Liu and Talwar 2019; Papernot and Steinke 2022).

    Every run draws its candidate anew, with replacement, and fresh noise. Nobody learns K, how long it took, or
    anything of the other runs: no progress is shown and nothing is timed, cached or logged.

    Privacy: unit "record", neighbours "add-remove". If every run has a Rényi guarantee, so has the best of K of them,
    by Papernot and Steinke 2022, Theorem 2 (truncated negative binomial K) or 6 (Poisson K): about two to three times
    epsilon of a single run.

    Args:
        mean: of K, above 1 (1 or more with `shape=None`).
        shape: of K's truncated negative binomial distribution: 1 is geometric, 0 logarithmic. None: Poisson, where K
            may be 0, and the model then is untrained.
        scoring: what a run's score may cost, relative to its training, if the rows to score on are protected. The
            count of right answers then has noise, and its cost is counted in every run.
    """

    mean: float = 10.0
    shape: float | None = 1.0
    scoring: float = 0.1
    name: ClassVar[str] = "repeat-and-select"
    scores: ClassVar[bool] = True

    def __post_init__(self) -> None:
        number("mean", self.mean, 1, 1e4, "[]" if self.shape is None else "(]")
        if self.shape is not None:
            number("shape", self.shape, 0, 1e3)
        number("scoring", self.scoring, 1e-6, 1e3)

    def events(self, step: TrainingSteps, candidates: int, protected: bool) -> tuple[Event, ...]:
        """The theorem's, whatever the candidates: all of them cost the same.

        Args:
            step: what one training costs.
            candidates: how many there are.
            protected: whether models are scored on protected rows.
        """
        score = score_noise(step, self.scoring) if protected else 0.0
        return (SelectedRuns(step.multiplier, step.rate, step.steps, self.mean, self.shape, score),)

    def choose(self, attempt: Attempt, candidates: int, randomness: Randomness) -> tuple[int | None, Any]:
        """The first of the best runs.

        Args:
            attempt: trains the candidate at a place with fresh noise, and gives the model and its score.
            candidates: how many there are.
            randomness: the owner's source.
        """
        best: tuple[int | None, Any, float] = (None, None, -math.inf)
        for _ in range(runs_drawn(self.mean, self.shape, randomness)):
            place = int(uniform(np.full(1, candidates), randomness)[0])
            model, score = attempt(place)
            if score > best[2]:
                best = (place, model, score)
        return best[:2]


@dataclass(frozen=True)
class TryAll:
    """Every candidate is trained privately, and the best is taken: naive composition.

    Privacy: unit "record", neighbours "add-remove"; all trainings, and all scores of protected rows, are composed.

    Args:
        scoring: what one score may cost, relative to its training, if the rows to score on are protected.
    """

    scoring: float = 0.1
    name: ClassVar[str] = "try-all"
    scores: ClassVar[bool] = True

    def __post_init__(self) -> None:
        number("scoring", self.scoring, 1e-6, 1e3)

    def events(self, step: TrainingSteps, candidates: int, protected: bool) -> tuple[Event, ...]:
        """All trainings, and all scores if those are of protected rows.

        Args:
            step: what one training costs.
            candidates: how many there are.
            protected: whether models are scored on protected rows.
        """
        trained = TrainingSteps(step.multiplier, step.rate, step.steps * candidates)
        scored = GaussianVector(score_noise(step, self.scoring), 1.0)
        return (trained, *(scored,) * (candidates if protected else 0))

    def choose(self, attempt: Attempt, candidates: int, randomness: Randomness) -> tuple[int | None, Any]:
        """The first of the best.

        Args:
            attempt: trains the candidate at a place with fresh noise, and gives the model and its score.
            candidates: how many there are.
            randomness: the owner's source.
        """
        found = [(*attempt(place), place) for place in range(candidates)]
        model, _, place = max(found, key=lambda one: one[1])
        return place, model


@dataclass(frozen=True)
class Untuned:
    """One candidate is trained, which was chosen without looking at any data.

    Privacy: unit "record", neighbours "add-remove"; the choice costs nothing, and one training is all that is paid for.

    Args:
        place: which one, from 0.
    """

    place: int = 0
    name: ClassVar[str] = "untuned"
    scores: ClassVar[bool] = False

    def __post_init__(self) -> None:
        integer("place", self.place, 0)

    def events(self, step: TrainingSteps, candidates: int, protected: bool) -> tuple[Event, ...]:
        """One training.

        Args:
            step: what one training costs.
            candidates: how many there are.
            protected: whether models are scored on protected rows.
        """
        if self.place >= candidates:
            raise SettingError(f"`place < {candidates}` candidates must hold, but got {self.place}")
        return (step,)

    def choose(self, attempt: Attempt, candidates: int, randomness: Randomness) -> tuple[int | None, Any]:
        """That one.

        Args:
            attempt: trains the candidate at a place with fresh noise, and gives the model and its score.
            candidates: how many there are.
            randomness: the owner's source.
        """
        return self.place, attempt(self.place)[0]


def score_noise(step: TrainingSteps, share: float) -> float:
    """Standard deviation of the noise on a count of right answers, whose Rényi divergence is a share of training's.

    By order 2, where a count that changes by one has 1 / deviation^2.
    """
    divergence = step.rdp(2.0)
    return min(_MOST_NOISE, 1 / math.sqrt(share * divergence)) if 0 < divergence < math.inf else _MOST_NOISE


def trying_to_json(method: Trying) -> dict[str, Any]:
    """The name of the way to choose, and its settings, as plain values."""
    return {"name": method.name, **asdict(method)}  # type: ignore[call-overload]


def runs_drawn(mean: float, shape: float | None, randomness: Randomness) -> int:
    """K, by comparing 192 uniform bits with its distribution, computed with 60 digits."""
    import mpmath

    draw = int.from_bytes(randomness.bytes(_BITS // 8), "big")
    with mpmath.workdps(_DIGITS):
        left = mpmath.mpf(draw) / mpmath.mpf(2) ** _BITS
        if shape is None:
            count, chance = 0, mpmath.exp(-mpmath.mpf(mean))
        else:
            count, chance = 1, _first(mean, shape)
        while left >= chance > 0:
            left -= chance
            count += 1
            chance *= _ratio(mean, shape, count)
    return count


def _ratio(mean: float, shape: float | None, count: int) -> Any:
    """P[K = count] / P[K = count - 1]."""
    import mpmath

    if shape is None:
        return mpmath.mpf(mean) / count
    return (1 - _gamma(mean, shape)) * (count - 1 + mpmath.mpf(shape)) / count


def _first(mean: float, shape: float) -> Any:
    """P[K = 1] of the truncated negative binomial distribution."""
    import mpmath

    gamma = _gamma(mean, shape)
    if shape == 0:
        return (1 - gamma) / mpmath.log(1 / gamma)
    return mpmath.mpf(shape) * (1 - gamma) / (gamma**-shape - 1)


@lru_cache(maxsize=64)
def _gamma(mean: float, shape: float) -> Any:
    """The parameter gamma at which K has the given mean, which falls with it."""
    import mpmath

    def found(gamma: Any) -> Any:
        if shape == 0:
            return (1 / gamma - 1) / mpmath.log(1 / gamma)
        return mpmath.mpf(shape) * (1 - gamma) / (gamma * (1 - gamma**shape))

    with mpmath.workdps(_DIGITS):
        low, high = mpmath.mpf("1e-30"), mpmath.mpf(1) - mpmath.mpf("1e-30")
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if found(middle) > mean else (low, middle)
        return (low + high) / 2
