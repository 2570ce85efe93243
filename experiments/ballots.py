"""Votes on losses that are known: ballots as clients cast them, their sum, and what is chosen under noise.

Ballots and decoding are hushtune's own; noise is drawn in floats from a seed, as `plan` draws it. For experiments only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from hushtune.client.party import Party
from hushtune.client.search.base import Search
from hushtune.core.arrays import FloatArray, IntArray
from hushtune.core.randomness import Randomness, SimulatedRandomness
from hushtune.core.space import Candidates, Config
from hushtune.methods.base import Facts
from hushtune.methods.decode import smooth
from hushtune.methods.loudness import drawn_noise
from hushtune.methods.vote.method import Vote
from hushtune.privacy.accounting import Sums
from hushtune.privacy.calibration import calibrate
from hushtune.privacy.guarantee import Privacy
from hushtune.privacy.noise.base import Noise
from hushtune.seals.base import Seal


@dataclass
class _Voter:
    """What a query asks a party for: its losses, and its own randomness."""

    known: FloatArray
    randomness: Randomness

    def losses(self, configs: Sequence[Config], seed: int) -> FloatArray:
        """Those that are known, of all candidates in their order."""
        return self.known


@dataclass
class Votes:
    """A federation of which all losses are known, and how good each candidate really is.

    Args:
        candidates: the public list.
        losses: of each voter, shape (voters, candidates); NaN for what failed.
        clients: how many; each has as many voters as any other.
        accuracy: of what is trained with each candidate in the end, shape (candidates,).
        seed: of ties.
    """

    candidates: Candidates
    losses: FloatArray
    clients: int
    accuracy: FloatArray
    seed: int = 0
    _sums: dict[Any, IntArray] = field(default_factory=dict, init=False)

    @property
    def voters(self) -> int:
        """How many each client has."""
        return len(self.losses) // self.clients

    def settled(self, vote: Vote, privacy: Privacy | None, seal: Seal) -> Vote:
        """A vote with all that follows from public facts filled in.

        Args:
            vote: as given.
            privacy: None for no noise.
            seal: where it runs.
        """
        return vote.settled(Facts(self.candidates, self.clients, privacy, seal, Search(self.seed)))

    def accuracies(
        self, vote: Vote, privacy: Privacy | None, seal: Seal, draws: int, seed: int = 0
    ) -> tuple[float, FloatArray]:
        """The noise's scale, and the accuracy of what is chosen in each draw of the noise.

        Args:
            vote: what is run.
            privacy: None for no noise, and then one draw is enough.
            seal: where it runs; nobody drops out.
            draws: how often noise is drawn.
            seed: of the noise.
        """
        vote = self.settled(vote, privacy, seal)
        bounds, noise = vote.bounds(self.candidates), seal.noise(0.0)
        if privacy is not None:
            noise = calibrate(bounds, privacy, Sums(), noise)
        rng, draws = np.random.default_rng([self.seed, seed]), draws if privacy is not None else 1
        if vote.opens == "winner":
            places = self._winners(vote, noise, seal, draws, rng)
        else:
            places = self._of_sums(vote, noise.opened_variance(seal.honest(self.clients), self.clients), draws, rng)
        return noise.scale, self.accuracy[places]

    def _winners(self, vote: Vote, noise: Noise, seal: Seal, draws: int, rng: np.random.Generator) -> NDArray[np.int64]:
        sums = self.totals(vote)
        if vote.prior is not None:
            sums = sums + np.array(vote.prior.scores(vote.bounds(self.candidates)[0].largest))
        noisy = sums + drawn_noise(seal.mechanisms[0], noise, (draws, len(sums)), rng)
        places: NDArray[np.int64] = noisy.argmax(1)
        return places

    def _of_sums(self, vote: Vote, variance: float, draws: int, rng: np.random.Generator) -> NDArray[np.int64]:
        sums, expected = self.totals(vote), vote.expected(self.candidates)
        half = np.full((draws, len(sums)), variance / 2)
        noisy = sums + rng.poisson(half) - rng.poisson(half)
        if vote.decode == "argmax":
            places: NDArray[np.int64] = (noisy if expected is None else noisy + expected).argmax(1)
            return places
        total = vote.total(self.candidates, self.clients)
        return np.array([smooth(one, total, variance, self.candidates, expected).best for one in noisy])

    def totals(self, vote: Vote) -> IntArray:
        """The noise-free sum of all ballots, shape (candidates,).

        Args:
            vote: settled.
        """
        query = vote.query(self.candidates, self.seed)
        if query not in self._sums:
            randomness = SimulatedRandomness(self.seed, "ties")
            ballots = [query.answer(cast(Party, _Voter(losses, randomness))) for losses in self.losses]
            self._sums[query] = np.sum(ballots, axis=0, dtype=np.int64)
        return self._sums[query]
