"""The grid of PF-DBSCAN: cells, closest cells, clusters of adjacent dense cells."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hushtune as ht
from hushtune.core.errors import SettingError
from hushtune.methods.combine.cells import Cells

SQUARE = ht.Space(x=ht.Float(0.0, 1.0), y=ht.Float(0.0, 1.0))
WITH_CHOICE = ht.Space(x=ht.Float(0.0, 1.0), kind=ht.Choice(["a", "b"]))


def test_the_papers_granularity_makes_seven_by_seven_cells() -> None:
    assert Cells(SQUARE, 0.15).shape == (7, 7)
    assert Cells(SQUARE, 0.1).shape == (10, 10)  # though 1 / .1 may be a little more in floats
    assert Cells(WITH_CHOICE, 0.25).shape == (4, 2)


@given(st.floats(0, 1), st.floats(0, 1), st.sampled_from([0.15, 0.1, 0.3, 1.0, 0.07]))
def test_every_point_is_in_a_cell_and_its_closest_one_is_the_nearest_adjacent(x: float, y: float, edge: float) -> None:
    cells, point = Cells(SQUARE, edge), np.array([[x, y]])
    place = cells.coordinates(point)[0]
    assert (place >= 0).all()
    assert (place < cells.shape).all()
    centres = {}
    for step in ((-1, 0), (1, 0), (0, -1), (0, 1)):
        other = place + step
        if (other >= 0).all() and (other < cells.shape).all():
            centres[int(np.ravel_multi_index(tuple(other), cells.shape))] = (other + 0.5) * edge
    found = int(cells.closest(point)[0])
    if not centres:
        assert found == -1
        return
    distances = {cell: np.linalg.norm(point[0] - centre) for cell, centre in centres.items()}
    assert distances[found] <= min(distances.values()) + 1e-12


def test_dense_cells_that_share_a_face_are_one_cluster_and_corners_do_not_join() -> None:
    dense = np.array([[1, 1, 0], [0, 0, 1], [0, 0, 1]], dtype=bool)
    found = Cells(SQUARE, 0.34).clusters(dense.ravel()).reshape(3, 3)
    assert found.tolist() == [[0, 0, -1], [-1, -1, 1], [-1, -1, 1]]


def test_another_option_is_not_adjacent() -> None:
    cells = Cells(WITH_CHOICE, 0.5)
    assert cells.clusters(np.array([True, True, False, True])).tolist() == [0, 1, -1, 1]
    points = WITH_CHOICE.encode([{"x": 0.4, "kind": "b"}])
    assert cells.of(points).tolist() == [1]
    assert cells.closest(points).tolist() == [3]
    assert Cells(ht.Space(kind=ht.Choice(["a", "b"])), 0.5).closest(np.array([[1.0, 0.0]])).tolist() == [-1]


def test_points_of_a_sparse_cell_move_to_the_closest_one_if_that_is_dense() -> None:
    cells = Cells(SQUARE, 0.5)
    clusters = np.array([-1, 0, -1, -1])
    points = np.array([[0.1, 0.4], [0.4, 0.1], [0.1, 0.9], [0.9, 0.6]])
    assert cells.assigned(points, clusters).tolist() == [0, -1, 0, -1]
    assert cells.closest(points).tolist() == [1, 2, 3, 2]


def test_too_many_cells_are_refused_with_what_to_do() -> None:
    with pytest.raises(SettingError, match=r"at most 4096 cells, but cell=0.05 makes 8000 of 3 knobs; choose a larger"):
        Cells(ht.Space(a=ht.Float(0, 1), b=ht.Float(0, 1), c=ht.Float(0, 1)), 0.05)
