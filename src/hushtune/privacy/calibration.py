"""How much noise a run's openings need, and private training after them, under a ledger's rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from hushtune.core.errors import SettingError
from hushtune.core.words import as_set
from hushtune.privacy.accounting import Budget, Rule, Sums, check_events, gaussian_start, least_scale, smallest_scale
from hushtune.privacy.bounds import Bound
from hushtune.privacy.events.sums import Event
from hushtune.privacy.events.training import TrainingSteps
from hushtune.privacy.guarantee import Privacy
from hushtune.privacy.ledger import Ledger
from hushtune.privacy.noise.base import Noise
from hushtune.privacy.noise.geometric import LARGEST_SCALE

_LOUDEST = 1e4  # noise multiplier of DP-SGD
_PARTIES = Noise(0.0)


@lru_cache(maxsize=64)
def calibrate(bounds: tuple[Bound, ...], privacy: Privacy, rule: Rule, noise: Noise = _PARTIES) -> Noise:
    """The least noise with which opening all the bounded sums stays within epsilon, under a ledger's rule.

    To a relative 1e-5; at delta 0 to the last digit. There a sum that is opened under noise is refused.

    Args:
        bounds: of all sums that are opened, or asked about.
        privacy: the guarantee.
        rule: how epsilon is computed from events.
        noise: who draws it, as a seal says (`Seal.noise`); its scale does not matter.
    """

    def events(scale: float) -> tuple[Event, ...]:
        return events_of(bounds, privacy, replace(noise, scale=scale))

    def cost(scale: float) -> float:
        return rule.spent([(events(scale), privacy.delta)], privacy.delta).epsilon

    if cost(0.0) == 0:  # nobody can change anything: every ballot is the same
        return replace(noise, scale=0.0)
    scale, loudest = gaussian_start(events, privacy.epsilon, privacy.delta), _loudest(bounds, noise)
    if scale <= loudest:
        least = smallest_scale if privacy.delta else least_scale
        scale = least(cost, privacy.epsilon, scale)
    if scale > loudest:
        raise SettingError(
            f"epsilon={as_set(privacy.epsilon)} with delta={as_set(privacy.delta)} needs noise of scale "
            f"{scale:.3g} on such a sum, more than can be drawn; choose a larger epsilon or delta"
        )
    return replace(noise, scale=scale)


def _loudest(bounds: Sequence[Bound], noise: Noise) -> float:
    """The largest scale that can be drawn. Nodes draw geometric noise; for a threshold's sums, of twice the scale."""
    loudest = min(bound.loudest for bound in bounds)
    return min(loudest, LARGEST_SCALE / 2) if noise.at == "nodes" and any(b.tests for b in bounds) else loudest


def events_of(bounds: Sequence[Bound], privacy: Privacy, noise: Noise) -> tuple[Event, ...]:
    """The events of a run: one for each opening, in their order."""
    events = tuple(bound.event(noise, privacy.change) for bound in bounds)
    check_events(events)
    return events


def rule_of(ledger: Ledger | None, privacy: Privacy | None) -> Rule:
    """The rule that a run is calibrated and stated under: its ledger's, unless that is made for much larger sums."""
    if ledger is None or privacy is None or not ledger.exists:
        return Sums()
    rule = ledger.terms().rule
    return rule if rule.states(privacy.budget) else Sums()


@dataclass(frozen=True)
class Training:
    """Private training that follows a run and is charged with it.

    Args:
        rate: the chance of each row to be in a step's batch.
        steps: how many.
        share: how much of epsilon the run itself may take; training has the rest.
    """

    rate: float
    steps: int
    share: float

    def before(self, privacy: Privacy) -> Privacy:
        """What the run itself may take."""
        return replace(privacy, epsilon=privacy.epsilon * self.share)

    def event(self, events: tuple[Event, ...], privacy: Privacy, rule: Rule) -> TrainingSteps:
        """With the least noise that stays within epsilon together with the run's own events."""

        def cost(multiplier: float) -> float:
            all_of_it = (*events, TrainingSteps(multiplier, self.rate, self.steps))
            return rule.spent([(all_of_it, privacy.delta)], privacy.delta).epsilon

        return TrainingSteps(noise_for(cost, privacy, self.rate, self.steps), self.rate, self.steps)


def noise_for(cost: Callable[[float], float], privacy: Privacy, rate: float, steps: int) -> float:
    """The smallest noise multiplier of DP-SGD at which something costs epsilon."""

    def bounded(multiplier: float) -> float:
        if multiplier > _LOUDEST:
            raise SettingError(
                f"epsilon={as_set(privacy.epsilon)} with delta={as_set(privacy.delta)} is too little for this "
                f"method: not even noise of {_LOUDEST:g} times the clipping norm is enough; choose a larger epsilon, "
                "or train less often"
            )
        return cost(multiplier)

    start = gaussian_start(lambda s: (TrainingSteps(s, rate, steps),), privacy.epsilon, privacy.delta)
    return smallest_scale(bounded, privacy.epsilon, start)


def left_in(ledger: Ledger | None) -> Budget | None:
    """What one more run can have; None without a limit."""
    return ledger.left() if ledger is not None and ledger.exists else None
