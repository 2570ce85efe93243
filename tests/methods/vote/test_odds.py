from __future__ import annotations

import numpy as np
import pytest

import hushtune as ht
from hushtune.methods.vote import odds
from hushtune.methods.vote.odds import Agreement, bound, counts, noise, smooth_success, success


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
def test_the_normal_approximation_has_the_moments_of_the_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Means within 6 standard errors (< 1e-8) of both samples and of the pool; spreads within 15%."""
    exact = counts(400, 20, [4], Agreement(3, 0.8), 2_000, rng())[4]
    monkeypatch.setattr(odds, "_MOST", 0)
    drawn = counts(400, 20, [4], Agreement(3, 0.8), 2_000, rng())[4]
    for group in (slice(0, 3), slice(3, 20)):
        error = exact[:, group].std() * (1 / np.sqrt(2_000) + np.sqrt(400 / 20_000))
        assert abs(exact[:, group].mean() - drawn[:, group].mean()) < 6 * error
        assert drawn[:, group].std() == pytest.approx(exact[:, group].std(), rel=0.15)
    assert np.cov(drawn[:, 0], drawn[:, 10])[0, 1] < 0  # votes for one are not votes for another


@pytest.mark.statistical
def test_noise_has_its_variance() -> None:
    """6 sigma of the sample variance of 40,000 values, < 1e-8."""
    drawn = noise(30.0, (40_000,), rng())
    assert abs(drawn.var() / 30 - 1) < 6 * np.sqrt(2 / 40_000 + 1 / (30 * 40_000))


def test_success_without_noise_is_certain_and_with_much_noise_is_guessing() -> None:
    found = counts(50, 10, [2], Agreement(2, 0.1), 4_000, rng())[2]
    assert success(found, 2, 0.0, rng()) == 1.0
    assert success(found, 2, 1e8, rng()) == pytest.approx(0.2, abs=6 * np.sqrt(0.16 / 4_000))


@pytest.mark.statistical
@pytest.mark.parametrize("sigma", [1.0, 5.0, 12.0, 25.0, 60.0])
@pytest.mark.parametrize("overlap", [0.1, 0.5, 1.0])
def test_the_bound_is_never_above_the_simulation(sigma: float, overlap: float) -> None:
    """Theorem V.1 holds beyond sampling error: 6 sigma of 4,000 repetitions, < 1e-8."""
    found = counts(100, 30, [3], Agreement(3, overlap), 4_000, rng())[3]
    chance = success(found, 3, sigma**2, rng())
    assert bound(found, 3, sigma**2) <= chance + 6 * np.sqrt(max(chance * (1 - chance), 1e-4) / 4_000)


def test_the_bound_is_the_published_formula_where_that_is_the_lower_one() -> None:
    votes = np.array([[90, 10, 10]])
    sigma, gap = 20.0, 80
    published = 1 - 2 * sigma / (gap * np.sqrt(np.pi)) * np.exp(-(gap**2) / (4 * sigma**2))
    assert bound(votes, 1, sigma**2) == pytest.approx(published, abs=1e-12)
    assert bound(votes, 1, 0.0) == 1.0
    assert bound(np.array([[5, 9]]), 1, 4.0) == 0.0
    assert bound(np.array([[5, 9]]), 2, 4.0) == 1.0


def test_smooth_decoding_finds_a_region() -> None:
    grid = ht.Space(x=ht.Float(0, 1), y=ht.Float(0, 1)).grid(x=5, y=5)
    found = counts(60, 25, [4], Agreement(4, 0.3), 20, rng())[4]
    assert smooth_success(found, 4, 4 * 60, 15.0**2, grid, rng()) > 0.8


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
