"""Auditing: a lower bound on epsilon from samples, to catch noise that is too small or a bound that is not kept.

An audit can refute a claim; it can never prove one.
"""

from __future__ import annotations

import math

import numpy as np

from hushtune.core.arrays import FloatArray
from hushtune.core.errors import SettingError


def epsilon_lower_bound(one: FloatArray, other: FloatArray, delta: float, false_alarm: float = 1e-7) -> float:
    """An epsilon that the mechanism exceeds, unless the samples are a freak of probability `false_alarm`.

    For an (epsilon, delta)-private mechanism P[S] <= e^epsilon Q[S] + delta for every event S. The event is
    "statistic at or above a threshold"; the threshold is picked on the first halves of the samples, the two
    probabilities are bounded on the second halves by exact binomial (Clopper-Pearson) intervals.

    Args:
        one: a statistic of what is opened, in independent runs on one input, shape (runs,).
        other: the same on a neighbouring input; larger values should be rarer here.
        delta: the claimed delta.
        false_alarm: the chance of a bound above the true epsilon.
    """
    if min(len(one), len(other)) < 100:
        raise SettingError(f"an audit needs at least 100 runs on each input, but got {len(one)}, {len(other)}")
    (pick_one, test_one), (pick_other, test_other) = np.array_split(one, 2), np.array_split(other, 2)
    thresholds = np.unique(np.quantile(pick_one, np.linspace(0, 0.999, 200)))
    promising = [_bound(pick_one, pick_other, t, delta, false_alarm) for t in thresholds]
    chosen = thresholds[int(np.argmax(promising))]
    return max(0.0, _bound(test_one, test_other, chosen, delta, false_alarm))


def _bound(one: FloatArray, other: FloatArray, threshold: float, delta: float, false_alarm: float) -> float:
    from scipy.stats import beta

    hits, misses = int((one >= threshold).sum()), int((one < threshold).sum())
    false_hits, rest = int((other >= threshold).sum()), int((other < threshold).sum())
    least = beta.ppf(false_alarm / 2, hits, misses + 1) if hits else 0.0
    most = beta.ppf(1 - false_alarm / 2, false_hits + 1, rest) if rest else 1.0
    return math.log((least - delta) / most) if least > delta else -math.inf
