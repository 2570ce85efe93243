from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import hushtune as ht
from experiments.dp_hype.simulation import success as drawn_success
from hushtune.methods.vote import odds
from hushtune.methods.vote.ballots import SoftVotes
from hushtune.methods.vote.odds import Agreement, bound, counts, loudest, skellam_cdf, success


def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def test_counts_are_sums_of_k_hot_ballots_with_the_good_ones_ahead() -> None:
    found = counts(40, 12, [1, 3, 12], Agreement(2, 0.5), 50, rng())
    for k, votes in found.items():
        assert votes.shape == (50, 12)
        assert (votes.sum(axis=1) == 40 * k).all()
        assert votes.min() >= 0
        assert votes.max() <= 40
    assert found[1][:, :2].mean() > 5 * found[1][:, 2:].mean()
    assert (found[12] == 40).all()


def test_without_overlap_all_voters_agree() -> None:
    found = counts(10, 8, [3], Agreement(3, 0.0), 20, rng())[3]
    assert (found[:, :3] == 10).all()
    assert (found[:, 3:] == 0).all()


@pytest.mark.statistical
def test_the_normal_approximation_has_the_moments_of_the_simulation() -> None:
    """Means within 6 standard errors (< 1e-8) of both samples and of the pool; spreads within 15%."""
    exact = counts(400, 20, [4], Agreement(3, 0.8), 2_000, rng())[4]
    drawn = counts(400, 20, [4], Agreement(3, 0.8), 2_000, rng(), most=0)[4]
    for group in (slice(0, 3), slice(3, 20)):
        error = exact[:, group].std() * (1 / np.sqrt(2_000) + np.sqrt(400 / odds._POOL))
        assert abs(exact[:, group].mean() - drawn[:, group].mean()) < 6 * error
        assert drawn[:, group].std() == pytest.approx(exact[:, group].std(), rel=0.15)
    assert np.cov(drawn[:, 0], drawn[:, 10])[0, 1] < 0  # votes for one are not votes for another


def test_the_noise_is_skellam() -> None:
    from scipy.stats import skellam

    for variance in (0.3, 30.0, 20_000.0):
        far, found = skellam_cdf(variance)
        expected = skellam.cdf(np.arange(-far, far + 1), variance / 2, variance / 2)
        assert np.abs(found - expected).max() < 1e-12


def test_the_loudest_noise_is_the_mean_maximum() -> None:
    generator = rng()
    drawn = (generator.poisson(25.0, (4_000, 30)) - generator.poisson(25.0, (4_000, 30))).max(axis=1)
    assert loudest(50.0, 30) == pytest.approx(drawn.mean(), abs=6 * drawn.std() / np.sqrt(4_000))
    assert loudest(0.0, 30) == 0.0


def test_success_without_noise_is_certain_and_with_much_noise_is_guessing() -> None:
    found = counts(50, 10, [2], Agreement(2, 0.1), 400, rng())[2]
    assert success(found, 2, 0.0) == 1.0
    assert success(found, 2, 1e8) == pytest.approx(0.2, abs=0.001)
    assert success(found, 10, 1e8) == 1.0
    assert success(np.array([[5, 5], [7, 3], [2, 6]]), 1, 0.0) == 0.5  # a tie is half won


@pytest.mark.statistical
@pytest.mark.parametrize("variance", [0.5, 25.0, 400.0, 1e4])
@pytest.mark.parametrize(("voters", "k"), [(30, 1), (100, 5), (2_000, 12)])
def test_success_is_that_of_drawn_noise(variance: float, voters: int, k: int) -> None:
    """6 standard errors of 4,000 draws, < 1e-8, and .01 for ties, which are broken otherwise."""
    found = counts(voters, 30, [k], Agreement(3, 1.5), 40, rng(), most=1_000_000)[k]
    drawn = drawn_success(np.repeat(found, 100, axis=0), 3, variance, rng())
    assert abs(success(found, 3, variance) - drawn) < 6 * np.sqrt(0.25 / 4_000) + 0.01


def test_success_where_votes_differ_by_thousands() -> None:
    """Counts are told apart in steps then; noise of a few votes does not matter to them."""
    found = np.array([[1_000_000, 900_000, 0], [500_000, 500_400, 20], [10, 600_000, 20]])
    assert success(found, 1, 100.0) == pytest.approx(1 / 3, abs=0.02)


@pytest.mark.parametrize("sigma", [1.0, 5.0, 12.0, 25.0, 60.0])
@pytest.mark.parametrize("overlap", [0.1, 0.5, 1.0])
def test_the_bound_is_never_above_the_simulation(sigma: float, overlap: float) -> None:
    """Theorem V.1, vote by vote."""
    found = counts(100, 30, [3], Agreement(3, overlap), 400, rng())[3]
    assert bound(found, 3, sigma**2) <= success(found, 3, sigma**2) + 1e-9


def test_the_bound_is_the_published_formula_where_that_is_the_lower_one() -> None:
    votes = np.array([[90, 10, 10]])
    sigma, gap = 20.0, 80
    published = 1 - 2 * sigma / (gap * np.sqrt(np.pi)) * np.exp(-(gap**2) / (4 * sigma**2))
    assert bound(votes, 1, sigma**2) == pytest.approx(published, abs=1e-12)
    assert bound(votes, 1, 0.0) == 1.0
    assert bound(np.array([[5, 9]]), 1, 4.0) == 0.0
    assert bound(np.array([[5, 9]]), 2, 4.0) == 1.0


@pytest.mark.parametrize("shift", [0.0, 5.0, -3.0])
def test_simulated_scores_are_those_of_ballots(shift: float) -> None:
    losses = np.random.default_rng(0).normal(shift, 1.0, 12)
    candidates = ht.Space(x=ht.Float(0, 1)).grid(x=12)
    query = SoftVotes(candidates, 0)
    party: Any = SimpleNamespace(losses=lambda configs, seed: losses)
    (drawn,) = odds._scores(losses[None].astype(np.float32), query.bound.norm).values()
    assert np.abs(drawn[0] - query.answer(party)).max() <= 1  # floats of 32 bits


def test_bad_agreements() -> None:
    with pytest.raises(ht.SettingError, match="good=0"):
        Agreement(0)
    with pytest.raises(ht.SettingError, match="overlap=-1"):
        Agreement(1, -1.0)
    with pytest.raises(ht.SettingError, match="good=9, candidates=3"):
        Agreement(9).check(3)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("size", "k", "good", "overlap"), [(20, 1, 1, 50.0), (60, 5, 3, 0.5), (9, 9, 2, 1.0), (30, 2, 4, 0.0)]
)
def test_the_chance_of_a_vote_is_that_of_simulated_ballots(size: int, k: int, good: int, overlap: float) -> None:
    """6 sigma of 50,000 ballots, < 1e-8."""
    agreement = Agreement(good, overlap)
    found = counts(50_000, size, [k], agreement, 1, rng())[k][0, :good].mean() / 50_000
    assert abs(odds._vote_chance(size, k, agreement) - found) <= 6 * np.sqrt(0.25 / 50_000)
