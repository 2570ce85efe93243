"""Simulated votes: of which only the winner is opened, with a prior, of scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hushtune as ht
from hushtune.core.randomness import SimulatedRandomness
from hushtune.methods.plan import CostPlan
from hushtune.methods.vote.odds import Agreement, counts, soft_totals, totals
from hushtune.methods.vote.plan import VotePlan
from hushtune.privacy.bounds import KHot
from hushtune.privacy.noise.base import Noise

PURE = ht.Privacy(0.25, 0)


def plan(*arguments: Any, method: ht.Vote = ht.Vote(ballot="top", opens="winner"), **settings: Any) -> VotePlan:  # noqa: B008
    found = ht.plan(*arguments, method=method, **{"privacy": PURE, "observer": ht.Silent(), **settings})
    assert isinstance(found, VotePlan)
    return found


def test_noise_and_cost_are_the_runs_own_whatever_k_is() -> None:
    found = plan(50, 40)
    assert (found.seal.name, found.k, found.loudest, found.bound) == ("curator", 12, None, None)
    assert found.scale == pytest.approx(8)
    assert (found.charge["epsilon"], found.charge["delta"]) == (0.25, 0)
    assert {odds.sigma for odds in found.by_size} == {found.sigma}
    assert plan(50, 40, method=ht.Vote(7, opens="winner")).sigma == found.sigma


def test_more_clients_and_more_epsilon_help_and_so_does_the_winner_alone() -> None:
    found = plan(20, 40, privacy=ht.Privacy(0.5))
    odds = {other.what: other.success for other in found.instead}
    assert odds["100 clients, k = 4"] > odds["40 clients, k = 8"] > found.success > 2 * found.guess
    assert odds["epsilon 1, k = 8"] > found.success
    assert next(chance for what, chance in odds.items() if "record" in what) > 0.95
    assert odds["opens=sum, k = 6"] < found.success


def test_with_delta_0_no_sum_is_offered() -> None:
    assert not any("sum" in other.what for other in plan(20, 40).instead)


def test_records_are_voters() -> None:
    few = plan(5, 40, privacy=ht.Privacy(0.5, 0, "record"), method=ht.Vote(voters=20, ballot="top", opens="winner"))
    assert few.success == pytest.approx(plan(100, 40, privacy=ht.Privacy(0.5, 0)).success, abs=0.03)
    assert [other.what for other in few.instead][-2] == "unit 'client', 1 voter per client, k = 12"


@pytest.mark.statistical
def test_odds_are_those_of_the_real_mechanism() -> None:
    """2,000 votes through the curator's own coins; false alarm below 1e-6 (five deviations and the plan's own)."""
    found = plan(15, 20, privacy=ht.Privacy(1.0, 0), method=ht.Vote(2, opens="winner"), repetitions=1_000)
    votes = counts(15, 20, [2], Agreement(1), 2_000, np.random.default_rng(9))[2]
    rng, hits = np.random.default_rng(10), 0
    noise, source = Noise(found.scale, "curator"), SimulatedRandomness(1, "odds")
    for row in votes:
        order = rng.permutation(20)
        place = ht.Curator().oracle(row[order], KHot(2, 20, 1), 15, noise, source).noisy_max()
        hits += int(order[place] == 0)
    assert 0.2 < found.success < 0.95
    assert hits / 2_000 == pytest.approx(found.success, abs=6.5 * (0.25 / 2_000 + 0.25 / 1_000) ** 0.5)


def test_where_every_ballot_is_the_same_there_is_only_guessing() -> None:
    found = plan(20, 10, method=ht.Vote(10, opens="winner"))
    assert (found.scale, found.sigma) == (0.0, 0.0)
    assert found.success == pytest.approx(found.guess, abs=0.1)


def test_lines_say_it_all(capsys: pytest.CaptureFixture[str]) -> None:
    text = "\n".join(plan(20, 40, assume={"good": 3, "overlap": 0.4}).lines())
    assert "Form: only the winner is opened; 12 votes per ballot (k = 12)\n" in text
    assert "Noise: coins of scale 8 on each candidate's score (permute-and-flip), as loud as a standard" in text
    assert "with 3 good of 40 candidates" in text
    assert "  k = 12       noise     8.00   odds " in text


def test_of_approvals_only_the_cost_is_known() -> None:
    found = ht.plan(30, 20, privacy=PURE, method=ht.Vote(ballot="approval", opens="winner"), observer=ht.Silent())
    assert isinstance(found, CostPlan)
    assert found.charge["epsilon"] == 0.25
    assert found.scale == pytest.approx(8)


def test_grades_have_odds_too() -> None:
    found = plan(60, 40, method=ht.Vote(ballot="soft", opens="winner"), privacy=ht.Privacy(0.5, 0))
    assert (found.k, found.form) == (None, "only the winner is opened; grades up to 3 (ballot=soft), width 1")
    assert found.scale == pytest.approx(12)  # of grades from 0 to 3
    assert found.sigma == pytest.approx(4)  # in best grades
    odds = {one.what: one.success for one in found.by_size}
    assert list(odds) == ["width = 0.1", "width = 0.25", "width = 0.5", "width = 1"]
    assert odds["width = 0.1"] < odds["width = 1"] == found.success
    instead = {one.what: one.success for one in found.instead}
    assert instead["300 clients"] > found.success > 2 * found.guess
    text = "\n".join(found.lines())
    assert "Form: only the winner is opened; grades up to 3 (ballot=soft), width 1\n" in text
    assert "as loud as a standard deviation of 4.00 best grades, whatever the width is" in text


@pytest.mark.statistical
def test_very_many_grades_are_drawn_from_a_normal_distribution_with_the_same_odds() -> None:
    """2,000 sums each way; false alarm below 1e-6 (five deviations)."""
    agreement, settings = Agreement(3, 1.0), (400, 30, [0.25, 1.0], 3)
    exact = totals(*settings, agreement, 2_000, np.random.default_rng(0))
    drawn = totals(*settings, agreement, 2_000, np.random.default_rng(1), most=1)
    for width in (0.25, 1.0):
        for part in (slice(0, 3), slice(3, 30)):
            one, other = exact[width][:, part], drawn[width][:, part]
            off = one.std() * 5 * (2 / one.size + 1 / 5_000 * 400 / one.shape[1]) ** 0.5  # a pool of 5,000 ballots
            assert one.mean() == pytest.approx(other.mean(), abs=off)
            assert one.std() == pytest.approx(other.std(), rel=0.1)
        assert np.corrcoef(exact[width].T)[0, 1] == pytest.approx(np.corrcoef(drawn[width].T)[0, 1], abs=0.15)


def test_many_candidates_are_no_trouble() -> None:
    assert plan(30, 500, repetitions=20, privacy=ht.Privacy(1.0, 0)).success >= 0


def test_more_good_candidates_than_there_are_are_refused() -> None:
    with pytest.raises(ht.SettingError, match="good"):
        plan(20, 10, assume={"good": 11})


def test_scores_in_a_sum_have_odds() -> None:
    found = plan(60, 40, method=ht.Vote(ballot="soft"), privacy=ht.Privacy(2.0))
    assert (found.k, found.by_size, found.best_k) == (None, (), None)
    assert found.sigma > 50  # in steps of the scores
    instead = {one.what: one.success for one in found.instead}
    assert instead["300 clients"] >= instead["120 clients"] > found.success > 2 * found.guess


@pytest.mark.statistical
def test_very_many_scores_are_drawn_from_a_normal_distribution_with_the_same_moments() -> None:
    """2,000 sums each way; false alarm below 1e-6 (six deviations of samples and pool)."""
    agreement = Agreement(3, 1.0)
    exact = soft_totals(400, 30, 55, agreement, 2_000, np.random.default_rng(0))
    drawn = soft_totals(400, 30, 55, agreement, 2_000, np.random.default_rng(1), most=1)
    for part in (slice(0, 3), slice(3, 30)):
        one, other = exact[:, part], drawn[:, part]
        off = one.std() * 6 * (2 / one.size + 1 / 5_000 * 400 / one.shape[1]) ** 0.5
        assert one.mean() == pytest.approx(other.mean(), abs=off)
        assert one.std() == pytest.approx(other.std(), rel=0.1)
