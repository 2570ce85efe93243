from __future__ import annotations

import math
from typing import Any

import pytest

from hushtune.core.checks import integer, kind, number
from hushtune.core.errors import SettingError


@pytest.mark.parametrize("value", [10**400, -(10**400), math.nan, math.inf, True, "1", None, 1j])
def test_a_number_is_finite_and_real(value: Any) -> None:
    with pytest.raises(SettingError, match="must hold, but got x="):
        number("x", value, 0, math.inf)


@pytest.mark.parametrize("value", [2.0, True, "1", None, -1, 10])
def test_an_integer_is_one(value: Any) -> None:
    with pytest.raises(SettingError, match="for an integer, but got x="):
        integer("x", value, 0, 9)


@pytest.mark.parametrize("value", [[1, 2], {"a": 1}, object()])
def test_of_what_is_no_plain_value_the_class_is_said(value: Any) -> None:
    for check in (lambda: integer("x", value, 0), lambda: number("x", value, 0, 1), lambda: kind("x", value, str)):
        with pytest.raises(SettingError, match=rf", but got an? {type(value).__name__}$"):
            check()


def test_classes_have_their_article() -> None:
    with pytest.raises(SettingError, match="x must be an int or a str, but got 1.5"):
        kind("x", 1.5, int, str)


def test_ends() -> None:
    assert number("x", 1, 0, 1) == 1.0
    for value, ends in ((0, "(]"), (1, "[)")):
        with pytest.raises(SettingError):
            number("x", value, 0, 1, ends)
