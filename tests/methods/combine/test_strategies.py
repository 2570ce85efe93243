"""PrivTuna's ways to combine points (section IV-A), checked by hand and against a plain k-distance plot."""

from __future__ import annotations

import numpy as np
import pytest

import hushtune as ht
from hushtune.client.pairs import Pairs
from hushtune.methods.combine.strategies import combined, config_at, dbscan, good, knee, linear, scores_of, top

SPACE = ht.Space(lr=ht.Float(1e-4, 1.0, log=True), layers=ht.Int(1, 5), kind=ht.Choice(["a", "b", "c"]))
CONFIGS = [
    {"lr": 1e-3, "layers": 1, "kind": "a"},
    {"lr": 1e-2, "layers": 2, "kind": "b"},
    {"lr": 1e-1, "layers": 2, "kind": "b"},
]


def test_the_mean_is_geometric_on_a_log_scale_rounded_for_integers_and_the_mode_for_choices() -> None:
    points = SPACE.encode(CONFIGS)
    assert config_at(SPACE, combined("mean", points, SPACE)) == {"lr": 1e-2, "layers": 2, "kind": "b"}


def test_on_a_linear_scale_the_mean_is_arithmetic() -> None:
    flat = linear(SPACE)
    found = config_at(flat, combined("mean", flat.encode(CONFIGS), flat))
    assert found["lr"] == pytest.approx(0.111 / 3)


@pytest.mark.parametrize("value", range(1, 12))
def test_an_integer_comes_back_from_the_unit_cube(value: int) -> None:
    space = ht.Space(n=ht.Int(1, 11))
    assert config_at(space, space.encode([{"n": value}])[0]) == {"n": value}


def test_an_integer_is_the_rounded_mean() -> None:
    space = ht.Space(n=ht.Int(0, 10))
    points = space.encode([{"n": 8}, {"n": 8}, {"n": 9}, {"n": 9}, {"n": 8}])  # 8.4, which decode would make 9
    assert config_at(space, combined("mean", points, space)) == {"n": 8}


def test_median_and_trimmed_mean_ignore_outliers() -> None:
    space = ht.Space(x=ht.Float(0.0, 1.0))
    points = np.array([[0.5]] * 9 + [[1.0]])
    assert combined("median", points, space) == 0.5
    assert combined("trimmed", points, space) == 0.5
    assert combined("mean", points, space) == pytest.approx(0.55)
    few = np.array([[0.0], [0.5], [1.0]])  # a tenth of three is none
    assert combined("trimmed", few, space) == pytest.approx(0.5)


def test_good_configs_are_near_the_clients_best_and_not_too_many() -> None:
    pairs = Pairs(np.arange(5.0)[:, None], np.array([0.2, 0.31, 0.33, 0.5, 0.2]))
    assert good(pairs, (0.0, 1.0), 0.15, 10).points.ravel().tolist() == [0, 4, 1]  # .69 >= .85 * .8 > .67
    assert good(pairs, (0.0, 1.0), 0.15, 2).points.ravel().tolist() == [0, 4]
    assert good(pairs, (0.0, 1.0), 1.0, 10).points.ravel().tolist() == [0, 4, 1, 2, 3]
    assert len(good(Pairs(np.zeros((0, 1)), np.zeros(0)), (0.0, 1.0), 0.15, 10).losses) == 0


def test_the_best_share_is_at_least_one_config() -> None:
    pairs = Pairs(np.arange(41.0)[:, None], np.arange(41.0))
    assert top(pairs, 0.05).points.ravel().tolist() == [0, 1, 2]
    assert len(top(Pairs(np.zeros((1, 1)), np.zeros(1)), 0.05).losses) == 1


def test_scores_are_shares_of_the_range_of_losses() -> None:
    pairs = Pairs(np.zeros((3, 1)), np.array([1.0, 2.0, 9.0]))
    assert scores_of(pairs, (1.0, 3.0)).tolist() == [1.0, 0.5, 0.0]


def test_dbscan_gives_centres_ranked_by_score_and_drops_the_lonely() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.normal(0.2, 0.01, (20, 2)), rng.normal(0.8, 0.01, (12, 2))
    points = np.concatenate([first, second, [[0.0, 1.0]]])
    scores = np.concatenate([np.full(20, 0.7), np.full(12, 0.9), [1.0]])
    clusters, radius = dbscan(points, scores, 4, None)
    assert [cluster.size for cluster in clusters] == [12, 20]
    assert clusters[0].centre == pytest.approx(second.mean(axis=0))
    assert (clusters[0].score, clusters[1].score) == (pytest.approx(0.9), pytest.approx(0.7))
    assert 0 < radius < 0.3
    assert dbscan(points, scores, 40, None)[0] == []


def test_the_knee_is_where_the_k_distances_bend() -> None:
    crowd, far = np.linspace(0, 0.9, 10)[:, None], np.array([[5.0], [9.0]])
    assert knee(np.concatenate([crowd, far]), 3) == pytest.approx(0.2)  # within the crowd, its ends see 2 steps of .1
    assert knee(np.repeat(crowd, 30, axis=0), 3) < 1e-3  # found by 30 clients each: what they share is dense
    assert 0 < knee(np.ones((4, 2)), 3) < 1e-3
