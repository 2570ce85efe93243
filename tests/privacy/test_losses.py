"""Composed privacy losses: against dp-accounting, and against every combination of outcomes counted one by one."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from hushtune.privacy.accounting import epsilon_of
from hushtune.privacy.events.answers import PureTests, _binomial
from hushtune.privacy.events.sums import Event, GaussianVector, SkellamShift
from hushtune.privacy.losses import Losses, Part, rounded_up

EVENTS: list[tuple[Event, ...]] = [
    (SkellamShift(11.784**2, 10),),
    (SkellamShift(0.3, 2),),
    (SkellamShift(0.05, 3),),
    (SkellamShift(2e3**2, 200),),
    (SkellamShift(400.0, 10), SkellamShift(100.0, 2)),
    (PureTests(0.1, 19),),
    (PureTests(0.1, 19), SkellamShift(400.0, 10)),
    (PureTests(0.3, 4), PureTests(0.05, 30)),
]


def composed(events: tuple[Event, ...]) -> Losses:
    interval = min(event.interval() for event in events)
    found = Losses(interval, ())
    for event in events:
        found = found.compose(event.pld(interval, 1))
    return found


@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-9])
@pytest.mark.parametrize("events", EVENTS, ids=str)
def test_epsilon_is_dp_accountings(events: tuple[Event, ...], delta: float) -> None:
    """dp-accounting gives up to 1e-15 of delta away when it composes."""
    losses = composed(events)
    theirs = losses.dp_accounting()
    found = losses.epsilon(delta)
    assert theirs.get_epsilon_for_delta(delta * (1 + 1e-6)) * (1 - 1e-7) <= found + 1e-12
    assert found <= theirs.get_epsilon_for_delta(delta) * (1 + 1e-7) + 1e-12


def exact_delta(losses: Losses, epsilon: float) -> float:
    """Every combination of outcomes."""
    each = [
        list(zip((losses.interval * part.places).tolist(), part.masses.tolist(), strict=True))
        for part in losses.parts
        for _ in range(part.times)
    ]
    finite = math.fsum(
        math.prod(mass for _, mass in outcome) * max(0.0, -math.expm1(epsilon - math.fsum(loss for loss, _ in outcome)))
        for outcome in itertools.product(*each)
    )
    return finite + 1 - math.prod((1 - part.infinite) ** part.times for part in losses.parts)


@st.composite
def few_outcomes(draw: st.DrawFn) -> Losses:
    parts = []
    for _ in range(draw(st.integers(1, 2))):
        places = draw(st.lists(st.integers(-300, 900), min_size=2, max_size=3, unique=True))
        chances = np.array(draw(st.lists(st.floats(1e-6, 1.0), min_size=len(places), max_size=len(places))))
        infinite = draw(st.sampled_from([0.0, 1e-9]))
        masses = chances / chances.sum() * (1 - infinite)
        parts.append(Part(np.sort(np.array(places)), masses, infinite, draw(st.integers(1, 3))))
    return Losses(1e-3, tuple(parts))


@settings(max_examples=150)
@given(few_outcomes(), st.sampled_from([0.05, 1e-3, 1e-6]))
def test_epsilon_is_that_of_all_combinations(losses: Losses, delta: float) -> None:
    found = losses.epsilon(delta)
    assert exact_delta(losses, found) <= delta * (1 + 1e-9)
    if found > 0:
        assert exact_delta(losses, found - 1e-5) >= delta * (1 - 1e-6)


def test_losses_are_rounded_up_and_put_together() -> None:
    places, masses = rounded_up(np.array([0.31, -0.19, 0.4, 0.39]), np.array([0.25, 0.25, 0.0, 0.5]), 0.1)
    assert places.tolist() == [-1, 4]
    assert masses.tolist() == [0.25, 0.75]


def test_a_loss_without_limit_that_is_likelier_than_delta_costs_everything() -> None:
    part = Part(np.array([-1, 1]), np.array([0.5, 0.499]), 1e-3, 1)
    assert Losses(0.1, (part,)).epsilon(1e-4) == math.inf
    assert Losses(0.1, (part, part)).epsilon(1.9e-3) == math.inf
    assert Losses(0.1, (part, part)).epsilon(2.1e-3) < math.inf
    assert Losses(0.1, ()).epsilon(1e-9) == 0


@pytest.mark.parametrize(("total", "odds"), [(1, 2.0), (19, 0.1), (5_000, 0.02), (300, 3.0)])
def test_the_binomial_is_scipys(total: int, odds: float) -> None:
    theirs = binom.pmf(np.arange(total + 1), total, 1 / (1 + math.exp(odds)))
    likely = theirs > 1e-250
    assert _binomial(total, odds)[likely] == pytest.approx(theirs[likely], rel=1e-10)


def test_votes_compose_with_gaussian_noise_by_dp_accounting() -> None:
    votes, vector = SkellamShift(400.0, 10), GaussianVector(40.0, 3.0)
    both = epsilon_of((votes, vector), 1e-5)
    assert max(epsilon_of((votes,), 1e-5), epsilon_of((vector,), 1e-5)) < both
    assert both == pytest.approx(epsilon_of((vector, votes), 1e-5), rel=1e-9)
    almost = GaussianVector(20.0, math.sqrt(10) * (1 + 1e-9))  # what the votes nearly are
    assert both == pytest.approx(epsilon_of((almost, vector), 1e-5), rel=2e-3)


@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.1])
@pytest.mark.parametrize(
    ("epsilon", "times"),
    [(10.0, 60), (10.0, 74), (10.0, 75), (10.0, 99), (40.0, 19), (50.0, 30), (5.0, 190), (0.1, 19)],
)
def test_epsilon_is_never_too_low_however_large_losses_are(epsilon: float, times: int, delta: float) -> None:
    """Beyond a loss of 745 the float e^-loss is 0: delta of what is found, counted one outcome at a time, is enough."""
    found = epsilon_of((PureTests(epsilon, times),), delta)
    with mpmath.workdps(60):
        yes = 1 / (1 + mpmath.e ** -mpmath.mpf(epsilon))
        needed = mpmath.fsum(
            mpmath.binomial(times, no) * (1 - yes) ** no * yes ** (times - no) * -mpmath.expm1(found - lost)
            for no in range(times + 1)
            if (lost := (times - 2 * no) * mpmath.mpf(epsilon)) > found
        )
    assert needed <= delta
    assert found <= 1.001 * epsilon * times  # losses are rounded up to a grid
