"""From a noisy sum over candidates to one candidate. Reads opened values and public facts only, so it is free."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushtune.space import Candidates, Choice, FloatArray

_PRIOR = (np.log(0.3), 1.0)  # log lengthscale of a knob: centre and spread of a weak log-normal prior
_STARTS = (0.15, 0.5)
_VARIANCE_RANGE = (1e-4, 1e4)  # of the signal, in units of the counts' own variance


def argmax(values: NDArray[Any]) -> int:
    """The first largest value's place."""
    return int(np.argmax(values))


@dataclass(frozen=True)
class Smoothed:
    """A Gaussian-process posterior over candidates.

    Args:
        mean: posterior mean of each candidate's noise-free count, shape (candidates,).
        deviation: its posterior standard deviation, shape (candidates,).
        structured: False if a model without structure fits the counts at least as well; `mean` then ranks the
            candidates as the counts do.
    """

    mean: FloatArray
    deviation: FloatArray
    structured: bool

    @property
    def best(self) -> int:
        """The candidate with the largest posterior mean."""
        return argmax(self.mean)


def smooth(counts: NDArray[Any], total: float, noise_variance: float, candidates: Candidates) -> Smoothed:
    """Smooths noisy counts over the space of candidates.

    Model: count = mean + s + w + noise, where s is smooth over the candidates (a product over the knobs of a
    squared-exponential kernel for numbers and a Hamming kernel for choices), w is independent for each candidate,
    and the noise's variance is KNOWN, because it was added on purpose. The variances of s and w and one
    lengthscale per knob maximise the marginal likelihood of the noisy counts, with a weak prior on lengthscales.
    With s = 0 the model has no structure; if that fits as well, the plain ranking stays.

    Args:
        counts: the opened sum, shape (candidates,).
        total: what the noise-free counts add up to (k times the answers): their mean is public.
        noise_variance: of each count.
        candidates: the public candidates.
    """
    y = np.asarray(counts, dtype=np.float64) - total / len(counts)
    unit = max(float(np.mean(y * y)), 1e-12)
    y, noise = y / np.sqrt(unit), noise_variance / unit
    distances = _distances(candidates)
    plain = max(1.0 - noise, _VARIANCE_RANGE[0])  # the best fit of w alone
    evidence = _log_likelihood(y, np.eye(len(y)) * (plain + noise))
    fit = _fit(y, noise, distances) if distances.shape[0] and len(y) > 2 else None
    signal = np.eye(len(y)) * plain if fit is None or fit.objective <= evidence else fit.signal
    gain = np.linalg.solve(signal + (noise + 1e-9) * np.eye(len(y)), signal).T
    mean = gain @ y * np.sqrt(unit) + total / len(counts)
    variance = np.maximum(0.0, np.diag(signal - gain @ signal)) * unit
    return Smoothed(mean, np.sqrt(variance), structured=fit is not None and fit.objective > evidence)


def _distances(candidates: Candidates) -> FloatArray:
    """For each knob that varies, half squared distances between candidates, shape (knobs, p, p).

    For a choice: 1 between different choices.
    """
    layers = []
    for name, knob in candidates.space.knobs.items():
        x = candidates.encoded[:, candidates.space.columns[name]]
        squared = ((x[:, None, :] - x[None, :, :]) ** 2).sum(-1)
        if squared.any():
            layers.append(squared / 2 if not isinstance(knob, Choice) else np.sign(squared))
    return np.array(layers)


@dataclass(frozen=True)
class _Fit:
    objective: float
    signal: FloatArray


def _fit(y: FloatArray, noise: float, distances: FloatArray) -> _Fit:
    """Maximises log likelihood + log prior over (log smooth variance, log independent variance, log lengths)."""
    from scipy.optimize import minimize

    knobs = len(distances)
    low, high = np.log(_VARIANCE_RANGE)
    bounds = [(low, high), (low, high), *[(np.log(0.03), np.log(10.0))] * knobs]
    identity = np.eye(len(y))

    def negative(theta: FloatArray) -> tuple[float, FloatArray]:
        a, w, lengths = np.exp(theta[0]), np.exp(theta[1]), np.exp(theta[2:])
        scaled = distances / lengths[:, None, None] ** 2
        smooth_part = a * np.exp(-scaled.sum(0))
        covariance = smooth_part + (w + noise + 1e-9) * identity
        inverse = np.linalg.inv(covariance)
        alpha = inverse @ y
        outer = np.outer(alpha, alpha) - inverse
        slopes = [smooth_part, w * identity, *(2 * layer * smooth_part for layer in scaled)]
        gradient = np.array([0.5 * np.sum(outer * slope) for slope in slopes])
        away = (theta[2:] - _PRIOR[0]) / _PRIOR[1]
        value = _log_likelihood(y, covariance) - 0.5 * away @ away
        gradient[2:] -= away / _PRIOR[1]
        return -value, -gradient

    signal = np.log(max(1.0 - noise, 0.1))
    fits = [
        minimize(
            negative,
            np.array([signal + np.log(0.7), signal + np.log(0.3), *[np.log(start)] * knobs]),
            jac=True,
            bounds=bounds,
            method="L-BFGS-B",
            options={"maxiter": 60},
        )
        for start in _STARTS
    ]
    best = min(fits, key=lambda fit: float(fit.fun))
    a, w, lengths = np.exp(best.x[0]), np.exp(best.x[1]), np.exp(best.x[2:])
    kernel = a * np.exp(-(distances / lengths[:, None, None] ** 2).sum(0)) + w * identity
    return _Fit(-float(best.fun), kernel)


def _log_likelihood(y: FloatArray, covariance: FloatArray) -> float:
    factor = np.linalg.cholesky(covariance + 1e-9 * np.eye(len(y)))
    z = np.linalg.solve(factor, y)
    return float(-0.5 * z @ z - np.log(np.diag(factor)).sum() - 0.5 * len(y) * np.log(2 * np.pi))
