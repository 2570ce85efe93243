"""An oracle answers charged questions about sums of scores, and shows nothing else of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Literal, Protocol

from hushtune.core.arrays import IntArray
from hushtune.core.errors import SettingError
from hushtune.core.randomness import Randomness
from hushtune.privacy.noise import selection

Mechanism = Literal["permute-and-flip", "exponential", "geometric"]
MECHANISMS: dict[Mechanism, Callable[[IntArray, float, Randomness], int]] = {
    "permute-and-flip": selection.permute_and_flip,
    "exponential": selection.exponential,
    "geometric": selection.noisiest,
}
_DRAWN: dict[Mechanism, str] = {
    "permute-and-flip": "coins of scale {} on each candidate's score (permute-and-flip)",
    "exponential": "coins of scale {} on each candidate's score (the exponential mechanism)",
    "geometric": "geometric noise of scale {} on each candidate's score",
}
ANSWERS = "answers"  # the block of an opening that holds them
NONE = -1  # the answer that no score is above a threshold


class Oracle(Protocol):
    """The questions. Each answer is one of those that the run's bound announced, and charged."""

    def above_threshold(self, level: Fraction, order: Sequence[int]) -> int | None:
        """The first place, in a public order, whose mean score is above a level, as far as noise lets one tell.

        Args:
            level: between 0, the worst mean score, and 1, the best.
            order: all places, in the order in which they are looked at; public.
        """
        ...

    def noisy_max(self, mechanism: Mechanism | None = None) -> int:
        """The place of a large mean score.

        Args:
            mechanism: one of those that the seal has (`Seal.mechanisms`). None: its own choice, the first.
        """
        ...


def drawn(mechanism: Mechanism, scale: float) -> str:
    """What a mechanism hides the largest score by, in the statement's words.

    Args:
        mechanism: by its name.
        scale: of its noise, in steps of the scores.
    """
    return _DRAWN[mechanism].format(f"{scale:.4g}")


Choose = Callable[[Oracle], int]
"""What a method asks, and which candidate follows from the answers."""


class RecordedOracle:
    """The answers that a run has on record, once more."""

    def __init__(self, answers: Sequence[int], candidates: int) -> None:
        if any(type(place) is not int or not NONE <= place < candidates for place in answers):
            raise SettingError("an opening does not have the answers that its query asks for")
        self._left = list(answers)

    def above_threshold(self, level: Fraction, order: Sequence[int]) -> int | None:
        """The next answer on record; the arguments change nothing."""
        place = self._next()
        return None if place == NONE else place

    def noisy_max(self, mechanism: Mechanism | None = None) -> int:
        """The next answer on record; the argument changes nothing."""
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
