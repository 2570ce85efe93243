"""What answers to a curator's tests cost: each is private by itself, and many of them compose."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from hushtune.core.arrays import FloatArray
from hushtune.core.checks import integer
from hushtune.core.errors import SettingError
from hushtune.core.words import up
from hushtune.privacy.decimals import named
from hushtune.privacy.losses import Losses, Outline, Part, rounded_up

_LARGEST = 50.0  # epsilon of a single test: less noise counts as none
MOST_TESTS = 2**20


@dataclass(frozen=True)
class PureTests:
    """`times` answers, one after the other, each (epsilon, 0)-private whatever was asked and answered before.

    Randomised response loses the most privacy of all such answers, and its composition is that of the worst case
    (Kairouz, Oh, Viswanath 2015, Theorem 3.3). Fewer answers than announced lose no more.

    Args:
        epsilon: of one answer.
        times: how many, at most.
    """

    epsilon: float
    times: int = 1
    name: ClassVar[str] = "pure-tests"
    mechanism: ClassVar[str] = "answers under exact noise"
    tight: ClassVar[bool] = True
    sampled: ClassVar[bool] = False

    def __post_init__(self) -> None:
        integer("times", self.times, 1, MOST_TESTS)
        if type(self.epsilon) not in (int, float) or not self.epsilon >= 0:
            raise SettingError(f"`epsilon >= 0` must hold, but got {self.epsilon!r}")

    @property
    def words(self) -> str:
        """How many answers, and what one of them costs."""
        if self.times == 1:
            return "one answer under exact noise"
        return f"tests of the sums under exact noise, at most {self.times}, each of epsilon {up(self.epsilon)}"

    @property
    def bare(self) -> bool:
        """No noise worth the name."""
        return self.epsilon > _LARGEST

    @property
    def pure(self) -> Fraction | None:
        """All answers together, each of what the text of its epsilon says; None without noise."""
        return self.times * named(self.epsilon) if self.epsilon < math.inf else None

    def interval(self) -> float:
        """The composed losses are rounded once, so a thousandth of what they come to will do."""
        return max(1e-6, 1e-3 * min(self.epsilon * math.sqrt(self.times), 1.0))

    def outline(self, times: int) -> Outline:
        """One loss for each number of answers against the odds, all rounded once: quick, unlike a table of noise."""
        total = self.times * times
        one = self.epsilon / math.cosh(min(self.epsilon, _LARGEST) / 2)
        return Outline(one * math.sqrt(total), 1, total / 8)

    def pld(self, interval: float, times: int) -> Losses:
        """All steps at once: i of n randomised responses against the odds lose (n - 2i) epsilon."""
        total = self.times * times
        if self.epsilon == 0:
            return Losses(interval, ())
        against = np.arange(total + 1)
        # Up, but for the last digits of floats: a loss that is on the grid stays there.
        losses = (total - 2 * against) * self.epsilon * (1 - 1e-13) - 1e-9 * interval
        return Losses(interval, (Part(*rounded_up(losses, _binomial(total, self.epsilon), interval)),))

    def rdp(self, order: float) -> float:
        """Of randomised response (Mironov 2017, Proposition 5)."""
        if self.bare:
            return math.inf
        likely, rare = -math.log1p(math.exp(-self.epsilon)), -math.log1p(math.exp(self.epsilon))
        log_sum = np.logaddexp(order * likely + (1 - order) * rare, order * rare + (1 - order) * likely)
        return self.times * max(0.0, float(log_sum)) / (order - 1)


def _binomial(total: int, odds: float) -> FloatArray:
    """P[i of `total`], where each has chance 1 / (1 + e^odds): by ratios from the likeliest i outwards, which keeps
    relative errors near 1e-13, and normalised by its own sum."""
    i = np.arange(total)
    ratios = np.log((total - i) / (i + 1)) - odds
    mode = int(np.searchsorted(-ratios, 0.0))
    logs = np.concatenate([-np.cumsum(ratios[:mode][::-1])[::-1], [0.0], np.cumsum(ratios[mode:])])
    chances: FloatArray = np.exp(logs)
    chances /= chances.sum()
    return chances
