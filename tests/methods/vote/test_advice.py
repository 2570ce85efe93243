"""Which form of a vote fits."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.methods.vote.harness import cost, plan

import hushtune as ht
from hushtune.methods.vote.advice import GRID


def test_the_form_that_fits_stands_first_and_what_the_other_needs_is_found() -> None:
    found = plan(100, 60, privacy=ht.Privacy(0.25), method=ht.Vote(ballot="top"))
    told = re.fullmatch(
        r"With 100 clients at epsilon 0\.25: seal 'quorum' fits \((?:more than )?9\d%; 90% from epsilon (\S+) on\); "
        r"for 90% seal 'masked' needs epsilon (\S+)\.",
        found.advice,
    )
    assert told is not None, found.advice
    least, needed = float(told[1]), float(told[2])
    assert least <= 0.25 < needed
    assert {least, needed} <= set(GRID)
    assert plan(100, 60, privacy=ht.Privacy(needed)).success > 0.85
    assert plan(100, 60, privacy=ht.Privacy(GRID[GRID.index(needed) - 2])).success < 0.9
    assert list(found.head()) == [found.verdict, found.advice]


def test_a_winner_is_advised_the_same_and_its_sum_has_a_delta() -> None:
    found = plan(100, 60, privacy=ht.Privacy(0.25, 0), seal=ht.Quorum(), method=ht.Vote(ballot="top"))
    assert found.advice.startswith("With 100 clients at epsilon 0.25: seal 'quorum' fits (")
    assert "seal 'masked' with delta 1e-05 needs epsilon " in found.advice


def test_both_may_fit_and_so_may_none() -> None:
    both = plan(400, 30, privacy=ht.Privacy(2.0))
    assert re.match(r"With 400 clients at epsilon 2 both fit: seal 'masked' \(.*\) and seal 'quorum' \(", both.advice)
    few = plan(12, 30, privacy=ht.Privacy(0.5))
    assert re.match(r"With 12 clients at epsilon 0\.5 nothing fits: for odds of 90% seal 'quorum' needs", few.advice)
    hopeless = plan(4, 30, privacy=ht.Privacy(0.1), assume={"overlap": 3.0})
    assert hopeless.advice == (
        "With 4 clients at epsilon 0.1 nothing fits: with seal 'masked' or seal 'quorum' not even epsilon 10 gives "
        "odds of 90%."
    )


@pytest.mark.parametrize("opens", ["sum", "winner"])
def test_a_curator_can_have_both(opens: Any) -> None:
    found = cost(60, 30, privacy=ht.Privacy(0.3), method=ht.Vote(opens=opens), seal=ht.Curator())
    assert "opens=winner" in found.advice
    assert "opens=sum" in found.advice


def test_a_form_that_would_be_refused_is_none() -> None:
    prior = ht.Prior([float(x) for x in range(20)])
    grid = ht.Space(x=ht.Float(0, 1)).grid(x=20)
    found = cost(60, grid, privacy=ht.Privacy(1.0, 0), method=ht.Vote(ballot="soft", prior=prior), seal=ht.Quorum())
    assert "seal 'masked'" in found.advice  # of votes: scores in a sum take no prior
    records = cost(5, 20, privacy=ht.Privacy(1.0, unit="record"), method=ht.Vote(voters=20))
    assert records.advice.startswith("With 5 clients of 20 voters each at epsilon 1")
