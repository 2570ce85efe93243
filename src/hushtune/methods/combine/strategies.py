"""How several clients' good configs become one: means, medians, trimmed means, the densest and best cluster.

All of it in the unit cube. Numbers are combined axis by axis; a choice is one column per option there, whose mean is
how often each was taken, so that the most frequent one wins (its mode) whatever the strategy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from optuna.distributions import BaseDistribution

from hushtune.client.pairs import Pairs
from hushtune.core.arrays import FloatArray
from hushtune.core.space import Choice, Config, Float, Int, Space

Strategy = Callable[[FloatArray], FloatArray]
_TRIMMED = 0.1  # of the values, at either end
_TINY = 1e-6  # a radius where all points are the same


def linear(space: Space) -> Space:
    """The same space with every knob on a linear scale."""
    return Space(**{name: _linear(knob) for name, knob in space.knobs.items()})


def _linear(knob: BaseDistribution) -> BaseDistribution:
    if isinstance(knob, Float):
        return Float(knob.low, knob.high, step=knob.step)
    return Int(knob.low, knob.high, step=knob.step) if isinstance(knob, Int) else knob


def config_at(space: Space, point: FloatArray) -> Config:
    """The config at a combined point; an integer is the rounded mean, where `Space.decode` would share out evenly."""
    config = space.decode(point)[0]
    for name, knob in space.knobs.items():
        if isinstance(knob, Int) and not knob.log:
            steps = float(point[space.columns[name]][0]) * (knob.high - knob.low) / knob.step
            config[name] = knob.low + knob.step * round(steps)
    return config


def scores_of(pairs: Pairs, losses: tuple[float, float]) -> FloatArray:
    """1 for the smallest loss that counts, 0 for the largest; with losses from 0 to 1, the accuracy."""
    low, high = losses
    return np.asarray(np.clip((high - pairs.losses) / (high - low), 0, 1))


def good(pairs: Pairs, losses: tuple[float, float], within: float, most: int) -> Pairs:
    """A client's configs whose score is within a share of its best one, at most so many of them."""
    scores = scores_of(pairs, losses)
    if not len(scores):
        return pairs
    near = scores >= (1 - within) * scores.max()
    return Pairs(pairs.points[near], pairs.losses[near]).best(most)


def top(pairs: Pairs, share: float) -> Pairs:
    """A client's best share of configs, at least one."""
    return pairs.best(math.ceil(share * len(pairs.losses)))


def mean(points: FloatArray) -> FloatArray:
    """The mean of the points, along every axis."""
    return np.asarray(points.mean(axis=0))


def median(points: FloatArray) -> FloatArray:
    """The median of the points, along every axis."""
    return np.asarray(np.median(points, axis=0))


def trimmed(points: FloatArray) -> FloatArray:
    """The mean of every axis without the largest and the smallest tenth of its values."""
    from scipy.stats import trim_mean

    return np.asarray(trim_mean(points, _TRIMMED, axis=0))


STRATEGIES: Mapping[str, Strategy] = {
    "mean": mean,
    "median": median,
    "trimmed": trimmed,
    "best-mean": mean,
    "best-median": median,
}


def combined(strategy: str, points: FloatArray, space: Space) -> FloatArray:
    """One point from many; of choices always the mean, so that the most frequent wins."""
    found, often = STRATEGIES[strategy](points), mean(points)
    for name, knob in space.knobs.items():
        if isinstance(knob, Choice):
            found[space.columns[name]] = often[space.columns[name]]
    return found


@dataclass(frozen=True)
class Cluster:
    """Its centroid in the unit cube, the mean score of its points, and how many they are."""

    centre: FloatArray
    score: float
    size: float


def ranked(clusters: Sequence[Cluster]) -> list[Cluster]:
    """The best score first; of equal ones the largest."""
    return sorted(clusters, key=lambda cluster: (-cluster.score, -cluster.size))


def dbscan(
    points: FloatArray, scores: FloatArray, min_points: int, radius: float | None
) -> tuple[list[Cluster], float]:
    """The clusters of all points, best first, and the radius they were found with.

    As section IV-A and the appendix: axes scaled by the smallest and largest value, the radius at the knee of the
    distances to the (min_points + 1)-th nearest point.
    """
    from sklearn.cluster import DBSCAN

    low, high = points.min(axis=0), points.max(axis=0)
    scaled = (points - low) / np.where(high > low, high - low, 1)
    radius = knee(scaled, min_points + 1) if radius is None else radius
    labels = DBSCAN(eps=radius, min_samples=min_points).fit_predict(scaled)
    return ranked([_cluster(points[labels == at], scores[labels == at]) for at in range(labels.max() + 1)]), radius


def _cluster(points: FloatArray, scores: FloatArray) -> Cluster:
    return Cluster(mean(points), float(scores.mean()), len(scores))


def knee(points: FloatArray, k: int) -> float:
    """Where the sorted distances to the k-th nearest point bend most: farthest below the line from first to last.

    A point is the nearest to itself, as the appendix's k = MinPts + 1 takes it. Many clients find the same points, so
    distances of 0 say nothing about a radius and do not count; if there are no others, the radius is tiny, and clusters
    are configs that MinPts clients share.
    """
    from sklearn.neighbors import NearestNeighbors

    near = NearestNeighbors(n_neighbors=min(k, len(points))).fit(points)
    distances = np.sort(near.kneighbors(points)[0][:, -1])
    distances = distances[distances > 0]
    if not len(distances):
        return _TINY
    line = np.linspace(distances[0], distances[-1], len(distances))
    return float(distances[np.argmax(line - distances)])
