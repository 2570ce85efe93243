"""Noise: integer shares that the parties add themselves and that sum up exactly, or a trusted curator's own draw."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from hushtune.core.arrays import IntArray
from hushtune.core.checks import number
from hushtune.core.errors import SettingError
from hushtune.core.randomness import Randomness
from hushtune.privacy.noise import gaussian, skellam

Place = Literal["parties", "curator"]


@dataclass(frozen=True)
class Noise:
    """Skellam noise in shares, or Gaussian noise from a curator.

    Args:
        scale: standard deviation of the summed noise of the honest parties alone, in steps of the integer grid.
            The guarantee counts on no more than this; the parties beyond them only add to it.
        at: who draws it. At a curator the parties draw none.
    """

    scale: float
    at: Place = "parties"

    def __post_init__(self) -> None:
        number("scale", self.scale, 0, math.inf, "[)")

    @property
    def variance(self) -> float:
        """Variance of the summed noise of the honest parties, per coordinate."""
        return self.scale * self.scale

    def share_variance(self, honest: int) -> Fraction:
        """Variance of one party's share when `honest` parties carry the noise. Exact.

        Args:
            honest: the fewest honest parties of a completed round, which carry the noise.
        """
        if honest < 1:
            raise SettingError(f"`honest >= 1` must hold, but got honest={honest}")
        if self.at == "curator":
            return Fraction(0)
        return Fraction(self.variance) / honest

    def share(self, honest: int, size: int, randomness: Randomness) -> IntArray:
        """One party's fresh noise, shape (size,).

        Args:
            honest: as for `share_variance`.
            size: how many integers.
            randomness: the party's own source.
        """
        return skellam.sample(self.share_variance(honest), size, randomness)

    def by_curator(self, size: int, randomness: Randomness) -> IntArray:
        """The curator's fresh noise, shape (size,); none, if the parties add it.

        Args:
            size: how many integers.
            randomness: the curator's source.
        """
        return gaussian.sample(self.scale if self.at == "curator" else 0.0, size, randomness)

    def opened_variance(self, honest: int, answered: int) -> float:
        """Variance of the noise in each entry of a sum of so many answers.

        Args:
            honest: as for `share_variance`.
            answered: how many parties' shares are in the sum.
        """
        if self.at == "curator":
            return self.variance
        return float(self.share_variance(honest) * answered)

    def reach(self, honest: int, answered: int, entries: int, failure: float) -> int:
        """What the noise in the sum of some entries of an opening of so many answers exceeds with chance `failure`.

        Skellam noise of all who answered adds up to Skellam noise, however many of them are honest.

        Args:
            honest: as for `share_variance`.
            answered: how many parties' shares are in the sum.
            entries: how many entries are added up.
            failure: at the most.
        """
        if self.at == "curator":
            return gaussian.reach(self.scale, entries, failure)
        return self.share_reach(honest, answered * entries, failure)

    def share_reach(self, honest: int, entries: int, failure: float) -> int:
        """What the noise in the sum of some entries of one party's share exceeds with chance `failure` at the most.

        Args:
            honest: as for `share_variance`.
            entries: how many entries are added up.
            failure: at the most.
        """
        variance = self.share_variance(honest) * entries
        return skellam.reach(float(variance), failure) if variance else 0
