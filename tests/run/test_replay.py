"""A method decides again from what was opened: every opening is one that it asks for, and as its query says."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from tests.run.harness import CANDIDATES, QUERY, RUN

import hushtune as ht
from hushtune.methods.combine.tallies import ConfigSums
from hushtune.methods.propose_test.method import CandidateScores
from hushtune.run.replay import Replay
from hushtune.run.result import Opened
from hushtune.seals.forms import Form
from hushtune.seals.oracle import ANSWERS, NONE, Oracle

VOTES = Opened(QUERY.name, {"votes": [7, 2, 0, 1]}, 25.0, 9)
SCORES = CandidateScores(CANDIDATES, 0, (0.0, 1.0), 3, 1024)
TESTS = Opened(SCORES.name, {ANSWERS: [NONE, 2]}, 0.0, 9)
SUMS = ConfigSums(ht.Search(), CANDIDATES, (0.0, 1.0), 0.1, 4, "log", 1, False, 0.5, (0, 1))
NOT_THESE = "the result does not hold the openings that its method asks for"


def replay(*opened: Opened) -> Replay:
    return Replay(RUN, CANDIDATES, ht.Search(), 10, opened)


def test_a_sum_is_given_as_recorded_with_what_is_known_about_it() -> None:
    again = replay(VOTES, replace(VOTES, noise_variance=4.0, answered=8))
    assert again.sum(QUERY)["votes"].tolist() == [7, 2, 0, 1]
    assert (again.noise_variance(), again.answered()) == (25.0, 9)
    again.sum(QUERY)
    assert (again.noise_variance(), again.answered()) == (4.0, 8)
    assert again.queries == [QUERY, QUERY]
    assert (again.id, again.asked, again.candidates) == (RUN, 10, CANDIDATES)


def test_no_opening_is_given_twice_or_invented() -> None:
    again = replay(VOTES)
    again.sum(QUERY)
    with pytest.raises(ht.SettingError, match=NOT_THESE):
        again.sum(QUERY)
    with pytest.raises(ht.SettingError, match=NOT_THESE):
        replay().gather(QUERY)


@pytest.mark.parametrize(
    "opened",
    [
        replace(VOTES, query="another"),
        replace(VOTES, own={"a": {"votes": [1, 0, 0, 0]}}),
        replace(VOTES, form=Form("votes").to_json()),
    ],
)
def test_another_kind_of_opening_is_not_taken_for_a_sum(opened: Opened) -> None:
    with pytest.raises(ht.SettingError, match=NOT_THESE):
        replay(opened).sum(QUERY)


@pytest.mark.parametrize(
    "blocks",
    [
        {},
        {"votes": [1, 2, 3]},
        {"votes": [1, 2, 3, 4, 5]},
        {"votes": [1, 2, 3, 4.0]},
        {"votes": [1, 2, 3, "4"]},
        {"votes": [[1, 2, 3, 4]]},
        {"votes": [True, False, True, True]},
        {"votes": [1, 2, 3, None]},
        {"votes": [1, 2, 3, 4], "more": [1]},
        {"other": [1, 2, 3, 4]},
    ],
)
def test_an_opening_holds_the_integers_of_its_query(blocks: dict[str, Any]) -> None:
    message = "an opening does not have the integers that its query asks for"
    with pytest.raises(ht.SettingError, match=message):
        replay(replace(VOTES, blocks=blocks)).sum(QUERY)
    with pytest.raises(ht.SettingError, match=message):
        replay(replace(VOTES, blocks={}, own={"a": blocks})).gather(QUERY)


def test_every_clients_own_answer_comes_back_by_name() -> None:
    own = {"a": {"votes": [1, 0, 0, 0]}, "b": {"votes": [0, 0, 0, 1]}}
    again = replay(replace(VOTES, blocks={}, own=own)).gather(QUERY)
    assert {client: blocks["votes"].tolist() for client, blocks in again.items()} == {
        "a": [1, 0, 0, 0],
        "b": [0, 0, 0, 1],
    }
    with pytest.raises(ht.SettingError, match=NOT_THESE):
        replay(VOTES).gather(QUERY)


# ---- forms -------------------------------------------------------------------------------------------

MASK = Form("votes", at_least=2)


def test_a_form_follows_from_the_sum_where_the_sum_was_opened() -> None:
    assert replay(VOTES).unopened(QUERY)["votes"].at_least(2).open().tolist() == [1, 1, 0, 0]


def test_a_form_that_was_computed_under_encryption_is_given_as_recorded() -> None:
    opened = Opened(
        SUMS.name, {"sums": [0.5, 0.75, 1.0, 0.0]}, 0.0, 9, form=Form("sums", over="counts", least=1).to_json()
    )
    total = replay(opened).unopened(SUMS)
    assert total["sums"].over(total["counts"], least=1).open().tolist() == [0.5, 0.75, 1.0, 0.0]


@pytest.mark.parametrize(
    "changes",
    [
        {"form": Form("votes", at_least=3).to_json()},
        {"form": Form("votes").to_json()},
        {"form": {}},
        {"blocks": {"votes": [1, 1, 0]}},
        {"blocks": {"votes": [1, 1, 0, "0"]}},
        {"blocks": {}},
    ],
)
def test_a_recorded_form_is_the_one_that_is_asked_for(changes: dict[str, Any]) -> None:
    opened = Opened(QUERY.name, {"votes": [1, 1, 0, 0]}, 0.0, 9, form=MASK.to_json())
    assert replay(opened).unopened(QUERY)["votes"].at_least(2).open().tolist() == [1, 1, 0, 0]
    with pytest.raises(ht.SettingError, match="not the form of its sum that its method asks for"):
        replay(replace(opened, **changes)).unopened(QUERY)["votes"].at_least(2).open()


# ---- answers -----------------------------------------------------------------------------------------


def choose(oracle: Oracle) -> int:
    place = oracle.above_threshold(Fraction(1, 2), [0, 1, 2, 3])
    return oracle.noisy_max("exponential") if place is None else place


def test_answers_are_taken_in_their_order() -> None:
    assert replay(TESTS).consult(SCORES, choose) == 2


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ({ANSWERS: [2, 2]}, "1 answers that its method does not ask for"),
        ({ANSWERS: [NONE]}, NOT_THESE),
        ({ANSWERS: [NONE, NONE]}, "does not have the answers"),
        ({ANSWERS: [NONE, 4]}, "does not have the answers"),
        ({ANSWERS: [NONE, True]}, "does not have the answers"),
        ({ANSWERS: [NONE, 2], "scores": [1]}, "more, or less, than answers to questions"),
        ({}, "more, or less, than answers to questions"),
    ],
)
def test_other_answers_are_refused(blocks: dict[str, Any], message: str) -> None:
    with pytest.raises(ht.SettingError, match=message):
        replay(replace(TESTS, blocks=blocks)).consult(SCORES, choose)


def test_what_a_method_says_is_kept_to_be_compared() -> None:
    again = replay(VOTES)
    again.note("margin", 0.5)
    again.leave_out("a", "no finite loss")
    assert (again.notes, again.left_out) == ({"margin": 0.5}, {"a": "no finite loss"})
