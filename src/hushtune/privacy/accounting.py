"""What opened values cost together: exact or numeric accounting of events, and calibration.

Ledgers and results store events, never epsilons: every epsilon is computed from them again.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, lru_cache, reduce
from typing import Any, ClassVar, Literal, Protocol

import numpy as np

from hushtune.core.checks import number
from hushtune.core.errors import SettingError
from hushtune.core.words import as_set
from hushtune.privacy.decimals import added, not_below
from hushtune.privacy.events.sums import Event
from hushtune.privacy.losses import Losses
from hushtune.privacy.noise import skellam
from hushtune.privacy.pure import pure_cost, pure_scale

Unit = Literal["client", "record"]
Neighbours = Literal["replace-one", "add-remove", "zero-out"]


@dataclass(frozen=True)
class Budget:
    """An (epsilon, delta) pair: a limit, or what was spent.

    Args:
        epsilon: 0 or more.
        delta: 0 or more, below 1.
    """

    epsilon: float
    delta: float


def check_budget(epsilon: Any, delta: Any) -> Budget:
    """Refuses an epsilon or a delta that no guarantee can have."""
    return Budget(number("epsilon", epsilon, 0, math.inf, "()"), abs(number("delta", delta, 0, 1, "[)")))  # -0.0 is 0


# ---- several events together -------------------------------------------------------------------------

WHOLE_ORDERS = tuple(float(order) for order in np.unique(np.ceil(np.geomspace(2, 1e5, 400))))
SAMPLER_SLACK = 2.0**40 * skellam.DISTANCE
"""How far all noise of one charge together may be from its exact distribution: up to 2^40 drawn values."""
_SHARE = 1e-7  # of delta that pays for the sampler, where that is enough
_MARGINS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)  # relative to an epsilon that was not enough
_PATIENCE = 5  # orders that may be worse before the search stops
_MOST_OUTCOMES = 2**18  # that are computed for all distributions together: a third of a second, at most
_MOST_PLACES = 2**17  # the same of those that are computed place by place
_FINEST = 2**16  # steps of a grid in the standard deviation of all losses, shared by the different events
_FINEST_BY_PLACE = 2**14  # the same for distributions that are computed place by place
_STEPS = 200  # in a standard deviation, for each loss that is rounded up: this moves epsilon by less than 0.1%
_ROUGHEST = 1 / 8  # of a standard deviation that all rounding may add: beyond it Rényi divergences say less
_NOTHING = 1e-6  # an epsilon that nobody minds
_MOST_DOUBLINGS = 64  # of a scale that was too small

MOST_DIFFERENT = 8
"""How many different events a run may have; the methods here have three at most. The same one again costs little."""

Counted = Sequence[tuple[Event, int]]
"""Different events, and how often each comes."""


def check_events(events: Sequence[Event]) -> None:
    """Refuses a plan of so many different events that checking its cost would take long."""
    if (different := len(set(events))) > MOST_DIFFERENT:
        raise SettingError(
            f"a run must have at most {MOST_DIFFERENT} different events, but got {different}; "
            "give openings of one kind the same bound and noise"
        )


@lru_cache(maxsize=4096)
def epsilon_of(events: tuple[Event, ...], delta: float) -> float:
    """Epsilon of events fixed in advance, at the given delta: never too low.

    By numerical composition of their privacy loss distributions, or by their Rényi divergences: if the distribution of
    one is not known, or if computing them takes long (`grid_of`). Which one depends on events and delta alone,
    so everybody who computes the cost of a run finds the same. At delta 0 it is their pure cost, and never more than
    that at another: what is (epsilon, 0)-private is (epsilon, delta)-private.
    """
    if any(event.bare for event in events):
        return math.inf
    exact = pure_cost(events)
    pure = not_below(exact) if exact is not None else math.inf
    if delta == 0:
        return pure
    counted = list(Counter(events).items())
    interval = grid_of(counted)
    found = _numeric(counted, interval, delta) if interval is not None else math.inf
    return min(pure, found if found < math.inf else _renyi(counted, delta))


def grid_of(counted: Counted) -> float | None:
    """The step of a grid on which the events are composed; None, if there is none, or if it takes too long.

    All that is computed is counted beforehand: a request with events of large variance, or of very many steps, costs
    those who check it no more than others do.
    """
    if not all(event.tight for event, _ in counted):
        return None
    outlines = [event.outline(times) for event, times in counted]
    spread, rounded = math.hypot(*(one.spread for one in outlines)), sum(one.rounded for one in outlines)
    interval = min((event.interval() for event, _ in counted), default=1.0)
    if len(counted) > 1:  # the finest grid of all may be much too fine for another event
        interval = max(interval, spread / (_STEPS * max(1, rounded)))
    finest = _FINEST_BY_PLACE if any(one.width for one in outlines) else _FINEST / max(1, len(counted))
    interval = max(interval, spread / finest)
    rough = rounded * interval / 2 > max(_ROUGHEST * spread, _NOTHING)
    quick = sum(one.outcomes for one in outlines) <= _MOST_OUTCOMES
    quick = quick and sum(one.width for one in outlines) <= _MOST_PLACES * interval
    return interval if quick and not rough else None


def _numeric(counted: Counted, interval: float, delta: float) -> float:
    """Epsilon by privacy loss distributions on one grid; by dp-accounting, if one of them is its own.

    Infinite, if that is not known in a short time.
    """
    parts = [event.pld(interval, times) for event, times in counted]
    if all(isinstance(part, Losses) for part in parts):
        losses = reduce(Losses.compose, parts, Losses(interval, ()))
        return with_slack(losses.epsilon, delta, _draws(counted))
    if not all(part.few for part in parts if isinstance(part, Losses)):
        return math.inf  # dp-accounting would fill all places between the smallest sum of losses and the largest
    theirs = [part.dp_accounting() if isinstance(part, Losses) else part for part in parts]
    whole = reduce(lambda one, other: one.compose(other), theirs)
    return with_slack(lambda left: float(whole.get_epsilon_for_delta(left)), delta, _draws(counted))


def renyi_epsilon(events: tuple[Event, ...], delta: float) -> float:
    """Epsilon by Rényi divergences, at the best order: the order may depend on events that are fixed in advance."""
    return _renyi(list(Counter(events).items()), delta)


def _renyi(counted: Counted, delta: float) -> float:
    divergence = cache(lambda order: _rdp(counted, order))
    return with_slack(lambda left: _at_best_order(divergence, left), delta, _draws(counted))


def _at_best_order(divergence: Callable[[float], float], delta: float) -> float:
    """The smallest epsilon over whole orders; it falls with the order and then rises, so the search can stop."""
    best, worse = math.inf, 0
    for order in WHOLE_ORDERS:
        found = rdp_to_epsilon(divergence(order), order, delta)
        best, worse = (found, 0) if found < best else (best, worse + 1)
        if worse > _PATIENCE:
            break
    return best


def with_slack(epsilon_at: Callable[[float], float], delta: float, draws: int = 1) -> float:
    """An epsilon that holds at `delta` although the sampler is a little off its exact distribution.

    Let the noise of all openings be within total variation distance s of the exact noise, whatever the data are. If
    exact noise gives P[S] <= e^epsilon Q[S] + d for all sets S of outcomes, then what is drawn gives
    P'[S] <= P[S] + s <= e^epsilon Q[S] + d + s <= e^epsilon (Q'[S] + s) + d + s: (epsilon, d + (1 + e^epsilon) s), at
    the same epsilon. So d is what is left of delta after (1 + e^epsilon) s AT THE EPSILON THAT IS STATED, which in
    turn grows as d shrinks: a guess is right once what it leaves of delta gives no more than the guess. Distances of
    several charges add up.

    Args:
        epsilon_at: epsilon of exact noise at a delta; never rises with it.
        delta: for both.
        draws: how many charges' noise was drawn by such a sampler; 0: none.
    """
    if draws == 0:
        return epsilon_at(delta)
    guess = epsilon_at(delta * (1 - _SHARE))
    if draws * sampler_slack(guess) <= delta * _SHARE:
        return guess
    for margin in _MARGINS:
        guess += margin * (1 + guess)
        left = delta - draws * sampler_slack(guess)
        if left <= 0:
            break
        found = epsilon_at(left)
        if found <= guess:
            return found
        guess = found
    return math.inf


def sampler_slack(epsilon: float) -> float:
    """The part of delta that pays for the sampler of one charge, at that epsilon: (1 + e^epsilon) s."""
    return (1 + math.exp(min(epsilon, 700))) * SAMPLER_SLACK


def _draws(counted: Counted) -> int:
    return int(any(event.sampled for event, _ in counted))


@lru_cache(maxsize=1024)
def rdp_of(events: tuple[Event, ...], order: float) -> float:
    """Rényi divergence of all events together."""
    return _rdp(list(Counter(events).items()), order)


def _rdp(counted: Counted, order: float) -> float:
    return math.fsum(times * event.rdp(order) for event, times in counted)


def rdp_to_epsilon(rdp: float, order: float, delta: float) -> float:
    """Canonne, Kamath, Steinke 2020, Proposition 12 (DP-HYPE's Theorem II.1). At delta 0 it says nothing: infinite."""
    if delta == 0:
        return math.inf
    return max(0.0, rdp + math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1))


def best_order(limit: Budget) -> float:
    """The order at which the largest amount of Gaussian-like noise events fits under the limit; not at delta 0."""
    orders = 1 + np.geomspace(1e-3, 1e4, 4000)
    headroom = np.array([(limit.epsilon - rdp_to_epsilon(0.0, a, limit.delta)) / a for a in orders])
    return float(orders[int(np.argmax(headroom))])


# ---- calibration -------------------------------------------------------------------------------------


def gaussian_start(events: Callable[[float], tuple[Event, ...]], epsilon: float, delta: float) -> float:
    """A noise scale near the one sought: what the Gaussian mechanism of the same Rényi divergence would need.

    At a large scale every event is nearly Gaussian with signal-to-noise ratio mu = sqrt(divergence of order 2), and
    mu falls like 1/scale. The mu wanted solves the analytic Gaussian equation (Balle and Wang 2018, Theorem 8). At
    delta 0 no Gaussian mechanism is enough: there it is what pure events need, whose cost falls like 1/scale too, and
    others are refused.
    """
    if delta == 0:
        return pure_scale(events(1.0), epsilon)

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
    raise _no_scale(epsilon)


def least_scale(cost: Callable[[float], float], epsilon: float, start: float) -> float:
    """The smallest of all floats with cost(scale) <= epsilon, for a cost that is exact and falls with the scale.

    Args:
        cost: of the events at a scale; above epsilon at 0.
        epsilon: what they may cost.
        start: about the scale sought.
    """
    high = start
    for _ in range(_MOST_DOUBLINGS):
        if cost(high) <= epsilon:
            return _root(lambda scale: epsilon - cost(scale), 0.0, high)
        high *= 2
    raise _no_scale(epsilon)


def _no_scale(epsilon: float) -> SettingError:
    return SettingError(f"no noise scale was found for epsilon={as_set(epsilon)}: choose a larger epsilon or delta")


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
            added(epsilon_of(events, own) for events, own in charges),
            added(own for _, own in charges),
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
        return Budget(with_slack(lambda left: rdp_to_epsilon(rdp, self.order, left), delta, len(charges)), delta)

    def states(self, budget: Budget) -> bool:
        """Not if converting no divergence at all already takes half of it: the order was fixed for a larger limit.

        So never at delta 0.
        """
        return rdp_to_epsilon(0.0, self.order, budget.delta) <= budget.epsilon / 2


def check_rule(rule: str, limit: Budget) -> None:
    """Refuses a limit that a rule cannot count against.

    Args:
        rule: its name.
        limit: for all charges together.
    """
    if rule == Renyi.name and limit.delta == 0:
        raise SettingError(
            "rule 'renyi' needs a limit with `delta > 0`, but got delta=0, of which no Rényi divergence says anything; "
            "give a delta, or use rule 'sums'"
        )


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
