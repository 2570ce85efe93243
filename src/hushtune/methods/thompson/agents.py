"""What agents of DP-FTS-DE compute. The first axis of arrays is the agent: a simulation computes all of them at once.

Both models of an agent are Gaussian processes with the squared-exponential kernel, by random Fourier features: one with
features and a lengthscale that all agents share, whose weights can be added up, and one of its own, fitted to its data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushtune.core.arrays import BoolArray, FloatArray

_LENGTHSCALES = tuple(float(f"{value:.3g}") for value in np.geomspace(0.05, 2.0, 12))
_TOGETHER = 32  # agents at once: their matrices stay in the cache, so that an agent costs the same among many
_LARGE = 1e12  # more than any values' quadratic form
_NOISES = (1e-6, 1e-4, 1e-2, 1e-1)  # variances, of values with variance 1


@dataclass(frozen=True)
class Features:
    """Random Fourier features of the squared-exponential kernel (Rahimi and Recht 2007), scaled to norm 1.

    Args:
        frequencies: shape (features, width), for lengthscale 1.
        phases: shape (features,).
    """

    frequencies: FloatArray
    phases: FloatArray

    @staticmethod
    def drawn(size: int, width: int, *seed: int) -> Features:
        """The features that a public seed gives."""
        rng = np.random.default_rng([size, width, *seed])
        return Features(rng.normal(size=(size, width)), rng.uniform(0, 2 * np.pi, size))

    def at(self, points: FloatArray, lengthscale: float) -> FloatArray:
        """At points of the unit cube: shape (..., width) gives (..., features).

        Single precision is enough for a cosine: the features of a point are what they are, the same for everybody.
        """
        angles = points @ (self.frequencies.T / lengthscale)
        angles += self.phases
        found = np.cos(angles.astype(np.float32)).astype(np.float64)
        found /= np.sqrt(np.einsum("...i,...i->...", found, found))[..., None]
        return found


@dataclass(frozen=True)
class Draws:
    """What one posterior sample of each agent takes: standard normal numbers.

    Args:
        prior: shape (agents, features).
        errors: shape (agents, observations).
    """

    prior: FloatArray
    errors: FloatArray

    def of(self, agents: slice | NDArray[np.int64]) -> Draws:
        """Those of some agents."""
        return Draws(self.prior[agents], self.errors[agents])


def weights(features: FloatArray, values: FloatArray, noise: FloatArray, draws: Draws | None) -> FloatArray:
    """omega ~ N(nu, lambda Sigma^-1), equation (2) of the paper, or nu itself without draws; shape (agents, features).

    With Sigma = Phi^T Phi + lambda I. By Matheron's rule, a prior sample w and its error at the observations give
    w + Phi^T (Phi Phi^T + lambda I)^-1 (y - Phi w - e): one stacked Cholesky, no larger than the observations.

    Args:
        features: Phi, shape (agents, observations, features).
        values: y, shape (agents, observations); NaN: nothing was observed, and it counts as no observation.
        noise: lambda, shape (agents,).
        draws: for a sample.
    """
    found = np.empty((len(values), features.shape[2]))
    for start in range(0, len(values), _TOGETHER):
        those = slice(start, start + _TOGETHER)
        drawn = None if draws is None else draws.of(those)
        found[those] = _weights(features[those], values[those], noise[those], drawn)
    return found


def _weights(features: FloatArray, values: FloatArray, noise: FloatArray, draws: Draws | None) -> FloatArray:
    known = np.isfinite(values)
    phi = features * known[..., None]
    gram = phi @ phi.transpose(0, 2, 1)
    gram += noise[:, None, None] * np.eye(values.shape[1])
    residual = np.where(known, values, 0.0)[..., None]
    if draws is not None:
        residual = residual - phi @ draws.prior[..., None]
        residual -= (known * draws.errors * np.sqrt(noise)[:, None])[..., None]
    lower = np.linalg.cholesky(gram)
    halfway = np.linalg.solve(lower, residual)
    found: FloatArray = (phi.transpose(0, 2, 1) @ np.linalg.solve(lower.transpose(0, 2, 1), halfway))[..., 0]
    return found if draws is None else found + draws.prior


@dataclass(frozen=True)
class Fit:
    """An agent's own model: shapes (agents,). Values are taken relative to `mean`, in units of `deviation`."""

    lengthscale: FloatArray
    noise: FloatArray
    mean: FloatArray
    deviation: FloatArray

    def scaled(self, values: FloatArray) -> FloatArray:
        """Values as the model sees them; shape (agents, observations)."""
        result: FloatArray = (values - self.mean[:, None]) / self.deviation[:, None]
        return result


def fit_of(points: FloatArray, values: FloatArray) -> Fit:
    """The lengthscale and noise of each agent's own model: the likeliest of a grid; the variance in closed form.

    Args:
        points: shape (agents, observations, width).
        values: shape (agents, observations), NaN where nothing was observed.
    """
    known = np.isfinite(values)
    count = np.maximum(known.sum(axis=1), 1)
    mean = np.where(known, values, 0.0).sum(axis=1) / count
    centred = np.where(known, values - mean[:, None], 0.0)
    deviation = np.sqrt((centred**2).sum(axis=1) / count)
    deviation = np.where(deviation > 0, deviation, 1.0)
    scaled = centred / deviation[:, None]
    squares = (points**2).sum(axis=2)
    apart = np.maximum(0.0, squares[:, :, None] + squares[:, None, :] - 2 * points @ points.transpose(0, 2, 1))
    both = known[:, :, None] & known[:, None, :]
    best = np.full(len(points), -np.inf)
    lengthscale, noise = np.full(len(points), _LENGTHSCALES[-1]), np.full(len(points), _NOISES[0])
    for length in _LENGTHSCALES:
        kernel = np.where(both, np.exp(apart / (-2 * length * length)), 0.0)
        for variance in _NOISES:
            diagonal = np.where(known, variance, 1.0)  # what was not observed stands alone, and says nothing
            likely = _likelihood(kernel, diagonal, scaled, count)
            better = likely > best
            best = np.where(better, likely, best)
            lengthscale, noise = np.where(better, length, lengthscale), np.where(better, variance, noise)
    return Fit(lengthscale, noise, mean, deviation)


def _likelihood(kernel: FloatArray, diagonal: FloatArray, values: FloatArray, count: NDArray[np.int64]) -> FloatArray:
    """Log likelihood at the likeliest variance, up to a constant.

    The last row of the Cholesky factor of a matrix bordered by the values is what solving for them would give.
    """
    size = kernel.shape[1]
    matrix = np.zeros((len(kernel), size + 1, size + 1))
    matrix[:, :size, :size] = kernel + (diagonal + 1e-9)[:, :, None] * np.eye(size)
    matrix[:, size, :size] = values
    matrix[:, size, size] = _LARGE
    lower = np.linalg.cholesky(matrix)  # it reads the lower triangle only
    quadratic = np.maximum((lower[:, size, :size] ** 2).sum(axis=1), 1e-12)
    logs = np.log(np.diagonal(lower, axis1=1, axis2=2)[:, :size]).sum(axis=1)
    result: FloatArray = -0.5 * count * np.log(quadratic / count) - logs
    return result


def own_scores(
    features: Features, domain: FloatArray, points: FloatArray, values: FloatArray, fit: Fit, draws: Draws
) -> tuple[FloatArray, FloatArray]:
    """A sample of each agent's own posterior: its weights (agents, features), and its values at the domain's points.

    Args:
        features: fresh ones, at lengthscale 1.
        domain: shape (points, width).
        points: shape (agents, observations, width).
        values: shape (agents, observations).
        fit: each agent's own model.
        draws: for the sample.
    """
    sample = np.empty((len(points), len(features.phases)))
    scores = np.empty((len(points), len(domain)))
    scaled = fit.scaled(values)
    for length in np.unique(fit.lengthscale):
        those = np.flatnonzero(fit.lengthscale == length)
        at = features.at(points[those], float(length))
        sample[those] = weights(at, scaled[those], fit.noise[those], draws.of(those))
        scores[those] = sample[those] @ features.at(domain, float(length)).T
    return sample, scores


def own_mean(domain: FloatArray, points: FloatArray, values: FloatArray, fit: Fit) -> FloatArray:
    """The posterior mean of each agent's own model at the domain's points, with the kernel itself; (agents, points)."""
    scaled, found = fit.scaled(values), np.empty((len(points), len(domain)))
    for at, (seen, score) in enumerate(zip(points, scaled, strict=True)):
        known = np.isfinite(score)
        inside = _kernel(seen[known], seen[known], fit.lengthscale[at])
        inside += (fit.noise[at] + 1e-9) * np.eye(len(inside))
        found[at] = _kernel(domain, seen[known], fit.lengthscale[at]) @ np.linalg.solve(inside, score[known])
    return found


def _kernel(a: FloatArray, b: FloatArray, lengthscale: float) -> FloatArray:
    apart = ((a[:, None] - b[None]) ** 2).sum(axis=2)
    kernel: FloatArray = np.exp(apart / (-2 * lengthscale * lengthscale))
    return kernel


def best_untried(scores: FloatArray, tried: BoolArray) -> NDArray[np.int64]:
    """The place of each agent's largest score among what it has not tried; if it has tried all, among all."""
    masked = np.where(tried & ~tried.all(axis=1, keepdims=True), -np.inf, scores)
    found: NDArray[np.int64] = masked.argmax(axis=1)
    return found


def centred(values: FloatArray) -> FloatArray:
    """Values (agents, observations) relative to each agent's own mean; NaN stays NaN."""
    known = np.isfinite(values)
    count = np.maximum(known.sum(axis=1, keepdims=True), 1)
    relative: FloatArray = values - np.where(known, values, 0.0).sum(axis=1, keepdims=True) / count
    return relative


def shortened(vectors: FloatArray, norm: float | None, parts: int) -> FloatArray:
    """Vectors (agents, features) of which `parts` together are no longer than `norm`; without one, all of length 1."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    within = (1.0 if norm is None else norm) / math.sqrt(parts)
    over = lengths / within
    found: FloatArray = vectors / np.maximum(1.0 if norm is not None else 1e-300, over)
    return found
