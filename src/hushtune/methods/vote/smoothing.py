"""How often smooth decoding chooses well: many simulated sums at once, for `plan`. No run decides with this.

A run fits 128 sets of lengthscales to one sum (`hushtune.methods.decode`). A plan looks at thousands of sums: it takes
fewer sets, and measures all sums that get the same noise in one unit, so that they share a model's matrices.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushtune.core.arrays import FloatArray
from hushtune.core.space import Candidates
from hushtune.methods.decode import MOST_SMOOTHED, one_thread, spectra

_MODELS, _FEWEST = 24, 6  # sets of lengthscales, for up to 100 candidates; fewer beyond


class Smoother:
    """Smooths many sums over the same candidates.

    Args:
        candidates: the public list.
    """

    def __init__(self, candidates: Candidates) -> None:
        size = len(candidates)
        with one_thread():
            signal, vectors = spectra(candidates, max(_FEWEST, min(_MODELS, int(_MODELS * (100 / size) ** 2))))
        self._signal = signal.astype(np.float32)
        self._vectors = vectors.astype(np.float32) if size <= MOST_SMOOTHED else None  # there they are the unit matrix

    def best(
        self, sums: FloatArray, total: float, variance: float, expected: FloatArray | None = None
    ) -> NDArray[np.intp]:
        """The place that smoothing takes in each sum, shape (sums,).

        Args:
            sums: noisy, shape (sums, candidates).
            total: what each adds up to without noise.
            variance: of the noise in each entry.
            expected: what a prior's voters add to each, of the same shape as the sums.
        """
        centre = np.full_like(sums, total / sums.shape[1])
        if expected is not None:
            centre += expected - expected.mean(axis=1, keepdims=True)
        apart = sums - centre
        unit = max(float(np.mean(apart * apart)), 1e-12)
        scaled: Any = (apart / np.sqrt(unit)).astype(np.float32)
        with one_thread():
            mean = self._mean(scaled, variance / unit)
        found: NDArray[np.intp] = (mean * np.sqrt(unit) + centre).argmax(axis=1)
        return found

    def _mean(self, scaled: Any, noise: float) -> Any:
        """Posterior means in that unit, shape (sums, candidates)."""
        seen = scaled[None] if self._vectors is None else scaled @ self._vectors  # models, sums, candidates
        weights = 1 / (self._signal + np.float32(noise + 1e-6))  # models, pairs, candidates
        fit = (seen * seen) @ weights.transpose(0, 2, 1) - np.log(weights).sum(-1)[:, None]
        fit = np.exp((fit.min(axis=(0, 2), keepdims=True) - fit) / 2)
        fit /= fit.sum(axis=(0, 2), keepdims=True)
        along = (fit @ (self._signal * weights)) * seen
        return along[0] if self._vectors is None else (along @ self._vectors.transpose(0, 2, 1)).sum(axis=0)
