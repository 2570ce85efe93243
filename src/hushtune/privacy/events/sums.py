"""Events: what was opened under which noise. Their meaning never changes: ledgers and results store events."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Protocol

import numpy as np

from hushtune.core.errors import SettingError
from hushtune.privacy.losses import Losses, Outline, Part, log_sum, rounded_up
from hushtune.privacy.noise import skellam


class Event(Protocol):
    """One opened value, for accounting. Frozen, comparable, plain numbers only."""

    name: ClassVar[str]
    mechanism: ClassVar[str]
    """What makes it private, in a few words: for refusals, where the scale of the noise does not matter."""

    @property
    def words(self) -> str:
        """What was opened, or done, under which noise: for statements."""
        ...

    @property
    def bare(self) -> bool:
        """Whether something can change and no noise hides it: epsilon is infinite."""
        ...

    @property
    def pure(self) -> Fraction | None:
        """What it costs at delta 0, exactly; None, if it is not pure: no epsilon is enough there."""
        ...

    @property
    def tight(self) -> bool:
        """Whether its privacy loss distribution is known; if not, its Rényi divergences are what there is."""
        ...

    @property
    def sampled(self) -> bool:
        """Whether its noise is drawn by a sampler that is a little off its distribution, which costs some of delta."""
        ...

    def pld(self, interval: float, times: int) -> Any:
        """The privacy loss distribution of `times` such events, pessimistic: `Losses`, or dp-accounting's own."""
        ...

    def outline(self, times: int) -> Outline:
        """What that takes, if it is known."""
        ...

    def interval(self) -> float:
        """A grid fine enough for this event: rounding moves epsilon by less than 0.1%."""
        ...

    def rdp(self, order: float) -> float:
        """Its Rényi divergence of the given order, at most."""
        ...


_LEAST_VARIANCE = 0.01  # epsilon of a single coordinate is about 10 here: less noise counts as none
_LEAST_DEVIATION = 0.1  # the same for Gaussian noise, relative to the change
_LARGEST_DEVIATION = math.isqrt(skellam.LARGEST_VARIANCE)
_NORMAL = 1e5  # from here on the bound for vectors is within 3e-5 of the sum over all outcomes, and much cheaper
_HIGH_ORDER = 128  # the same for orders beyond: the bound is within 3 / order. All others are summed over one table
_MOST_MOMENTS = 2**14  # that are summed up for one divergence
_CUT = -50.0  # outcomes less likely than e^-50 count as certain loss: cheap to carry, and never optimistic


_SKELLAM = "a sum under Skellam noise"


def _skellam(variance: float) -> str:
    return f"with Skellam noise of standard deviation {math.sqrt(variance):.4g}"


@dataclass(frozen=True)
class SkellamShift:
    """Integer coordinates under independent Skellam noise, of which `coordinates` change by one each.

    This is exact for votes: replacing a ballot moves 2 min(k, p - k) counts by one each and leaves the rest.
    The noise is symmetric, so all changed coordinates have the same privacy loss distribution, and the
    coordinates are independent, so it is composed with itself.

    Args:
        variance: variance of the SUMMED noise on one coordinate, at the least.
        coordinates: how many coordinates change between neighbours.
    """

    variance: float
    coordinates: int
    name: ClassVar[str] = "skellam-shift"
    mechanism: ClassVar[str] = _SKELLAM
    tight: ClassVar[bool] = True
    sampled: ClassVar[bool] = True

    @property
    def words(self) -> str:
        """The noise, and how many counts one unit moves."""
        return f"counts, of which one unit moves {self.coordinates} by one, {_skellam(self.variance)}"

    @property
    def bare(self) -> bool:
        """No noise worth the name on a coordinate that can change."""
        return self.variance < _LEAST_VARIANCE and self.coordinates > 0

    @property
    def pure(self) -> Fraction | None:
        """Only if nothing can change: the further out an outcome lies, the more two neighbours' chances differ."""
        return None if self.coordinates else Fraction(0)

    def _log_pmf(self, largest: int) -> Any:
        return skellam.log_probabilities(Fraction(self.variance), largest)

    def __post_init__(self) -> None:
        if type(self.coordinates) is not int or not 0 <= self.coordinates <= 2**40:
            raise SettingError(f"`coordinates` must be an integer >= 0, but got {self.coordinates!r}")
        _check_variance(self.variance)

    def interval(self) -> float:
        """Scaled to the signal-to-noise ratio; 1e-5 or finer wherever epsilon is below about 5."""
        if self.bare or self.coordinates == 0:
            return 1e-5
        ratio = math.sqrt(self.coordinates / self.variance)
        return max(2e-6, 1e-5 * max(min(5 * ratio, 1), ratio))

    def outline(self, times: int) -> Outline:
        """A table of all outcomes that are not cut off, 13.3 standard deviations to each side."""
        if self.coordinates == 0:
            return Outline(0.0, 0, 0)
        moved = self.coordinates * times
        return Outline(math.sqrt(moved / self.variance), moved, 27 * math.sqrt(self.variance))

    def pld(self, interval: float, times: int) -> Losses:
        """Exact pmf against the pmf shifted by one, composed once per changed coordinate."""
        if self.coordinates == 0:
            return Losses(interval, ())
        log_pmf = self._log_pmf(skellam.reach(self.variance))
        masses = np.exp(log_pmf)
        kept = np.append(log_pmf[:-1] > _CUT, False)  # beyond the last one lies nothing to compare it with
        places, chances = rounded_up((log_pmf[:-1] - log_pmf[1:])[kept[:-1]], masses[kept], interval)
        return Losses(interval, (Part(places, chances, float(masses[~kept].sum()), self.coordinates * times),))

    def rdp(self, order: float) -> float:
        """The sum over all outcomes of P(x)^order Q(x)^(1 - order); its two tails bounded by geometric series.

        Under much noise, and at high orders, the closed form that bounds it: see `SkellamVector.rdp`.
        """
        if self.coordinates == 0:
            return 0.0
        if self.bare:
            return math.inf
        if self.variance > _NORMAL or order > _HIGH_ORDER:
            return SkellamVector(self.variance, float(self.coordinates), math.sqrt(self.coordinates)).rdp(order)
        largest = skellam.reach(self.variance) + 4 * _HIGH_ORDER
        log_pmf = self._log_pmf(largest)
        terms = order * log_pmf[1:] + (1 - order) * log_pmf[:-1]
        rest = max(_log_tail(terms[-2], terms[-1]), _log_tail(terms[1], terms[0])) + math.log(2)
        return self.coordinates * max(0.0, log_sum(np.append(terms, rest))) / (order - 1)


def _log_tail(before: float, last: float) -> float:
    """log of the sum of all terms after `last`, when they fall at least as fast as from `before` to `last`."""
    ratio = math.exp(min(0.0, last - before))
    if ratio >= 1:
        return math.inf
    return last + math.log(ratio) - math.log1p(-ratio) if ratio > 0 else -math.inf


def _check_variance(variance: Any) -> None:
    finite = isinstance(variance, int | float) and not isinstance(variance, bool)
    if not (finite and 0 <= variance <= skellam.LARGEST_VARIANCE):
        raise SettingError(f"`0 <= variance <= 10**10` must hold, but got {variance!r}")


@dataclass(frozen=True)
class SkellamVector:
    """Integer coordinates under independent Skellam noise, which change by a vector of bounded length.

    Args:
        variance: variance of the SUMMED noise on one coordinate, at the least.
        l1: the change's L1 norm, at most.
        l2: the change's L2 norm, at most.
        rate: the chance that the unit's vector is in the sum at all, by a coin that nobody else sees; below 1 the
            change must be between the vector and none (zero-out).
    """

    variance: float
    l1: float
    l2: float
    rate: float = 1.0
    name: ClassVar[str] = "skellam-vector"
    mechanism: ClassVar[str] = _SKELLAM
    tight: ClassVar[bool] = False
    sampled: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_variance(self.variance)
        _check_rate(self.rate)
        for norm in (self.l1, self.l2):
            if type(norm) not in (int, float) or not 0 <= norm <= 2**50:
                raise SettingError(f"`0 <= norm <= 2**50` must hold, but got l1={self.l1!r}, l2={self.l2!r}")
        if not self.l2 <= self.l1 * (1 + 1e-9) or not self.l1 <= self.l2 * self.l2 * (1 + 1e-9):
            raise SettingError(
                f"`l2 <= l1 <= l2^2` must hold for a change of integers, but got l1={self.l1}, l2={self.l2}"
            )

    @property
    def words(self) -> str:
        """The noise, and how far one unit moves the vector."""
        return f"a vector of integers that one unit moves by at most {self.l2:.4g}, {_skellam(self.variance)}"

    @property
    def bare(self) -> bool:
        """No noise worth the name."""
        return self.variance < _LEAST_VARIANCE and self.l2 > 0

    @property
    def pure(self) -> Fraction | None:
        """As for `SkellamShift`: only if nothing can change."""
        return None if self.l2 else Fraction(0)

    def interval(self) -> float:
        """Of no use: there is no distribution to put on a grid."""
        return 1e-5

    def outline(self, times: int) -> Outline:
        """Of no use: as for `interval`."""
        return Outline(0.0, 0, 0)

    def pld(self, interval: float, times: int) -> Any:
        """Not known: which change of that length loses the most privacy is open."""
        raise SettingError("a bounded change of many coordinates has no known privacy loss distribution")

    def rdp(self, order: float) -> float:
        """Agarwal, Kairouz, Liu 2021 (The Skellam Mechanism), Theorem 3.5 and its multi-dimensional form.

        The theorem is about whole orders; a divergence never falls with its order, so the next one is taken.
        """
        if self.l2 == 0:
            return 0.0
        if self.bare:
            return math.inf
        return _sampled_rdp(self._whole, self.rate, math.ceil(order))

    def _whole(self, orders: Any) -> Any:
        squared = self.l2 * self.l2
        few = ((2 * orders - 1) * squared + 6 * self.l1) / (4 * self.variance * self.variance)
        return orders * squared / (2 * self.variance) + np.minimum(few, 3 * self.l1 / (2 * self.variance))


@dataclass(frozen=True)
class GaussianVector:
    """Coordinates under independent Gaussian noise from a trusted curator, which change by a vector of bounded length.

    The noise is the same in all directions, so this is one coordinate that changes by `l2` (Balle and Wang 2018).

    Args:
        deviation: the noise's standard deviation on one coordinate.
        l2: the change's L2 norm, at most.
        rate: as for `SkellamVector`.
    """

    deviation: float
    l2: float
    rate: float = 1.0
    name: ClassVar[str] = "gaussian-vector"
    mechanism: ClassVar[str] = "a sum under Gaussian noise"
    tight: ClassVar[bool] = True
    sampled: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if type(self.deviation) not in (int, float) or not 0 <= self.deviation <= _LARGEST_DEVIATION:
            raise SettingError(f"`0 <= deviation <= 10**5` must hold, but got {self.deviation!r}")
        _check_rate(self.rate)
        if type(self.l2) not in (int, float) or not 0 <= self.l2 <= 2**50:
            raise SettingError(f"`0 <= norm <= 2**50` must hold, but got l2={self.l2!r}")

    @property
    def words(self) -> str:
        """The noise, and how far one unit moves the vector."""
        noise = f"with Gaussian noise of standard deviation {self.deviation:.4g}"
        return f"a vector that one unit moves by at most {self.l2:.4g}, {noise}"

    @property
    def bare(self) -> bool:
        """No noise worth the name."""
        return self.l2 > 0 and self.deviation < _LEAST_DEVIATION * self.l2

    @property
    def pure(self) -> Fraction | None:
        """As for `SkellamShift`: only if nothing can change."""
        return None if self.l2 else Fraction(0)

    def interval(self) -> float:
        """Connected dots are exact to a hundredth of the grid's step: a coarse grid will do."""
        if self.l2 == 0 or self.bare:
            return 1e-3
        return max(1e-5, 1e-3 * self.l2 / self.deviation)

    def outline(self, times: int) -> Outline:
        """One step's losses reach 10 standard deviations to each side.

        dp-accounting also takes the power of one step's places to the number of steps, as an integer.
        """
        if self.l2 == 0:
            return Outline(0.0, 0, 0)
        ratio = self.l2 / self.deviation
        one = min(ratio, self.rate * math.sqrt(math.expm1(min(ratio * ratio, 100.0))))
        return Outline(one * math.sqrt(times), 0, times, 20 * ratio + ratio * ratio)

    def pld(self, interval: float, times: int) -> Any:
        """dp-accounting's own, of the Poisson-subsampled Gaussian mechanism."""
        from dp_accounting.pld import privacy_loss_distribution

        if self.l2 == 0:
            return privacy_loss_distribution.identity(value_discretization_interval=interval)
        one = privacy_loss_distribution.from_gaussian_mechanism(
            self.deviation,
            self.l2,
            value_discretization_interval=interval,
            log_mass_truncation_bound=_CUT,
            sampling_prob=self.rate,
        )
        return one.self_compose(times)

    def rdp(self, order: float) -> float:
        """Mironov 2017, Proposition 7: order l2^2 / (2 deviation^2)."""
        if self.l2 == 0:
            return 0.0
        if self.bare:
            return math.inf
        squared = (self.l2 / self.deviation) ** 2 / 2
        if self.rate == 1:
            return order * squared
        return _sampled_rdp(lambda orders: orders * squared, self.rate, math.ceil(order))


def _sampled_rdp(divergence: Callable[[Any], Any], rate: float, order: int) -> float:
    """Rényi divergence, of a whole order, when a unit's vector is in the sum with chance `rate`, by a secret coin.

    With R = P/Q the likelihood ratio of a sum with the vector to one without, E_Q[(1 - rate + rate R)^order] is a sum
    over binomial coefficients of E_Q[R^l] = exp((l - 1) D_l). The divergence the other way round is no larger if a
    reflection swaps P and Q, as for a shift of symmetric noise (Mironov, Talwar, Zhang 2019, Theorem 5: its proof uses
    nothing else about them). Of very high orders, which matter where epsilon is below 0.001 only, the coin is not made
    use of: a mixture's divergence is at most the largest of its parts' (van Erven and Harremoës 2014, Theorem 13).
    """
    if rate == 1 or order > _MOST_MOMENTS:
        return float(divergence(np.float64(order)))
    times = np.arange(order + 1.0)
    factorial = _log_factorials(1 << order.bit_length())[: order + 1]
    binomial = factorial[-1] - factorial - factorial[::-1]
    chance = times * math.log(rate) + (order - times) * math.log1p(-rate)
    moment = np.where(times < 2, 0.0, (times - 1) * divergence(np.maximum(times, 2)))
    return max(0.0, log_sum(binomial + chance + moment)) / (order - 1)


@lru_cache(maxsize=4)
def _log_factorials(below: int) -> Any:
    from scipy.special import gammaln

    return gammaln(np.arange(1.0, below + 1))


def _check_rate(rate: Any) -> None:
    if type(rate) not in (int, float) or not 0 < rate <= 1:
        raise SettingError(f"`0 < rate <= 1` must hold, but got {rate!r}")


@dataclass(frozen=True)
class Exact:
    """A value opened without noise. No epsilon covers it."""

    name: ClassVar[str] = "exact"
    mechanism: ClassVar[str] = "exact values"
    pure: ClassVar[None] = None
    tight: ClassVar[bool] = True
    sampled: ClassVar[bool] = True
    bare: ClassVar[bool] = True
    words: ClassVar[str] = "exact values, without noise"

    def interval(self) -> float:
        """Of no use, as there is no distribution to put on a grid."""
        return 1e-5

    def outline(self, times: int) -> Outline:
        """Of no use: as for `interval`."""
        return Outline(0.0, 0, 0)

    def pld(self, interval: float, times: int) -> Any:
        """There is none: `epsilon_of` and `rdp_of` stop at `bare` before."""
        raise SettingError("an exact opening has no privacy loss distribution")

    def rdp(self, order: float) -> float:
        """Infinite: exact values have no bounded divergence of any order."""
        return math.inf
