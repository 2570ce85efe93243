"""Curator: a server that is trusted with every contribution and with the noise, as in DP-FedAvg and DP-FTS-DE."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import ClassVar

import numpy as np

from hushtune.core.arrays import IntArray
from hushtune.core.errors import HushtuneError, SettingError
from hushtune.core.randomness import Randomness
from hushtune.core.roster import Roster
from hushtune.privacy.bounds import Bound
from hushtune.privacy.noise import selection
from hushtune.privacy.noise.base import Noise, Place
from hushtune.seals.base import Protected
from hushtune.seals.ends import Ask, Outcome, Trips, with_added
from hushtune.seals.oracle import MECHANISMS, NONE, Mechanism
from hushtune.seals.plain import Plain, PlainServer, summed


@dataclass(frozen=True)
class Curator(Plain):
    """Contributions travel as they are, without noise; the server adds it to their sum, once.

    The guarantee of a run holds against everybody but the server. It takes less noise than shares do, and its cost is
    known more tightly. How many clients drop out or are corrupt does not matter to it.

    The noise is Gaussian, rounded to integers; for questions about sums that stay hidden it is discrete Laplace noise,
    coins or geometric noise. Clients cannot check that it was added.

    Args:
        dropouts: share of clients that may fail to answer, in [0, 1); more abort the round.
        corrupt: not used: clients add no noise.
    """

    name: ClassVar[str] = "curator"
    brief: ClassVar[str] = "a server that is trusted with every contribution adds the noise"
    noise_at: ClassVar[Place] = "curator"
    mechanisms: ClassVar[tuple[Mechanism, ...]] = ("permute-and-flip", "exponential", "geometric")

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

    def server(self, run: str, roster: Roster, terms: str, first: int = 0, folder: Path | None = None) -> CuratorServer:
        """The server's end: it sees every vector, and adds the noise."""
        return CuratorServer(roster, self.dropouts)

    def oracle(self, sums: IntArray, bound: Bound, units: int, noise: Noise, randomness: Randomness) -> CuratorOracle:
        """As the server itself has it."""
        return CuratorOracle(sums, bound, units, noise, randomness)


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
        ask.choose(
            CuratorOracle(with_added(total, ask.added), ask.scores, ask.units, ask.noise, ask.randomness, ask.answers)
        )
        return Outcome(np.array(ask.answers, dtype=np.int64), missing, {})


class CuratorOracle:
    """The trusted server as an oracle.

    Args:
        sums: of all units' scores, shape (candidates,). They are not to be had back.
        bound: what was announced.
        units: how many units there are, those included that did not answer. Public.
        noise: its scale is that of a mechanism, or the Laplace scale on a threshold, in the steps of the scores.
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
        self._scale = noise.scale

    def above_threshold(self, level: Fraction, order: Sequence[int]) -> int | None:
        """The first place whose noisy score reaches the noisy level, by AboveThreshold; None if none does."""
        places = [int(place) for place in order]
        if self._bound.only_max:
            raise HushtuneError("a method asked for a test against a threshold, but announced noisy maxima only")
        threshold = round(level * self._units * self._bound.largest)
        self._count()
        scale = math.ceil(self._scale)  # rounded up: no test costs more than announced
        place = selection.above_threshold(self._sums, threshold, scale, places, self._randomness)
        self.answers.append(NONE if place is None else place)
        return place

    def noisy_max(self, mechanism: Mechanism | None = None) -> int:
        """By one of the curator's mechanisms; exactly, if there is no noise, because nothing can change."""
        choose = MECHANISMS[mechanism or Curator.mechanisms[0]]
        self._count()
        exact = not self._scale
        place = int(np.argmax(self._sums)) if exact else choose(self._sums, self._scale, self._randomness)
        self.answers.append(place)
        return place

    def _count(self) -> None:
        """Counts a test before it is made."""
        self._made += 1
        if self._made > self._bound.tests:
            raise HushtuneError(f"a method asked for more answers than the {self._bound.tests} that it announced")
