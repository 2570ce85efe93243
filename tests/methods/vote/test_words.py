"""What a plan says of a vote's form, prior and records."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.methods.vote.harness import cost, plan

import hushtune as ht

GRID = ht.Space(x=ht.Float(0, 1), y=ht.Float(0, 1)).grid(x=6, y=6)
RECORDS = ht.Privacy(1.0, unit="record")


@pytest.mark.parametrize(
    ("method", "seal", "form"),
    [
        (
            ht.Vote(3),
            ht.Masked(),
            "sum is opened, and smoothed over the space (decode=smooth); 3 votes per ballot",
        ),
        (
            ht.Vote(1, decode="argmax"),
            ht.Masked(),
            "largest entry is taken (decode=argmax); 1 vote per ballot (k = 1)",
        ),
        (ht.Vote(ballot="soft"), ht.Masked(), "(decode=smooth); ballots of centred scores (ballot=soft)"),
        (ht.Vote(ballot="top"), ht.Quorum(), "only the winner is opened; 4 votes per ballot (k = 4)"),
        (ht.Vote(ballot="soft"), ht.Quorum(), "only the winner is opened; grades up to 3 (ballot=soft), width 0.5"),
    ],
    ids=["smooth", "argmax", "scores", "winner", "grades"],
)
def test_the_form_is_the_one_that_would_run(method: ht.Vote, seal: Any, form: str) -> None:
    found = cost(60, 40, privacy=ht.Privacy(1.0), method=method, seal=seal)
    lines = list(found.lines())
    assert form in lines[0]
    assert (found.bound is not None) == (found.method.decode == "argmax")
    assert any(line.startswith("Noise: ") for line in lines)


def test_of_very_many_candidates_a_sum_is_not_smoothed() -> None:
    assert "ranked as it is (decode=smooth, but of more than 1,000" in cost(30, 1_100, privacy=ht.Privacy(1.0)).form


def test_the_k_that_is_best_is_that_of_the_form_itself() -> None:
    text = "\n".join(plan(100, 100, privacy=ht.Privacy(0.25)).lines())
    assert "Other k, in the same form; here k = 3 does better than k = 15, with odds of 0." in text
    text = "\n".join(plan(100, 40, privacy=ht.Privacy(1.0)).lines())
    assert "Other k, in the same form; k = 5 is as good as any, as far as simulated votes tell:" in text
    assert "Theorem V.1" not in text  # it is about the largest entry


@pytest.mark.parametrize(
    ("method", "seal"),
    [(ht.Vote(), ht.Masked()), (ht.Vote(decode="argmax"), ht.Masked()), (ht.Vote(), ht.Quorum())],
    ids=["smooth", "argmax", "winner"],
)
def test_a_prior_is_weighed_and_simulated(method: ht.Vote, seal: Any) -> None:
    prior = ht.Prior.near({"x": 0.3, "y": 0.6}, voters=20)
    found = plan(30, GRID, privacy=ht.Privacy(0.8), method=replace(method, prior=prior), seal=seal)
    assert found.believed is not None
    assert found.believed.first > found.believed.without > found.believed.last
    assert found.believed.first > found.success
    text = "\n".join(found.lines())
    assert "Prior: it counts as 20 of 50 voters" in text
    assert ("the louder the noise is" in text) == (found.method.decode == "smooth")
    assert f"first {found.believed.first:.3f}" in text
    assert "without its prior" not in text
    bare: Any = plan(30, GRID, privacy=ht.Privacy(0.8), method=method, seal=seal)
    assert bare.success == pytest.approx(found.believed.without, abs=0.1)


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (ht.Vote(), "each client's rows are split into 11 parts, a voter each"),
        (ht.Vote(voters=4, rows=100), "a part has about 25 rows\n"),
        (ht.Vote(voters=20, rows=100), "a part has about 5 rows, which is FEW"),
        (ht.Vote(voters=20), "say how many a client has, such as --set rows=1000"),
        (ht.Vote(voters=1), "Records: each client is one voter, who sees all of its rows"),
    ],
)
def test_what_the_odds_of_records_assume(method: ht.Vote, words: str) -> None:
    text = "\n".join(cost(10, 30, privacy=RECORDS, method=method).lines())
    assert words in text
    assert ("bias, not noise, is the limit" in text) == (method.voters != 1)


def test_where_a_prior_is_the_limit_the_verdict_does_not_blame_the_noise() -> None:
    grid = ht.Space(x=ht.Float(0.0, 1.0)).grid(x=12)
    method = ht.Vote(prior=ht.Prior(list(range(12)), 30))
    found = plan(12, grid, privacy=ht.Privacy(10.0, 0), method=method, seal=ht.Quorum())
    assert "That is the prior, if it knows nothing: without it the chance is" in found.verdict
    assert "Give it fewer voters." in found.verdict
    assert "drowns" not in found.verdict
