"""What may be asked of integer sums that stay hidden: which one is large. Pure differential privacy.

One unit changes every sum by at most `sensitivity`. `scale` is in the same steps; a test against a threshold is
(2 sensitivity / scale, 0)-private. The three mechanisms that look for a maximum are (R / scale, 0)-private, where R is
the largest minus the smallest change that one unit can make (proof: `hushtune.privacy.noise.geometric`): if all changes
have one sign, that is half as much. Noise and coins are exact (`hushtune.privacy.noise.laplace`), so no slack is
needed. Where coins need an integer as scale it is rounded up: no answer costs more than announced.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hushtune.core.arrays import IntArray
from hushtune.core.randomness import Randomness, words
from hushtune.privacy.noise import geometric, laplace


def above_threshold(
    sums: IntArray, threshold: int, scale: int, order: Sequence[int], randomness: Randomness
) -> int | None:
    """The first place, in a public order, whose noisy sum reaches the noisy threshold; None if there is none.

    AboveThreshold (Dwork and Roth 2014, Theorem 3.23): Laplace noise of the given scale on the threshold and of twice
    that on every sum. With scale = 2 sensitivity / epsilon it is epsilon-private, however many sums there are. All sums
    get their noise, whichever is the first to reach it.
    """
    level = threshold + int(laplace.sample(scale, 1, randomness)[0])
    noisy = sums[list(order)] + laplace.sample(2 * scale, len(order), randomness)
    above = np.flatnonzero(noisy >= level)
    return order[int(above[0])] if above.size else None


def permute_and_flip(sums: IntArray, scale: float, randomness: Randomness) -> int:
    """The first in a secret random order whose coin of chance exp(-(largest - sum) / scale) is heads.

    McKenna and Sheldon 2020, Theorem 1; never worse on average than the exponential mechanism (their Theorem 2).
    """
    order = np.lexsort(words(randomness, 2, len(sums)))  # ties of 128 bits do not happen
    heads = laplace.coins((sums.max() - sums)[order], math.ceil(scale), randomness)
    return int(order[int(np.argmax(heads))])  # the largest one's coin is always heads


def exponential(sums: IntArray, scale: float, randomness: Randomness) -> int:
    """A place with chance proportional to exp(sum / scale) (McSherry and Talwar 2007), by rejection."""
    below = np.full(1, len(sums))
    while True:
        place = int(laplace.uniform(below, randomness)[0])
        if laplace.coins(sums.max() - sums[place : place + 1], math.ceil(scale), randomness)[0]:
            return place


def noisiest(sums: IntArray, scale: float, randomness: Randomness) -> int:
    """The place of the largest sum with geometric noise on each, ties to the first place.

    Report noisy max (`hushtune.privacy.noise.geometric`); the rate is the largest fraction not above 1 / scale.
    """
    noise = geometric.sample(geometric.rate_of(scale), len(sums), randomness)
    return geometric.noisy_max(sums, noise)
