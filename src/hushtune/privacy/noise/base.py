"""Noise: integer shares that parties or nodes add themselves and that sum up exactly, or a trusted curator's draw."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

from hushtune.core.arrays import IntArray
from hushtune.core.checks import integer, number
from hushtune.core.errors import SettingError
from hushtune.core.randomness import Randomness
from hushtune.privacy.noise import gaussian, skellam

Place = Literal["parties", "curator", "nodes"]
MOST_NODES = 2**10


@dataclass(frozen=True)
class Noise:
    """Skellam noise in shares, or Gaussian noise from a curator.

    Args:
        scale: standard deviation of the summed noise of the honest parties alone, in steps of the integer grid, or of
            the honest nodes alone. The guarantee counts on no more than this; those beyond them only add to it.
        at: who draws it. At a curator and at nodes the parties draw none.
        nodes: how many nodes there are, with at="nodes"; else 0.
    """

    scale: float
    at: Place = "parties"
    nodes: int = 0

    def __post_init__(self) -> None:
        number("scale", self.scale, 0, math.inf, "[)")
        if self.at not in get_args(Place):
            raise SettingError(f"noise must be drawn at one of {list(get_args(Place))}, but got {self.at!r}")
        if self.at == "nodes":
            integer("nodes", self.nodes, 1, MOST_NODES)
        elif type(self.nodes) is not int or self.nodes:
            raise SettingError(f"nodes are for noise that nodes draw, but got at='{self.at}', nodes={self.nodes!r}")

    @property
    def variance(self) -> float:
        """Variance of the summed noise of the honest parties or nodes, per coordinate."""
        return self.scale * self.scale

    @property
    def honest_nodes(self) -> int:
        """m - t of m nodes, where t = floor((m - 1) / 2) may be dishonest: these alone must carry the noise."""
        return self.nodes - (self.nodes - 1) // 2 if self.nodes else 0

    def node_variance(self) -> Fraction:
        """Variance of one node's share of the noise on a sum. Exact; 0, if nodes draw none."""
        return Fraction(self.variance) / self.honest_nodes if self.nodes else Fraction(0)

    def share_variance(self, honest: int) -> Fraction:
        """Variance of one party's share when `honest` parties carry the noise. Exact.

        Args:
            honest: the fewest honest parties of a completed round, which carry the noise.
        """
        if honest < 1:
            raise SettingError(f"`honest >= 1` must hold, but got honest={honest}")
        if self.at != "parties":
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
        """The curator's fresh noise, shape (size,); none, if parties or nodes add it.

        Args:
            size: how many integers.
            randomness: the curator's source.
        """
        return gaussian.sample(self.scale if self.at == "curator" else 0.0, size, randomness)

    def opened_variance(self, honest: int, answered: int) -> float:
        """Variance of the noise in each entry of a sum of so many answers. All nodes add their shares, or none does.

        Args:
            honest: as for `share_variance`.
            answered: how many parties' shares are in the sum.
        """
        if self.at == "curator":
            return self.variance
        if self.at == "nodes":
            return float(self.node_variance() * self.nodes)
        return float(self.share_variance(honest) * answered)

    def reach(self, honest: int, answered: int, entries: int, failure: float) -> int:
        """What the noise in the sum of some entries of an opening of so many answers exceeds with chance `failure`.

        Skellam noise of all who answered, or of all nodes, adds up to Skellam noise, however many are honest.

        Args:
            honest: as for `share_variance`.
            answered: how many parties' shares are in the sum.
            entries: how many entries are added up.
            failure: at most.
        """
        if self.at == "curator":
            return gaussian.reach(self.scale, entries, failure)
        if self.at == "nodes":
            variance = self.node_variance() * self.nodes * entries
            return skellam.reach(float(variance), failure) if variance else 0
        return self.share_reach(honest, answered * entries, failure)

    def share_reach(self, honest: int, entries: int, failure: float) -> int:
        """What the noise in the sum of some entries of one party's share exceeds with chance `failure` at most.

        Args:
            honest: as for `share_variance`.
            entries: how many entries are added up.
            failure: at most.
        """
        variance = self.share_variance(honest) * entries
        return skellam.reach(float(variance), failure) if variance else 0
