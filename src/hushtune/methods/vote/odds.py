"""How likely a vote is to choose well, before any data is touched: a model of agreement, simulated, and a bound.

The model is DP-HYPE's (section V-B): some candidates are good, the others bad; each voter's loss of a candidate is
normal around 0 or around 1, with one standard deviation for all. It is vectorised over repetitions, voters and
candidates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushtune.core.arrays import FloatArray, IntArray
from hushtune.core.checks import integer, number
from hushtune.core.errors import SettingError
from hushtune.core.space import Candidates
from hushtune.methods.decode import smooth

_AT_ONCE = 10_000_000  # losses held in memory at one time
_MOST = 100_000_000  # losses drawn in all; beyond, sums of ballots are drawn from a normal distribution
_POOL = 20_000  # ballots from which that distribution is computed


@dataclass(frozen=True)
class Agreement:
    """How far voters agree on what is good.

    Args:
        good: how many candidates are good.
        overlap: standard deviation of a voter's loss, where good ones have mean 0 and bad ones 1. At .2 voters nearly
            agree, at 1 good and bad overlap much, at 3 a single ballot says next to nothing.
    """

    good: int
    overlap: float = 0.5

    def __post_init__(self) -> None:
        integer("good", self.good, 1)
        number("overlap", self.overlap, 0, 100)

    def check(self, candidates: int) -> None:
        """Refuses more good candidates than there are.

        Args:
            candidates: how many there are.
        """
        if self.good > candidates:
            raise SettingError(f"`good <= candidates` must hold, but got good={self.good}, candidates={candidates}")


def counts(
    voters: int,
    candidates: int,
    ks: Sequence[int],
    agreement: Agreement,
    repetitions: int,
    rng: np.random.Generator,
) -> Mapping[int, IntArray]:
    """Noise-free counts for each k, shape (repetitions, candidates); the good candidates come first.

    The same losses are ranked for all k.
    """
    if voters * candidates * repetitions > _MOST:
        return {k: _normal_counts(voters, candidates, k, agreement, repetitions, rng) for k in ks}
    found: dict[int, list[IntArray]] = {k: [] for k in ks}
    batch = max(1, _AT_ONCE // (voters * candidates))
    for start in range(0, repetitions, batch):
        size = min(batch, repetitions - start)
        for k, ballots in _ballots(size * voters, candidates, ks, agreement, rng).items():
            found[k].append(ballots.reshape(size, voters, candidates).sum(axis=1, dtype=np.int64))
    return {k: np.concatenate(parts) for k, parts in found.items()}


def _ballots(
    voters: int, candidates: int, ks: Sequence[int], agreement: Agreement, rng: np.random.Generator
) -> Mapping[int, NDArray[np.bool_]]:
    """Ballots for each k, shape (voters, candidates)."""
    losses = rng.standard_normal((voters, candidates), dtype=np.float32)
    losses *= np.float32(agreement.overlap)
    losses[:, agreement.good :] += 1
    if agreement.overlap == 0:
        losses += rng.random(losses.shape, dtype=np.float32) * np.float32(1e-3)  # ties are broken at random
    ranked = np.sort(losses, axis=1)
    return {k: losses <= ranked[:, k - 1 : k] for k in ks}


def _normal_counts(
    voters: int, candidates: int, k: int, agreement: Agreement, repetitions: int, rng: np.random.Generator
) -> IntArray:
    """Sums of very many independent ballots: normal, with the mean and covariance of a pool of ballots.

    Good candidates are exchangeable among themselves, and so are bad ones: the pool's moments are averaged over them.
    """
    pool = _ballots(min(_POOL, max(1_000, _AT_ONCE // candidates)), candidates, [k], agreement, rng)[k]
    good = pool[:, : agreement.good].sum(axis=1).astype(np.float64)
    bad, sizes = k - good, (agreement.good, candidates - agreement.good)
    chance = _vote_chance(candidates, k, agreement)  # its error grows with the voters, so it is not taken from the pool
    votes = np.array([chance, (k - sizes[0] * chance) / max(1, sizes[1])])
    pairs = np.array([[np.mean(good * (good - 1)), np.mean(good * bad)], [0, np.mean(bad * (bad - 1))]])
    pairs[1, 0] = pairs[0, 1]
    ways = np.array(
        [[sizes[0] * (sizes[0] - 1), sizes[0] * sizes[1]], [0, sizes[1] * (sizes[1] - 1)]], dtype=np.float64
    )
    ways[1, 0] = ways[0, 1]
    between = np.divide(pairs, ways, out=np.zeros((2, 2)), where=ways > 0)
    group = (np.arange(candidates) >= agreement.good).astype(int)
    mean = votes[group]
    covariance = between[np.ix_(group, group)]
    np.fill_diagonal(covariance, mean)
    covariance -= np.outer(mean, mean)
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(0, values))
    drawn = voters * mean + np.sqrt(voters) * rng.standard_normal((repetitions, candidates)) @ root.T
    rounded: IntArray = np.rint(drawn).astype(np.int64)
    return rounded


def _vote_chance(candidates: int, k: int, agreement: Agreement) -> float:
    """How likely a voter is to vote for a given good candidate: fewer than k others have a smaller loss.

    An integral over the candidate's own loss; given it, the others are below it independently of each other.
    """
    from scipy.stats import binom, norm

    good, bad = agreement.good - 1, candidates - agreement.good
    spread = max(agreement.overlap, 1e-6)
    own = np.linspace(-9, 9, 2_001)  # in standard deviations
    masses = norm.pdf(own) * (own[1] - own[0])  # the trapezoidal rule: exact here
    below = np.arange(k)
    from_good = binom.pmf(below, good, norm.cdf(own)[:, None])
    from_bad = binom.cdf(k - 1 - below, bad, norm.cdf(own - 1 / spread)[:, None])
    return float((from_good * from_bad).sum(axis=1) @ masses)


def noise(variance: float, shape: tuple[int, ...], rng: np.random.Generator) -> IntArray:
    """Skellam noise for a simulation: the difference of two Poisson variables."""
    half = np.full(shape, variance / 2)
    drawn: IntArray = rng.poisson(half) - rng.poisson(half)
    return drawn


def success(found: IntArray, good: int, variance: float, rng: np.random.Generator) -> float:
    """How often the largest noisy count is a good candidate's; `found` as `counts` gives it."""
    ties = rng.random(found.shape) / 2
    best = np.argmax(found + noise(variance, found.shape, rng) + ties, axis=1)
    return float(np.mean(best < good))


def smooth_success(
    found: IntArray, good: int, cast: int, variance: float, candidates: Candidates, rng: np.random.Generator
) -> float:
    """The same for smooth decoding, if good candidates lie together: around a random centre, the nearest ones."""
    hits = 0
    for row in found:
        place = _region(candidates.encoded, good, rng)
        noisy = np.empty(len(row), dtype=np.int64)
        noisy[place] = row + noise(variance, row.shape, rng)
        hits += int(smooth(noisy, cast, variance, candidates).best in set(place[:good].tolist()))
    return hits / len(found)


def _region(encoded: FloatArray, good: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """An order of all candidates whose first `good` ones lie together, the rest in random order."""
    centre = encoded[rng.integers(len(encoded))]
    distance = ((encoded - centre) ** 2).sum(axis=1) + rng.random(len(encoded)) * 1e-9
    order = np.argsort(distance)
    return np.concatenate([order[:good], rng.permutation(order[good:])])


def bound(found: IntArray, good: int, variance: float) -> float:
    """A lower bound on the chance of a good choice, averaged over the counts: DP-HYPE, Theorem V.1.

    The theorem is about normal noise. The same union bound holds with the exact tail of the integer noise; where that
    is lower, it is taken.
    """
    from scipy.stats import skellam

    bad = found.shape[1] - good
    if bad == 0:
        return 1.0
    gaps = found[:, :good].min(axis=1) - found[:, good:].max(axis=1)
    ahead = gaps > 0
    if variance == 0 or not ahead.any():
        return float(np.mean(ahead)) if variance == 0 else 0.0
    gap = gaps[ahead].astype(np.float64)
    normal = np.sqrt(variance / np.pi) / gap * np.exp(-(gap**2) / (4 * variance))
    exact = skellam.sf(gap - 1, variance, variance)
    return float(np.maximum(0, 1 - bad * np.maximum(normal, exact)).sum() / len(gaps))
