"""Noise is enough and not much more than enough, under the rule that is stated."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hushtune as ht
from hushtune.core.words import as_set, up
from hushtune.privacy.accounting import Budget, Neighbours, Renyi, Rule, Sums, best_order, epsilon_of, least_scale
from hushtune.privacy.bounds import AtMost, Ball, Bound, KHot, Scores
from hushtune.privacy.calibration import Training, calibrate, events_of, left_in, noise_for, rule_of
from hushtune.privacy.charges import charge_of
from hushtune.privacy.events.answers import PureTests
from hushtune.privacy.events.sums import Event, GaussianVector, SkellamShift
from hushtune.privacy.events.training import TrainingSteps
from hushtune.privacy.noise import geometric
from hushtune.privacy.noise.base import Noise

ONE = ht.Privacy(1.0)
VOTE = KHot(1, 6)
PARTIES, CURATOR, NODES = Noise(0.0), Noise(0.0, "curator"), Noise(0.0, "nodes", 5)


def cost(bounds: tuple[Bound, ...], privacy: ht.Privacy, noise: Noise, rule: Rule) -> float:
    return rule.spent([(events_of(bounds, privacy, noise), privacy.delta)], privacy.delta).epsilon


@pytest.mark.parametrize("rule", [Sums(), Renyi(best_order(Budget(1.0, 1e-5)))], ids=["sums", "renyi"])
@pytest.mark.parametrize(
    ("bounds", "by"),
    [
        ((VOTE,), PARTIES),
        ((VOTE,), CURATOR),
        ((VOTE,), NODES),
        ((VOTE, Ball(9, 4)), PARTIES),
        ((VOTE, Ball(9, 4)), NODES),
        ((Ball(9, 4),) * 3, CURATOR),
        ((Scores(4, 2, 10, 10),), CURATOR),
        ((Scores(4, 2, 10, 10),), NODES),
        ((KHot(2, 6, 1),), NODES),
        ((AtMost(2, 6, 3),), CURATOR),
    ],
)
def test_the_noise_is_the_least_that_keeps_to_epsilon(bounds: tuple[Bound, ...], by: Noise, rule: Rule) -> None:
    noise = calibrate(bounds, ONE, rule, by)
    assert replace(noise, scale=0.0) == by
    assert 1 - 2e-5 <= cost(bounds, ONE, noise, rule) <= 1
    assert cost(bounds, ONE, replace(noise, scale=noise.scale * 0.999), rule) > 1


def test_honest_nodes_carry_as_much_noise_as_honest_parties_do() -> None:
    for bounds in ((VOTE,), (VOTE, Ball(9, 4))):
        by_nodes = calibrate(bounds, ONE, Sums(), NODES)
        assert by_nodes.scale == calibrate(bounds, ONE, Sums()).scale
        assert by_nodes.node_variance() * 3 == Fraction(by_nodes.variance)  # 3 of 5
        assert events_of(bounds, ONE, by_nodes) == events_of(bounds, ONE, Noise(by_nodes.scale))


def test_the_scale_of_what_says_who_draws_the_noise_does_not_matter() -> None:
    assert calibrate((VOTE,), ONE, Sums(), Noise(7.0, "nodes", 5)) == calibrate((VOTE,), ONE, Sums(), NODES)


def test_half_the_noise_is_never_within_epsilon() -> None:
    noise = calibrate((VOTE,), ONE, Sums())
    assert cost((VOTE,), ONE, Noise(noise.scale / 2), Sums()) > 1.5


@pytest.mark.parametrize("changes", [{"epsilon": 2.0}, {"delta": 1e-3}, {"neighbours": "zero-out"}])
def test_a_weaker_guarantee_takes_less_noise(changes: dict[str, Any]) -> None:
    weaker = ht.Privacy(**{"epsilon": 1.0, **changes})
    assert calibrate((VOTE,), weaker, Sums()).scale < calibrate((VOTE,), ONE, Sums()).scale


def test_more_openings_take_more_noise_on_each() -> None:
    scales = [calibrate((VOTE,) * times, ONE, Sums()).scale for times in (1, 2, 4)]
    assert scales == sorted(scales)
    assert scales[2] / scales[0] == pytest.approx(2, rel=0.05)  # nearly Gaussian: squares add up


def test_where_all_ballots_are_the_same_nothing_is_hidden_and_no_noise_is_added() -> None:
    for by in (PARTIES, CURATOR, NODES):
        assert calibrate((KHot(6, 6),), ONE, Sums(), by) == by


def test_noise_that_cannot_be_drawn_is_refused_with_what_to_do() -> None:
    with pytest.raises(ht.SettingError) as caught:
        calibrate((Ball(10_000, 4),), ht.Privacy(0.001), Sums())
    assert str(caught.value).startswith("epsilon=0.001 with delta=1e-05 needs noise of scale ")
    assert str(caught.value).endswith("more than can be drawn; choose a larger epsilon or delta")


def test_noise_that_nodes_cannot_draw_is_refused() -> None:
    """A curator's Laplace noise may be much louder than geometric noise in shares."""
    scores = Scores(4, 1, 1_024, 1_024)
    assert calibrate((scores,), ht.Privacy(0.001), Sums(), CURATOR).scale > 2**20
    with pytest.raises(ht.SettingError, match="more than can be drawn"):
        calibrate((scores,), ht.Privacy(0.001), Sums(), NODES)


def test_the_winner_takes_noise_that_does_not_grow_with_the_votes_of_a_ballot() -> None:
    scales = {calibrate((KHot(k, 100, 1),), ONE, Sums(), NODES).scale for k in (1, 5, 50)}
    assert len(scales) == 1
    assert scales.pop() == pytest.approx(2, rel=1e-4)
    left_out = ht.Privacy(1.0, neighbours="zero-out")
    assert calibrate((KHot(5, 100, 1),), left_out, Sums(), NODES).scale == pytest.approx(1, rel=1e-4)
    assert calibrate((KHot(6, 6, 1), AtMost(1, 1, 1)), ONE, Sums(), NODES) == NODES  # which opens nothing


def test_there_is_one_event_for_each_opening_in_their_order() -> None:
    assert events_of((VOTE, KHot(2, 6)), ONE, Noise(3.0)) == (SkellamShift(9.0, 2), SkellamShift(9.0, 4))
    zero_out = ht.Privacy(1.0, neighbours="zero-out")
    assert events_of((VOTE,), zero_out, Noise(3.0)) == (SkellamShift(9.0, 1),)
    gaussian, tests = events_of((VOTE, Scores(4, 2, 10, 30)), ONE, Noise(6.0, "curator"))
    assert isinstance(gaussian, GaussianVector)
    assert tests == PureTests(10.0, 2)
    assert events_of((), ONE, Noise(3.0)) == ()


def test_a_record_moves_its_part_as_a_replacement_does_whatever_the_relation() -> None:
    for neighbours in ("replace-one", "add-remove"):
        assert events_of((VOTE,), ht.Privacy(1.0, unit="record", neighbours=neighbours), Noise(3.0)) == (  # type: ignore[arg-type]
            SkellamShift(9.0, 2),
        )


# ---- delta 0 -----------------------------------------------------------------------------------------

ANSWERS: list[tuple[Bound, ...]] = [
    (KHot(5, 100, 1),),
    (AtMost(5, 100, 1),),
    (Scores(4, 2, 10, 10),),
    (Scores(4, 1, 15, 15, only_max=True),),
    (KHot(5, 100, 3), Scores(4, 7, 10, 10)),
    (KHot(5, 100, 1),) * 10,
]


@pytest.mark.parametrize("by", [CURATOR, Noise(0.0, "nodes", 3)], ids=["curator", "3 nodes"])
@pytest.mark.parametrize("bounds", ANSWERS)
@settings(max_examples=15)
@given(st.floats(0.01, 10.0), st.sampled_from(["replace-one", "zero-out"]))
def test_at_delta_0_no_smaller_scale_keeps_to_epsilon(
    by: Noise, bounds: tuple[Bound, ...], epsilon: float, relation: Neighbours
) -> None:
    """To the last digit: the float below costs more, and no sum is rounded down to epsilon."""
    privacy = ht.Privacy(epsilon, 0, neighbours=relation)
    noise = calibrate.__wrapped__(bounds, privacy, Sums(), by)
    assert replace(noise, scale=0.0) == by
    assert epsilon * (1 - 2**-51) <= cost(bounds, privacy, noise, Sums()) <= epsilon
    assert cost(bounds, privacy, replace(noise, scale=math.nextafter(noise.scale, 0)), Sums()) > epsilon
    events = events_of(bounds, privacy, noise)
    exact = sum((Fraction(repr(e.epsilon)) * e.times for e in events if isinstance(e, PureTests)), Fraction(0))
    assert exact <= Fraction(repr(epsilon))


@pytest.mark.parametrize("epsilon", [0.05, 0.1, 0.25, 0.3, 0.7, 1.0, 3.3, 7.0])
def test_at_delta_0_the_winner_costs_epsilon_as_its_text_says(epsilon: float) -> None:
    privacy = ht.Privacy(epsilon, 0)
    for bound, by in itertools.product((KHot(5, 100, 1), Scores(4, 1, 15, 15)), (CURATOR, NODES)):
        noise = calibrate((bound,), privacy, Sums(), by)
        found = cost((bound,), privacy, noise, Sums())
        assert math.nextafter(epsilon, 0) <= found <= epsilon  # two scales in a row may lie to either side of it
        assert up(found) == as_set(epsilon)
        reach = 2 if isinstance(bound, KHot) else 30
        if by == NODES:
            assert geometric.rate_of(noise.scale) * reach <= Fraction(repr(epsilon))  # as it is drawn


def test_at_delta_0_what_opens_nothing_takes_no_noise() -> None:
    for by in (PARTIES, CURATOR, NODES):
        assert calibrate((KHot(6, 6),), ht.Privacy(1.0, 0), Sums(), by) == by
    assert calibrate((KHot(6, 6, 1), AtMost(1, 1, 1)), ht.Privacy(1.0, 0), Sums(), NODES) == NODES


def test_at_delta_0_noise_that_cannot_be_drawn_is_refused_to_the_last_digit() -> None:
    scores = Scores(4, 1, 2**9, 2**9)  # of scale 2^10 / epsilon, and nodes draw up to 2^19
    assert calibrate((scores,), ht.Privacy(2.0**-9, 0), Sums(), NODES).scale == 2**19
    with pytest.raises(
        ht.SettingError, match=r"epsilon=0\.00195312 with delta=0 needs noise of scale 5\.24e\+05 on such"
    ):
        calibrate((scores,), ht.Privacy(0.00195312, 0), Sums(), NODES)


def test_a_scale_is_sought_above_a_start_that_is_too_small_and_not_for_ever() -> None:
    assert least_scale(lambda scale: 2 / scale, 0.5, 0.1) == 4.0
    with pytest.raises(ht.SettingError, match=r"no noise scale was found for epsilon=0\.5: choose a larger"):
        least_scale(lambda scale: 1.0, 0.5, 1.0)


# ---- the ledger's rule -------------------------------------------------------------------------------


def test_the_rule_is_the_ledgers_unless_it_is_made_for_much_larger_sums(tmp_path: Path) -> None:
    large = ht.Ledger.new(tmp_path / "large.db", 50.0, 1e-4, rule="renyi")
    own = ht.Ledger.new(tmp_path / "own.db", 1.0, 1e-5, rule="renyi")
    assert rule_of(own, ONE) == own.terms().rule
    assert isinstance(own.terms().rule, Renyi)
    assert not large.terms().rule.states(Budget(0.1, 1e-5))
    assert rule_of(large, ht.Privacy(0.1)) == Sums()
    assert rule_of(large, ht.Privacy(50.0, 0)) == Sums()  # of which no Rényi divergence says anything
    assert rule_of(own, None) == rule_of(None, ONE) == rule_of(ht.Ledger(tmp_path / "none.db"), ONE) == Sums()
    assert not (tmp_path / "none.db").exists()


def test_what_is_left_is_none_without_a_limit(tmp_path: Path) -> None:
    ledger = ht.Ledger(tmp_path / "ledger.db")
    assert left_in(None) is left_in(ledger) is None
    ledger.ensure(None)
    assert left_in(ledger) is None
    limited = ht.Ledger.new(tmp_path / "limited.db", 3.0, 1e-4)
    assert left_in(limited) == Budget(3.0, 1e-4)
    limited.reserve(charge_of("r", "run", (SkellamShift(400.0, 2),), ht.Privacy(1.0, 1e-6)))
    left = left_in(limited)
    assert left is not None
    assert left.epsilon == pytest.approx(3.0 - epsilon_of((SkellamShift(400.0, 2),), 1e-6))


# ---- training that is charged with a run -------------------------------------------------------------


def test_a_run_and_its_training_together_cost_epsilon() -> None:
    training, rule = Training(rate=0.05, steps=40, share=0.25), Renyi(20.0)
    own = training.before(ONE)
    assert own == ht.Privacy(0.25)
    events = events_of((VOTE,), ONE, calibrate((VOTE,), own, Sums()))
    steps = training.event(events, ONE, rule)

    def spent(*those: Event) -> float:
        return rule.spent([(those, ONE.delta)], ONE.delta).epsilon

    assert (steps.rate, steps.steps) == (0.05, 40)
    assert 1 - 2e-5 <= spent(*events, steps) <= 1
    assert spent(*events, TrainingSteps(steps.multiplier * 0.999, 0.05, 40)) > 1
    assert spent(steps) > 0.9  # what the run does not need is not wasted


def test_training_that_no_noise_makes_private_enough_is_refused() -> None:
    with pytest.raises(ht.SettingError) as caught:
        noise_for(lambda multiplier: math.inf, ONE, 0.5, 10)
    assert str(caught.value) == (
        "epsilon=1 with delta=1e-05 is too little for this method: not even noise of 10000 times the clipping norm is "
        "enough; choose a larger epsilon, or train less often"
    )
