"""FLoRA's four loss surfaces (Zhou et al. 2023, section 2.2 and Appendix B), over points of the unit cube.

Regressors are random forests. They are piecewise constant, so a surface's minimiser is looked for among many points at
once, and not refined.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from hushtune.client.pairs import Pairs
from hushtune.core.arrays import FloatArray
from hushtune.core.errors import SettingError
from hushtune.core.processes.pool import in_order

Kind = Literal["sgm", "sgm+u", "mplm", "aplm"]
KINDS: tuple[Kind, ...] = ("sgm", "sgm+u", "mplm", "aplm")
MOST_FOR_PROCESS = 2_000  # pairs; a Gaussian process needs the cube of their number
_TREES = 100


def forest(pairs: Pairs, seed: int, jobs: int = 1) -> Any:
    """A regressor of the loss."""
    from sklearn.ensemble import RandomForestRegressor

    return RandomForestRegressor(_TREES, random_state=seed, n_jobs=jobs).fit(pairs.points, pairs.losses)


def predicted(pairs: Pairs, at: FloatArray, seed: int) -> FloatArray:
    """A client's own model at the points, shape (points,). What was fitted just now is not fitted again."""
    points, losses, here = (np.asarray(a, dtype=np.float64).tobytes() for a in (pairs.points, pairs.losses, at))
    return _predicted(points, losses, here, at.shape[1], seed).copy()


@lru_cache(maxsize=64)
def _predicted(points: bytes, losses: bytes, at: bytes, width: int, seed: int) -> FloatArray:
    pairs = Pairs(np.frombuffer(points).reshape(-1, width), np.frombuffer(losses))
    found: FloatArray = forest(pairs, seed).predict(np.frombuffer(at).reshape(-1, width))
    return found


def pooled(
    clients: Sequence[Pairs], at: FloatArray, seed: int, model: Literal["forest", "gp"] = "forest", jobs: int = 1
) -> FloatArray:
    """Mean and standard deviation of one model of all pairs together, shape (2, points).

    The deviation is that of the forest's trees, or of a Gaussian process.
    """
    together = Pairs(np.concatenate([c.points for c in clients]), np.concatenate([c.losses for c in clients]))
    if model == "gp":
        return _process(together, at, seed)
    trees = np.stack([tree.predict(at.astype(np.float32)) for tree in forest(together, seed, jobs).estimators_])
    return np.stack([trees.mean(axis=0), trees.std(axis=0)])


def _process(pairs: Pairs, at: FloatArray, seed: int) -> FloatArray:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    kernel = ConstantKernel(1.0) * Matern(np.full(pairs.points.shape[1], 0.5), nu=2.5) + WhiteKernel(1e-2)
    process = GaussianProcessRegressor(kernel, normalize_y=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an end of a parameter's range is a good place, too
        mean, deviation = process.fit(pairs.points, pairs.losses).predict(at, return_std=True)
    return np.stack([mean, deviation])


def local(clients: Sequence[Pairs], at: FloatArray, seed: int, jobs: int = 1) -> FloatArray:
    """Each client's own model at the points, shape (clients, points)."""
    groups = [clients[start::jobs] for start in range(min(jobs, len(clients)))]
    rows = np.empty((len(clients), len(at)))
    for start, found in enumerate(in_order(_predictions, ((group, at, seed) for group in groups), jobs)):
        rows[start::jobs] = found
    return rows


def _predictions(clients: Sequence[Pairs], at: FloatArray, seed: int) -> FloatArray:
    return np.stack([predicted(client, at, seed) for client in clients])


def loss_surfaces(
    kinds: Sequence[Kind],
    clients: Sequence[Pairs],
    at: FloatArray,
    seed: int = 0,
    alpha: float = 1.0,
    model: Literal["forest", "gp"] = "forest",
    jobs: int = 1,
) -> dict[Kind, FloatArray]:
    """The federation's loss surfaces at the points, shape (points,) each.

    Args:
        kinds: "sgm", one model of all pairs; "sgm+u", the same plus alpha times its uncertainty; "mplm", the maximum,
            and "aplm", the average, of every client's own model.
        clients: what each client found; failed configs are left out.
        at: points of the unit cube.
        seed: of the forests.
        alpha: for "sgm+u".
        model: for "sgm" and "sgm+u".
        jobs: how many cores.
    """
    clients = [client.finite() for client in clients]
    distinct = {row.tobytes() for client in clients for row in np.ascontiguousarray(client.points)}
    if len(distinct) < 2:
        raise SettingError(f"a surface needs at least 2 distinct configs with a loss, but got {len(distinct)}")
    clients = [client for client in clients if len(client.losses)]
    found: dict[Kind, FloatArray] = {}
    if {"sgm", "sgm+u"} & set(kinds):
        mean, deviation = pooled(clients, at, seed, model, jobs)
        found |= {"sgm": mean, "sgm+u": mean + alpha * deviation}
    if {"mplm", "aplm"} & set(kinds):
        rows = local(clients, at, seed, jobs)
        found |= {"mplm": rows.max(axis=0), "aplm": rows.mean(axis=0)}
    return {kind: found[kind] for kind in kinds}


def heterogeneity(best: Sequence[float], worst: float = 1.0) -> float:
    """gamma_p: the best score of the best client over the best score of the worst one.

    Args:
        best: each client's smallest loss.
        worst: the loss that scores nothing; a score is `worst - loss`.
    """
    scores = [worst - loss for loss in best]
    return max(scores) / min(scores) if scores and min(scores) > 0 else np.inf
