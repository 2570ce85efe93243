"""What methods and queries have in common: they are frozen dataclasses."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any


def expect(holds: bool, words: str) -> None:
    """An `assert` that `python -O` keeps."""
    if not holds:
        raise AssertionError(words)


def check_value(value: Any) -> None:
    """Tries whether a value is an instance of a frozen dataclass with a name."""
    kind = type(value)
    expect(is_dataclass(value), f"{kind.__name__} must be a dataclass")
    frozen: bool = vars(kind)["__dataclass_params__"].frozen
    expect(frozen, f"{kind.__name__} must be frozen: @dataclass(frozen=True)")
    expect(isinstance(getattr(value, "name", None), str), f"{kind.__name__} must have a `name`")
    expect("name" not in [field.name for field in fields(value)], f"{kind.__name__}: `name` must be a ClassVar")
