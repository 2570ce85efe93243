from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

import hushtune as ht
from hushtune.client.pairs import Pairs
from hushtune.methods.surface.models import KINDS, Kind, forest, heterogeneity, local, loss_surfaces, pooled

RNG = np.random.default_rng(0)
POINTS = RNG.uniform(size=(200, 2))


def surface(kind: Kind, clients: list[Pairs], at: np.ndarray, **settings: Any) -> np.ndarray:
    return loss_surfaces((kind,), clients, at, **settings)[kind]


def client(centre: float, trials: int = 60, seed: int = 0) -> Pairs:
    points = np.random.default_rng(seed).uniform(size=(trials, 2))
    return Pairs(points, ((points - centre) ** 2).sum(axis=1))


CLIENTS = [client(0.2, seed=1), client(0.4, seed=2), client(0.9, seed=3)]


def plain(pairs: Pairs) -> RandomForestRegressor:
    return RandomForestRegressor(100, random_state=0).fit(pairs.points, pairs.losses)


def test_each_surface_is_what_the_paper_says() -> None:
    together = Pairs(np.concatenate([c.points for c in CLIENTS]), np.concatenate([c.losses for c in CLIENTS]))
    whole = plain(together)
    spread = np.std([tree.predict(POINTS) for tree in whole.estimators_], axis=0)
    own = np.array([plain(c).predict(POINTS) for c in CLIENTS])
    expected = {
        "sgm": whole.predict(POINTS),
        "sgm+u": whole.predict(POINTS) + spread,
        "mplm": own.max(axis=0),
        "aplm": own.mean(axis=0),
    }
    for kind in KINDS:
        np.testing.assert_allclose(surface(kind, CLIENTS, POINTS), expected[kind], atol=1e-6)
    np.testing.assert_allclose(surface("sgm+u", CLIENTS, POINTS, alpha=3.0), expected["sgm"] + 3 * spread, atol=1e-6)


def test_processes_change_nothing() -> None:
    np.testing.assert_array_equal(local(CLIENTS, POINTS, 0, jobs=1), local(CLIENTS, POINTS, 0, jobs=2))


def test_minimisers_lie_where_the_surfaces_are_meant_to() -> None:
    """The average is smallest near the mean of the clients' optima, the maximum halfway between the outermost."""
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 41)] * 2), axis=-1).reshape(-1, 2)
    many = [client(c, trials=400, seed=7) for c in (0.2, 0.2, 0.2, 0.8)]
    average = grid[surface("aplm", many, grid).argmin()]
    pessimist = grid[surface("mplm", many, grid).argmin()]
    assert np.abs(average - 0.35).max() < 0.15
    assert np.abs(pessimist - 0.5).max() < 0.12


def test_a_gaussian_process_is_the_alternative() -> None:
    mean, deviation = pooled([client(0.3)], POINTS, 0, model="gp")
    truth = ((POINTS - 0.3) ** 2).sum(axis=1)
    assert np.abs(mean - truth).mean() < 0.02
    assert (deviation > 0).all()
    assert surface("sgm+u", [client(0.3)], POINTS, model="gp").shape == (200,)


def test_failed_configs_are_left_out_and_so_is_a_client_without_any() -> None:
    good = client(0.3)
    patchy = Pairs(good.points, np.where(np.arange(60) % 2, np.nan, good.losses))
    none = Pairs(good.points, np.full(60, np.nan))
    half = Pairs(good.points[::2], good.losses[::2])
    for kind in KINDS:
        np.testing.assert_array_equal(surface(kind, [patchy, none], POINTS), surface(kind, [half], POINTS))


@pytest.mark.parametrize("kind", KINDS)
def test_fewer_than_two_configs_are_an_error(kind: Kind) -> None:
    one = Pairs(np.array([[0.1, 0.2], [0.1, 0.2], [0.5, 0.5]]), np.array([1.0, 2.0, np.inf]))
    with pytest.raises(ht.SettingError, match="at least 2 distinct configs with a loss, but got 1"):
        surface(kind, [one, one], POINTS)


def test_the_best_pairs() -> None:
    pairs = Pairs(np.arange(5.0)[:, None], np.array([3.0, 1.0, 2.0, 1.0, 9.0]))
    assert pairs.best(3).losses.tolist() == [1.0, 1.0, 2.0]
    assert pairs.best(3).points[:, 0].tolist() == [1.0, 3.0, 2.0]
    assert len(pairs.best(None).losses) == 5


def test_heterogeneity_is_the_papers_gamma() -> None:
    assert heterogeneity([0.2, 0.4]) == pytest.approx(0.8 / 0.6)
    assert heterogeneity([0.2, 0.2]) == 1.0
    assert heterogeneity([2.0, 4.0], worst=10.0) == pytest.approx(8 / 6)
    assert heterogeneity([0.2, 1.0]) == np.inf
    assert forest(Pairs(np.zeros((2, 1)), np.array([0.2, 0.5])), 0).n_estimators == 100
