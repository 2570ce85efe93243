"""Curator: a server that is trusted with every contribution and with the noise, as in DP-FedAvg and DP-FTS-DE."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from hushtune.core.arrays import IntArray
from hushtune.core.errors import HushtuneError, SettingError
from hushtune.core.randomness import Randomness
from hushtune.core.roster import Roster
from hushtune.privacy.bounds import Bound, Scores
from hushtune.privacy.noise import selection
from hushtune.privacy.noise.base import Noise, Place
from hushtune.seals.base import Protected
from hushtune.seals.ends import Ask, Outcome, Trips
from hushtune.seals.oracle import MECHANISMS, NONE, Mechanism
from hushtune.seals.plain import Plain, PlainServer, summed


@dataclass(frozen=True)
class Curator(Plain):
    """Contributions travel as they are, without noise; the server adds it to their sum, once.

    The guarantee of a run holds against everybody but the server. It takes less noise than shares do, and its cost is
    known more tightly. How many clients drop out or are corrupt does not matter to it.

    The noise is Gaussian, rounded to integers, or for tests of scores discrete Laplace noise and coins. Clients cannot
    check that it was added.

    Args:
        dropouts: share of clients that may fail to answer, in [0, 1); more abort the round.
        corrupt: not used: clients add no noise.
    """

    name: ClassVar[str] = "curator"
    brief: ClassVar[str] = "a server that is trusted with every contribution adds the noise"
    noise_at: ClassVar[Place] = "curator"
    tests: ClassVar[bool] = True

    def check_privacy(self, private: bool) -> None:
        """A trusted server that adds no noise is what `Clear` is for."""
        if not private:
            raise SettingError("seal 'curator' is for a server that adds noise: give `privacy`, or use seal 'clear'")

    def protects(self, facts: Protected) -> list[str]:
        """From all but the server."""
        return [
            "TRUSTED: the server, with every client's own contribution, which it sees as it is, and to add the noise. "
            "The guarantee holds against all others who see what was opened, not against the server."
        ]

    def server(self, run: str, roster: Roster, terms: str, first: int = 0) -> CuratorServer:
        """The server's end: it sees every vector, and adds the noise."""
        return CuratorServer(roster, self.dropouts)


class CuratorServer(PlainServer):
    """Asks once, adds up, and adds the noise or answers questions about the sums."""

    def open(self, ask: Ask) -> Trips:
        """The noisy sum, or the answers."""
        own, missing = yield from self.vectors(ask)
        total = summed(own, ask.length)
        if ask.choose is None:
            return Outcome(total + ask.noise.by_curator(len(total), ask.randomness), missing, {})
        assert ask.scores is not None
        ask.missing.update(missing)
        ask.choose(CuratorOracle(total, ask.scores, ask.units, ask.noise, ask.randomness, ask.answers))
        return Outcome(np.array(ask.answers, dtype=np.int64), missing, {})


class CuratorOracle:
    """The trusted server as an oracle.

    Args:
        sums: of all units' scores, shape (candidates,). They are not to be had back.
        bound: what was announced.
        units: how many units there are, those included that did not answer. Public.
        noise: the Laplace scale on a threshold, in the steps of the scores.
        randomness: the curator's.
        answers: where each answer is put before it is given. Default: a list of its own.
    """

    def __init__(
        self,
        sums: IntArray,
        bound: Bound,
        units: int,
        noise: Noise,
        randomness: Randomness,
        answers: list[int] | None = None,
    ) -> None:
        self.answers = answers if answers is not None else []
        self._made = 0
        self._sums, self._bound, self._units, self._randomness = sums, bound, units, randomness
        self._scale = math.ceil(noise.scale)  # rounded up: no test costs more than announced

    def above_threshold(self, level: Fraction, order: Sequence[int]) -> int | None:
        """The first place whose noisy score reaches the noisy level, by AboveThreshold; None if none does."""
        places = [int(place) for place in order]
        if not isinstance(self._bound, Scores) or self._bound.only_max:
            raise HushtuneError("a method asked for a test against a threshold, but announced noisy maxima only")
        threshold = round(level * self._units * self._bound.steps)
        self._count()
        place = selection.above_threshold(self._sums, threshold, self._scale, places, self._randomness)
        self.answers.append(NONE if place is None else place)
        return place

    def noisy_max(self, mechanism: Mechanism) -> int:
        """By permute-and-flip or the exponential mechanism."""
        choose = MECHANISMS[mechanism]
        self._count()
        self.answers.append(choose(self._sums, max(1, self._scale), self._randomness))
        return self.answers[-1]

    def _count(self) -> None:
        """Counts a test before it is made."""
        self._made += 1
        if self._made > self._bound.tests:
            raise HushtuneError(f"a method asked more of a curator than the {self._bound.tests} tests it announced")
