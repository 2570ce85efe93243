"""From a noisy sum over candidates to one candidate. Reads opened values and public facts only, so it is free."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from hushtune.core.arrays import FloatArray
from hushtune.core.space import Candidates, Choice

MOST_SMOOTHED = 1_000  # candidates; beyond, the plain ranking is taken
_PRIOR = (np.log(0.5), 1.0)  # log lengthscale of a knob, whose range is 1: centre and spread of its normal prior
_MODELS = 128  # lengthscales drawn from the prior, for up to 150 candidates; fewer beyond
_FEWEST = 16
_STRENGTHS = np.geomspace(0.01, 3.0, 9)  # variance of the signal, in units of the counts' own
_SHARES = np.array([0.0, 0.5, 0.8, 0.95, 0.99, 1.0])  # how much of it is smooth


def argmax(values: NDArray[Any]) -> int:
    """The first largest value's place."""
    return int(np.argmax(values))


@dataclass(frozen=True)
class Smoothed:
    """A posterior over candidates.

    Args:
        mean: posterior mean of each candidate's noise-free count, shape (candidates,).
        deviation: its posterior standard deviation, shape (candidates,).
        structured: the posterior probability that candidates close to each other are alike at all.
    """

    mean: FloatArray
    deviation: FloatArray
    structured: float

    @property
    def best(self) -> int:
        """The candidate with the largest posterior mean."""
        return argmax(self.mean)


def smooth(counts: NDArray[Any], total: float | None, noise_variance: float, candidates: Candidates) -> Smoothed:
    """Smooths noisy counts over the space of candidates.

    Model: count = mean + s + w + noise, where s is a Gaussian process over the candidates (a product over the knobs of
    Matérn kernels; two different choices are one range apart), w is independent for each candidate, and the noise's
    variance is KNOWN, because it was added on purpose. The variances of s and w and one lengthscale per knob are not
    known: many values are tried, each weighted by the marginal likelihood of the noisy counts, and the posteriors are
    averaged. Among them is s = 0, a model without structure, which ranks the candidates as the counts do.

    Args:
        counts: the opened sum, shape (candidates,).
        total: what the noise-free counts add up to, if that is public (k times the answers). None: the noisy counts'
            own sum is taken.
        noise_variance: of each count.
        candidates: the public candidates.
    """
    y = np.array(counts, dtype=np.float64)
    centre = (float(y.sum()) if total is None else total) / len(y)
    y -= centre
    unit = max(float(np.mean(y * y)), 1e-12)
    y, noise = y / np.sqrt(unit), noise_variance / unit
    with _threads().limit(limits=1):  # many small products: threads would wait for each other
        mean, deviation, structured = _averaged(y, noise, *_spectra(candidates))
    return Smoothed(mean * np.sqrt(unit) + centre, deviation * np.sqrt(unit), structured)


@cache
def _threads() -> ThreadpoolController:
    """The libraries that numpy multiplies with, looked for once: it takes as long as smoothing itself."""
    return ThreadpoolController()


def _averaged(
    y: FloatArray, noise: float, values: FloatArray, vectors: FloatArray
) -> tuple[FloatArray, FloatArray, float]:
    """Posterior mean and deviation over all models, and the chance of those with structure."""
    seen = y @ vectors  # in each model's own coordinates the counts are independent
    signal = _signals(values)
    variance = signal + noise + 1e-9
    fit = -0.5 * (seen[:, None] ** 2 / variance + np.log(variance)).sum(-1)
    chances = np.exp(fit - fit.max())
    chances /= chances.sum()
    gain = signal / variance
    means = (gain * seen[:, None]) @ vectors.transpose(0, 2, 1)
    mean = np.tensordot(chances, means, 2)
    left = np.matmul(chances[:, None], signal - gain * signal)[:, 0]
    within = np.matmul(vectors**2, left[:, :, None]).sum((0, 2))
    between = np.tensordot(chances, (means - mean) ** 2, 2)
    flat = chances.reshape(len(values), len(_STRENGTHS), len(_SHARES))[:, :, 0].sum()
    return mean, np.sqrt(within + between), float(1 - flat)


def _signals(values: FloatArray) -> FloatArray:
    """Variances of the signal along each model's axes, for all strengths and shares, shape (models, pairs, p)."""
    strength, share = (grid.ravel() for grid in np.meshgrid(_STRENGTHS, _SHARES, indexing="ij"))
    found: FloatArray = (strength * share)[None, :, None] * values[:, None, :] + (strength * (1 - share))[None, :, None]
    return found


@lru_cache(maxsize=4)
def _spectra(candidates: Candidates) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues (models, p) and eigenvectors (models, p, p) of the kernels: they depend on the candidates only."""
    size = len(candidates)
    distances = _distances(candidates) if 3 <= size <= MOST_SMOOTHED else np.empty(0)
    if not len(distances):  # nothing to smooth over: all models are alike
        return np.ones((1, size)), np.eye(size)[None]
    count = max(_FEWEST, min(_MODELS, int(_MODELS * (150 / size) ** 2)))
    kernels = [_kernel(distances, lengths) for lengths in _lengths(len(distances), count)]
    values, vectors = np.linalg.eigh(np.array(kernels))
    return np.maximum(values, 0.0), vectors


def _lengths(knobs: int, count: int) -> FloatArray:
    """Lengthscales spread evenly over their prior, always the same, shape (about count, knobs)."""
    from scipy.stats import norm, qmc

    uniform = qmc.Sobol(knobs, scramble=True, rng=0).random(1 << (count.bit_length() - 1))
    found: FloatArray = np.exp(_PRIOR[0] + _PRIOR[1] * norm.ppf(np.clip(uniform, 1e-6, 1 - 1e-6)))
    return found


def _kernel(distances: FloatArray, lengths: FloatArray) -> FloatArray:
    """Matérn 3/2 in each knob, multiplied."""
    scaled = np.sqrt(3.0) * distances / lengths[:, None, None]
    found: FloatArray = ((1 + scaled) * np.exp(-scaled)).prod(0)
    return found


def _distances(candidates: Candidates) -> FloatArray:
    """For each knob that varies, distances between candidates, shape (knobs, p, p). Between different choices: 1."""
    layers = []
    for name, knob in candidates.space.knobs.items():
        x = candidates.encoded[:, candidates.space.columns[name]]
        apart = np.sqrt(((x[:, None, :] - x[None, :, :]) ** 2).sum(-1))
        if apart.any():
            layers.append(np.sign(apart) if isinstance(knob, Choice) else apart)
    return np.array(layers)
