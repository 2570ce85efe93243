"""Every pair of vectors that a bound lets pass is within the change that its event accounts for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from hushtune.core.errors import BoundError, SettingError
from hushtune.core.randomness import SimulatedRandomness
from hushtune.privacy.bounds import Ball, Box, Tally
from hushtune.privacy.events.sums import SkellamVector
from hushtune.privacy.noise.base import Noise

NOISE = Noise(10.0)


@given(
    arrays.arrays(np.int64, 6, elements=st.integers(-12, 12)), arrays.arrays(np.int64, 6, elements=st.integers(-12, 12))
)
def test_every_pair_of_vectors_in_a_ball_is_within_the_event(one: np.ndarray, other: np.ndarray) -> None:
    bound = Ball(9, 6)
    event = bound.event(NOISE, "replace-one")
    assert isinstance(event, SkellamVector)
    try:
        one, other = bound.check(one), bound.check(other)
    except BoundError:
        return
    assert np.linalg.norm(one - other) <= event.l2
    assert np.abs(one - other).sum() <= event.l1
    assert np.abs(one).sum() <= bound.event(NOISE, "zero-out").l1  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "vector",
    [
        [8, 6, 0, 0, 1],  # norm sqrt(101)
        [11, 0, 0, 0, 0],
        [2**62, 2**62, 0, 0, 0],  # whose squares wrap around
        [-(2**63), 0, 0, 0, 0],
        [1.0, 0, 0, 0, 0],
        [float("nan")] * 5,
        [1, 2, 3],
        [[1, 2, 3, 4, 5]],
    ],
)
def test_longer_vectors_and_other_kinds_are_refused(vector: list[float]) -> None:
    with pytest.raises(BoundError):
        Ball(10, 5).check(np.array(vector))


def test_what_is_allowed_passes_unchanged() -> None:
    assert Ball(10, 5).check([8, -6, 0, 0, 0]).tolist() == [8, -6, 0, 0, 0]


def test_defaults_depend_on_nothing() -> None:
    bound = Ball(10, 4)
    assert bound.check(bound.default(SimulatedRandomness(0, "x"))).tolist() == [0, 0, 0, 0]
    assert bound.total is None


def test_impossible_bounds() -> None:
    with pytest.raises(SettingError, match="norm"):
        Ball(0, 4)
    with pytest.raises(SettingError, match="length"):
        Ball(2**20, 2**23)  # a sum of squares could wrap around


def test_a_box_takes_what_is_inside_and_offers_no_noise() -> None:
    bound = Box(10, 3)
    assert bound.check(np.array([0, 10, 5])).tolist() == [0, 10, 5]
    assert Box(10, 3, caps=(2,)).check(np.array([2, 10, 5])).tolist() == [2, 10, 5]
    with pytest.raises(BoundError):
        Box(10, 3, caps=(2,)).check(np.array([3, 10, 5]))
    for outside in ([-1, 0, 0], [0, 0, 11], [0, 0], [0.0, 1.0, 2.0]):
        with pytest.raises(BoundError):
            bound.check(np.array(outside))
    assert bound.default(SimulatedRandomness(0, "")).tolist() == [0, 0, 0]
    with pytest.raises(SettingError, match="no epsilon covers"):
        bound.event(NOISE, "replace-one")
    with pytest.raises(SettingError):
        Box(2**41, 3)


tallies = st.tuples(
    arrays.arrays(np.int64, 3, elements=st.integers(-1, 13)), arrays.arrays(np.int64, 6, elements=st.integers(-1, 13))
)


@given(tallies, tallies)
def test_every_pair_of_tallies_is_within_the_event(one: tuple[np.ndarray, ...], other: tuple[np.ndarray, ...]) -> None:
    """PRIVACY: cell counts of at most B points have sensitivity sqrt(2) B, cluster sums sqrt(2) B sqrt(d + 2)."""
    bound = Tally(points=4, groups=3, values=2, unit=3)
    event = bound.event(NOISE, "replace-one")
    assert isinstance(event, SkellamVector)
    try:
        first, second = (bound.check(np.concatenate(parts)) for parts in (one, other))
    except BoundError:
        return
    assert np.linalg.norm(first - second) <= event.l2
    assert np.abs(first - second).sum() <= event.l1
    alone = bound.event(NOISE, "zero-out")
    assert isinstance(alone, SkellamVector)
    assert np.linalg.norm(first) <= alone.l2
    assert np.abs(first).sum() <= alone.l1


@pytest.mark.parametrize(("groups", "single", "factor"), [(5, False, 2**0.5), (1, False, 2**0.5), (1, True, 1.0)])
@pytest.mark.parametrize("values", [0, 3])
def test_what_a_tally_can_change_is_reached_and_not_exceeded(
    groups: int, single: bool, factor: float, values: int
) -> None:
    bound = Tally(10, groups, values, unit=7, single=single)
    event = bound.event(NOISE, "replace-one")
    assert isinstance(event, SkellamVector)
    assert event.l2 == pytest.approx(factor * 70 * (1 + values) ** 0.5, rel=1e-12)
    worst = np.zeros((1 + values, groups), dtype=np.int64)
    worst[:, 0] = 70
    other = np.zeros_like(worst)
    if groups > 1:
        other[:, 1] = 70
    change = float(np.linalg.norm(bound.check(worst.ravel()) - bound.check(other.ravel())))
    assert change <= event.l2
    assert groups == 1 or change == pytest.approx(event.l2)


@pytest.mark.parametrize(
    "vector",
    [
        [3, 2, 0, 0],  # five points
        [-1, 2, 0, 0],
        [2, 1, 3, 0],  # a sum above its count
        [2, 1, -1, 0],
        [4, 0, 0, 0],  # above the cap
        [1.0, 0, 0, 0],
        [1, 0],
    ],
)
def test_more_points_than_were_announced_are_refused(vector: list[float]) -> None:
    with pytest.raises(BoundError):
        Tally(4, 2, 1, cap=3).check(vector)
    assert Tally(4, 2, 1, cap=3).check([3, 1, 3, 1]).tolist() == [3, 1, 3, 1]


def test_impossible_tallies_are_refused() -> None:
    with pytest.raises(SettingError, match="single group"):
        Tally(4, 2, single=True)
    assert Tally(4, 2).default(SimulatedRandomness(0, "a")).tolist() == [0, 0]
