"""Every pair of vectors that a bound lets pass is within the change that its event accounts for."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from hushtune.bounds import AtMost, Ball, Box
from hushtune.errors import BoundError, SettingError
from hushtune.privacy.events import SkellamShift, SkellamVector
from hushtune.privacy.noise import Noise
from hushtune.randomness import SimulatedRandomness

NOISE = Noise(10.0)


@pytest.mark.parametrize(("k", "length"), [(1, 4), (2, 4), (3, 4), (4, 4)])
def test_every_pair_of_approvals_is_within_the_event(k: int, length: int) -> None:
    ballots = [np.array(b) for b in product((0, 1), repeat=length) if sum(b) <= k]
    changed = max(int(np.abs(one - other).sum()) for one in ballots for other in ballots)
    assert AtMost(k, length).event(NOISE, "replace-one") == SkellamShift(100.0, changed)
    assert AtMost(k, length).event(NOISE, "zero-out") == SkellamShift(100.0, max(int(b.sum()) for b in ballots))


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
    assert AtMost(2, 4).check([0, 0, 0, 0]).tolist() == [0, 0, 0, 0]
    assert AtMost(2, 4).check(np.array([1, 1, 0, 0], dtype=bool)).tolist() == [1, 1, 0, 0]


@pytest.mark.parametrize("vector", [[1, 1, 1, 0], [2, 0, 0, 0], [-1, 0, 0, 0], [0.5, 0, 0, 0], [1, 1]])
def test_approvals_beyond_the_bound_are_refused(vector: list[float]) -> None:
    with pytest.raises(BoundError):
        AtMost(2, 4).check(np.array(vector))


def test_defaults_depend_on_nothing() -> None:
    randomness = SimulatedRandomness(0, "x")
    for bound in (AtMost(2, 4), Ball(10, 4)):
        assert bound.check(bound.default(randomness)).tolist() == [0, 0, 0, 0]
        assert bound.total is None


def test_impossible_bounds() -> None:
    with pytest.raises(SettingError, match="k=5, candidates=4"):
        AtMost(5, 4)
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
