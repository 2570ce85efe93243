"""What is asked of sums that nodes hold in shares, and how nodes answer together: noise first, then the answer alone.

Noise comes from all nodes, in shares of which any m - t make what the guarantee counts on; the others' only add to it.
A node's share is derived from its secret of the run, the digest that all nodes signed, and the question with its
number: one that restarts repeats it, and another list or question never gets the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from hushtune.core.arrays import IntArray
from hushtune.core.errors import AbortedError
from hushtune.core.randomness import Randomness
from hushtune.privacy.noise import geometric, skellam
from hushtune.seals.quorum.ceremony import Node, Sums
from hushtune.seals.quorum.engine import Engine, Steps
from hushtune.seals.quorum.field import LARGE, SMALL, Elements, Field
from hushtune.seals.quorum.selection import carried, first_of, largest, quotients

Draw = Callable[[Randomness], IntArray]


@dataclass(frozen=True)
class Winner:
    """The place of the largest sum, under geometric noise on each; of several, the first.

    Args:
        rate: of the geometric noise: epsilon over the range of a score's change.
        top: what no sum exceeds.
        prior: public scores that are added.
    """

    rate: Fraction
    top: int
    prior: tuple[int, ...] = ()
    name: ClassVar[str] = "winner"
    field: ClassVar[Field] = LARGE

    def compute(self, engine: Engine, sums: Elements, draw: _Draws) -> Steps[list[int]]:
        """The winner's place, and nothing else."""
        noisy = LARGE.add(sums, (yield from draw.added(engine, lambda source: self._share(engine, len(sums), source))))
        if self.prior:
            noisy = LARGE.add(noisy, LARGE.elements(self.prior))
        shape = Fraction(engine.among.nodes, engine.among.nodes - engine.among.degree)
        apart = max(self.prior, default=0) - min(self.prior, default=0)
        most = self.top + apart + geometric.reach(self.rate, shape)
        found = yield from largest(engine, noisy, most.bit_length())
        return _plain((yield from engine.open(found)))

    def _share(self, engine: Engine, size: int, source: Randomness) -> IntArray:
        return geometric.share(self.rate, engine.among.nodes - engine.among.degree, size, source)


@dataclass(frozen=True)
class Above:
    """The first place, in a public order, whose noisy sum reaches a noisy level; AboveThreshold of Dwork and Roth.

    Args:
        rate: of the two-sided geometric noise on the level; that on each sum has half of it.
        top: what no sum exceeds.
        level: what is compared with.
        order: all places.
    """

    rate: Fraction
    top: int
    level: int
    order: tuple[int, ...]
    name: ClassVar[str] = "above"
    field: ClassVar[Field] = LARGE

    def compute(self, engine: Engine, sums: Elements, draw: _Draws) -> Steps[list[int]]:
        """One more than how many places come before it in the order; 0 if there is none."""
        noise = yield from draw.added(engine, lambda source: self._share(engine, len(self.order), source))
        ordered = sums[list(self.order)]
        gaps = LARGE.sub(LARGE.add(ordered, noise[1:]), LARGE.elements(self.level))
        gaps = LARGE.sub(gaps, np.repeat(noise[:1], len(gaps)))
        shape = Fraction(engine.among.nodes, engine.among.nodes - engine.among.degree)
        far = geometric.reach(self.rate, shape) + geometric.reach(self.rate / 2, shape)
        most = max(self.top, abs(self.level)) + abs(self.level) + far
        reached = yield from engine.at_least_zero(gaps, most.bit_length())
        found = yield from first_of(engine, reached)
        return _plain((yield from engine.open(found)))

    def _share(self, engine: Engine, size: int, source: Randomness) -> IntArray:
        """On the level first, then on each sum: differences of two one-sided shares."""
        parts, half = engine.among.nodes - engine.among.degree, self.rate / 2
        level = geometric.share(self.rate, parts, 1, source) - geometric.share(self.rate, parts, 1, source)
        sums = geometric.share(half, parts, size, source) - geometric.share(half, parts, size, source)
        return np.concatenate([level, sums])


@dataclass(frozen=True)
class Total:
    """The sums themselves, under Skellam noise. Nothing is computed, so that they stay in the small field.

    Args:
        variance: of the noise of m - t nodes together; 0 without epsilon.
    """

    variance: Fraction = Fraction(0)
    name: ClassVar[str] = "total"
    field: ClassVar[Field] = SMALL

    def compute(self, engine: Engine, sums: Elements, draw: _Draws) -> Steps[list[int]]:
        """All noisy sums, of either sign."""
        if self.variance:
            share = self.variance / (engine.among.nodes - engine.among.degree)
            noise = yield from draw.added(engine, lambda source: skellam.sample(share, len(sums), source), SMALL)
            sums = SMALL.add(sums, noise)
        opened = yield from engine.open(sums, SMALL)
        return [int(value) - SMALL.prime if value > SMALL.prime // 2 else int(value) for value in opened]


@dataclass(frozen=True)
class Reaching:
    """Which sums are at least a number; without epsilon.

    Args:
        least: that number.
        top: what no sum exceeds.
    """

    least: int
    top: int
    name: ClassVar[str] = "reaching"
    field: ClassVar[Field] = LARGE

    def compute(self, engine: Engine, sums: Elements, draw: _Draws) -> Steps[list[int]]:
        """1 for each sum that is, else 0."""
        gaps = LARGE.sub(sums, LARGE.elements(self.least))
        found = yield from engine.at_least_zero(gaps, max(self.top, self.least).bit_length())
        return _plain((yield from engine.open(found)))


@dataclass(frozen=True)
class Quotient:
    """The first sums, each times `scale` and divided by the last ones in turn, rounded down; without epsilon.

    Args:
        below: how many last sums are divided by.
        top: what no sum exceeds.
        scale: steps of the public grid that quotients are rounded to.
        most: the largest quotient, before it is scaled.
    """

    below: int
    top: int
    scale: int
    most: int
    name: ClassVar[str] = "quotient"
    field: ClassVar[Field] = LARGE

    def compute(self, engine: Engine, sums: Elements, draw: _Draws) -> Steps[list[int]]:
        """Rounded quotients, in steps; a sum of 0 divides by 1 instead, and every quotient is at most the largest."""
        above, below = sums[: -self.below], np.tile(sums[-self.below :], (len(sums) - self.below) // self.below)
        wide = (self.top * self.scale).bit_length()
        nothing = yield from engine.at_least_zero(LARGE.neg(below), wide)  # below is 0 or more
        size = (self.most * self.scale).bit_length()
        scaled = LARGE.mul(above, LARGE.elements(self.scale))
        found = yield from quotients(engine, scaled, LARGE.add(below, nothing), wide, size)
        return [min(value, self.most * self.scale) for value in _plain((yield from engine.open(found)))]


Question = Winner | Above | Total | Reaching | Quotient


class _Draws:
    """A node's share of the noise for one question."""

    def __init__(self, node: Node, digest: bytes, told: bytes) -> None:
        self._source = node.drawn("noise", digest, told)

    def added(self, engine: Engine, share: Draw, field: Field = LARGE) -> Steps[Elements]:
        """Shares of all nodes' noise together; each puts in its own."""
        own = share(self._source)
        dealt = yield from engine.input(engine.among.points, field.elements(own), len(own), field)
        return field.total(np.stack(list(dealt.values())))


class Answerer:
    """Answers questions about one step's sums, one after the other.

    Args:
        node: this one.
        sums: what it holds.
        times: how many questions were announced.
    """

    def __init__(self, node: Node, sums: Sums, times: int = 1) -> None:
        self._node, self._sums, self._times = node, sums, times
        self._asked = 0
        self._carried: Elements | None = None

    def compute(self, question: Question) -> Steps[list[int]]:
        """What is opened. All nodes must be asked the same, and no more than was announced."""
        self._asked += 1
        if self._asked > self._times:
            raise AbortedError(f"at most {self._times} questions were announced, but got one more")
        told = f"{self._asked} {question!r}".encode()
        got = yield [told] * self._node.among.nodes
        if any(one != told for one in got):
            raise AbortedError("nodes are not asked the same question: nothing is opened")
        source = self._node.drawn("engine", self._sums.digest, told)
        engine = Engine(self._node.among, self._node.number, source)
        draws = _Draws(self._node, self._sums.digest, told)
        if question.field is SMALL:
            return (yield from question.compute(engine, self._sums.shares, draws))
        if self._carried is None:
            self._carried = yield from carried(engine, self._sums.shares)
        return (yield from question.compute(engine, self._carried, draws))


def _plain(values: Elements) -> list[int]:
    return [int(value) for value in values]
