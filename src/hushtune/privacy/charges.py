"""Charges: what runs cost, and what they add up to under a ledger's terms. Arithmetic only; the ledger is the file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from hushtune.core.errors import LedgerError
from hushtune.privacy.accounting import Budget, Neighbours, Renyi, Rule, Sums, Unit, epsilon_of, rdp_to_epsilon
from hushtune.privacy.decimals import added, remaining
from hushtune.privacy.events.sums import Event, Exact
from hushtune.privacy.guarantee import Privacy


@dataclass(frozen=True)
class Charge:
    """What one run costs: the events of everything it may open, fixed before it starts.

    Args:
        run: its id.
        what: in words: the method.
        events: of everything it may open.
        delta: at which its epsilon is stated.
        unit: "client" or "record".
        neighbours: the relation that the events are stated in.
    """

    run: str
    what: str = field(compare=False)
    events: tuple[Event, ...]
    delta: float
    unit: Unit
    neighbours: Neighbours

    @property
    def exact(self) -> bool:
        """Whether the run opens something without any noise."""
        return any(event.bare for event in self.events)


def charge_of(run: str, what: str, events: tuple[Event, ...], privacy: Privacy | None) -> Charge:
    """The charge of a run with a guarantee, or of one that opens exact values."""
    if privacy is None:
        return Charge(run, what, (Exact(),), 0.0, "client", "replace-one")
    return Charge(run, what, events, privacy.delta, privacy.unit, privacy.neighbours)


@dataclass(frozen=True)
class Terms:
    """What a ledger fixes when it is made.

    Args:
        id: of this ledger.
        unit: "client" or "record".
        neighbours: the relation all charges must be stated in.
        rule: how charges are added up.
        made: seconds since 1970.
    """

    id: str
    unit: Unit
    neighbours: Neighbours
    rule: Rule
    made: float


def total_of(terms: Terms, charges: Sequence[Charge], limit: Budget) -> Budget:
    """All charges with an epsilon under the ledger's rule; those in another relation are converted, or refused."""
    charges = [charge for charge in charges if not charge.exact]
    same = [charge for charge in charges if charge.neighbours == terms.neighbours]
    for charge in charges:
        if charge.unit != terms.unit:
            raise LedgerError(
                f"the ledger counts per {terms.unit}, but the run counts per {charge.unit}; as long as nothing was "
                f"charged, its owner can change that: `hushtune ledger limit ... --unit {charge.unit}`"
            )
        if charge.neighbours != terms.neighbours and not _convertible(charge, terms):
            raise LedgerError(
                f"the ledger's neighbours are '{terms.neighbours}' (rule '{terms.rule.name}'), "
                f"but the run's are '{charge.neighbours}', and there is no conversion"
            )
    total = terms.rule.spent([(charge.events, charge.delta) for charge in same], limit.delta)
    others = [as_replace_one(charge) for charge in charges if charge.neighbours != terms.neighbours]
    return Budget(
        added([total.epsilon, *(b.epsilon for b in others)]),
        added([total.delta, *(b.delta for b in others)]),
    )


def _convertible(charge: Charge, terms: Terms) -> bool:
    return (
        isinstance(terms.rule, Sums)
        and terms.neighbours == "replace-one"
        and charge.neighbours in ("add-remove", "zero-out")
    )


def as_replace_one(charge: Charge) -> Budget:
    """A replacement is a removal and an addition: (2 eps, (1 + e^eps) delta) by group privacy for two steps."""
    epsilon = epsilon_of(charge.events, charge.delta)
    return Budget(added([epsilon, epsilon]), (1 + math.exp(min(epsilon, 700))) * charge.delta)


def left_of(terms: Terms, charges: Sequence[Charge], limit: Budget) -> Budget:
    """What a limit leaves: an (epsilon, delta) that one more run can have.

    Under 'sums' it is the largest, but for what was spent being rounded up to a float.
    """
    spent = total_of(terms, charges, limit)
    if isinstance(terms.rule, Renyi):
        alone = rdp_to_epsilon(0.0, terms.rule.order, limit.delta)
        used = max(0.0, spent.epsilon - alone)
        return Budget(max(0.0, limit.epsilon - used), limit.delta)
    if spent.epsilon > limit.epsilon or spent.delta > limit.delta:
        return Budget(0.0, 0.0)
    return Budget(remaining(limit.epsilon, spent.epsilon), remaining(limit.delta, spent.delta))
