"""Pairs survive being written as integers, and whatever a client sends instead is read as pairs it could have sent."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from hushtune.client.pairs import FINEST, Pairs, blocks_of, read, written

RANGE = (-2.0, 3.0)


@given(arrays.arrays(np.float64, (4, 3), elements=st.floats(0, 1)), st.lists(st.floats(*RANGE), min_size=4, max_size=4))
def test_pairs_survive(points: np.ndarray, losses: list[float]) -> None:
    vector = written(Pairs(points, np.array(losses)), 2, 6, RANGE)
    lengths = blocks_of(6, 3)
    blocks = dict(zip(lengths, np.split(vector, np.cumsum(list(lengths.values()))[:-1]), strict=True))
    found, clipped = read(blocks, RANGE)
    np.testing.assert_allclose(found.points, points, atol=1e-11)
    np.testing.assert_allclose(found.losses, losses, atol=1e-11)
    assert clipped == 2
    assert vector.min() >= 0
    assert vector.max() <= FINEST


def test_what_a_hostile_client_sends_is_read_as_something_it_could_have_sent() -> None:
    big = np.iinfo(np.int64)
    blocks = {
        "found": np.array([big.max]),
        "clipped": np.array([-3]),
        "points": np.array([big.min, big.max] * 2),
        "losses": np.array([big.max, -1]),
    }
    pairs, clipped = read(blocks, RANGE)
    assert pairs.points.tolist() == [[0, 1], [0, 1]]
    assert pairs.losses.tolist() == [3.0, -2.0]
    assert clipped == 0
    assert len(read({**blocks, "found": np.array([-5])}, RANGE)[0].losses) == 0


def test_clipping_counts_what_was_outside() -> None:
    pairs, count = Pairs(np.zeros((4, 1)), np.array([-1.0, 0.0, 0.5, 7.0])).clipped((0.0, 1.0))
    assert pairs.losses.tolist() == [0.0, 0.0, 0.5, 1.0]
    assert count == 2
