from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hushtune as ht
from hushtune.methods.thompson.regions import Emphasis, attention, partition, regions_of

SPACE = ht.Space(kind=ht.Choice(["a", "b", "c", "d"]), lr=ht.Float(1e-4, 1.0, log=True), depth=ht.Int(1, 8))


def test_sub_regions_cut_numbers_before_choices() -> None:
    assert partition(SPACE, 1) == (1, 1, 1)
    assert partition(SPACE, 4) == (1, 2, 2)
    assert partition(SPACE, 12) == (3, 2, 2)


@pytest.mark.parametrize("regions", [1, 2, 3, 4, 6, 8])
def test_sub_regions_are_boxes_of_equal_volume_that_cover_the_cube(regions: int) -> None:
    space = ht.Space(x=ht.Float(0.0, 1.0), y=ht.Float(0.0, 1.0))
    grid = (np.arange(120) + 0.5) / 120
    points = np.array(list(itertools.product(grid, grid)))
    found = regions_of(space, points, regions)
    assert np.bincount(found).tolist() == [len(points) // regions] * regions
    for region in range(regions):
        own = points[found == region]
        inside = ((points >= own.min(axis=0)) & (points <= own.max(axis=0))).all(axis=1)
        assert (found[inside] == region).all()


def test_ends_of_ranges_belong_to_the_last_sub_region() -> None:
    space = ht.Space(x=ht.Float(0.0, 1.0))
    assert regions_of(space, np.array([[0.0], [0.5], [1.0]]), 2).tolist() == [0, 1, 1]


def test_choices_are_cut_into_groups() -> None:
    space = ht.Space(kind=ht.Choice(["a", "b", "c", "d"]))
    points = space.encode([{"kind": kind} for kind in "abcd"])
    assert regions_of(space, points, 2).tolist() == [0, 0, 1, 1]


@given(st.integers(1, 300), st.integers(1, 8), st.floats(1.0, 16.0))
def test_weights_add_up_to_one_for_every_vector(agents: int, regions: int, exponent: float) -> None:
    if agents < regions:
        with pytest.raises(ht.SettingError):
            Emphasis(agents, regions, exponent)
        return
    emphasis = Emphasis(agents, regions, exponent)
    table = emphasis.table()[np.arange(agents) % regions]
    np.testing.assert_allclose(table.sum(axis=0), 1.0)
    assert np.linalg.norm(table, axis=1).max() == pytest.approx(emphasis.largest)
    assert emphasis.largest <= np.sqrt(regions) * table.max() * (1 + 1e-9)  # the paper's bound


def test_weights_are_the_papers_softmax() -> None:
    """Own agents have exp(a I + 1) with a = 15, all others exp(1)."""
    found = Emphasis(5, 2, attention(1)).table()
    raw = np.exp([[16.0, 1.0], [1.0, 16.0]])
    np.testing.assert_allclose(found, raw / (np.array([3, 2]) @ raw))
    assert found[0, 0] == pytest.approx(1 / 3, rel=1e-5)


def test_attention_stays_and_then_fades_until_all_weigh_the_same() -> None:
    assert [attention(t) for t in (1, 10)] == [16.0, 16.0]
    assert attention(25) == pytest.approx(8.5)
    assert [attention(t) for t in (40, 1_000)] == [1.0, 1.0]
    np.testing.assert_allclose(Emphasis(12, 4, 1.0).table(), 1 / 12)
    assert Emphasis(12, 4, 1.0).largest == pytest.approx(2 / 12)
