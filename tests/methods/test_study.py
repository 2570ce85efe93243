from __future__ import annotations

from typing import Any

import pytest

import hushtune as ht
from hushtune.methods.study import Study
from hushtune.privacy.accounting import Budget
from hushtune.seals.registry import default_seal

SPACE = ht.Space(x=ht.Float(0.0, 1.0))
CANDIDATES = SPACE.grid(x=4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "vote"}, r"method must be a method such as Vote\(\), but got 'vote'"),
        ({"method": ht.Vote}, r"method must be a method such as Vote\(\)"),
        ({"privacy": 1.0}, "privacy must be a Privacy, but got 1.0"),
        ({"seal": "clear"}, "seal must be a Seal, but got 'clear'"),
        ({"search": 5}, "search must be a Search, but got 5"),
    ],
)
def test_a_wrong_class_is_refused_at_once(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ht.SettingError, match=message):
        Study(**{"candidates": CANDIDATES, "method": ht.Vote(1), **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"search": ht.Search.adaptive(trials=5)},
            r"method 'vote' does not take Search.adaptive\(\): leave `search` out",
        ),
        ({"method": ht.Vote(1, voters=3), "privacy": ht.Privacy(1.0)}, "voters=3 needs privacy with unit='record'"),
        ({"seal": ht.Curator()}, "seal 'curator' is for a server that adds noise"),
        ({"method": ht.Vote(5)}, "k=5, candidates=4"),
    ],
)
def test_what_does_not_go_together_is_refused_before_anybody_is_asked(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ht.SettingError, match=message):
        Study(**{"candidates": CANDIDATES, "method": ht.Vote(1), **changes}).settled(10)


def test_settling_fills_in_what_was_left_open_and_keeps_what_was_given() -> None:
    settled = Study(CANDIDATES, ht.Vote(1)).settled(10)
    assert settled.given == ht.Vote(1)
    assert settled.facts.seal == default_seal()
    assert (settled.facts.clients, settled.facts.privacy, settled.facts.whole) == (10, None, False)
    assert settled.facts.search == ht.Search()
    assert settled.bounds == settled.method.bounds(CANDIDATES)
    given = Study(CANDIDATES, ht.Vote(2), ht.Privacy(2.0), ht.Clear(), ht.Search(seed=4)).settled(3)
    assert (given.facts.seal, given.facts.search.seed, given.facts.privacy) == (ht.Clear(), 4, ht.Privacy(2.0))


def test_settling_again_gives_the_same() -> None:
    study = Study(CANDIDATES, ht.Vote(), ht.Privacy(2.0))
    assert study.settled(20) == study.settled(20)


def test_a_whole_space_is_listed_by_a_method_that_searches_it() -> None:
    settled = Study(SPACE, ht.Thompson(rounds=2), ht.Privacy(5.0)).settled(20)
    assert settled.facts.whole
    assert settled.facts.candidates.space == SPACE


def test_what_a_ledger_has_left_shortens_a_method_that_can_be_shortened() -> None:
    method = ht.Thompson(iterations=8)
    settled = Study(CANDIDATES, method, ht.Privacy(12.0), ht.Curator()).settled(40)
    less = settled.within(Budget(8.0, 1e-5))
    assert less.given == method
    assert less.facts.privacy == ht.Privacy(8.0)
    assert len(less.bounds) < len(settled.bounds)
    assert settled.within(Budget(99.0, 1e-3)) == settled  # enough is left
    assert Study(CANDIDATES, ht.Vote(1), ht.Privacy(2.0)).settled(9).within(Budget(1.0, 1e-5)).bounds  # as it was
