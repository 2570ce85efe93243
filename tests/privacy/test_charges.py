"""What charges come to: arithmetic on events, without a file."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import hushtune as ht
from hushtune.privacy.accounting import Budget, Renyi, Sums, epsilon_of
from hushtune.privacy.charges import Charge, Terms, as_replace_one, charge_of, left_of, total_of
from hushtune.privacy.decimals import added
from hushtune.privacy.events.answers import PureTests
from hushtune.privacy.events.sums import Event, Exact, SkellamShift

EVENTS = tuple(SkellamShift(variance, 2) for variance in (100.0, 400.0, 900.0))
DELTAS = (1e-6, 1e-5)
LIMIT = Budget(9.0, 1e-4)


def terms(**changes: Any) -> Terms:
    return Terms(**{"id": "t", "unit": "client", "neighbours": "replace-one", "rule": Sums(), "made": 0.0, **changes})


def charge(event: Event = EVENTS[1], delta: float = 1e-6, **changes: Any) -> Charge:
    fields = {"run": "r", "what": "test", "events": (event,), "delta": delta, "unit": "client"}
    return Charge(**{**fields, "neighbours": "replace-one", **changes})


CHARGES = st.lists(st.builds(charge, st.sampled_from(EVENTS), st.sampled_from(DELTAS)), max_size=6)


@given(CHARGES, st.randoms(use_true_random=False))
def test_sums_add_up_each_charges_own_epsilon_and_delta_in_any_order(charges: list[Charge], shuffled: Any) -> None:
    total = total_of(terms(), charges, LIMIT)
    assert total.epsilon == added(epsilon_of(one.events, one.delta) for one in charges)
    assert total.delta == added(one.delta for one in charges)
    shuffled.shuffle(charges)
    assert total_of(terms(), charges, LIMIT) == total


@given(CHARGES, st.sampled_from([Sums(), Renyi(12.0)]))
def test_one_more_charge_never_costs_less_and_never_leaves_more(charges: list[Charge], rule: Any) -> None:
    held = terms(rule=rule)
    before, after = (total_of(held, some, LIMIT) for some in (charges, [*charges, charge()]))
    assert after.epsilon > before.epsilon
    assert left_of(held, [*charges, charge()], LIMIT).epsilon <= left_of(held, charges, LIMIT).epsilon


def test_what_was_spent_and_what_is_left_are_the_limit_and_never_less_than_nothing() -> None:
    some = [charge()] * 3
    spent, left = total_of(terms(), some, LIMIT), left_of(terms(), some, LIMIT)
    assert spent.epsilon + left.epsilon == pytest.approx(LIMIT.epsilon)
    assert spent.delta + left.delta == pytest.approx(LIMIT.delta)
    assert left_of(terms(), some, Budget(spent.epsilon / 2, spent.delta / 2)) == Budget(0.0, 0.0)


def test_under_renyi_the_conversion_is_paid_once_and_delta_not_at_all() -> None:
    held, limit = terms(rule=Renyi(12.0)), Budget(4.0, 1e-5)
    assert total_of(held, [], limit) == Budget(0.0, 0.0)
    assert left_of(held, [], limit) == limit
    costs = [total_of(held, [charge()] * times, limit) for times in (1, 2, 3)]
    assert costs[2].epsilon - costs[1].epsilon == pytest.approx(costs[1].epsilon - costs[0].epsilon, rel=1e-3)
    assert costs[0].epsilon > costs[1].epsilon - costs[0].epsilon
    assert {cost.delta for cost in costs} == {1e-5}
    left = left_of(held, [charge()] * 3, limit)
    assert left.delta == 1e-5
    assert left.epsilon == pytest.approx(4.0 - 3 * (costs[1].epsilon - costs[0].epsilon), rel=1e-3)


@pytest.mark.parametrize("relation", ["zero-out", "add-remove"])
def test_a_removal_counts_twice_where_replacements_are_counted(relation: str) -> None:
    """Group privacy for two steps: 2 epsilon, and (1 + e^epsilon) delta."""
    removal = charge(neighbours=relation)
    alone = epsilon_of(removal.events, removal.delta)
    assert as_replace_one(removal) == Budget(2 * alone, (1 + math.exp(alone)) * removal.delta)
    both = total_of(terms(), [charge(), removal], LIMIT)
    assert both.epsilon == pytest.approx(3 * alone)
    assert both.delta == pytest.approx(removal.delta * (2 + math.exp(alone)))


@pytest.mark.parametrize(
    ("held", "asked"),
    [
        ({"neighbours": "zero-out"}, {"neighbours": "replace-one"}),
        ({"neighbours": "zero-out"}, {"neighbours": "add-remove"}),
        ({"rule": Renyi(12.0)}, {"neighbours": "zero-out"}),
    ],
)
def test_there_is_no_other_conversion(held: dict[str, Any], asked: dict[str, Any]) -> None:
    with pytest.raises(ht.LedgerError, match="and there is no conversion"):
        total_of(terms(**held), [charge(), charge(**asked)], LIMIT)


def test_clients_and_records_are_never_added_up() -> None:
    with pytest.raises(ht.LedgerError, match="counts per record, but the run counts per client"):
        total_of(terms(unit="record"), [charge()], LIMIT)


def test_a_hopeless_charge_costs_everything_and_does_not_overflow() -> None:
    bare = charge(SkellamShift(0.0, 2), neighbours="zero-out")
    assert bare.exact
    assert as_replace_one(bare).epsilon == math.inf
    assert math.isfinite(as_replace_one(bare).delta)


def test_exact_runs_are_on_record_but_in_no_sum_whatever_their_unit() -> None:
    exact = charge_of("e", "run", (EVENTS[0],), None)
    assert exact == Charge("e", "run", (Exact(),), 0.0, "client", "replace-one")
    assert exact.exact
    assert not charge().exact
    assert total_of(terms(unit="record", neighbours="add-remove"), [exact], LIMIT) == Budget(0.0, 0.0)


def test_a_charge_is_stated_as_the_guarantee_was_asked_for() -> None:
    privacy = ht.Privacy(2.0, 1e-7, unit="record", neighbours="add-remove")
    assert charge_of("r", "run", EVENTS, privacy) == Charge("r", "run", EVENTS, 1e-7, "record", "add-remove")


def test_two_charges_are_the_same_whatever_they_are_called() -> None:
    """A resumed run may be named in other words by another release: it is not charged twice for that."""
    assert charge(what="vote") == charge(what="run")
    assert charge() != charge(delta=1e-7)
    assert charge() != charge(run="s")


# ---- delta 0 -----------------------------------------------------------------------------------------


def pure(epsilon: float, **changes: Any) -> Charge:
    return charge(PureTests(epsilon), delta=0.0, **changes)


@given(st.lists(st.floats(0.0, 3.0).map(pure), max_size=6), st.sampled_from([0.3, 1.0, 7.7]))
@example([pure(0.9501665488623456), pure(1.4168068825560866e-101)], 1.0)
def test_pure_charges_add_up_exactly_and_what_is_left_is_all_but_a_rounding(
    charges: list[Charge], epsilon: float
) -> None:
    limit = Budget(epsilon, 0.0)
    total, left = total_of(terms(), charges, limit), left_of(terms(), charges, limit)
    exact = sum((Fraction(repr(one.events[0].epsilon)) for one in charges), Fraction(0))  # type: ignore[attr-defined]
    assert total.delta == left.delta == 0
    assert Fraction(repr(total.epsilon)) >= exact
    assert total.epsilon == 0 or Fraction(repr(math.nextafter(total.epsilon, 0))) < exact
    if exact <= Fraction(repr(epsilon)):
        assert total_of(terms(), [*charges, pure(left.epsilon)], limit).epsilon <= epsilon
        more = math.nextafter(left.epsilon, math.inf)
        beyond = total_of(terms(), [*charges, pure(more)], limit).epsilon
        assert beyond >= math.nextafter(epsilon, 0)  # what was spent is rounded up, by less than that
    else:
        assert left == Budget(0.0, 0.0)


def test_pure_charges_add_nothing_to_delta() -> None:
    total = total_of(terms(), [pure(0.1), charge(), pure(0.2)], LIMIT)
    assert total == Budget(added([0.3, epsilon_of((EVENTS[1],), 1e-6)]), 1e-6)
    assert left_of(terms(), [pure(0.1)], LIMIT) == Budget(8.9, 1e-4)
    used_up = left_of(terms(), [charge(delta=1e-4), pure(0.1)], LIMIT)
    assert used_up.epsilon > 0 == used_up.delta
    assert left_of(terms(), [charge(delta=2e-4)], LIMIT) == Budget(0.0, 0.0)  # no run mends that


def test_a_pure_removal_counts_twice_and_stays_pure() -> None:
    assert as_replace_one(pure(0.15, neighbours="zero-out")) == Budget(0.3, 0.0)
    dusty = 0.6804775781208822  # a float whose double has a text below twice its own
    assert as_replace_one(pure(dusty, neighbours="zero-out")) == Budget(math.nextafter(2 * dusty, 2), 0.0)
    assert total_of(terms(), [pure(0.1), pure(0.1, neighbours="zero-out")], Budget(1.0, 0.0)) == Budget(0.3, 0.0)


def test_under_renyi_a_pure_charge_counts_by_its_divergence() -> None:
    held = terms(rule=Renyi(12.0))
    some = [pure(0.1), charge(PureTests(0.1))]
    assert total_of(held, some[:1], LIMIT) == total_of(held, some[1:], LIMIT)
    assert total_of(held, some, LIMIT) == held.rule.spent([((PureTests(0.1), PureTests(0.1)), 0.0)] * 1, LIMIT.delta)
