"""What opened values cost together: exact or numeric accounting of events, and calibration.

Ledgers and results store events, never epsilons: every epsilon is computed from them again.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache, reduce
from typing import Any, ClassVar, Literal, Protocol

import numpy as np

from hushtune.core.checks import number
from hushtune.core.errors import SettingError
from hushtune.privacy.events.sums import Event
from hushtune.privacy.losses import Losses
from hushtune.privacy.noise import skellam

Unit = Literal["client", "record"]
Neighbours = Literal["replace-one", "add-remove", "zero-out"]


@dataclass(frozen=True)
class Budget:
    """An (epsilon, delta) pair: a limit, or what was spent.

    Args:
        epsilon: 0 or more.
        delta: from 0 to 1.
    """

    epsilon: float
    delta: float


def check_budget(epsilon: Any, delta: Any) -> Budget:
    """Refuses an epsilon or a delta that no guarantee can have."""
    return Budget(number("epsilon", epsilon, 0, math.inf, "()"), number("delta", delta, 0, 1, "()"))


# ---- several events together -------------------------------------------------------------------------

_ORDERS = (1.5, 2.0, 3.0, 5.0, 8.0, 16.0, 32.0, 64.0, 128.0)  # at one of these Rényi bounds are within reason
_PATIENCE = 5  # orders that may be worse before the search stops
WHOLE_ORDERS = tuple(float(order) for order in np.unique(np.ceil(np.geomspace(2, 1e5, 400))))
SAMPLER_SLACK = 2.0**40 * skellam.DISTANCE
"""How far all noise of one charge together may be from its exact distribution: up to 2^40 drawn values."""


@lru_cache(maxsize=4096)
def epsilon_of(events: tuple[Event, ...], delta: float) -> float:
    """Epsilon of events fixed in advance, at the given delta, by numerical composition (pessimistic).

    A sampler within distance s of the exact noise costs another (1 + e^epsilon) s of delta.
    """
    if not events:
        return 0.0
    if any(event.bare for event in events):
        return math.inf
    if not all(event.tight for event in events):
        return renyi_epsilon(events, delta)
    interval = min(event.interval() for event in events)
    parts = [event.pld(interval, times) for event, times in Counter(events).items()]
    most = min(rdp_to_epsilon(rdp_of(events, order), order, delta) for order in _ORDERS)
    slack = sampler_slack(most) if any(event.sampled for event in events) else 0.0
    return _composed(parts, delta - slack) if slack < delta else math.inf


def _composed(parts: Sequence[Any], delta: float) -> float:
    """Epsilon of privacy loss distributions on one grid; by dp-accounting, if one of them is its own."""
    if all(isinstance(part, Losses) for part in parts):
        return float(reduce(Losses.compose, parts).epsilon(delta))
    theirs = [part.dp_accounting() if isinstance(part, Losses) else part for part in parts]
    return float(reduce(lambda one, other: one.compose(other), theirs).get_epsilon_for_delta(delta))


def renyi_epsilon(events: tuple[Event, ...], delta: float) -> float:
    """Epsilon by Rényi divergences, at the best order: the order may depend on events that are fixed in advance."""
    slack = sampler_slack(_at_best_order(events, delta)) if any(event.sampled for event in events) else 0.0
    return _at_best_order(events, delta - slack) if slack < delta else math.inf


def _at_best_order(events: tuple[Event, ...], delta: float) -> float:
    """The smallest epsilon over whole orders; it falls with the order and then rises, so the search can stop."""
    best, worse = math.inf, 0
    for order in WHOLE_ORDERS:
        found = rdp_to_epsilon(rdp_of(events, order), order, delta)
        best, worse = (found, 0) if found < best else (best, worse + 1)
        if worse > _PATIENCE:
            break
    return best


def sampler_slack(epsilon: float) -> float:
    """The part of delta that pays for the sampler, at an epsilon up to the given one and a little beyond."""
    return (1 + math.exp(min(epsilon + 1, 700))) * SAMPLER_SLACK


@lru_cache(maxsize=1024)
def rdp_of(events: tuple[Event, ...], order: float) -> float:
    """Rényi divergence of all events together."""
    return math.fsum(times * event.rdp(order) for event, times in Counter(events).items())


def rdp_to_epsilon(rdp: float, order: float, delta: float) -> float:
    """Canonne, Kamath, Steinke 2020, Proposition 12 (DP-HYPE's Theorem II.1)."""
    return max(0.0, rdp + math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1))


def best_order(limit: Budget) -> float:
    """The order at which the largest amount of Gaussian-like noise events fits under the limit."""
    orders = 1 + np.geomspace(1e-3, 1e4, 4000)
    headroom = np.array([(limit.epsilon - rdp_to_epsilon(0.0, a, limit.delta)) / a for a in orders])
    return float(orders[int(np.argmax(headroom))])


# ---- calibration -------------------------------------------------------------------------------------


def gaussian_start(events: Callable[[float], tuple[Event, ...]], epsilon: float, delta: float) -> float:
    """A noise scale near the one sought: what the Gaussian mechanism of the same Rényi divergence would need.

    At a large scale every event is nearly Gaussian with signal-to-noise ratio mu = sqrt(divergence of order 2), and
    mu falls like 1/scale. The mu wanted solves the analytic Gaussian equation (Balle and Wang 2018, Theorem 8).
    """

    def normal(x: float) -> float:
        return math.erfc(-x / math.sqrt(2)) / 2

    def excess(mu: float) -> float:
        return normal(mu / 2 - epsilon / mu) - math.exp(epsilon) * normal(-mu / 2 - epsilon / mu) - delta

    large = 1000.0
    while math.isinf(rdp_of(events(large), 2.0)) and large < 1e12:  # where a scale of 1000 is hardly any noise
        large *= 1000
    ratio = math.sqrt(rdp_of(events(large), 2.0))
    return large * ratio / _root(excess, 1e-9, 2 * epsilon + 100.0)


def _root(rising: Callable[[float], float], low: float, high: float) -> float:
    """Where a rising function is 0, to the last digits: by halving, which costs nothing here."""
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if rising(middle) < 0 else (low, middle)
    return high


def smallest_scale(cost: Callable[[float], float], epsilon: float, start: float) -> float:
    """The smallest noise scale with cost(scale) <= epsilon, to a relative 1e-5, never below it.

    `cost` falls with the scale, roughly like 1/scale, so a secant on the log-log curve lands in a few steps.
    """
    low, high = 0.0, math.inf
    scale, slope, before = start, -1.0, (0.0, 0.0)
    for _ in range(200):
        got = cost(scale)
        if 0 < got < math.inf:
            here = math.log(scale), math.log(got)
            if before != (0.0, 0.0) and here[0] != before[0] and here[1] != before[1]:
                slope = min(-0.3, max(-3.0, (here[1] - before[1]) / (here[0] - before[0])))
            before = here
        if got <= epsilon:
            high = scale
            if got >= epsilon * (1 - 1e-5) or high - low <= 1e-5 * high:
                return high
        else:
            low = scale
        guess = scale * (epsilon / got) ** (1 / slope) * (1 + 4e-6) if 0 < got < math.inf else scale * 2
        if not low < guess < high:
            guess = (low + high) / 2 if high < math.inf else 2 * low
        scale = guess
    raise SettingError(f"no noise scale was found for epsilon={epsilon:g}: choose a larger epsilon or delta")


class Rule(Protocol):
    """How a ledger adds up charges under full adaptivity."""

    name: ClassVar[str]

    def __hash__(self) -> int: ...

    def spent(self, charges: Sequence[tuple[tuple[Event, ...], float]], delta: float) -> Budget:
        """What charges, each (events, delta), come to; `delta` is the limit's."""
        ...

    def states(self, budget: Budget) -> bool:
        """Whether a single run's guarantee of this size can sensibly be stated under the rule."""
        ...


@dataclass(frozen=True)
class Sums:
    """Plain sums: each charge has its own tight (epsilon, delta); both are added up."""

    name: ClassVar[str] = "sums"

    def spent(self, charges: Sequence[tuple[tuple[Event, ...], float]], delta: float) -> Budget:
        """Basic composition, valid for adaptively chosen charges."""
        return Budget(
            math.fsum(epsilon_of(events, own) for events, own in charges),
            math.fsum(own for _, own in charges),
        )

    def states(self, budget: Budget) -> bool:
        """Always: a single run's own epsilon is tight."""
        return True


@dataclass(frozen=True)
class Renyi:
    """A Rényi filter: divergences of one order, fixed when the ledger is made, are added up.

    Valid for adaptively chosen charges (Feldman and Zrnic 2021): the order must not depend on what was spent.
    """

    order: float
    name: ClassVar[str] = "renyi"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.order) and self.order > 1):
            raise SettingError(f"`order > 1` must hold, but got order={self.order}")

    def spent(self, charges: Sequence[tuple[tuple[Event, ...], float]], delta: float) -> Budget:
        """The summed divergence, converted once at the limit's delta."""
        if not charges:
            return Budget(0.0, 0.0)
        rdp = math.fsum(rdp_of(events, self.order) for events, _ in charges)
        if not math.isfinite(rdp):
            return Budget(math.inf, delta)
        slack = len(charges) * sampler_slack(rdp_to_epsilon(rdp, self.order, delta))
        if slack >= delta:
            return Budget(math.inf, delta)
        return Budget(rdp_to_epsilon(rdp, self.order, delta - slack), delta)

    def states(self, budget: Budget) -> bool:
        """Not if converting no divergence at all already takes half of it: the order was fixed for a larger limit."""
        return rdp_to_epsilon(0.0, self.order, budget.delta) <= budget.epsilon / 2


def rule_to_json(rule: Rule) -> dict[str, Any]:
    """Name and settings of a rule."""
    return {"name": rule.name, **asdict(rule)}  # type: ignore[call-overload]


def rule_from_json(raw: Mapping[str, Any]) -> Rule:
    """The rule that `rule_to_json` wrote."""
    if raw.get("name") == Sums.name:
        return Sums()
    if raw.get("name") == Renyi.name:
        return Renyi(float(raw["order"]))
    raise SettingError(f"rule must be 'sums' or 'renyi', but got {raw.get('name')!r}")
