"""Distributed exploration (DP-FTS-DE, section 3.2): sub-regions of a space, and how much each agent counts in each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hushtune.core.arrays import FloatArray
from hushtune.core.checks import integer, number
from hushtune.core.space import Choice, Float, Int, Space

MOST_REGIONS = 64
_STEADY, _FADING = 10, 30  # iterations with the full emphasis, then until all count the same
_OTHERS = 1.0


@lru_cache(maxsize=16)
def partition(space: Space, regions: int) -> tuple[int, ...]:
    """Into how many equal parts each knob's range is cut, so that there are so many equal boxes.

    The factors of the number of regions go to the knobs in turn, numbers before choices.
    """
    integer("regions", regions, 1, MOST_REGIONS)
    cuts = dict.fromkeys(space.knobs, 1)
    turns = sorted(space.knobs, key=lambda name: isinstance(space.knobs[name], Choice))  # a stable sort
    for at, factor in enumerate(_factors(regions)):
        cuts[turns[at % len(turns)]] *= factor
    return tuple(cuts.values())


def _factors(number: int) -> list[int]:
    found, divisor = [], 2
    while number > 1:
        if number % divisor == 0:
            found.append(divisor)
            number //= divisor
        else:
            divisor += 1
    return found


def regions_of(space: Space, points: FloatArray, regions: int) -> NDArray[np.int64]:
    """The sub-region of each point of the unit cube: points (..., width), result (...)."""
    found = np.zeros(points.shape[:-1], dtype=np.int64)
    for (name, knob), parts in zip(space.knobs.items(), partition(space, regions), strict=True):
        columns = points[..., space.columns[name]]
        if isinstance(knob, Float | Int):
            place = np.floor(columns[..., 0] * parts)
        else:
            place = np.floor((columns.argmax(axis=-1) + 0.5) / columns.shape[-1] * parts)
        found = found * parts + np.clip(place, 0, parts - 1).astype(np.int64)
    return found


@dataclass(frozen=True)
class Emphasis:
    """How much the agents of each sub-region count in each sub-region's vector, in one iteration; all of it public.

    The softmax of section 3.2: agents assigned to a sub-region have the exponent `attention`, all others 1. Agent n of
    the roster is assigned to sub-region n mod P. It is normalised over the whole roster, whoever answers, so that
    one agent's absence changes nobody else's.

    Args:
        agents: in the roster.
        regions: how many.
        attention: (a + 1)/T in the paper.
    """

    agents: int
    regions: int
    attention: float

    def __post_init__(self) -> None:
        integer("agents", self.agents, self.regions)
        number("attention", self.attention, _OTHERS, 64)

    def table(self) -> FloatArray:
        """phi: rows are the sub-region that an agent is assigned to, columns the vectors that it counts in."""
        sizes = np.array([len(range(region, self.agents, self.regions)) for region in range(self.regions)])
        own, other = np.exp(self.attention - _OTHERS), 1.0
        raw = np.where(np.eye(self.regions, dtype=bool), own, other)
        shares: FloatArray = raw / (sizes @ raw)
        return shares

    @property
    def largest(self) -> float:
        """The largest norm of what one agent counts as: max over n of |phi_n|_2.

        The paper bounds it by sqrt(P) phi_max; while every agent counts in one vector only, that is sqrt(P) too much.
        """
        return float(np.linalg.norm(self.table(), axis=1).max())


def attention(iteration: int, strength: float = 15.0) -> float:
    """The exponent at an iteration, counted from 1: a + 1 for a while, then falling to 1, where all count the same."""
    left = min(1.0, max(0.0, 1 - (iteration - _STEADY) / _FADING))
    return _OTHERS + strength * left
