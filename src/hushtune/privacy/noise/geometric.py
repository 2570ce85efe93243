"""The place of the largest noisy score, and nothing else: report noisy max with geometric noise, in exact shares.

**The mechanism.** Candidates have integer scores s_1, ..., s_p. Each gets its own G_j >= 0 with P[G_j >= g] =
e^(-rate g), and only the place of the largest s_j + G_j is opened, ties to the first place (`noisy_max`).

**The theorem.** One unit changes the scores by c_1, ..., c_p, and max c - min c <= R for every such change. Then the
place is (rate R, 0)-private, however many candidates there are. Proof: fix the noise of all candidates but j. Place j
is opened if and only if G_j >= r, where r is the least integer with which j beats all others, or ties if its place is
first. On the neighbour every rival moved by at most max c, and j by at least min c: the threshold is r' <= r + R, and
P[G >= r'] >= P[G >= r + R] >= e^(-rate R) P[G >= r]. (The last two are equal for r >= 0; for r < 0 the right one is
e^(-rate R), and r + R < R.) Averaged over the fixed noise, P'[j] >= e^(-rate R) P[j], for each j and both ways round.
After Dwork and Roth 2014, Claim 3.9, whose noise is Laplace. With exponential noise it would be permute-and-flip (Ding
et al. 2021); with geometric noise and ordered ties it is not quite.

What R is: where a unit moves each score by up to D either way, R = 2 D. Where all its changes have one sign (a unit's
nonnegative scores are put to zero), R = D. It does not depend on how many scores move. Where all scores move alike, or
if there is one candidate only, R = 0: the place says nothing. Of ballots, zeros and ones:

- exactly k ones, one ballot replaced by another: changes are -1, 0 and 1, R = 2. Put to zeros: -1 and 0, R = 1. With
  k = p every ballot is the same, and putting one to zeros moves all counts alike: R = 0 both times.
- at most k ones: the same, R = 2 and R = 1; with k = p too, as ballots may differ. With p = 1 there is one place only.

**Two more mechanisms have the same cost**, R / scale, for real R: the exponential mechanism, P[j] ~ e^(s_j / scale),
and permute-and-flip (`hushtune.privacy.noise.selection`). Neither looks at anything but differences of scores. So the
changes c_j do what c_j - (max c + min c) / 2 do, which are at most R / 2 either way; and with scores that change by at
most D each, both are (2 D / scale, 0)-private (McSherry and Talwar 2007; McKenna and Sheldon 2020, Theorem 1). Tests
against a public threshold look at the scores themselves: for them D counts, and never R.

**Shares.** A negative binomial variable of shape s has P[x] = (s (s+1) ... (s+x-1) / x!) (1 - q)^s q^x, q = e^-rate,
and the generating function ((1 - q) / (1 - q z))^s. Independent ones of shapes s and s' add up to one of shape s + s',
and shape 1 is the geometric variable: any `parts` independent shares of shape 1/parts add up to exactly G_j (`share`).

**More noise does no harm.** Whatever others add beyond `parts` honest shares is independent of the data and of those
shares, and may be known to an attacker. Fix it: it shifts the scores by the same constants on both neighbours, so the
changes and R stay, and the theorem holds for every value of it. Fewer than `parts` shares do not keep the claim.

**Bounded range does not hold.** The log ratios of two neighbours lie in [-epsilon, epsilon], but not in an interval of
length epsilon, as those of the exponential mechanism do: 1.71 at epsilon 1, two candidates. Compose it as a pure
mechanism, never by the better theorems for bounded range.

Every comparison is one of integers: draws have no distance to the exact distribution.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from hushtune.core.arrays import BoolArray, IntArray
from hushtune.core.errors import SettingError
from hushtune.core.randomness import Randomness
from hushtune.privacy.decimals import named, not_below
from hushtune.privacy.noise import laplace

LARGEST_DENOMINATOR = 2**20
"""Of a rate, and so the largest scale 1 / rate too: a share takes about parts / rate coins, 100 of that scale 15 s."""

LARGEST_SCALE = LARGEST_DENOMINATOR
LARGEST_RATE = 2**20
LARGEST_PARTS = 2**20
LARGEST_SHAPE = 2**20
_MOST_PROPOSALS = 2**16  # at once
_MOST_COINS = 2**20  # at once
_ROUNDING = 2.0**-20  # more than floats lose in the exponent of `reach`: its terms stay below 2^28


def rate_of(scale: float) -> Fraction:
    """The rate at which noise of a scale is drawn: the largest a/b with b <= 2**20 that is not above 1/scale, exactly.

    Whoever draws takes it from here, so that a place costs no more than `cost_of` says.

    Args:
        scale: from 2**-20 to 2**20, in steps of the scores.
    """
    if isinstance(scale, bool) or not 1 / LARGEST_RATE <= scale <= LARGEST_SCALE:
        raise SettingError(f"`2**-20 <= scale <= 2**20` must hold, but got scale={scale!r}")
    return _rounded_down(1 / Fraction(scale), LARGEST_DENOMINATOR)


def cost_of(reach: int, scale: float) -> float:
    """What opening a place costs under noise of a scale, pure: reach / scale, never rounded down.

    As a float whose shortest decimal text names no less (`hushtune.privacy.decimals`). Nothing, if nothing can change;
    infinite without noise.

    Args:
        reach: R, the largest minus the smallest change over the candidates that one unit can make.
        scale: of the noise, 0 or more.
    """
    if reach == 0:
        return 0.0
    return not_below(Fraction(reach) / Fraction(scale)) if scale else math.inf


def winner_rate(epsilon: float, reach: int) -> Fraction:
    """The largest rate a/b with b <= 2**20 and rate * reach <= epsilon, exactly: never rounded up.

    Epsilon is the number that its shortest decimal text names, 3/10 for 0.3: that is what was asked for, and what
    statements and ledgers say. (The binary number behind it lies up to 2^-53 of it to either side.)

    Args:
        epsilon: what opening the place may cost, pure.
        reach: R, the largest minus the smallest change over the candidates that one unit can make.
    """
    if not isinstance(reach, int) or reach < 1:
        raise SettingError(f"reach must be an integer of at least 1, but got {reach!r}")
    if not math.isfinite(epsilon) or epsilon <= 0:
        raise SettingError(f"epsilon must be positive and finite, but got {epsilon!r}")
    exact = named(epsilon) / reach
    if not Fraction(1, LARGEST_DENOMINATOR) <= exact <= LARGEST_RATE:
        raise SettingError(
            f"`2**-20 <= epsilon / reach <= 2**20` must hold, but got epsilon={epsilon!r}, reach={reach}; "
            "choose another epsilon or coarser scores"
        )
    return _rounded_down(exact, LARGEST_DENOMINATOR)


def _rounded_down(exact: Fraction, largest: int) -> Fraction:
    """The largest fraction with a denominator up to `largest` that is not above a positive one.

    The nearest such fraction, p/q, is either not above, and then it is the one; or nothing lies between the exact one
    and p/q, and the one is its neighbour a/b in the Farey sequence: p b - q a = 1 with the largest possible b.
    """
    near = exact.limit_denominator(largest)
    if near <= exact:
        return near
    p, q = near.numerator, near.denominator
    inverse = pow(p, -1, q)
    b = inverse + (largest - inverse) // q * q
    return Fraction((p * b - 1) // q, b)


def sample(rate: Fraction, size: int, randomness: Randomness) -> IntArray:
    """`size` independent geometric variables, P[G >= g] = e^(-rate g) for g = 0, 1, 2, ..., shape (size,).

    Canonne, Kamath, Steinke 2020, Algorithm 2: for rate a/b draw x with P[x >= g] = e^(-g/b), a low part below b and
    b times a whole part. Then x // a >= g if and only if x >= a g, which has chance e^(-(a/b) g).
    """
    _check_rate(rate)
    scale = rate.denominator
    low = np.zeros(size, dtype=np.int64)
    missing = np.arange(size)
    while missing.size:
        low[missing] = laplace.uniform(np.full(len(missing), scale), randomness)
        missing = missing[~laplace.small_coins(low[missing], scale, randomness)]
    found: IntArray = (low + scale * laplace.heads_in_a_row(size, randomness)) // rate.numerator
    return found


def share(rate: Fraction, parts: int, size: int, randomness: Randomness) -> IntArray:
    """`size` independent shares, any `parts` of which add up to a geometric variable of this rate, shape (size,).

    Negative binomial of shape 1/parts: geometric proposals g, each accepted with the ratio of the two distributions,
    s (s+1) ... (s+g-1) / g! at s = 1/parts. Accepted ones are independent of how many there are, so the first `size`
    are taken.
    """
    _check_rate(rate)
    if not isinstance(parts, int) or not 1 <= parts <= LARGEST_PARTS:
        raise SettingError(f"parts must be an integer from 1 to 2**20, but got {parts!r}")
    if parts == 1:
        return sample(rate, size, randomness)
    batch = min(_MOST_PROPOSALS, size * (1 + math.isqrt(rate.denominator // rate.numerator)))
    found = np.zeros(0, dtype=np.int64)
    while len(found) < size:
        proposals = sample(rate, batch, randomness)
        found = np.append(found, proposals[_accepted(proposals, parts, randomness)])
    return found[:size]


def _accepted(proposals: IntArray, parts: int, randomness: Randomness) -> BoolArray:
    """Heads, for each proposal g, of all coins of chances (parts (i-1) + 1) / (parts i), i = 1, ..., g.

    Coins are tossed for about twice as many i each time, and only for proposals that still have all heads.
    """
    heads = np.ones(len(proposals), dtype=bool)
    running = np.flatnonzero(proposals >= 1)
    first = 1
    while running.size:
        width = max(1, min(first, _MOST_COINS // len(running)))
        turns = np.arange(first, first + width)
        drawn = laplace.uniform(np.tile(parts * turns, len(running)), randomness).reshape(-1, width)
        lost = (drawn > parts * (turns - 1)) & (turns <= proposals[running, None])
        heads[running[lost.any(axis=1)]] = False
        first += width
        running = running[heads[running] & (proposals[running] >= first)]
    return heads


def noisy_max(scores: IntArray, noise: IntArray) -> int:
    """The place of the largest score with its noise, both of shape (p,); of equals the first."""
    if scores.ndim != 1 or scores.shape != noise.shape or not scores.size:
        raise SettingError(f"each score must have noise of its own, but got shapes {scores.shape} and {noise.shape}")
    return int(np.argmax(scores + noise))


def reach(rate: Fraction, shape: Fraction, failure: float = 2.0**-60) -> int:
    """An x that a negative binomial variable of this rate and shape exceeds with probability at most `failure`.

    All m shares of shape 1/(m - t) have shape m/(m - t) together. By the Chernoff bound: with q = e^-rate and any u in
    (q, 1), e^t = u/q > 1, Markov's inequality for e^(t X) and E[e^(t X)] = ((1 - q) / (1 - u))^shape give
    P[X >= y] <= (q/u)^y ((1 - q) / (1 - u))^shape. Taken at u = y / (y + shape), which is above q whenever y is above
    the mean, shape q / (1 - q), and where the bound is least. Only such y = x + 1 are tried.
    """
    _check_shape(rate, shape)
    if not 0 < failure < 1:
        raise SettingError(f"`0 < failure < 1` must hold, but got failure={failure!r}")
    if shape == 0:
        return 0
    slope, size = float(rate), float(shape)
    target = math.log(failure) - _ROUNDING
    low = int(size * math.exp(-slope) / -math.expm1(-slope))  # so low + 1 is above the mean
    step = 1
    while _exponent(low + step, slope, size) > target:
        step *= 2
    high = low + step - 1
    while low < high:
        x = (low + high) // 2
        low, high = (low, x) if _exponent(x + 1, slope, size) <= target else (x + 1, high)
    return high


def _exponent(y: int, rate: float, shape: float) -> float:
    """The logarithm of the bound in `reach` at u = y / (y + shape)."""
    chance = math.log(-math.expm1(-rate)) + math.log1p(y / shape)  # log of (1 - q) / (1 - u)
    return -y * rate + y * math.log1p(shape / y) + shape * chance


def variance(rate: Fraction, shape: Fraction) -> float:
    """Of a negative binomial variable: shape q / (1 - q)^2 with q = e^-rate."""
    _check_shape(rate, shape)
    slope = float(rate)
    return float(shape) * math.exp(-slope) / math.expm1(-slope) ** 2


def _check_rate(rate: Fraction) -> None:
    if not isinstance(rate, Fraction) or not 0 < rate <= LARGEST_RATE or rate.denominator > LARGEST_DENOMINATOR:
        raise SettingError(
            f"rate must be a fraction above 0, up to 2**20, with a denominator up to 2**20, but got {rate!r}"
        )


def _check_shape(rate: Fraction, shape: Fraction) -> None:
    _check_rate(rate)
    if not 0 <= shape <= LARGEST_SHAPE:
        raise SettingError(f"`0 <= shape <= 2**20` must hold, but got shape={shape!r}")
