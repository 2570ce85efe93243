"""From a noisy sum over candidates to one candidate. Reads opened values and public facts only, so it is free."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from functools import cache, cached_property, lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from hushtune.core.arrays import FloatArray
from hushtune.core.space import Candidates, Choice

MOST_SMOOTHED = 1_000  # candidates; beyond, the plain ranking is taken
_PRIOR = (math.log(0.5), 1.0)  # log lengthscale of a knob, whose range is 1: centre and spread of its normal prior
_MODELS = 128  # lengthscales drawn from the prior, for up to 150 candidates; fewer beyond
_FEWEST = 16
_STRENGTHS = np.geomspace(0.01, 3.0, 9)  # variance of the signal, in units of the counts' own
_SHARES = np.array([0.0, 0.5, 0.8, 0.95, 0.99, 1.0])  # how much of it is smooth


def argmax(values: NDArray[Any]) -> int:
    """The first largest value's place."""
    return int(np.argmax(values))


class Smoothed:
    """A posterior over candidates.

    Args:
        fit: how well each model explains the counts, in units of the counts' own spread.
        unit: that spread.
        centre: what was subtracted from the counts first.
    """

    def __init__(self, fit: _Fit, unit: float, centre: FloatArray) -> None:
        self._fit, self._unit, self._centre = fit, unit, centre

    @cached_property
    def mean(self) -> FloatArray:
        """Posterior mean of each candidate's noise-free count, shape (candidates,)."""
        with one_thread():
            return self._fit.mean() * self._unit + self._centre

    @cached_property
    def deviation(self) -> FloatArray:
        """Its posterior standard deviation, shape (candidates,)."""
        with one_thread():
            return self._fit.deviation() * self._unit

    @property
    def structured(self) -> float:
        """The posterior probability that candidates close to each other are alike at all."""
        return self._fit.structured()

    @property
    def best(self) -> int:
        """The candidate with the largest posterior mean."""
        return argmax(self.mean)


def smooth(
    counts: NDArray[Any],
    total: float | None,
    noise_variance: float,
    candidates: Candidates,
    expected: FloatArray | None = None,
) -> Smoothed:
    """Smooths noisy counts over the space of candidates.

    Model: count = mean + expected + s + w + noise, where s is a Gaussian process over the candidates (a product over
    the knobs of Matérn kernels; two different choices are one range apart), w is independent for each candidate, and
    the noise's variance is KNOWN, because it was added on purpose. The variances of s and w and one lengthscale per
    knob are not known: many values are tried, each weighted by the marginal likelihood of the noisy counts, and the
    posteriors are averaged. Among them is s = 0, a model without structure, which ranks the candidates as the counts
    do.

    Args:
        counts: the opened sum, shape (candidates,).
        total: what the noise-free counts add up to, if that is public (k times the answers). None: the noisy counts'
            own sum is taken.
        noise_variance: of each count.
        candidates: the public candidates.
        expected: by how much each count is expected to differ from others, whoever votes; the louder the noise, the
            more it counts. Default: not at all.
    """
    y = np.array(counts, dtype=np.float64)
    shape = np.zeros(len(y)) if expected is None else expected - expected.mean()
    centre = (float(y.sum()) if total is None else total) / len(y) + shape
    y -= centre
    unit = max(float(np.mean(y * y)), 1e-12)
    y, noise = y / np.sqrt(unit), noise_variance / unit
    with one_thread():
        return Smoothed(_Fit(y, noise, *_spectra(candidates)), float(np.sqrt(unit)), centre)


@cache
def _threads() -> ThreadpoolController:
    """The libraries that numpy multiplies with, looked for once: it takes as long as smoothing itself."""
    return ThreadpoolController()


def one_thread() -> AbstractContextManager[Any]:
    """For many small products: threads would wait for each other."""
    limited: AbstractContextManager[Any] = _threads().limit(limits=1)
    return limited


class _Fit:
    """All models weighted by the marginal likelihood of the counts; in a model's own axes counts are independent.

    Args:
        y: the counts, shape (p,).
        noise: their variance.
        signal: its variances along each model's axes, shape (models, pairs, p).
        vectors: the axes, shape (models, p, p).
    """

    def __init__(self, y: FloatArray, noise: float, signal: FloatArray, vectors: FloatArray) -> None:
        self._signal, self._vectors, self._seen = signal, vectors, y @ vectors
        variance = self._signal + (noise + 1e-9)
        fit = -0.5 * ((self._seen[:, None] ** 2 / variance).sum(-1) + np.log(variance).sum(-1))
        chances = np.exp(fit - fit.max())
        self._chances = chances / chances.sum()
        self._gain = self._signal / variance

    def mean(self) -> FloatArray:
        """Posterior mean, averaged over all models."""
        along = np.matmul(self._chances[:, None], self._gain)[:, 0] * self._seen
        found: FloatArray = np.matmul(self._vectors, along[:, :, None]).sum((0, 2))
        return found

    def deviation(self) -> FloatArray:
        """Posterior deviation: within each model, and between their means."""
        means = (self._gain * self._seen[:, None]) @ self._vectors.transpose(0, 2, 1)
        left = np.matmul(self._chances[:, None], self._signal - self._gain * self._signal)[:, 0]
        within = np.matmul(self._vectors**2, left[:, :, None]).sum((0, 2))
        between = np.tensordot(self._chances, (means - self.mean()) ** 2, 2)
        found: FloatArray = np.sqrt(within + between)
        return found

    def structured(self) -> float:
        """The weight of the models with structure."""
        flat = self._chances.reshape(-1, len(_STRENGTHS), len(_SHARES))[:, :, 0].sum()
        return float(1 - flat)


def _signals(values: FloatArray) -> FloatArray:
    """Variances of the signal along each model's axes, for all strengths and shares, shape (models, pairs, p)."""
    strength, share = (grid.ravel() for grid in np.meshgrid(_STRENGTHS, _SHARES, indexing="ij"))
    found: FloatArray = (strength * share)[None, :, None] * values[:, None, :] + (strength * (1 - share))[None, :, None]
    return found


@lru_cache(maxsize=4)
def _spectra(candidates: Candidates) -> tuple[FloatArray, FloatArray]:
    """Those of a run's models."""
    return spectra(candidates, max(_FEWEST, min(_MODELS, int(_MODELS * (150 / len(candidates)) ** 2))))


def spectra(candidates: Candidates, models: int) -> tuple[FloatArray, FloatArray]:
    """The signal's variances (models, pairs, p) along the kernels' axes (models, p, p): they follow from candidates.

    Args:
        candidates: the public list.
        models: how many sets of lengthscales are tried.
    """
    size = len(candidates)
    distances = _distances(candidates) if 3 <= size <= MOST_SMOOTHED else np.empty(0)
    if not len(distances):  # nothing to smooth over: all models are alike
        return _signals(np.ones((1, size))), np.eye(size)[None]
    kernels = [_kernel(distances, lengths) for lengths in _lengths(len(distances), models)]
    values, vectors = np.linalg.eigh(np.array(kernels))
    return _signals(np.maximum(values, 0.0)), vectors


def _lengths(knobs: int, count: int) -> FloatArray:
    """Lengthscales spread evenly over their prior, always the same ones, shape (count, knobs).

    Multiples of powers of one irrational number, modulo 1 (Roberts 2018, the R sequence): they fill the cube evenly,
    and no library's next version draws them differently, so that a decision can be made again from what was opened.
    """
    ratio = _ratio(knobs)
    steps = np.arange(1, count + 1)[:, None] / ratio ** np.arange(1, knobs + 1)
    normal = NormalDist(*_PRIOR)
    return np.exp([[normal.inv_cdf(min(max(x, 1e-6), 1 - 1e-6)) for x in row] for row in ((0.5 + steps) % 1).tolist()])


def _ratio(knobs: int) -> float:
    """The x > 1 with x^(knobs + 1) = x + 1."""
    found = 2.0
    for _ in range(64):
        found = (1 + found) ** (1 / (knobs + 1))
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
