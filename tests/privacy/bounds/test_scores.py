"""What tests of scores cost: by the range of what one unit can change, if only noisy maxima are asked for."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from tests.privacy.bounds.test_ballots import QUIET, WHO, chances, worst_loss

import hushtune as ht
from hushtune.privacy.bounds import Scores
from hushtune.privacy.decimals import named
from hushtune.privacy.events.answers import PureTests
from hushtune.privacy.noise.base import Noise

NODES = Noise(400.0, "nodes", 3)


def cost(bound: Scores, noise: Noise, change: Any) -> float:
    event = bound.event(noise, change)
    assert isinstance(event, PureTests)
    assert event.times == bound.tests
    return event.epsilon


@pytest.mark.parametrize("noise", [Noise(400.0, "curator"), NODES], ids=["curator", "nodes"])
def test_a_maximum_costs_half_if_all_changes_have_one_sign(noise: Noise) -> None:
    for change in ("replace-one", "zero-out"):
        assert cost(Scores(3, 5, 100, 100), noise, change) == 0.5  # thresholds do not move with the scores
    only = Scores(3, 5, 100, 100, only_max=True)
    assert cost(only, noise, "replace-one") == 0.5
    assert cost(only, noise, "zero-out") == 0.25


def test_a_row_that_all_units_are_scored_on_changes_scores_either_way() -> None:
    shared = Scores(3, 5, 100, 101, only_max=True)
    assert cost(shared, NODES, "zero-out") == cost(shared, NODES, "replace-one") == 0.505


def test_a_single_candidate_is_the_largest_whatever_the_scores() -> None:
    for change in ("replace-one", "zero-out"):
        assert cost(Scores(1, 5, 100, 100, only_max=True), Noise(0.0, "curator"), change) == 0
        assert cost(Scores(1, 5, 100, 100), NODES, change) == 0.5  # whether it is above a threshold says something


@pytest.mark.parametrize("change", ["replace-one", "zero-out"])
@pytest.mark.parametrize("mechanism", ["geometric", "permute-and-flip", "exponential"])
def test_no_pair_of_neighbours_loses_more_than_the_event_says_and_one_loses_that(mechanism: str, change: Any) -> None:
    """All sums of 0 to 2 of the others, all scores of one unit from 0 to 2, under three mechanisms."""
    bound = Scores(2, 1, 2, 2, only_max=True)
    epsilon = float(named(cost(bound, QUIET, change)))
    found = worst_loss(list(product(range(3), repeat=2)), change, lambda sums: chances(mechanism, sums))
    assert found <= epsilon * (1 + 1e-9)
    assert found >= (0.7 if mechanism == "exponential" else 0.98) * epsilon


@pytest.mark.parametrize("change", ["replace-one", "zero-out"])
def test_nobody_is_asked_where_parties_draw_the_noise(change: Any) -> None:
    with pytest.raises(ht.SettingError, match="use seal 'curator' or 'quorum'"):
        Scores(3, 5, 100, 100).event(WHO["parties"], change)


@pytest.mark.parametrize("only_max", [0, 1, None, "yes"])
def test_what_is_asked_for_is_yes_or_no(only_max: Any) -> None:
    with pytest.raises(ht.SettingError, match="only_max must be a bool"):
        Scores(3, 5, 100, 100, only_max)
