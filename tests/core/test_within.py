from __future__ import annotations

from typing import Any

import pytest

import hushtune as ht
from hushtune.core.within import check_config, check_within

OWN = ht.Space(
    C=ht.Float(0.01, 100.0, log=True),
    degree=ht.Int(2, 4),
    gamma=ht.Choice(["scale", 0.1, 1, True, None]),
)


@pytest.mark.parametrize(
    "asked",
    [
        OWN,
        ht.Space(C=ht.Float(0.01, 100.0)),
        ht.Space(C=ht.Float(1.0, 1.0, step=None), degree=ht.Int(3, 3)),
        ht.Space(degree=ht.Int(2, 4, step=2)),
        ht.Space(gamma=ht.Choice([True])),
        ht.Space(gamma=ht.Choice([None, "scale"])),
    ],
)
def test_what_lies_inside_is_allowed_and_knobs_may_be_left_out(asked: ht.Space) -> None:
    check_within(asked, OWN)


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"memory": ht.Choice(["/tmp/x"])}, r"'memory' is no knob that this client's owner named, .*\['C', 'degree'"),
        ({"C": ht.Float(0.001, 1.0)}, "knob 'C' must be a number from 0.01 to 100.0, but got 0.001$"),
        ({"C": ht.Float(1.0, 1e9)}, "but got 1000000000.0$"),
        ({"C": ht.Int(1, 2)}, "must be a number from .*, but got a whole number from 1 to 2$"),
        ({"C": ht.Choice([1.0])}, "must be a number from .*, but got a choice of "),
        ({"C": ht.Choice(["1.0"])}, "must be a number"),
        ({"degree": ht.Int(2, 5)}, "'degree' must be a whole number from 2 to 4, but got 5$"),
        ({"degree": ht.Int(-(10**300), 3)}, "'degree' must be a whole number from 2 to 4, but got -1000"),
        ({"degree": ht.Float(2.0, 3.0)}, "must be a whole number from 2 to 4, but got a number from 2.0 to 3.0$"),
        ({"gamma": ht.Choice(["auto"])}, "'gamma' must be a choice of .*, but got 'auto'$"),
        ({"gamma": ht.Choice(["x" * 10**6])}, "but got 'xxx"),
        ({"gamma": ht.Float(0.1, 0.1)}, "must be a choice of"),
        ({"gamma": ht.Choice([1.0])}, "but got 1.0$"),
        ({"gamma": ht.Choice([False])}, "but got False$"),
        ({"gamma": ht.Choice([0])}, "but got 0$"),
        ({"gamma": ht.Choice(["True"])}, "but got 'True'$"),
    ],
)
def test_what_lies_outside_is_refused_by_the_knobs_name(knobs: dict[str, Any], message: str) -> None:
    with pytest.raises(ht.RefusedError, match=message) as caught:
        check_within(ht.Space(**knobs), OWN)
    assert len(str(caught.value)) < 300
    assert "\n" not in str(caught.value)


def test_candidates_are_checked_by_their_values_and_not_by_their_space() -> None:
    """Values may lie outside the candidates' own space, choices too."""
    wide = ht.Space(C=ht.Float(1e-9, 1e9), degree=ht.Int(0, 100), gamma=ht.Choice(["scale", "other"]))
    inside = wide.candidates([{"C": 0.5, "degree": 3, "gamma": "scale"}, {"C": 100.0, "degree": 2, "gamma": None}])
    check_within(inside.hull, OWN)
    for outside in ({"C": 101.0}, {"degree": 5}, {"gamma": "other"}, {"gamma": 1.0}, {"gamma": "/etc/passwd"}):
        hidden = OWN.candidates([*inside, {**inside[0], **outside}])
        with pytest.raises(ht.RefusedError, match=f"knob '{next(iter(outside))}' must be"):
            check_within(hidden.hull, OWN)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"C": 1.0, "memory": None}, "'memory' is no knob"),
        ({"C": 1e3}, "'C' must be a number from"),
        ({"C": float("nan")}, "'C' must be a number from"),
        ({"C": True}, "'C' must be a number from"),
        ({"C": [1.0]}, "'C' must be a number from"),
        ({"degree": 3.0}, "'degree' must be a whole number"),
        ({"degree": 10**4000}, "'degree' must be a whole number"),
        ({"gamma": 1.0}, "'gamma' must be a choice"),
        ({"gamma": [["scale"]]}, "'gamma' must be a choice"),
    ],
)
def test_one_config_is_checked_value_by_value(config: dict[str, Any], message: str) -> None:
    check_config({"C": 1.0, "gamma": True}, OWN)
    with pytest.raises(ht.RefusedError, match=message):
        check_config(config, OWN)
