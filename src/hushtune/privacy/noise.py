"""Noise: integer shares that the parties add themselves and that sum up exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from hushtune.checks import number
from hushtune.errors import SettingError
from hushtune.privacy import skellam
from hushtune.privacy.skellam import IntArray
from hushtune.randomness import Randomness


@dataclass(frozen=True)
class Noise:
    """Skellam noise in shares.

    Args:
        scale: standard deviation of the summed noise of the honest parties alone, in steps of the integer grid.
            The guarantee counts on no more than this; the parties beyond them only add to it.
    """

    scale: float

    def __post_init__(self) -> None:
        number("scale", self.scale, 0, math.inf, "[)")

    @property
    def variance(self) -> float:
        """Variance of the summed noise of the honest parties, per coordinate."""
        return self.scale * self.scale

    def share_variance(self, honest: int) -> Fraction:
        """Variance of one party's share when `honest` parties carry the noise. Exact."""
        if honest < 1:
            raise SettingError(f"`honest >= 1` must hold, but got honest={honest}")
        return Fraction(self.variance) / honest

    def share(self, honest: int, size: int, randomness: Randomness) -> IntArray:
        """One party's fresh noise, shape (size,)."""
        return skellam.sample(self.share_variance(honest), size, randomness)
