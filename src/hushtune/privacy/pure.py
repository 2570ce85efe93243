"""What events cost at delta 0, exactly: pure differential privacy, in which no outcome's chance changes by more than a
factor of e^epsilon.

An opening is pure if its mechanism is: answers under exact noise are. Under Skellam or Gaussian noise the chances of
two neighbours differ the more, the further out an outcome lies; no epsilon is enough for all of them.

**Epsilons add up.** Whatever was opened before, an opening changes no chance by more than e^its epsilon, and the chance
of all outcomes is the product of theirs (Dwork and Roth 2014, Theorem 3.14). At a delta above 0 optimal composition is
never worse. Sums are exact (`hushtune.privacy.decimals`): three answers of 0.1 cost 0.3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from hushtune.core.errors import SettingError
from hushtune.privacy.decimals import named
from hushtune.privacy.events.sums import Event


def pure_cost(events: Sequence[Event]) -> Fraction | None:
    """Exactly what events cost together at delta 0; None, if one of them is not pure.

    Args:
        events: fixed in advance; one that comes again costs again.
    """
    total = Fraction(0)
    for event, times in Counter(events).items():
        if event.pure is None:
            return None
        total += times * event.pure
    return total


def impurity(events: Sequence[Event]) -> str | None:
    """Why events cannot be opened at delta 0, and what to do, in a line; None, if all are pure.

    Args:
        events: of a run, under some noise.
    """
    found = dict.fromkeys(event.mechanism for event in events if event.pure is None)
    if not found:
        return None
    return (
        f"at delta=0 all that is opened must be pure, but got {' and '.join(found)}; give a delta such as 1e-05, or a "
        "method and seal that open answers only, such as Vote() under seal=Quorum()"
    )


def pure_scale(events: Sequence[Event], epsilon: float) -> float:
    """The noise scale at which events cost epsilon at delta 0, if cost falls like 1/scale; refused, if one is not pure.

    Args:
        events: as they are under noise of scale 1.
        epsilon: what they may cost together.
    """
    total = pure_cost(events)
    if total is None:
        raise SettingError(impurity(events))
    return float(total / named(epsilon))
