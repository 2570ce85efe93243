"""The noise on hidden sums as a plan draws it: from a seed, in floats. For simulations only, never for privacy."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from hushtune.core.arrays import FloatArray
from hushtune.privacy.noise import geometric
from hushtune.privacy.noise.base import Noise
from hushtune.seals.oracle import Mechanism


def shape_of(noise: Noise) -> Fraction:
    """Of the noise on each score, in units of what the guarantee counts on: more than 1, if all nodes add their share.

    Args:
        noise: the run's.
    """
    return Fraction(noise.nodes, noise.honest_nodes) if noise.nodes else Fraction(1)


def drawn_noise(mechanism: Mechanism, noise: Noise, size: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
    """Noise under which the largest score wins as often as by a mechanism, in steps of the scores.

    Permute-and-flip is a noisy maximum with exponential noise (Ding et al. 2021), the exponential mechanism one with
    Gumbel noise.

    Args:
        mechanism: by its name.
        noise: the run's.
        size: the shape of what is drawn.
        rng: a simulation's.
    """
    if not noise.scale:
        return np.zeros(size)
    if mechanism == "permute-and-flip":
        return rng.exponential(math.ceil(noise.scale), size)
    if mechanism == "exponential":
        return rng.gumbel(scale=math.ceil(noise.scale), size=size)
    chance = -math.expm1(-float(geometric.rate_of(noise.scale)))
    return rng.negative_binomial(float(shape_of(noise)), chance, size).astype(np.float64)


def deviation_of(mechanism: Mechanism, noise: Noise) -> float:
    """The standard deviation of that noise, in steps of the scores.

    Args:
        mechanism: by its name.
        noise: the run's.
    """
    if not noise.scale:
        return 0.0
    if mechanism == "geometric":
        return math.sqrt(geometric.variance(geometric.rate_of(noise.scale), shape_of(noise)))
    whole = math.ceil(noise.scale)
    return whole if mechanism == "permute-and-flip" else whole * math.pi / math.sqrt(6)
