"""How likely a vote is to choose well, before any data is touched: a model of agreement, simulated, and a bound.

The model is DP-HYPE's (section V-B): some candidates are good, the others bad; each voter's loss of a candidate is
normal around 0 or around 1, with one standard deviation for all. Ballots are simulated, vectorised over repetitions,
voters and candidates; given the ballots, the chance of a good choice under noise is computed, not drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hushtune.core.arrays import FloatArray, IntArray
from hushtune.core.checks import integer, number
from hushtune.core.errors import SettingError
from hushtune.methods.vote.ballots import grades_of

_Key = TypeVar("_Key")
_AT_ONCE = 10_000_000  # losses held in memory at one time
MOST_LOSSES = 100_000_000  # drawn in all; beyond, sums of ballots are drawn from a normal distribution
_POOL = 5_000  # ballots from which that distribution is computed
_FINEST = 2_048  # different noisy counts that are told apart where a chance is computed
_SMALLEST = 1e-300  # a probability whose logarithm is still finite


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


# ---- ballots -----------------------------------------------------------------------------------------


def counts(
    voters: int,
    candidates: int,
    ks: Sequence[int],
    agreement: Agreement,
    repetitions: int,
    rng: np.random.Generator,
    most: int = MOST_LOSSES,
) -> Mapping[int, IntArray]:
    """Noise-free counts for each k, shape (repetitions, candidates); the good candidates come first.

    The same losses are ranked for all k. If more than `most` losses would be drawn, sums of ballots are.
    """
    if voters * candidates * repetitions <= most:
        return _summed(voters, candidates, partial(_votes, ks=ks), agreement, repetitions, rng)
    found = {}
    for k in ks:
        pool = _votes(_losses(_pool_size(candidates), candidates, agreement, rng), [k])[k]
        chance = _vote_chance(candidates, k, agreement)  # the pool's error would grow with the voters
        means = np.array([chance, (k - agreement.good * chance) / max(1, candidates - agreement.good)])
        found[k] = _normal_sums(pool, voters, agreement.good, repetitions, rng, (means, means))
    return found


def totals(
    voters: int,
    candidates: int,
    widths: Sequence[float],
    best: int,
    agreement: Agreement,
    repetitions: int,
    rng: np.random.Generator,
    most: int = MOST_LOSSES,
) -> Mapping[float, IntArray]:
    """The same for grades up to `best`: noise-free totals for each width."""
    cast = partial(_grades, widths=widths, best=best)
    if voters * candidates * repetitions <= most:
        return _summed(voters, candidates, cast, agreement, repetitions, rng)
    pool = cast(_losses(_pool_size(candidates), candidates, agreement, rng))
    return {width: _normal_sums(grades, voters, agreement.good, repetitions, rng) for width, grades in pool.items()}


def soft_totals(
    voters: int,
    candidates: int,
    norm: int,
    agreement: Agreement,
    repetitions: int,
    rng: np.random.Generator,
    most: int = MOST_LOSSES,
) -> IntArray:
    """The same for scores that are centred and scaled to one norm, in steps of an integer grid."""
    cast = partial(_scores, norm=norm)
    if voters * candidates * repetitions <= most:
        return _summed(voters, candidates, cast, agreement, repetitions, rng)[norm]
    pool = cast(_losses(_pool_size(candidates), candidates, agreement, rng))[norm]
    return _normal_sums(pool, voters, agreement.good, repetitions, rng)


def _summed(
    voters: int,
    candidates: int,
    cast: Callable[[FloatArray], Mapping[_Key, IntArray]],
    agreement: Agreement,
    repetitions: int,
    rng: np.random.Generator,
) -> Mapping[_Key, IntArray]:
    found: dict[_Key, list[IntArray]] = {}
    batch = max(1, _AT_ONCE // (voters * candidates))
    for start in range(0, repetitions, batch):
        size = min(batch, repetitions - start)
        for key, ballots in cast(_losses(size * voters, candidates, agreement, rng)).items():
            sums = ballots.reshape(size, voters, candidates).sum(axis=1, dtype=np.int64)
            found.setdefault(key, []).append(sums)
    return {key: np.concatenate(parts) for key, parts in found.items()}


def _losses(voters: int, candidates: int, agreement: Agreement, rng: np.random.Generator) -> FloatArray:
    """Shape (voters, candidates); the good candidates come first. Floats of 32 bits are enough."""
    losses: Any = rng.standard_normal((voters, candidates), dtype=np.float32)
    losses *= np.float32(agreement.overlap)
    losses[:, agreement.good :] += 1
    if agreement.overlap == 0:
        losses += rng.random(losses.shape, dtype=np.float32) * np.float32(1e-3)  # ties are broken at random
    found: FloatArray = losses
    return found


def _votes(losses: FloatArray, ks: Sequence[int]) -> Mapping[int, IntArray]:
    """Ballots for each k, shape (voters, candidates)."""
    ranked = np.sort(losses, axis=1)
    return {k: (losses <= ranked[:, k - 1 : k]).view(np.int8) for k in ks}


def _grades(losses: FloatArray, widths: Sequence[float], best: int) -> Mapping[float, IntArray]:
    """The same of grades, for each width."""
    return {width: grades_of(losses, width, best) for width in widths}


def _scores(losses: FloatArray, norm: int) -> Mapping[int, IntArray]:
    """Minus the losses, centred, scaled to a norm and rounded towards zero; shape (voters, candidates)."""
    scores = losses.mean(axis=1, keepdims=True) - losses
    size = np.maximum(np.linalg.norm(scores, axis=1, keepdims=True), 1e-30)
    return {norm: np.trunc(scores * (norm / size)).astype(np.int64)}


def _pool_size(candidates: int) -> int:
    return min(_POOL, max(1_000, _AT_ONCE // candidates))


def _normal_sums(
    pool: IntArray,
    voters: int,
    good: int,
    repetitions: int,
    rng: np.random.Generator,
    moments: tuple[FloatArray, FloatArray] | None = None,
) -> IntArray:
    """Sums of very many independent ballots: normal, with the mean and covariance of a pool of ballots.

    Good candidates are exchangeable among themselves, and so are bad ones: the pool's moments are averaged over them.

    Args:
        pool: shape (ballots, candidates).
        voters: how many ballots are summed.
        good: how many candidates are good; they come first.
        repetitions: how many sums.
        rng: a simulation's.
        moments: the mean of an entry and of its square, of good candidates and of bad ones, where these are known.
    """
    candidates = pool.shape[1]
    parts = [part.astype(np.float64) for part in (pool[:, :good], pool[:, good:])]
    sizes, sums = np.array([good, candidates - good]), [part.sum(axis=1) for part in parts]
    squares = [(part**2).sum(axis=1) for part in parts]
    if moments is None:
        each = np.maximum(1, sizes)
        moments = np.array([one.mean() for one in sums]) / each, np.array([one.mean() for one in squares]) / each
    pairs = np.array([[np.mean(one * other) for other in sums] for one in sums])
    pairs -= np.diag([one.mean() for one in squares])
    ways = np.outer(sizes, sizes) - np.diag(sizes)
    between = np.divide(pairs, ways, out=np.zeros((2, 2)), where=ways > 0) - np.outer(moments[0], moments[0])
    own = moments[1] - moments[0] ** 2 - np.diag(between)  # what a candidate does not share with others of its kind
    means = between + np.diag(own / np.maximum(1, sizes))  # covariance of the two kinds' means
    values, vectors = np.linalg.eigh(means)
    centres = rng.standard_normal((repetitions, 2)) @ (vectors * np.sqrt(np.maximum(0, values))).T
    parted = []
    for at, size in enumerate(sizes):
        apart = rng.standard_normal((repetitions, size)) * math.sqrt(max(0.0, own[at]))
        if size:
            apart += centres[:, at : at + 1] - apart.mean(axis=1, keepdims=True)
        parted.append(voters * moments[0][at] + math.sqrt(voters) * apart)
    rounded: IntArray = np.rint(np.concatenate(parted, axis=1)).astype(np.int64)
    return rounded


def _vote_chance(candidates: int, k: int, agreement: Agreement) -> float:
    """How likely a voter is to vote for a given good candidate: fewer than k others have a smaller loss.

    An integral over the candidate's own loss; given it, the others are below it independently of each other.
    """
    good, bad = agreement.good - 1, candidates - agreement.good
    own = np.linspace(-9, 9, 2_001)  # in standard deviations
    masses = np.exp(-own * own / 2) * (own[1] - own[0]) / math.sqrt(2 * math.pi)  # the trapezoidal rule: exact here
    from_good = _binomial(k, good, _normal(own))
    from_bad = _binomial(k, bad, _normal(own - 1 / max(agreement.overlap, 1e-6))).cumsum(axis=1)[:, ::-1]
    return float((from_good * from_bad).sum(axis=1) @ masses)


def _normal(x: FloatArray) -> FloatArray:
    """P[N(0, 1) <= x]."""
    return np.array([math.erfc(-value / math.sqrt(2)) / 2 for value in x.tolist()])


def _binomial(values: int, times: int, chance: FloatArray) -> FloatArray:
    """P[Bin(times, chance) = j] for j = 0..values-1, shape (chances, values)."""
    factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, max(values, times) + 1)))])
    j = np.arange(min(values, times + 1))
    ways = factorials[times] - factorials[j] - factorials[times - j]
    yes, no = (np.log(np.maximum(p, _SMALLEST))[:, None] for p in (chance, 1 - chance))
    found = np.zeros((len(chance), values))
    found[:, : len(j)] = np.exp(ways + j * yes + (times - j) * no)
    return found


# ---- a good choice -----------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def skellam_cdf(variance: float) -> tuple[int, FloatArray]:
    """A number `far`, and P[Skellam(variance) <= x] for x = -far..far, beyond which nothing is to be expected.

    By the Fourier transform of its characteristic function exp(variance (cos t - 1)): to about 1e-15, enough for odds.
    """
    far = int(12 * math.sqrt(variance)) + 12
    length = 1 << (2 * far + 1).bit_length()
    angles = np.arange(length // 2 + 1) * (2 * math.pi / length)
    masses = np.fft.irfft(np.exp(variance * (np.cos(angles) - 1)), length)
    cumulated: FloatArray = np.cumsum(np.concatenate([masses[-far:], masses[: far + 1]]))
    found = np.clip(cumulated, _SMALLEST, 1.0)
    found.setflags(write=False)
    return far, found


def success(found: IntArray, good: int, variance: float) -> float:
    """The chance that the largest noisy count is a good candidate's, averaged over the counts.

    Args:
        found: as `counts` gives it.
        good: how many come first.
        variance: of the noise on each count.
    """
    return float(chances(found, good, variance).mean())


def chances(found: IntArray, good: int, variance: float) -> FloatArray:
    """The same for each vote, shape (repetitions,).

    Exact for Skellam noise but for ties of a good and a bad candidate, which each wins half of. Whichever is largest,
    only how many candidates have a count matters, not which: P[no bad one is above x] is a product over counts.

    Args:
        found: as `counts` gives it.
        good: how many come first.
        variance: of the noise on each count.
    """
    if good == found.shape[1]:
        return np.ones(len(found))
    if variance == 0:
        ahead = found[:, :good].max(axis=1) - found[:, good:].max(axis=1)
        half: FloatArray = (1 + np.sign(ahead)) / 2
        return half
    far, _ = skellam_cdf(variance)
    best = found.max(axis=1)
    step = -(-(int(best.max()) - int(best.min()) + 3 * far) // _FINEST)  # 1, unless votes alone differ by thousands
    far, cdf = skellam_cdf(variance / step**2)
    best, found = best // step, found // step
    first, last = int(best.min()) - far, int(best.max()) + far  # where the largest noisy count is to be expected
    lowest = first - far  # below, a count has no chance to reach that far
    here = np.arange(first - 1, last + 1) - np.arange(lowest, int(best.max()) + 1)[:, None]
    below = np.log(cdf)[np.clip(here, -far, far) + far]
    below[here < -far] = math.log(_SMALLEST)
    no_good, no_bad = (
        np.exp(np.maximum(_how_many(part, lowest, len(here)) @ below, math.log(_SMALLEST)))
        for part in (found[:, :good], found[:, good:])
    )
    wins = np.diff(no_good, axis=1) * (no_bad[:, 1:] + no_bad[:, :-1]) / 2
    each: FloatArray = np.clip(wins.sum(axis=1), 0.0, 1.0)
    return each


def _how_many(found: IntArray, lowest: int, width: int) -> FloatArray:
    """How many candidates have each count from `lowest` on, shape (repetitions, width); lower ones are left out."""
    row, column = np.nonzero(found >= lowest)
    at = row * width + (found[row, column] - lowest)
    counted: NDArray[np.intp] = np.bincount(at, minlength=len(found) * width)
    return counted.reshape(len(found), width).astype(np.float64)


def bound(found: IntArray, good: int, variance: float) -> float:
    """A lower bound on the chance of a good choice, averaged over the counts: DP-HYPE, Theorem V.1.

    The theorem is about normal noise. The same union bound holds with the exact tail of the integer noise; where that
    is lower, it is taken.
    """
    bad = found.shape[1] - good
    if bad == 0:
        return 1.0
    gaps = found[:, :good].min(axis=1) - found[:, good:].max(axis=1)
    ahead = gaps > 0
    if variance == 0 or not ahead.any():
        return float(np.mean(ahead)) if variance == 0 else 0.0
    gap = gaps[ahead].astype(np.float64)
    normal = np.sqrt(variance / np.pi) / gap * np.exp(-(gap**2) / (4 * variance))
    far, cdf = skellam_cdf(2 * variance)  # of the difference of two noises
    exact = cdf[np.maximum(far - gaps[ahead], 0)]
    return float(np.maximum(0, 1 - bad * np.maximum(normal, exact)).sum() / len(gaps))


def loudest(variance: float, size: int) -> float:
    """The mean of the largest of `size` noise values: the sum over x >= 0 of P[max > x], less what is below 0."""
    if variance == 0:
        return 0.0
    far, cdf = skellam_cdf(variance)
    largest = cdf**size  # P[max <= x]
    return float(np.sum(1 - largest[far:]) - np.sum(largest[:far]))
