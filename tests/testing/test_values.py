from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from hushtune.testing.values import check_value, expect


@dataclass(frozen=True)
class Good:
    size: int = 1
    name: ClassVar[str] = "good"


@dataclass
class Thawed:
    name: ClassVar[str] = "thawed"


@dataclass(frozen=True)
class Nameless:
    size: int = 1


@dataclass(frozen=True)
class Named:
    name: str = "a field"


class Plain:
    name = "plain"


def test_a_frozen_dataclass_with_a_name_is_fine() -> None:
    check_value(Good())


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Plain(), "Plain must be a dataclass"),
        (Thawed(), r"Thawed must be frozen: @dataclass\(frozen=True\)"),
        (Nameless(), "Nameless must have a `name`"),
        (Named(), "Named: `name` must be a ClassVar"),
    ],
)
def test_anything_else_is_told_what_it_lacks(value: Any, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_value(value)


def test_a_class_that_derives_from_a_dataclass_without_being_one_is_judged_by_itself() -> None:
    class Derived(Good):
        pass

    with pytest.raises((AssertionError, KeyError)):
        check_value(Derived())


def test_an_expectation_is_no_assert_that_python_can_leave_out() -> None:
    expect(True, "words")
    with pytest.raises(AssertionError, match="^words$"):
        expect(False, "words")
