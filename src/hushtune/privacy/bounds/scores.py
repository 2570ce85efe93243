"""Scores of candidates, whose sums are asked about and never opened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hushtune.core.arrays import IntArray
from hushtune.core.checks import integer, kind
from hushtune.core.errors import BoundError
from hushtune.core.randomness import Randomness
from hushtune.privacy.accounting import Neighbours
from hushtune.privacy.bounds.base import Limits, integers, tested
from hushtune.privacy.events.answers import MOST_TESTS
from hushtune.privacy.events.sums import Event
from hushtune.privacy.noise.base import Noise
from hushtune.privacy.noise.laplace import LARGEST_SCALE


@dataclass(frozen=True)
class Scores:
    """A score from 0 to `steps` for each of `length` candidates, for somebody who answers `tests` questions about their
    sums. No sum is opened.

    One unit changes every sum by at most `steps`, whatever its scores become, or if it is left out. If all units are
    scored on the same protected rows, one of those rows changes every unit's scores a little: `sensitivity` then says
    what that comes to.

    Args:
        length: how many candidates.
        tests: how many questions, at most.
        steps: of the integer grid, from the worst score to the best.
        sensitivity: by how much one privacy unit can change a sum, in the same steps.
        only_max: whether noisy maxima are all that is asked for, and no test against a threshold.
    """

    length: int
    tests: int
    steps: int
    sensitivity: int
    only_max: bool = False
    rate: ClassVar[float] = 1.0
    loudest: ClassVar[float] = LARGEST_SCALE / 4

    def __post_init__(self) -> None:
        integer("length", self.length, 1, 2**22)
        integer("tests", self.tests, 1, MOST_TESTS)
        integer("steps", self.steps, 1, 2**20)
        integer("sensitivity", self.sensitivity, self.steps, 2**36)
        kind("only_max", self.only_max, bool, optional=False)

    @property
    def largest(self) -> int:
        """The best score that a candidate can have, in steps."""
        return self.steps

    @property
    def total(self) -> None:
        """None: scores may add up to anything within their range."""
        return None

    @property
    def limits(self) -> Limits:
        """Every score is within its range."""
        return Limits(0, self.steps)

    def check(self, vector: Any) -> IntArray:
        """The scores as integers; BoundError if one lies outside its range."""
        found = integers(vector, self.length)
        if found.min() < 0 or found.max() > self.steps:
            raise BoundError(f"scores must be between 0 and {self.steps}")
        return found

    def default(self, randomness: Randomness) -> IntArray:
        """The worst score for all."""
        return np.zeros(self.length, dtype=np.int64)

    def event(self, noise: Noise, change: Neighbours) -> Event:
        """Every test is (2 sensitivity / scale, 0)-private (`hushtune.privacy.noise.selection`).

        A noisy maximum costs how far one unit moves two sums apart, over the scale (proof:
        `hushtune.privacy.noise.geometric`): 2 sensitivity too, as one sum may rise and another fall. A unit that is
        left out takes its scores away, all of which are 0 or more: sums move apart by `sensitivity` only, if that is
        what its own scores come to, and not what a row does that all units are scored on. With a single candidate
        there is nothing to tell.
        """
        reach = 2 * self.sensitivity
        if self.only_max and change == "zero-out" and self.sensitivity == self.steps:
            reach = self.sensitivity
        if self.only_max and self.length == 1:
            reach = 0
        return tested(noise, reach, self.tests)
