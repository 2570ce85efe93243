"""Simulated votes for `plan`: the chance of a good choice, of the very form of vote that a run would have.

What is opened (the sum or the winner), what a ballot says, how a sum is decoded and what a public prior adds are those
of the settled method. Ballots are simulated by `hushtune.methods.vote.odds`: the same ones wherever only the noise
differs, so that cases can be told apart that differ by little.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from hushtune.core.arrays import FloatArray, IntArray
from hushtune.methods.decode import MOST_SMOOTHED
from hushtune.methods.loudness import deviation_of, drawn_noise
from hushtune.methods.plan import Prospect
from hushtune.methods.vote.ballots import scores_bound
from hushtune.methods.vote.odds import Agreement, chances, counts, soft_totals, totals
from hushtune.methods.vote.smoothing import Smoother
from hushtune.privacy.accounting import Sums, gaussian_start
from hushtune.privacy.bounds import Bound, KHot
from hushtune.privacy.calibration import calibrate, events_of
from hushtune.privacy.noise.base import Noise

if TYPE_CHECKING:
    from hushtune.methods.vote.method import Vote

LOSSES = 2_000_000  # drawn for one number of voters; beyond, sums of ballots are
_ROUGH = 4.0  # standard deviation of noise that is nearly Gaussian
_DRAWS = 20  # of a winner's noise for each simulated vote, if there is room
_SMOOTHED = 2  # of the noise on a sum that is smoothed, likewise
_ROUGHLY = 4  # so many times fewer where a rough answer will do
_MOST_DRAWN = 2_000_000  # noises in one case
Belief = Literal["first", "anywhere", "last"]
"""Where a prior ranks the good candidates."""


@dataclass(frozen=True)
class Odds:
    """The odds in one case.

    Args:
        what: the case.
        k: votes per ballot; None: ballots say how good each candidate is.
        sigma: standard deviation of the noise.
        success: the chance of a good choice, of the form that is planned.
        margin: by how many standard deviations of the noise good candidates are ahead on average.
    """

    what: str
    k: int | None
    sigma: float
    success: float
    margin: float


Case = tuple[Odds, FloatArray]
"""The odds, and the chance in each simulated vote, shape (repetitions,)."""


class Simulation:
    """Simulated votes of a run, and of others like it.

    Args:
        prospect: the run, whose method is a vote.
        agreement: how far voters agree.
        belief: where a prior, if there is one, ranks the good candidates.
    """

    def __init__(self, prospect: Prospect, agreement: Agreement, belief: Belief = "anywhere") -> None:
        self._prospect, self.agreement, self.belief = prospect, agreement, belief
        self._size = len(prospect.candidates)
        self._cast: dict[tuple[int, str, float], IntArray] = {}

    def believing(self, belief: Belief) -> Simulation:
        """The same ballots beside another prior.

        Args:
            belief: where it ranks the good candidates.
        """
        found = Simulation(self._prospect, self.agreement, belief)
        found._cast = self._cast
        return found

    def cast(self, voters: int, vote: Vote, sizes: Sequence[float]) -> list[IntArray]:
        """Noise-free sums of ballots, for each k, or for each width of grades; good candidates come first.

        Args:
            voters: how many ballots are summed.
            vote: settled; what its ballots say.
            sizes: each k, or each width; of scores there is one sum.
        """
        kind = "k" if vote.k is not None else f"{vote.grades}"
        missing = [size for size in sizes if (voters, kind, size) not in self._cast]
        if missing:
            rng = np.random.default_rng([self._prospect.seed, 0])
            asked: Any = (self.agreement, self._prospect.repetitions, rng, LOSSES)
            found: Mapping[Any, IntArray]
            if vote.k is not None:
                found = counts(voters, self._size, [int(k) for k in missing], *asked)
            elif vote.grades is not None:
                found = totals(voters, self._size, missing, vote.grades, *asked)
            else:
                norm = scores_bound(self._prospect.candidates).norm
                found = {missing[0]: soft_totals(voters, self._size, norm, *asked)}
            self._cast |= {(voters, kind, size): sums for size, sums in found.items()}
        return [self._cast[voters, kind, size] for size in sizes]

    def cases(
        self, prospect: Prospect, sizes: Sequence[float] | None = None, what: str = "", rough: bool = False
    ) -> list[Case]:
        """The odds of a run, for each k or width.

        Args:
            prospect: the run, or one like it with other facts.
            sizes: each k, or each width. Default: the run's own.
            what: the case, in words. Default: the k, or the width.
            rough: whether fewer draws will do; and a sum's noise is that of a Gaussian mechanism, however little it is.
        """
        vote = cast("Vote", prospect.study.method)
        own = own_size(vote)
        sizes = [own] if sizes is None else sizes
        sums = self.cast(prospect.clients * vote.voters_each, vote, sizes)
        found = []
        for size, votes in zip(sizes, sums, strict=True):
            other = vote if size == own else replace(vote, **({"k": int(size)} if vote.k else {"width": size}))
            if vote.opens == "winner":
                sigma, each = self._of_winner(prospect, other, votes, rough)
            else:
                noise = prospect.noise if prospect is self._prospect and size == own else None
                sigma, each = self._of_sum(prospect, other, votes, noise, rough)
            ahead, good = 0.0, self.agreement.good
            if sigma and good < self._size:
                ahead = float(votes[:, :good].mean() - votes[:, good:].mean()) / sigma / (vote.grades or 1)
            found.append((Odds(what or named(other), other.k, sigma, float(each.mean()), ahead), each))
        return found

    def _of_winner(self, prospect: Prospect, vote: Vote, votes: IntArray, rough: bool) -> tuple[float, FloatArray]:
        """The noise, as the run would draw it, in votes or best grades; and the chance in each vote."""
        rng, noise, unit = np.random.default_rng([prospect.seed, 2]), prospect.noise, vote.grades or 1
        if vote.k == self._size:  # ballots that are all the same need none
            noise = replace(noise, scale=0.0)
        mechanism = prospect.seal.mechanisms[0]
        draws = max(1, min(_DRAWS // (_ROUGHLY if rough else 1), _MOST_DRAWN // votes.size))
        noisy = drawn_noise(mechanism, noise, (draws, *votes.shape), rng) + votes
        noisy += rng.random(votes.shape) * 1e-3  # no candidate is favoured by its place
        if (added := self._added(vote)) is not None:
            noisy += np.rint(added * unit)
        each: FloatArray = (noisy.argmax(axis=-1) < self.agreement.good).mean(axis=0)
        return deviation_of(mechanism, noise) / unit, each

    def _of_sum(
        self, prospect: Prospect, vote: Vote, votes: IntArray, noise: Noise | None, rough: bool
    ) -> tuple[float, FloatArray]:
        """The noise that the fewest honest clients carry; and the chance in each vote."""
        seal, clients, added = prospect.seal, prospect.clients, self._added(vote)
        noise = noise or seal.noise(self._scale(prospect, vote, rough))
        variance = noise.opened_variance(seal.honest(clients), clients)
        if vote.decode == "argmax" or (self._size > MOST_SMOOTHED and added is None):
            ranked = votes if added is None else votes + np.rint(added).astype(np.int64)
            return noise.scale, chances(ranked, self.agreement.good, variance)
        return noise.scale, self._smoothed(vote, votes, variance, clients * vote.voters_each, rough)

    def _smoothed(self, vote: Vote, votes: IntArray, variance: float, voters: int, rough: bool) -> FloatArray:
        """The chance in each vote if good candidates lie together; its noise is drawn several times."""
        draws = max(1, min(1 if rough else _SMOOTHED, _MOST_DRAWN // 4 // votes.size))
        rng = np.random.default_rng([self._prospect.seed, 3])
        hits, total, noisy = np.zeros(len(votes)), float((vote.k or 0) * voters), np.empty(votes.shape)
        expected = None if vote.prior is None else np.tile(vote.prior.shares * vote.prior.voters, (len(votes), 1))
        for places in self._places[:draws]:
            drawn = np.rint(rng.standard_normal(votes.shape) * variance**0.5)
            np.put_along_axis(noisy, places, votes + drawn, axis=1)
            best = self._smoother.best(noisy, total, variance, expected)
            hits += (places[:, : self.agreement.good] == best[:, None]).any(axis=1)
        return hits / draws

    def _added(self, vote: Vote) -> FloatArray | None:
        """What a prior's voters add to each sum, shape (repetitions, candidates); good candidates come first."""
        if vote.prior is None:
            return None
        found: FloatArray = vote.prior.shares[self._places[0]] * vote.prior.voters
        return found

    @cached_property
    def _smoother(self) -> Smoother:
        return Smoother(self._prospect.candidates)

    @cached_property
    def _places(self) -> NDArray[np.intp]:
        """Which candidates are the good ones, and which the others: in each simulated vote, several times, shape
        (draws, repetitions, candidates).

        Good ones lie together, around a random candidate; or they are those that a prior ranks first, or last.
        """
        rng, encoded = np.random.default_rng([self._prospect.seed, 1]), self._prospect.candidates.encoded
        vote, shape = cast("Vote", self._prospect.study.method), (_SMOOTHED, self._prospect.repetitions)
        if vote.prior is None or self.belief == "anywhere":
            apart = ((encoded[:, None] - encoded) ** 2).sum(-1)[rng.integers(self._size, size=shape)]
        else:
            apart = np.broadcast_to(vote.prior.shares * (1 if self.belief == "last" else -1), (*shape, self._size))
        order = np.argsort(apart + rng.random(apart.shape) * 1e-9, axis=-1)
        order[..., self.agreement.good :] = rng.permuted(order[..., self.agreement.good :], axis=-1)
        return order

    def _scale(self, prospect: Prospect, vote: Vote, rough: bool) -> float:
        """Of the noise on a sum: that of a Gaussian mechanism with the same divergence, which is cheap and within a few
        percent; but where little noise is enough, integers are far from Gaussian, and it is calibrated."""
        if vote.k is None:
            return prospect.noise.scale
        if vote.k == self._size:  # every ballot is the same
            return 0.0
        ballot = KHot(vote.k, self._size)
        start = self._ratio * _gaussian(prospect, ballot)
        if rough or start > _ROUGH:
            return start
        return calibrate((ballot,), prospect.privacy, prospect.rule, prospect.seal.noise(0.0)).scale

    @cached_property
    def _ratio(self) -> float:
        """The run's own noise, calibrated exactly, over that of a Gaussian mechanism; about 1 under the usual rule."""
        prospect, (ballot,) = self._prospect, self._prospect.study.bounds
        if isinstance(ballot, KHot) and not ballot.tests:
            exact = prospect.noise.scale
        elif isinstance(prospect.rule, Sums) or not prospect.privacy.delta:
            return 1.0
        else:
            ballot = KHot(1, self._size)
            exact = calibrate((ballot,), prospect.privacy, prospect.rule, Noise(0.0)).scale
        start = _gaussian(prospect, ballot) if exact else 0.0
        return exact / start if start > _ROUGH else 1.0  # little noise is no Gaussian's


def own_size(vote: Vote) -> float:
    """A settled vote's k, or the width of its grades; 0, if it has neither.

    Args:
        vote: settled.
    """
    return vote.k or vote.width or 0


def named(vote: Vote) -> str:
    """What a settled vote's ballots say, as a setting.

    Args:
        vote: settled.
    """
    if vote.k is not None:
        return f"k = {vote.k}"
    return "scores" if vote.width is None else f"width = {vote.width:g}"


def _gaussian(prospect: Prospect, ballot: Bound) -> float:
    privacy, seal = prospect.privacy, prospect.seal
    return gaussian_start(lambda s: events_of((ballot,), privacy, seal.noise(s)), privacy.epsilon, privacy.delta)
