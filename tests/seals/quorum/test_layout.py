from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pytest

from hushtune.core.errors import BoundError, SettingError
from hushtune.privacy.bounds import AtMost, Ball, Box, KHot, Scores, Tally
from hushtune.seals.quorum.field import SMALL
from hushtune.seals.quorum.layout import Layout, Span, layout_of, number


def k_hot(source: np.random.Generator) -> Any:
    return source.permutation([1] * 3 + [0] * 9)


def at_most(source: np.random.Generator) -> Any:
    count = source.integers(0, 5)
    return source.permutation([1] * count + [0] * (12 - count))


def tally(source: np.random.Generator) -> Any:
    counts = source.multinomial(source.integers(0, 16), np.ones(3) / 3).clip(0, 12)
    return np.concatenate([counts, source.integers(0, counts + 1), source.integers(0, counts + 1)])


def ball(source: np.random.Generator) -> Any:
    found = source.normal(size=5)
    return (found / np.linalg.norm(found) * source.uniform(0, 100)).astype(np.int64)


WITHIN: list[Any] = [
    (KHot(3, 12), k_hot),
    (AtMost(4, 12), at_most),
    (Scores(6, 1, 100, 100), lambda source: source.integers(0, 101, 6)),
    (Scores(6, 1, 1, 1), lambda source: source.integers(0, 2, 6)),
    (Box(1000, 4, caps=(3, 10**6)), lambda source: source.integers(0, [4, 1001, 1001, 1001])),
    (Box(3, 2, caps=(0,)), lambda source: source.integers(0, [1, 4])),
    (Tally(5, 3, values=2, unit=3, cap=4), tally),
    (Ball(100, 5), ball),
]


@pytest.mark.parametrize(("bound", "draw"), WITHIN, ids=[repr(bound) for bound, _ in WITHIN])
def test_vectors_within_a_bound_come_back_from_their_bits(bound: Any, draw: Any) -> None:
    source, layout = np.random.default_rng(1), layout_of(bound)
    vectors = [bound.check(draw(source)) for _ in range(60)]
    ballots = np.stack([layout.bits(vector) for vector in vectors])
    assert ballots.shape == (60, layout.size)
    assert set(np.unique(ballots)) <= {0, 1}
    for condition in layout.conditions:
        assert not condition.shares(ballots).any()
    for vector, bits in zip(vectors, ballots, strict=True):
        assert np.array_equal(layout.sums(bits, 1), SMALL.elements(vector))
    sums = layout.sums(SMALL.total(ballots), len(ballots))
    assert np.array_equal(sums, SMALL.elements(np.sum(vectors, axis=0)))


TINY: list[Any] = [
    KHot(1, 1),
    KHot(2, 6),
    KHot(6, 6),
    AtMost(1, 5),
    AtMost(3, 7),
    AtMost(5, 5),
    Scores(3, 1, 5, 5),
    Box(6, 3, caps=(2,)),
    Box(3, 4, caps=(0, 1)),
    Box(3, 2, caps=(0,)),
    Tally(3, 2),
    Tally(1, 2, values=1),
    Tally(1, 1, values=1, unit=5),
    Tally(3, 2, cap=1, values=1),
    Tally(2, 3, cap=1),
    Ball(1, 1),
    Ball(3, 1),
    Ball(2, 3),
    Ball(3, 3),
]


def fits(bound: Any, vector: Any) -> bool:
    try:
        bound.check(np.array(vector))
    except BoundError:
        return False
    return True


def written(layout: Layout) -> set[tuple[int, ...]]:
    """What all patterns of bits that pass stand for."""
    patterns = np.array(list(product((0, 1), repeat=layout.size)), dtype=np.uint64)
    for condition in layout.conditions:
        patterns = patterns[condition.shares(patterns) == 0]
    entries = [number(patterns, span).astype(np.int64) + layout.offset for span in layout.entries]
    return set(zip(*(entry.tolist() for entry in entries), strict=True))


@pytest.mark.parametrize("bound", TINY, ids=repr)
def test_no_bits_that_pass_stand_for_a_vector_outside_and_every_one_inside_has_some(bound: Any) -> None:
    layout = layout_of(bound)
    assert layout.size <= 14
    found = written(layout)
    lowest = -bound.largest - 1 if isinstance(bound, Ball) else 0
    inside = {x for x in product(range(lowest, bound.largest + 2), repeat=bound.length) if fits(bound, x)}
    assert found - {(0,) * bound.length} == inside - {(0,) * bound.length}
    for vector in inside:
        bits = layout.bits(np.array(vector))
        assert len(bits) == layout.size
        assert np.array_equal(layout.sums(bits, 1), SMALL.elements(vector))
        assert not any(condition.shares(bits).any() for condition in layout.conditions)


@pytest.mark.parametrize("top", range(71))
def test_a_span_covers_its_range_and_nothing_else(top: int) -> None:
    span = Span(0, top)
    assert len(span.weights) == span.size
    assert {sum(part) for part in product(*((0, weight) for weight in span.weights))} == set(range(top + 1))
    for value in range(top + 1):
        bits = Layout((span,)).bits(np.array([value])).tolist()
        assert set(bits) <= {0, 1}
        assert sum(bit * weight for bit, weight in zip(bits, span.weights, strict=True)) == value


@pytest.mark.parametrize("bound", [Ball(2**20, 2**19), Tally(2**20, 2, unit=2**24)], ids=repr)
def test_what_might_wrap_around_is_refused(bound: Any) -> None:
    with pytest.raises(SettingError, match="coarser grid"):
        layout_of(bound)


def test_the_longest_vectors_that_do_not_wrap_around_are_taken() -> None:
    assert layout_of(Ball(2**20, 64)).size == 64 * 22 + 41


@dataclass(frozen=True)
class Foreign(KHot):
    pass


def test_a_bound_that_is_not_known_is_refused_by_its_name() -> None:
    with pytest.raises(SettingError, match="KHot, AtMost, .* but got Foreign"):
        layout_of(Foreign(1, 2))
