"""Privacy losses on a grid: rounded up, composed, and read as epsilon. Never optimistic, and quick.

Outcome x of P against Q loses log P(x)/Q(x). Losses of independent outcomes add up, so their distributions are
convolved: by a transform, of losses that were tilted first (each made e^(t loss) times as likely, and normalised). Then
the transform's rounding is relative to the losses near epsilon, which delta is made of, and not to the many below.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hushtune.core.arrays import FloatArray, IntArray

_SHARE = 1e-7  # of delta that may be added by what the transform cannot tell apart
_REACH = 600.0  # losses that are looked at together: e^600 is still a float
_DIGITS = 1 + 1e-9  # pays for the last digits of all other floats
_ROUNDING = 1e-14  # of a transform's entries, relative to the sum of what is transformed
_LONGEST = 2**22  # places that are transformed together
_FEW = 2**18  # places that dp-accounting composes


class Outline(NamedTuple):
    """What a privacy loss distribution will take, told before it is computed: by this it is decided whether it is.

    Args:
        spread: about the standard deviation of all that is lost.
        rounded: how many losses are rounded up to the grid one by one; each adds half a step, on average.
        outcomes: how many numbers are computed whatever the grid is.
        width: and, of losses whose distribution is computed place by place, how far they reach.
    """

    spread: float
    rounded: int
    outcomes: float
    width: float = 0.0


@dataclass(frozen=True, eq=False)
class Part:
    """Independent outcomes of one kind.

    Args:
        places: what one of them can lose, in steps of the grid, all different.
        masses: how likely each loss is, more than 0.
        infinite: how likely a loss without limit is.
        times: how many outcomes there are.
    """

    places: IntArray
    masses: FloatArray
    infinite: float = 0.0
    times: int = 1


def rounded_up(losses: NDArray[Any], masses: NDArray[Any], interval: float) -> tuple[IntArray, FloatArray]:
    """Losses as places on a grid, the next ones above, and how likely each place is.

    Args:
        losses: in any order, shape (losses,).
        masses: how likely each is, shape (losses,).
        interval: the grid's step.
    """
    places, at = np.unique(np.ceil(losses / interval).astype(np.int64), return_inverse=True)
    found: FloatArray = np.bincount(at, weights=masses).astype(np.float64)
    return places[found > 0], found[found > 0]


@dataclass(frozen=True, eq=False)
class Losses:
    """The privacy loss distribution of independent outcomes.

    Args:
        interval: the grid's step.
        parts: the outcomes; none: nothing is lost.
    """

    interval: float
    parts: tuple[Part, ...]

    def compose(self, other: Losses) -> Losses:
        """All outcomes of both.

        Args:
            other: on the same grid.
        """
        assert other.interval == self.interval
        return Losses(self.interval, self.parts + other.parts)

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon for which delta is enough; infinite, if none is, or if the grid is too rough to tell.

        Args:
            delta: more than 0.
        """
        if sum(part.times for part in self.parts) > 1:
            return self._transformed(delta)
        if not self.parts:
            return 0.0
        (part,) = self.parts
        return _read(self.interval * part.places, part.masses, part.infinite, delta)

    def dp_accounting(self) -> Any:
        """The same as dp-accounting has it, to be composed with what it computes."""
        from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution, identity

        total = identity(value_discretization_interval=self.interval)
        for part in self.parts:
            rounded = dict(zip(part.places.tolist(), part.masses.tolist(), strict=True))
            one = PrivacyLossDistribution.create_from_rounded_probability(rounded, part.infinite, self.interval)
            total = total.compose(one.self_compose(part.times))
        return total

    def _transformed(self, delta: float) -> float:
        """Epsilon by a transform over a stretch of places around it, long enough that little is added."""
        tilt, _ = _valley(lambda t: (self._log_moment(t) - math.log(delta)) / t)
        mean, deviation = self._moments(tilt)
        for half in (4, 8, 16, 32):
            start = max(0, int((mean - half / 2 * deviation) / self.interval))
            size = _fast(int(2 * half * deviation / self.interval) + 2)
            if size > _LONGEST:
                break
            found, added = self._stretch(tilt, start, size, delta)
            if added <= _SHARE * delta:
                return found
        return float(self.dp_accounting().get_epsilon_for_delta(delta)) if self.few else math.inf

    @property
    def few(self) -> bool:
        """Whether all sums of losses, from the least to the largest, have few places: then dp-accounting is quick."""
        return sum(part.times * int(np.ptp(part.places)) for part in self.parts) <= _FEW

    def _stretch(self, tilt: float, start: int, size: int, delta: float) -> tuple[float, float]:
        """Epsilon by places from `start`, and how much of delta is there only because they are so few.

        Losses beyond them count as infinite. The transform is circular, so they also come back at the start, and those
        below come back at the end: that only adds to delta. The most that rounding can take away is added as well.
        """
        losses = self.interval * np.arange(start, start + size)
        tilted, rounding = self._tilted(tilt, size)
        with np.errstate(over="ignore"):  # an infinite mass is never too small
            back = np.exp(self._log_moment(tilt) - tilt * losses)
        masses = _DIGITS * (np.roll(tilted, -(start % size)) + rounding) * back
        beyond = math.exp(_valley(lambda t: self._log_moment(t) - t * losses[-1])[1])
        infinite = -math.expm1(math.fsum(part.times * math.log1p(-part.infinite) for part in self.parts))
        found = _read(losses, masses, infinite + beyond, delta)
        if start and found <= losses[0]:
            return found, math.inf
        length = self.interval * size
        again = _valley(lambda t: self._log_moment(tilt + t) - tilt * found - t * (found + length))[1]
        added = beyond + math.exp(again) + math.exp(-tilt * length) + rounding * float(back[losses > found].sum())
        return found, added

    def _log_moment(self, tilt: float) -> float:
        """log E[e^(tilt L)], where L is all that is lost."""
        return math.fsum(part.times * log_sum(log) for part, log in self._logs(tilt))

    def _logs(self, tilt: float) -> Iterator[tuple[Part, FloatArray]]:
        """Of each part, the logarithms of what its losses weigh after tilting."""
        return ((part, np.log(part.masses) + tilt * self.interval * part.places) for part in self.parts)

    def _moments(self, tilt: float) -> tuple[float, float]:
        """Mean and standard deviation of all that is lost, after tilting."""
        mean = variance = 0.0
        for part, log in self._logs(tilt):
            chances, losses = np.exp(log - log_sum(log)), self.interval * part.places
            own = float(chances @ losses)
            mean += part.times * own
            variance += part.times * float(chances @ (losses - own) ** 2)
        return mean, math.sqrt(variance)

    def _tilted(self, tilt: float, size: int) -> tuple[FloatArray, float]:
        """How likely each place is after tilting, on a circle of places, and by how much rounding may have moved it."""
        each = []
        for part, log in self._logs(tilt):
            line = np.bincount(part.places % size, weights=np.exp(log - log_sum(log)), minlength=size)
            each.append((np.fft.rfft(line), part.times))
        total = math.prod(_power(one, times) for one, times in each)
        lengths = [(abs(one), times) for one, times in each]
        moved = sum(
            times * float(np.mean(math.prod(_power(other, n - (other is one)) for other, n in lengths)))
            for one, times in lengths
        )
        return np.maximum(np.fft.irfft(total, size), 0.0), _ROUNDING * moved


def _read(losses: NDArray[Any], masses: NDArray[Any], infinite: float, delta: float) -> float:
    """The smallest epsilon >= 0 with E[(1 - e^(epsilon - loss))+] <= delta; losses rise.

    That mean falls with epsilon. It is computed at every loss, from the largest on, in stretches so short that powers
    of e relative to the largest loss of a stretch neither overflow nor vanish.
    """
    if infinite > delta:
        return math.inf
    above = infinite + np.append(np.cumsum(masses[::-1])[::-1], 0.0)  # P[loss >= this one]; behind the last: infinite
    end, top, beyond = len(losses), float(losses[-1]), 0.0  # beyond: E[e^(top - loss)] of what lies behind the stretch
    while True:
        begin = int(np.searchsorted(losses[:end], top - _REACH))
        ratios = np.exp(top - losses[begin:end])
        below = beyond + np.append(np.cumsum((masses[begin:end] * ratios)[::-1])[::-1], 0.0)
        enough = np.append(above[begin + 1 : end + 1] - below[1:] / ratios <= delta, True)
        first = int(np.argmax(enough))  # epsilon lies between the loss before this one and this one
        if first or not begin:
            break
        end, before = begin, top
        top = float(losses[begin - 1])
        beyond = float(below[0]) * math.exp(top - before)
    excess = above[begin + first] - delta
    return max(0.0, math.log(excess / below[first]) + top + 4 * math.ulp(top)) if excess > 0 else 0.0  # rounded up


def _power(values: Any, times: int) -> Any:
    """The same as `values**times`, which takes long for complex numbers."""
    found, square = 1.0, values
    while times:
        found = found * square if times & 1 else found
        times >>= 1
        square = square * square if times else square
    return found


def log_sum(logs: FloatArray) -> float:
    """log of the sum of e^logs."""
    most = float(logs.max())
    return most + math.log(float(np.exp(logs - most).sum()))


def _valley(value: Callable[[float], float], low: float = 1e-6, high: float = 1e6) -> tuple[float, float]:
    """Where a function with one valley is about the least, and how much that is: the golden section of logarithms."""
    ratio = (math.sqrt(5) - 1) / 2
    a, b = math.log(low), math.log(high)
    left, right = b - ratio * (b - a), a + ratio * (b - a)
    at_left, at_right = value(math.exp(left)), value(math.exp(right))
    while b - a > 0.02:
        if at_left <= at_right:
            b, right, at_right = right, left, at_left
            left = b - ratio * (b - a)
            at_left = value(math.exp(left))
        else:
            a, left, at_left = left, right, at_right
            right = a + ratio * (b - a)
            at_right = value(math.exp(right))
    return min((at_left, math.exp(left)), (at_right, math.exp(right)))[::-1]


def _fast(size: int) -> int:
    """The next size that is quick to transform: a power of two, or 3, 5, 9 or 15 times one; even."""
    return min(odd << max(1, math.ceil(math.log2(size / odd))) for odd in (1, 3, 5, 9, 15))
