from __future__ import annotations

import math

import pytest

import hushtune as ht
from experiments.epsilons import DELTA, privacy_of, read_epsilons


def test_infinity_stands_for_no_noise() -> None:
    assert read_epsilons("0.5,3,inf") == [0.5, 3.0, math.inf]
    assert [privacy_of(epsilon) for epsilon in (3.0, math.inf)] == [ht.Privacy(3.0, DELTA), None]


@pytest.mark.parametrize("text", ["0", "1,-1", "1,1000", "1,nan", "1,,2", "", "one"])
def test_what_no_guarantee_can_have_is_refused_before_anything_is_measured(text: str) -> None:
    with pytest.raises(ht.SettingError, match="epsilon"):
        read_epsilons(text)
