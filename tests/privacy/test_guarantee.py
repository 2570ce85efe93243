from __future__ import annotations

from typing import Any

import pytest

import hushtune as ht


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": 0.0}, "epsilon=0.0"),
        ({"epsilon": -1.0}, "epsilon=-1.0"),
        ({"epsilon": float("nan")}, "epsilon=nan"),
        ({"epsilon": float("inf")}, "epsilon=inf"),
        ({"epsilon": "1"}, "epsilon='1'"),
        ({"epsilon": 1e-9}, "epsilon=1e-09"),
        ({"epsilon": 1000}, "epsilon=1000"),
        ({"epsilon": 1.0, "delta": 1e-30}, "delta=1e-30"),
        ({"epsilon": True}, "epsilon=True"),
        ({"epsilon": 1.0, "delta": 9e-13}, "`delta = 0` or `1e-12 <= delta <= 0.1` must hold, but got delta=9e-13"),
        ({"epsilon": 1.0, "delta": 0.2}, "`delta = 0` or `1e-12 <= delta <= 0.1` must hold, but got delta=0.2"),
        ({"epsilon": 1.0, "delta": -1e-5}, "`0 <= delta < 1` must hold, but got delta=-1e-05"),
        ({"epsilon": 1.0, "delta": False}, "delta=False"),
        ({"epsilon": 1.0, "delta": None}, "delta=None"),
        ({"epsilon": 1.0, "delta": 1.0}, "delta=1.0"),
        ({"epsilon": 1.0, "unit": "person"}, "unit must be one of"),
        ({"epsilon": 1.0, "neighbours": "near"}, "neighbours must be one of"),
        ({"epsilon": 1.0, "neighbours": "add-remove"}, "roster of clients is public"),
    ],
)
def test_impossible_guarantees_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ht.SettingError, match=message):
        ht.Privacy(**arguments)


def test_defaults_name_unit_and_relation() -> None:
    assert ht.Privacy(1.0).to_json() == {
        "epsilon": 1.0,
        "delta": 1e-5,
        "unit": "client",
        "neighbours": "replace-one",
    }


@pytest.mark.parametrize("delta", [0, 0.0, -0.0])
def test_a_guarantee_may_be_pure(delta: float) -> None:
    privacy = ht.Privacy(1.0, delta)
    assert repr(privacy.delta) == repr(privacy.budget.delta) == "0.0"
    assert ht.Privacy(**privacy.to_json()) == privacy
