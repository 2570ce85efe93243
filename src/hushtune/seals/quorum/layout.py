"""How a vector within a bound is written as bits, so that shares of it can be checked by products alone.

A number from 0 to `top` is written with weights 1, 2, 4, ... and a last one that makes them add up to `top`: whatever
the bits are, the number is in its range. What else a bound says becomes conditions that are zero for every vector
within it:

- a total is what it must be, or the vector is empty: S (S - total) = 0;
- a number is at most another: the rest between them is written out too, as slack bits;
- a vector is at most so long: its squares, and slack bits, add up to the square of the norm.

No comparison is needed, and every condition has degree 2. All numbers stay far below the field's prime, so that nothing
wraps around into it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from hushtune.core.arrays import IntArray
from hushtune.core.errors import SettingError
from hushtune.privacy.bounds import AtMost, Ball, Bound, Box, KHot, Scores, Tally
from hushtune.seals.quorum.field import SMALL, Elements

_ROOM = SMALL.prime // 4  # what conditions may come to


@dataclass(frozen=True)
class Span:
    """A number from 0 to `top`, written in bits.

    Args:
        start: its first bit.
        top: the largest that it can be.
    """

    start: int
    top: int

    @property
    def size(self) -> int:
        """How many bits it takes."""
        return self.top.bit_length()

    @property
    def weights(self) -> list[int]:
        """What each bit counts, together `top`; there is none if that is 0."""
        if not self.size:
            return []
        powers = [1 << at for at in range(self.size - 1)]
        return [*powers, self.top - sum(powers)]


@dataclass(frozen=True)
class Total:
    """The numbers add up to `total`, or to nothing: S (S - total) = 0.

    Args:
        spans: which numbers.
        total: what they add up to.
    """

    spans: tuple[Span, ...]
    total: int

    def __post_init__(self) -> None:
        _check_room(sum(span.top for span in self.spans) ** 2)

    def shares(self, ballots: Elements) -> Elements:
        """Of what is zero if the condition holds, for each ballot."""
        added = SMALL.total(np.stack([number(ballots, span) for span in self.spans]))
        return SMALL.mul(added, SMALL.add(added, SMALL.elements(-self.total)))


@dataclass(frozen=True)
class Within:
    """A number is at most another: the first and its slack are the second.

    Args:
        number: the smaller one.
        slack: what is between them.
        most: the larger one.
    """

    number: Span
    slack: Span
    most: Span

    def shares(self, ballots: Elements) -> Elements:
        """Of what is zero if the condition holds, for each ballot."""
        return SMALL.sub(
            SMALL.add(number(ballots, self.number), number(ballots, self.slack)), number(ballots, self.most)
        )


@dataclass(frozen=True)
class Norm:
    """Squares of numbers around `middle`, and slack, add up to `norm` squared.

    Args:
        spans: the numbers, from 0 to twice `middle`.
        slack: what is left to the square of the norm.
        middle: what counts as zero.
        norm: the largest L2 norm.
    """

    spans: tuple[Span, ...]
    slack: Span
    middle: int
    norm: int

    def __post_init__(self) -> None:
        _check_room(len(self.spans) * self.middle**2 + self.slack.top)

    def shares(self, ballots: Elements) -> Elements:
        """Of what is zero if the condition holds, for each ballot."""
        total = SMALL.add(number(ballots, self.slack), SMALL.elements(-(self.norm**2)))
        for span in self.spans:
            value = SMALL.add(number(ballots, span), SMALL.elements(-self.middle))
            total = SMALL.add(total, SMALL.mul(value, value))
        return total


Condition = Total | Within | Norm


@dataclass(frozen=True)
class Layout:
    """How vectors within a bound are written.

    Args:
        entries: one for each entry of the vector.
        offset: what is added to each of them.
        slack: the numbers that follow from the vector, and how.
        conditions: what must be zero, beside that every bit is one.
    """

    entries: tuple[Span, ...]
    offset: int = 0
    slack: tuple[tuple[Span, Callable[[IntArray], int]], ...] = ()
    conditions: tuple[Condition, ...] = ()

    @cached_property
    def size(self) -> int:
        """How many bits a vector takes."""
        return sum(span.size for span in self.entries) + sum(span.size for span, _ in self.slack)

    def bits(self, vector: IntArray) -> Elements:
        """A vector within the bound as bits, shape (size,)."""
        values = np.concatenate([vector - self.offset, [rest(vector) for _, rest in self.slack]]).astype(np.int64)
        number, power, rest, last = self._places
        over = values > rest  # what the other bits cannot hold: then the last one is set
        left = values - over * last
        return np.where(power < 0, over[number], (left[number] >> power) & 1).astype(np.uint64)

    @cached_property
    def _places(self) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """Of each bit its number and its power of two, -1 for the last one; of each number what all bits but the last
        come to together, and what the last one counts."""
        spans = [*self.entries, *(span for span, _ in self.slack)]
        number = [at for at, span in enumerate(spans) for _ in range(span.size)]
        power = [at if at < span.size - 1 else -1 for span in spans for at in range(span.size)]
        rest = [sum(span.weights[:-1]) for span in spans]
        last = [sum(span.weights[-1:]) for span in spans]
        return _integers(number), _integers(power), _integers(rest), _integers(last)

    def sums(self, totals: Elements, ballots: int) -> Elements:
        """Shares of the sum of vectors, from shares of how often each bit was set in so many ballots."""
        if not self.slack and all(span.top == 1 for span in self.entries):  # every entry is a bit
            return totals
        found = [SMALL.add(number(totals, span), SMALL.elements(self.offset * ballots)) for span in self.entries]
        return np.array(found, dtype=np.uint64)


def number(ballots: Elements, span: Span) -> Elements:
    """Shares of a number, from shares of bits in the last axis."""
    part = ballots[..., span.start : span.start + span.size]
    return SMALL.total(SMALL.mul(part, SMALL.elements(span.weights)), axis=-1)


# ---- one layout for each bound -----------------------------------------------------------------------


def layout_of(bound: Bound) -> Layout:
    """How vectors within a bound are written; a bound that cannot be checked on shares is refused."""
    if type(bound) not in _WRITERS:
        names = ", ".join(kind.__name__ for kind in _WRITERS)
        raise SettingError(f"nodes can check vectors within {names}, but got {type(bound).__name__}")
    known: Any = bound
    return _written(known)


@lru_cache(maxsize=4)  # clients of one process have the same bound
def _written(bound: Any) -> Layout:
    return _WRITERS[type(bound)](bound)


def _k_hot(bound: KHot) -> Layout:
    entries = _spans([1] * bound.length)
    return Layout(entries, conditions=(Total(entries, bound.k),))


def _at_most(bound: AtMost) -> Layout:
    *entries, slack = _spans([1] * bound.length + [bound.k])
    return Layout(
        tuple(entries),
        slack=((slack, lambda vector: bound.k - int(vector.sum())),),
        conditions=(Total((*entries, slack), bound.k),),
    )


def _scores(bound: Scores) -> Layout:
    return Layout(_spans([bound.steps] * bound.length))


def _box(bound: Box) -> Layout:
    caps = [min(cap, bound.largest) for cap in bound.caps]
    return Layout(_spans(caps + [bound.largest] * (bound.length - len(caps))))


def _tally(bound: Tally) -> Layout:
    groups, most = bound.groups, bound.points * bound.unit
    spans = _spans([bound.largest] * bound.length + [most] + [bound.largest] * (bound.length - groups))
    entries, rest, slack = spans[: bound.length], spans[bound.length], spans[bound.length + 1 :]
    under = [Within(entries[at], gap, entries[at % groups]) for at, gap in enumerate(slack, groups)]
    left = (rest, lambda vector: most - int(vector[:groups].sum()))
    return Layout(
        entries,
        slack=(left, *((gap, _gap(at, at % groups)) for at, gap in enumerate(slack, groups))),
        conditions=(Total((*entries[:groups], rest), most), *under),
    )


def _gap(at: int, most: int) -> Callable[[IntArray], int]:
    return lambda vector: int(vector[most] - vector[at])


def _ball(bound: Ball) -> Layout:
    spans = _spans([2 * bound.norm] * bound.length + [bound.norm**2])
    entries, slack = spans[:-1], spans[-1]
    return Layout(
        entries,
        offset=-bound.norm,
        slack=((slack, lambda vector: bound.norm**2 - int(vector @ vector)),),
        conditions=(Norm(entries, slack, bound.norm, bound.norm),),
    )


_WRITERS: dict[type[Any], Callable[[Any], Layout]] = {
    KHot: _k_hot,
    AtMost: _at_most,
    Scores: _scores,
    Box: _box,
    Tally: _tally,
    Ball: _ball,
}


def _integers(values: Sequence[int]) -> IntArray:
    return np.array(values, dtype=np.int64)


def _spans(tops: Sequence[int]) -> tuple[Span, ...]:
    """Numbers one after the other, up to so much each."""
    found, start = [], 0
    for top in tops:
        found.append(Span(start, top))
        start += found[-1].size
    return tuple(found)


def _check_room(most: int) -> None:
    if most > _ROOM:
        raise SettingError(
            f"what nodes check must stay below 2^{_ROOM.bit_length() - 1}, but got 2^{most.bit_length()}: "
            "use a coarser grid or fewer values"
        )
