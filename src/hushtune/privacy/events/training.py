"""What private training costs: all steps of one training, or the best of several trainings."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from hushtune.core.checks import integer, number
from hushtune.core.errors import SettingError
from hushtune.privacy.accounting import WHOLE_ORDERS
from hushtune.privacy.events.sums import GaussianVector
from hushtune.privacy.losses import Outline

_MOST_STEPS = 10**7
_GAUSSIAN = "private training under Gaussian noise"
_ORDERS = [order for order in WHOLE_ORDERS if order <= 2_000]  # others converge badly


@dataclass(frozen=True)
class TrainingSteps:
    """DP-SGD (Abadi et al. 2016): in each step every row is in the batch with chance `rate`, by a secret coin.

    About rows that are added or removed, as Poisson sampling needs it.

    Args:
        multiplier: standard deviation of the noise, in units of the clipping norm.
        rate: the chance.
        steps: how many.
    """

    multiplier: float
    rate: float
    steps: int
    name: ClassVar[str] = "training-steps"
    mechanism: ClassVar[str] = _GAUSSIAN
    pure: ClassVar[None] = None
    tight: ClassVar[bool] = True
    sampled: ClassVar[bool] = True

    def __post_init__(self) -> None:
        integer("steps", self.steps, 1, _MOST_STEPS)
        self._step()

    def _step(self) -> GaussianVector:
        return GaussianVector(self.multiplier, 1.0, self.rate)

    @property
    def words(self) -> str:
        """How long, on which batches, under which noise."""
        return f"{self.steps} steps of DP-SGD, sampling rate {self.rate:.4g}, noise multiplier {self.multiplier:.4g}"

    @property
    def bare(self) -> bool:
        """No noise worth the name."""
        return self._step().bare

    def interval(self) -> float:
        """As for one step."""
        return self._step().interval()

    def outline(self, times: int) -> Outline:
        """That of one step, taken so often."""
        return self._step().outline(self.steps * times)

    def pld(self, interval: float, times: int) -> Any:
        """The privacy loss distribution of all steps, `times` times."""
        return self._step().pld(interval, self.steps * times)

    def rdp(self, order: float) -> float:
        """The Rényi divergence of all steps together."""
        return self.steps * self._step().rdp(order)


@dataclass(frozen=True)
class SelectedRuns:
    """The best of a secret random number of private trainings, each with a candidate drawn anew (with replacement).

    Papernot and Steinke 2022, Theorems 2 (truncated negative binomial) and 6 (Poisson): nothing but the best run is
    ever seen, not even how many there were. The first is computed by dp-accounting.

    Args:
        multiplier: as for `TrainingSteps`, of every run, whichever candidate it trains.
        rate: the same.
        steps: the same.
        mean: mean number of runs.
        shape: of the truncated negative binomial distribution: 0 is logarithmic, 1 geometric; None: Poisson.
        score: standard deviation of the noise on a run's count of right answers; 0: scored on public rows.
    """

    multiplier: float
    rate: float
    steps: int
    mean: float
    shape: float | None = 1.0
    score: float = 0.0
    name: ClassVar[str] = "selected-runs"
    mechanism: ClassVar[str] = _GAUSSIAN
    pure: ClassVar[None] = None
    tight: ClassVar[bool] = False
    sampled: ClassVar[bool] = True

    def __post_init__(self) -> None:
        TrainingSteps(self.multiplier, self.rate, self.steps)
        number("mean", self.mean, 1, 1e6)
        if self.shape is not None:
            number("shape", self.shape, 0, 1e3)
        number("score", self.score, 0, 1e6)

    @property
    def words(self) -> str:
        """How many runs to expect, how they are scored, and what each of them is."""
        drawn = "Poisson" if self.shape is None else f"truncated negative binomial of shape {self.shape:g}"
        score = f", each scored with noise {self.score:g}" if self.score else ""
        run = TrainingSteps(self.multiplier, self.rate, self.steps).words
        return f"the best of a secret number of runs ({drawn}, mean {self.mean:g}){score}; each run {run}"

    @property
    def bare(self) -> bool:
        """No noise worth the name."""
        return GaussianVector(self.multiplier, 1.0, self.rate).bare or 0 < self.score < 0.1

    def interval(self) -> float:
        """Of no use: there is no distribution to put on a grid."""
        return 1e-3

    def outline(self, times: int) -> Outline:
        """Of no use: as for `interval`."""
        return Outline(0.0, 0, 0)

    def pld(self, interval: float, times: int) -> Any:
        """Not known: a SettingError says so, and Rényi divergences are used instead."""
        raise SettingError("the best of several runs has no known privacy loss distribution")

    def rdp(self, order: float) -> float:
        """By the theorem at the next order that was computed: a divergence never falls with its order."""
        if self.bare:
            return math.inf
        orders, divergences = _selected(self)
        at = int(np.searchsorted(orders, order))
        return float(divergences[at]) if at < len(orders) else math.inf


@lru_cache(maxsize=256)
def _selected(event: SelectedRuns) -> tuple[Any, Any]:
    """Orders, and the divergences of the best run."""
    from dp_accounting.rdp.rdp_privacy_accountant import _compute_rdp_repeat_and_select

    run, orders = TrainingSteps(event.multiplier, event.rate, event.steps), np.array(_ORDERS)
    divergences = np.array([run.rdp(order) for order in _ORDERS])
    if event.score:
        divergences += orders / (2 * event.score**2)
    if event.shape is None:
        return orders, _poisson(orders, divergences, event.mean)
    return orders, np.asarray(_compute_rdp_repeat_and_select(orders, divergences, event.mean, event.shape))


def _poisson(orders: Any, divergences: Any, mean: float) -> Any:
    """Theorem 6: delta is that of one run at epsilon = log(1 + 1 / (order - 1)), here by Rényi divergences."""
    epsilons = np.log1p(1 / (orders - 1))
    by_orders = (orders - 1) * (divergences - epsilons[:, None] + np.log1p(-1 / orders)) - np.log(orders)
    deltas = np.exp(np.minimum(0.0, by_orders.min(axis=1)))
    return divergences + mean * deltas + math.log(mean) / (orders - 1)
