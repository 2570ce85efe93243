from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushtune.core.words import as_set, counted, down, up

AMOUNTS = st.floats(min_value=0, max_value=1e307)


def test_one_is_no_plural() -> None:
    assert [counted(number, "client") for number in (0, 1, 2)] == ["0 clients", "1 client", "2 clients"]


@given(AMOUNTS, st.integers(1, 8))
def test_what_is_read_back_is_never_too_low_nor_what_is_left_too_high(value: float, digits: int) -> None:
    above, below = up(value, digits), down(value, digits)
    assert float(below) * (1 - 1e-13) <= value <= float(above) * (1 + 1e-13)
    for text in (above, below):
        assert len(text.split("e")[0].replace(".", "").strip("0")) <= digits
    if 1e-290 < value < 1e290:
        assert float(above) <= value * (1 + 10.0 ** (1 - digits)) * (1 + 1e-12)
        assert float(below) >= value * (1 - 10.0 ** (1 - digits)) * (1 - 1e-12)


@given(AMOUNTS)
def test_a_setting_is_read_back_as_it_was_set(value: float) -> None:
    assert float(as_set(value)) == value


@pytest.mark.parametrize(
    ("value", "above", "below"),
    [
        (1.0, "1", "1"),
        (0.25, "0.25", "0.25"),
        (1e-5, "1e-05", "1e-05"),
        (1.00001, "1.001", "1"),
        (0.99999, "1", "0.9999"),
        (1.2344, "1.235", "1.234"),
        (9999.5, "1e+04", "9999"),
        (12345.6, "1.235e+04", "1.234e+04"),
        (0.3 - 0.1, "0.2", "0.2"),
        (0.1 + 0.2, "0.3", "0.3"),
        (sum([0.1] * 10), "1", "1"),
        (3 * 1.1, "3.3", "3.3"),
        (0.3 * (1 + 1e-9), "0.3001", "0.3"),
        (1.2 * (1 - 1e-9), "1.2", "1.199"),
        (0.0, "0", "0"),
        (math.inf, "inf", "inf"),
    ],
)
def test_four_digits(value: float, above: str, below: str) -> None:
    assert (up(value), down(value)) == (above, below)


def test_limits_are_shown_as_they_were_set() -> None:
    assert [as_set(value) for value in (1.0, 0.25, 1e-5, 2, 0.1234567, 0.0, math.inf)] == [
        "1",
        "0.25",
        "1e-05",
        "2",
        "0.1234567",
        "0",
        "inf",
    ]
