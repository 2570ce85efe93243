"""What is asked of sums that nodes hold in shares, and how nodes answer together: noise first, then the answer alone.

Noise comes from all nodes, in shares of which any m - t make what the guarantee counts on; the others' only add to it.
A node's share is derived from its secret of the run, the digest that all nodes signed, and the question with its
number: one that restarts repeats it, and another list or question never gets the same. It is added before anything is
computed, so that a node which does not follow the protocol gets at noisy sums and at no others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from hushtune.core.arrays import IntArray
from hushtune.core.errors import AbortedError
from hushtune.core.randomness import Randomness
from hushtune.privacy.noise import geometric, skellam
from hushtune.seals.ends import with_added
from hushtune.seals.quorum.ceremony import Node, Sums
from hushtune.seals.quorum.engine import Engine, Steps
from hushtune.seals.quorum.field import LARGE, SMALL, Elements
from hushtune.seals.quorum.selection import carried, first_of, largest, quotients
from hushtune.seals.quorum.sharing import Crowd

Draw = Callable[[Randomness], IntArray]

GRID = 2**12
"""Steps from 0 to 1 of the grid that quotients are rounded to. Public."""

TAIL = 2.0**-128
"""The chance that the noise of one answer is larger than the room that comparisons leave for it."""


@dataclass(frozen=True)
class Winner:
    """The place of the largest sum, under geometric noise on each; of several, the first.

    Args:
        rate: of the geometric noise: epsilon over the range of a score's change. None: no noise.
        top: what no sum exceeds.
        added: public scores that are added; empty: none.
    """

    rate: Fraction | None
    top: int
    added: tuple[int, ...] = ()
    name: ClassVar[str] = "winner"

    def compute(self, engine: Engine, sums: Elements, draw: _Draws) -> Steps[list[int]]:
        """The winner's place, and nothing else."""
        among = engine.among
        if self.rate is not None:
            noise = yield from draw.added(engine, lambda source: self._share(among, len(sums), source))
            sums = SMALL.add(sums, noise)
        noisy = yield from carried(engine, sums)
        if self.added:
            noisy = LARGE.add(noisy, LARGE.elements(self.added))
        found = yield from largest(engine, noisy, self._most(among, len(sums)).bit_length())
        return _plain((yield from engine.open(found)))

    def known(self, sums: IntArray, among: Crowd, sources: Sequence[Randomness]) -> list[int]:
        """The same of sums that are known, with the noise of all nodes."""
        noise = np.zeros(len(sums), dtype=np.int64)
        if self.rate is not None:
            noise += sum(self._share(among, len(sums), source) for source in sources)
        return [geometric.noisy_max(with_added(sums, self.added), noise)]

    def _share(self, among: Crowd, size: int, source: Randomness) -> IntArray:
        assert self.rate is not None
        return geometric.share(self.rate, among.enough, size, source)

    def _most(self, among: Crowd, size: int) -> int:
        """What two noisy sums are apart at most."""
        apart = max(self.added, default=0) - min(self.added, default=0)
        return self.top + apart + (_reach(self.rate, among, size) if self.rate is not None else 0)


@dataclass(frozen=True)
class Above:
    """The first place, in a public order, whose noisy sum reaches a noisy level; AboveThreshold of Dwork and Roth.

    Args:
        rate: of the two-sided geometric noise on the level.
        half: of that on each sum: half as large, or less.
        top: what no sum exceeds.
        level: what is compared with.
        order: all places.
    """

    rate: Fraction
    half: Fraction
    top: int
    level: int
    order: tuple[int, ...]
    name: ClassVar[str] = "above"

    def compute(self, engine: Engine, sums: Elements, draw: _Draws) -> Steps[list[int]]:
        """One more than how many places come before it in the order; 0 if there is none."""
        among = engine.among
        noise = yield from draw.added(engine, lambda source: self._share(among, source))
        ordered = SMALL.add(sums[list(self.order)], noise[1:])
        lifted = SMALL.add(np.append(noise[:1], ordered), SMALL.elements(self._far(among)))  # noise may be below 0
        noisy = yield from carried(engine, lifted)
        gaps = LARGE.sub(noisy[1:], np.repeat(noisy[:1], len(ordered)))
        gaps = LARGE.sub(gaps, LARGE.elements(self.level))
        reached = yield from engine.at_least_zero(gaps, self._most(among).bit_length())
        found = yield from first_of(engine, reached)
        return _plain((yield from engine.open(found)))

    def known(self, sums: IntArray, among: Crowd, sources: Sequence[Randomness]) -> list[int]:
        """The same of sums that are known, with the noise of all nodes."""
        noise = np.sum([self._share(among, source) for source in sources], axis=0)
        reached = sums[list(self.order)] + noise[1:] >= self.level + noise[0]
        return [int(np.argmax(reached)) + 1 if reached.any() else 0]

    def _share(self, among: Crowd, source: Randomness) -> IntArray:
        """On the level first, then on each sum: differences of two one-sided shares."""
        parts, size = among.enough, len(self.order)
        level = geometric.share(self.rate, parts, 1, source) - geometric.share(self.rate, parts, 1, source)
        sums = geometric.share(self.half, parts, size, source) - geometric.share(self.half, parts, size, source)
        return np.concatenate([level, sums])

    def _far(self, among: Crowd) -> int:
        """What the noise on the level and that on a sum come to together, either way."""
        size = 2 * (len(self.order) + 1)
        return _reach(self.rate, among, size) + _reach(self.half, among, size)

    def _most(self, among: Crowd) -> int:
        """What a noisy sum and the noisy level are apart at most."""
        return max(self.top, abs(self.level)) + abs(self.level) + self._far(among)


@dataclass(frozen=True)
class Total:
    """Some of the sums themselves, under Skellam noise. Nothing is computed, so that they stay in the small field.

    Args:
        start: the first of them.
        stop: one after the last.
        variance: of the noise of m - t nodes together; 0 without epsilon.
    """

    start: int
    stop: int
    variance: Fraction = Fraction(0)
    name: ClassVar[str] = "sum"

    def compute(self, engine: Engine, sums: Elements, draw: _Draws) -> Steps[list[int]]:
        """The noisy sums, of either sign."""
        sums = sums[self.start : self.stop]
        if self.variance:
            share = self.variance / engine.among.enough
            noise = yield from draw.added(engine, lambda source: skellam.sample(share, len(sums), source))
            sums = SMALL.add(sums, noise)
        opened = yield from engine.open(sums, SMALL)
        return [int(value) - SMALL.prime if value > SMALL.prime // 2 else int(value) for value in opened]

    def known(self, sums: IntArray, among: Crowd, sources: Sequence[Randomness]) -> list[int]:
        """The same of sums that are known, with the noise of all nodes."""
        found = sums[self.start : self.stop]
        for source in sources if self.variance else ():
            found = found + skellam.sample(self.variance / among.enough, len(found), source)
        return _plain(found)


@dataclass(frozen=True)
class Reaching:
    """Which of some sums are at least a number; without epsilon.

    Args:
        start: the first of them.
        stop: one after the last.
        least: that number.
        top: what no sum exceeds.
    """

    start: int
    stop: int
    least: int
    top: int
    name: ClassVar[str] = "sum"

    def compute(self, engine: Engine, sums: Elements, draw: _Draws) -> Steps[list[int]]:
        """1 for each sum that is, else 0."""
        found = yield from carried(engine, sums[self.start : self.stop])
        gaps = LARGE.sub(found, LARGE.elements(self.least))
        found = yield from engine.at_least_zero(gaps, max(self.top, self.least).bit_length())
        return _plain((yield from engine.open(found)))

    def known(self, sums: IntArray, among: Crowd, sources: Sequence[Randomness]) -> list[int]:
        """The same of sums that are known."""
        return _plain(sums[self.start : self.stop] >= self.least)


@dataclass(frozen=True)
class Quotient:
    """Some sums divided by others in turn, in steps of a public grid from 0 to 1, rounded down; without epsilon.

    Every sum is at most the one that it is divided by: nodes have checked that of every client's vector.

    Args:
        above: the first of the sums that are divided, and one after the last.
        below: of those that they are divided by, in turn.
        top: what no sum exceeds.
    """

    above: tuple[int, int]
    below: tuple[int, int]
    top: int
    name: ClassVar[str] = "sum"

    def compute(self, engine: Engine, sums: Elements, draw: _Draws) -> Steps[list[int]]:
        """Rounded quotients, in steps; a sum of 0 counts as 1 where it is divided by, and what is above it is 0."""
        above, below = self._of((yield from carried(engine, sums)))
        wide = (self.top * GRID).bit_length()
        nothing = yield from engine.at_least_zero(LARGE.neg(below), wide)  # below is 0 or more
        scaled = LARGE.mul(above, LARGE.elements(GRID))
        found = yield from quotients(engine, scaled, LARGE.add(below, nothing), wide, GRID.bit_length())
        return _plain((yield from engine.open(found)))

    def known(self, sums: IntArray, among: Crowd, sources: Sequence[Randomness]) -> list[int]:
        """The same of sums that are known."""
        above, below = self._of(sums)
        return _plain(above * GRID // np.maximum(below, 1))

    def _of(self, sums: Elements) -> tuple[Elements, Elements]:
        above, below = sums[slice(*self.above)], sums[slice(*self.below)]
        return above, np.tile(below, len(above) // len(below))


Question = Winner | Above | Total | Reaching | Quotient


class _Draws:
    """A node's share of the noise for one question."""

    def __init__(self, node: Node, digest: bytes, told: bytes) -> None:
        self._source = node.drawn("noise", digest, told)

    def added(self, engine: Engine, share: Draw) -> Steps[Elements]:
        """Shares of all nodes' noise together, in the small field; each puts in its own."""
        own = share(self._source)
        dealt = yield from engine.input(engine.among.points, SMALL.elements(own), len(own), SMALL)
        return SMALL.total(np.stack(list(dealt.values())))


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

    def compute(self, question: Question) -> Steps[list[int]]:
        """What is opened. All nodes must be asked the same, and no more than was announced."""
        self._asked += 1
        if self._asked > self._times:
            raise AbortedError(f"at most {self._times} questions were announced, but got one more")
        told = f"{self._asked} {question!r}".encode()
        said = told + self._sums.basis
        got = yield [said] * self._node.among.nodes
        if any(one != said for one in got):
            raise AbortedError("nodes are not asked the same question of the same ballots: nothing is opened")
        source = self._node.drawn("engine", self._sums.basis, told)
        engine = Engine(self._node.among, self._node.number, source)
        draws = _Draws(self._node, self._sums.basis, told)
        return (yield from question.compute(engine, self._sums.shares, draws))


def _reach(rate: Fraction, among: Crowd, size: int) -> int:
    """What none of so many variables, each the noise of all nodes, exceeds, except with the chance TAIL."""
    return geometric.reach(rate, Fraction(among.nodes, among.enough), TAIL / size)


def _plain(values: Elements) -> list[int]:
    return [int(value) for value in values]
