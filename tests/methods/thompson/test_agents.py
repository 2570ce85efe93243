from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2

from hushtune.methods.thompson.agents import (
    Draws,
    Features,
    best_untried,
    centred,
    fit_of,
    own_mean,
    own_scores,
    shortened,
    weights,
)

RNG = np.random.default_rng(0)


def test_features_have_norm_one_and_make_the_kernel() -> None:
    features = Features.drawn(4_000, 2, 7)
    points = np.random.default_rng(1).random((30, 2))
    phi = features.at(points, 0.4)
    np.testing.assert_allclose(np.linalg.norm(phi, axis=1), 1.0)
    kernel = np.exp(-((points[:, None] - points[None]) ** 2).sum(axis=2) / (2 * 0.4**2))
    assert np.abs(phi @ phi.T - kernel).max() < 0.1
    assert (Features.drawn(4_000, 2, 7).at(points, 0.4) == phi).all()


def _primal(phi: np.ndarray, values: np.ndarray, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """nu and lambda Sigma^-1 as the paper writes them."""
    sigma = phi.T @ phi + noise * np.eye(phi.shape[1])
    return np.linalg.solve(sigma, phi.T @ values), noise * np.linalg.inv(sigma)


def test_the_mean_is_the_papers_nu() -> None:
    rng = np.random.default_rng(2)
    phi, values = rng.normal(size=(3, 7, 12)), rng.normal(size=(3, 7))
    noise = np.array([0.1, 1e-3, 2.0])
    found = weights(phi, values, noise, None)
    for at in range(3):
        np.testing.assert_allclose(found[at], _primal(phi[at], values[at], noise[at])[0], atol=1e-8)


@pytest.mark.statistical
def test_samples_are_from_the_papers_posterior() -> None:
    """20,000 samples: Mahalanobis distances of all of them have a chi-square sum; false alarms < 1e-7 each way."""
    rng = np.random.default_rng(3)
    phi, values, count = rng.normal(size=(6, 4)), rng.normal(size=6), 20_000
    nu, covariance = _primal(phi, values, 0.3)
    draws = Draws(rng.normal(size=(count, 4)), rng.normal(size=(count, 6)))
    found = weights(np.repeat(phi[None], count, 0), np.repeat(values[None], count, 0), np.full(count, 0.3), draws)
    distance = np.einsum("ni,ij,nj->n", found - nu, np.linalg.inv(covariance), found - nu).sum()
    assert chi2.ppf(1e-7, 4 * count) < distance < chi2.isf(1e-7, 4 * count)
    centre = (found.mean(axis=0) - nu) @ np.linalg.inv(covariance / count) @ (found.mean(axis=0) - nu)
    assert centre < chi2.isf(1e-7, 4)


def test_what_was_not_observed_does_not_count() -> None:
    rng = np.random.default_rng(4)
    phi, values = rng.normal(size=(1, 6, 10)), rng.normal(size=(1, 6))
    values[0, [1, 4]] = np.nan
    kept = [0, 2, 3, 5]
    noise, prior, errors = np.array([0.2]), rng.normal(size=(1, 10)), rng.normal(size=(1, 6))
    whole = weights(phi, values, noise, Draws(prior, errors))
    few = weights(phi[:, kept], values[:, kept], noise, Draws(prior, errors[:, kept]))
    np.testing.assert_allclose(whole, few, atol=1e-10)


def test_a_fit_finds_the_lengthscale_and_ignores_what_failed() -> None:
    rng = np.random.default_rng(5)
    points = rng.random((2, 40, 1))
    fast, slow = np.sin(40 * points[0, :, 0]), np.sin(4 * points[1, :, 0])
    fit = fit_of(points, np.array([fast, slow]))
    assert fit.lengthscale[0] < fit.lengthscale[1]
    holes = np.array([fast, slow])
    holes[:, ::7] = np.nan
    kept = np.isfinite(holes[0])
    again, fewer = fit_of(points, holes), fit_of(points[:, kept], holes[:, kept])
    np.testing.assert_allclose(again.lengthscale, fewer.lengthscale)
    np.testing.assert_allclose(again.mean, fewer.mean)
    np.testing.assert_allclose(again.noise, fewer.noise)


def test_equal_values_and_single_observations_are_no_trouble() -> None:
    points = np.random.default_rng(6).random((2, 3, 2))
    for values in (np.full((2, 3), 0.5), np.array([[0.1, np.nan, np.nan]] * 2), np.full((2, 3), np.nan)):
        fit = fit_of(points, values)
        draws = Draws(np.zeros((2, 20)), np.zeros((2, 3)))
        _, scores = own_scores(Features.drawn(20, 2, 0), points[0], points, values, fit, draws)
        assert np.isfinite(scores).all()


def test_stacked_agents_compute_what_each_computes_alone() -> None:
    rng = np.random.default_rng(7)
    points, values, domain = rng.random((5, 9, 2)), rng.random((5, 9)), rng.random((50, 2))
    features, draws = Features.drawn(30, 2, 1), Draws(rng.normal(size=(5, 30)), rng.normal(size=(5, 9)))
    fit = fit_of(points, values)
    _, together = own_scores(features, domain, points, values, fit, draws)
    for at in range(5):
        alone = fit_of(points[at : at + 1], values[at : at + 1])
        own = Draws(draws.prior[at : at + 1], draws.errors[at : at + 1])
        _, scores = own_scores(features, domain, points[at : at + 1], values[at : at + 1], alone, own)
        np.testing.assert_allclose(scores[0], together[at], atol=1e-8)


def test_the_own_mean_goes_through_what_was_seen() -> None:
    points = np.linspace(0, 1, 12)[None, :, None]
    values = np.sin(3 * points[..., 0])
    fit = fit_of(points, values)
    found = own_mean(points[0], points, values, fit) * fit.deviation[:, None] + fit.mean[:, None]
    np.testing.assert_allclose(found, values, atol=0.02)


def test_the_best_untried_point_and_what_if_all_were_tried() -> None:
    scores = np.array([[1.0, 3.0, 2.0], [1.0, 3.0, 2.0]])
    tried = np.array([[False, True, False], [True, True, True]])
    assert best_untried(scores, tried).tolist() == [2, 1]


def test_clipping_keeps_directions_and_short_vectors() -> None:
    vectors = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    np.testing.assert_allclose(shortened(vectors, 1.0, 1), [[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]])
    np.testing.assert_allclose(shortened(vectors, 2.0, 4), [[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]])


def test_without_a_norm_all_vectors_are_equally_long() -> None:
    vectors = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    np.testing.assert_allclose(shortened(vectors, None, 4), [[0.3, 0.4], [0.3, 0.4], [0.0, 0.0]])


def test_values_relative_to_an_agents_own_mean() -> None:
    found = centred(np.array([[1.0, np.nan, 3.0], [np.nan, np.nan, np.nan]]))
    np.testing.assert_allclose(found, [[-1.0, np.nan, 1.0], [np.nan, np.nan, np.nan]])
