from __future__ import annotations

from typing import Any

import numpy as np
import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hushtune as ht
from hushtune.core.space import config_key

MIXED = ht.Space(
    lr=ht.Float(1e-4, 1.0, log=True),
    momentum=ht.Choice([0.0, 0.9]),
    layers=ht.Int(1, 5),
    width=ht.Int(8, 512, log=True),
    drop=ht.Float(0.0, 0.5, step=0.25),
    flag=ht.Choice([None, True, "auto"]),
)


def test_json_round_trip() -> None:
    assert ht.Space.from_json(MIXED.to_json()) == MIXED
    candidates = MIXED.sample(10, seed=3)
    again = ht.Candidates.from_json(candidates.to_json())
    assert again == candidates
    assert hash(again) == hash(candidates)


def test_accepts_an_optuna_users_distributions() -> None:
    knob = optuna.distributions.FloatDistribution(0.0, 1.0)
    assert ht.Space(x=knob).knobs["x"] is knob


@given(st.integers(0, 10_000))
def test_decoding_an_encoded_config_gives_it_back(seed: int) -> None:
    configs = list(MIXED.sample(4, seed=seed))
    for config, again in zip(configs, MIXED.decode(MIXED.encode(configs)), strict=True):
        assert again.keys() == config.keys()
        for name in config:
            if isinstance(config[name], float):
                assert again[name] == pytest.approx(config[name], rel=1e-9)
            else:
                assert again[name] == config[name]
                assert type(again[name]) is type(config[name])


@given(st.lists(st.floats(0, 1), min_size=MIXED.width, max_size=MIXED.width))
def test_every_point_of_the_cube_is_a_valid_config(point: list[float]) -> None:
    (config,) = MIXED.decode(np.array([point]))
    for name, knob in MIXED.knobs.items():
        assert knob._contains(knob.to_internal_repr(config[name]))


def test_encoding_uses_the_knobs_scale() -> None:
    space = ht.Space(lr=ht.Float(1e-4, 1.0, log=True), n=ht.Int(0, 10), kind=ht.Choice(["a", "b", "c"]))
    rows = space.encode([{"lr": 1e-2, "n": 5, "kind": "b"}])
    np.testing.assert_allclose(rows, [[0.5, 0.5, 0.0, 1.0, 0.0]])
    assert space.columns == {"lr": slice(0, 1), "n": slice(1, 2), "kind": slice(2, 5)}


def test_a_default_may_lie_outside_the_space() -> None:
    space = ht.Space(l2=ht.Float(1e-6, 1.0, log=True), kind=ht.Choice(["a", "b"]))
    outside = space.candidates([{"l2": 0.0, "kind": "other"}, {"l2": 7.0, "kind": "a"}])
    np.testing.assert_allclose(outside.encoded, [[0, 0, 0], [1, 1, 0]])


def test_grid_is_the_product_with_the_last_knob_fastest() -> None:
    space = ht.Space(lr=ht.Float(1e-2, 1.0, log=True), momentum=ht.Choice([0.0, 0.9]))
    assert list(space.grid(lr=3)) == [{"lr": lr, "momentum": m} for lr in (0.01, 0.1, 1.0) for m in (0.0, 0.9)]
    assert list(space.grid(lr=[0.5], momentum=[0.9])) == [{"lr": 0.5, "momentum": 0.9}]


def test_grid_takes_all_steps_and_no_integer_twice() -> None:
    assert [c["n"] for c in ht.Space(n=ht.Int(1, 5)).grid()] == [1, 2, 3, 4, 5]
    assert [c["n"] for c in ht.Space(n=ht.Int(1, 3)).grid(n=10)] == [1, 2, 3]
    assert [c["x"] for c in ht.Space(x=ht.Float(0, 1, step=0.5)).grid()] == [0.0, 0.5, 1.0]
    assert [c["x"] for c in ht.Space(x=ht.Float(2.0, 2.0)).grid()] == [2.0]


def test_sample_is_distinct_repeatable_and_stops_at_the_size_of_the_space() -> None:
    assert MIXED.sample(50, seed=1) == MIXED.sample(50, seed=1)
    assert MIXED.sample(50, seed=1) != MIXED.sample(50, seed=2)
    assert len({config_key(c) for c in MIXED.sample(50)}) == 50
    assert len(ht.Space(a=ht.Choice([1, 2, 3])).sample(50)) == 3


def test_equal_values_of_other_types_are_other_candidates() -> None:
    candidates = ht.Space(a=ht.Choice([0, False, 0.0])).grid()
    assert [candidates.index(config) for config in candidates] == [0, 1, 2]
    assert type(ht.Space(x=ht.Float(0, 1)).candidates([{"x": 1}])[0]["x"]) is float
    with pytest.raises(ht.SettingError, match="same config twice"):
        ht.Space(x=ht.Float(0, 1)).candidates([{"x": 1}, {"x": 1.0}])


def test_candidates_give_copies() -> None:
    candidates = ht.Space(x=ht.Float(0.0, 1.0)).grid(x=2)
    candidates[0]["x"] = 5.0
    next(iter(candidates))["x"] = 5.0
    assert candidates[0] == {"x": 0.0}


X = ht.Space(x=ht.Float(0.0, 1.0), n=ht.Int(1, 9), kind=ht.Choice(["a"]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (ht.Space, "at least one knob"),
        (lambda: ht.Space(x=3), "must be Float, Int or Choice"),  # type: ignore[arg-type]
        (lambda: X.candidates([]), "empty list"),
        (lambda: X.candidates([{"x": 0.1}]), "exactly the knobs"),
        (lambda: X.candidates([{"x": 0.1, "n": 1, "kind": "a"}] * 2), "same config twice"),
        (lambda: X.candidates([{"x": "0.1", "n": 1, "kind": "a"}]), "'x' must suit"),
        (lambda: X.candidates([{"x": float("nan"), "n": 1, "kind": "a"}]), "'x' must suit"),
        (lambda: X.candidates([{"x": 0.1, "n": 1.5, "kind": "a"}]), "'n' must suit"),
        (lambda: X.candidates([{"x": 0.1, "n": 1, "kind": [1]}]), "'kind' must suit"),  # type: ignore[dict-item]
        (X.grid, "number of points for knob 'x'"),
        (lambda: X.grid(x=0), "x=0"),
        (lambda: X.grid(y=3), "not a knob"),
        (lambda: X.grid(x=3, kind=2), "list of its choices"),
        (lambda: X.grid(x=3, n=3, kind=["b"]), "must list choices of"),
        (lambda: X.grid(x=True), "x=True"),
        (lambda: X.sample(float("inf")), "count=inf"),  # type: ignore[arg-type]
        (lambda: ht.Space(x=ht.Float(float("nan"), 1.0)), "finite ends"),
        (lambda: X.sample(0), "count=0"),
        (lambda: ht.Space.from_json("{"), "JSON"),
        (lambda: ht.Space.from_json({"x": {"name": "what", "attributes": {}}}), "JSON"),
        (lambda: ht.Candidates.from_json([]), "JSON"),
    ],
)
def test_bad_input_is_refused_with_the_constraint(make: Any, message: str) -> None:
    with pytest.raises(ht.SettingError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_choices_are_finite() -> None:
    with pytest.raises(ht.SettingError, match="plain choices"):
        ht.Space(x=ht.Choice([float("nan"), 1.0]))


def test_the_order_of_knobs_matters_and_survives() -> None:
    space = ht.Space(z=ht.Float(0.0, 1.0), a=ht.Int(1, 3))
    assert space != ht.Space(a=ht.Int(1, 3), z=ht.Float(0.0, 1.0))
    assert list(ht.Space.from_json(space.to_json()).knobs) == ["z", "a"]
