"""A trusted curator's view of scores: it answers charged questions about their sums, and shows nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Literal, Protocol

from hushtune.bounds import Scores
from hushtune.errors import HushtuneError, SettingError
from hushtune.privacy import selection
from hushtune.privacy.noise import Noise
from hushtune.privacy.skellam import IntArray
from hushtune.randomness import Randomness

Mechanism = Literal["permute-and-flip", "exponential"]
MECHANISMS = {"permute-and-flip": selection.permute_and_flip, "exponential": selection.exponential}
ANSWERS = "answers"  # the block of an opening that holds them
NONE = -1  # the answer that no score is above a threshold


class Curated(Protocol):
    """The questions. Each answer is one of those that the run's bound announced, and charged."""

    def above_threshold(self, level: Fraction, order: Sequence[int]) -> int | None:
        """The first place, in a public order, whose mean score is above a level, as far as noise lets one tell.

        Args:
            level: between 0, the worst mean score, and 1, the best.
            order: all places, in the order in which they are looked at; public.
        """
        ...

    def noisy_max(self, mechanism: Mechanism) -> int:
        """The place of a large mean score.

        Args:
            mechanism: "permute-and-flip" or "exponential".
        """
        ...


Choose = Callable[[Curated], int]
"""What a method asks, and which candidate follows from the answers."""


class CuratedScores:
    """The real thing.

    Args:
        sums: of all units' scores, shape (candidates,). They are not to be had back.
        bound: what was announced.
        units: how many units there are, those included that did not answer. Public.
        noise: the Laplace scale on a threshold, in the steps of the scores.
        randomness: the curator's.
    """

    def __init__(self, sums: IntArray, bound: Scores, units: int, noise: Noise, randomness: Randomness) -> None:
        self.answers: list[int] = []
        self._made = 0
        self._sums, self._bound, self._units, self._randomness = sums, bound, units, randomness
        self._scale = math.ceil(noise.scale)  # rounded up: no test costs more than announced

    def above_threshold(self, level: Fraction, order: Sequence[int]) -> int | None:
        """By AboveThreshold."""
        places = [int(place) for place in order]
        threshold = round(level * self._units * self._bound.steps)
        self._count()
        place = selection.above_threshold(self._sums, threshold, self._scale, places, self._randomness)
        self.answers.append(NONE if place is None else place)
        return place

    def noisy_max(self, mechanism: Mechanism) -> int:
        """By permute-and-flip or the exponential mechanism."""
        choose = MECHANISMS[mechanism]
        self._count()
        self.answers.append(choose(self._sums, self._scale, self._randomness))
        return self.answers[-1]

    def _count(self) -> None:
        """Counts a test before it is made."""
        self._made += 1
        if self._made > self._bound.times:
            raise HushtuneError(f"a method asked more of a curator than the {self._bound.times} tests it announced")


class Recorded:
    """The answers that a run has on record, once more."""

    def __init__(self, answers: Sequence[int], candidates: int) -> None:
        if any(type(place) is not int or not NONE <= place < candidates for place in answers):
            raise SettingError("an opening does not have the answers that its query asks for")
        self._left = list(answers)

    def above_threshold(self, level: Fraction, order: Sequence[int]) -> int | None:
        """The next answer."""
        place = self._next()
        return None if place == NONE else place

    def noisy_max(self, mechanism: Mechanism) -> int:
        """The next answer."""
        place = self._next()
        if place == NONE:
            raise SettingError("an opening does not have the answers that its query asks for")
        return place

    def _next(self) -> int:
        if not self._left:
            raise SettingError("the result does not hold the openings that its method asks for")
        return self._left.pop(0)

    def check_end(self) -> None:
        """Refuses answers that nobody asked for."""
        if self._left:
            raise SettingError(f"the result holds {len(self._left)} answers that its method does not ask for")
