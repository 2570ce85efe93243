"""What every bound must do: hold its own default, refuse what breaks it, and cost what its vectors can change."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from hushtune.core.arrays import IntArray
from hushtune.core.errors import BoundError, SettingError
from hushtune.core.randomness import SystemRandomness
from hushtune.privacy.accounting import Neighbours
from hushtune.privacy.bounds import Bound
from hushtune.privacy.decimals import named
from hushtune.privacy.events.answers import PureTests
from hushtune.privacy.events.sums import Event, GaussianVector, SkellamShift, SkellamVector
from hushtune.privacy.limits import Possible
from hushtune.privacy.noise.base import Noise, Place
from hushtune.testing.values import expect

_DEVIATION = 10.0  # of the noise for which events are asked
_NODES = 3
_DRAWS = 40
_PAIRS = 2_000
_RUNS = 32  # of ones: the shortest, which mirrored are disjoint, and the longest
_CHANGES: tuple[Neighbours, ...] = ("replace-one", "zero-out")  # what `Privacy.change` can be


def check_bound(bound: Bound, seed: int = 0) -> None:
    """Tries a bound with vectors of all kinds; an AssertionError says what broke.

    Vectors that pass its check are compared in pairs: none may differ by more than the bound's event accounts for.
    They are random and extreme ones, so this finds a wrong sensitivity, but proves none right.

    Args:
        bound: an instance.
        seed: of the random vectors.
    """
    _check_defaults(bound)
    for name, vector in _wrong(bound).items():
        expect(not passes(bound, vector), f"{bound} must refuse {name}, but let it pass")
    vectors = [bound.check(vector) for vector in _tried(bound, np.random.default_rng(seed)) if passes(bound, vector)]
    vectors += [bound.check(bound.default(SystemRandomness())) for _ in range(_DRAWS)]
    for vector in vectors:
        expect(np.abs(vector).max() <= bound.largest, f"{bound} lets {vector.max()} pass, but says {bound.largest}")
        total = int(vector.sum())
        expect(
            bound.total in (None, total), f"{bound} says that entries add up to {bound.total}, but lets {total} pass"
        )
    _check_limits(bound, vectors)
    for at in get_args(Place):
        for change in _CHANGES:
            _check_event(bound, vectors, at, change)


def _check_limits(bound: Bound, vectors: list[IntArray]) -> None:
    """What was opened is refused by a bound's limits: no sum of vectors that it lets pass may be."""
    for units, total in [(2, 2 * vector) for vector in vectors] + [(len(vectors), np.sum(vectors, axis=0))]:
        try:
            Possible(bound, units).check(total)
        except BoundError as error:
            raise AssertionError(f"{bound}: its limits refuse a sum of {units} vectors that pass: {error}") from None


def _check_defaults(bound: Bound) -> None:
    expect(bound.length >= 1, f"a bound must have a length of at least 1, but got {bound.length}")
    expect(type(bound.tests) is int and bound.tests >= 0, f"tests must be 0 or more, but got {bound.tests!r}")
    expect(type(bound.only_max) is bool, f"only_max must be a bool, but got {bound.only_max!r}")
    expect(0 < bound.rate <= 1, f"a rate must be above 0 and at most 1, but got {bound.rate}")
    default = bound.default(SystemRandomness())
    expect(passes(bound, default), f"{bound} refuses its own default {default}")
    expect(bound.check(default).tolist() == np.asarray(default).tolist(), f"{bound} changes what it lets pass")


def passes(bound: Bound, vector: Any) -> bool:
    """Whether a vector passes; anything raised but a BoundError is a fault of the bound's."""
    try:
        checked = bound.check(vector)
    except BoundError:
        return False
    expect(checked.dtype == np.int64, f"{bound} must give integers (int64) back, but got {checked.dtype}")
    expect(checked.shape == (bound.length,), f"{bound} must give {bound.length} integers back, but got {checked.shape}")
    return True


def _wrong(bound: Bound) -> dict[str, Any]:
    """What no bound may let pass."""
    default = np.asarray(bound.default(SystemRandomness()))
    beyond, below = default.copy(), default.copy()
    beyond[0], below[0] = bound.largest + 1, -bound.largest - 1
    edges = np.array([2**62] * bound.length), np.array([-(2**63)] * bound.length)
    return {
        "NaN": np.full(bound.length, np.nan),
        "infinity": np.full(bound.length, np.inf),
        "floats": default.astype(np.float64),
        "a shorter vector": default[:-1],
        "a longer vector": np.append(default, 0),
        "a matrix": default[None],
        "no vector": None,
        "texts": np.array(["1"] * bound.length),
        "an entry above its largest": beyond,
        "an entry below minus its largest": below,
        "entries whose squares wrap around": edges[0],
        "the smallest integers": edges[1],
    }


def _tried(bound: Bound, rng: np.random.Generator) -> list[IntArray]:
    """Vectors that a bound may let pass: single entries, runs of ones, all of one sign, and random ones in between."""
    length, largest = bound.length, bound.largest
    single = np.eye(min(length, 8), length, dtype=np.int64)
    runs = np.tril(np.ones((length, length), dtype=np.int64))
    steps = runs if length <= 2 * _RUNS else np.concatenate([runs[:_RUNS], runs[-_RUNS:]])
    tried = [*(sign * size * one for one in single for sign in (1, -1) for size in (1, largest))]
    tried += [*steps, *steps[:, ::-1], np.zeros(length, dtype=np.int64)]
    for _ in range(_DRAWS):
        direction = rng.normal(size=length)
        reach = rng.choice([largest, largest / 2, 1.0])
        for scaled in (direction / np.linalg.norm(direction), np.abs(direction) / np.linalg.norm(direction)):
            tried.append(np.trunc(scaled * reach * (1 - 1e-12)).astype(np.int64))
        tried.append(rng.integers(0, largest, length, endpoint=True))
        tried.append(rng.permutation(steps[rng.integers(len(steps))]))
    return tried


def _check_event(bound: Bound, vectors: list[IntArray], at: Place, change: Neighbours) -> None:
    """No two vectors differ by more than the event says; where a unit is left out, none is larger."""
    noise = Noise(_DEVIATION, at, _NODES if at == "nodes" else 0)
    try:
        event = bound.event(noise, change)
    except SettingError:
        return  # no such noise is offered for such vectors, and so no epsilon claimed
    stacked = np.array(vectors)
    changes = stacked
    if change != "zero-out":
        one, other = np.triu_indices(len(vectors), 1)
        step = max(1, len(one) // _PAIRS)
        changes = stacked[one[::step]] - stacked[other[::step]]
    wrong = changes[~_covers(bound, event, changes, noise)]
    if len(wrong):
        raise AssertionError(f"{bound}: a change of {wrong[0]} is more than {event} accounts for")


def _covers(bound: Bound, event: Event, moved: IntArray, noise: Noise) -> NDArray[np.bool_]:
    """Which changes of the sum, shape (changes, length), an event accounts for."""
    most, l1, l2 = np.abs(moved).max(axis=1), np.abs(moved).sum(axis=1), np.linalg.norm(moved, axis=1)
    match event:
        case SkellamShift():
            return np.asarray((most <= 1) & (l1 <= event.coordinates))
        case SkellamVector():
            return np.asarray((l1 <= event.l1) & (l2 <= event.l2))
        case GaussianVector():
            return np.asarray(l2 <= event.l2)
        case PureTests():
            expect(event.times == bound.tests, f"{bound}: {bound.tests} tests cost {event.times} answers")
            apart = moved.max(axis=1) - moved.min(axis=1)  # for noisy maxima; a threshold stays where it is
            reach = apart if bound.only_max else 2 * most
            return np.asarray(reach <= math.floor(named(event.epsilon) * Fraction(noise.scale)))
        case _:
            raise AssertionError(f"this suite knows no event '{event.name}': its bound needs a test of its own")
