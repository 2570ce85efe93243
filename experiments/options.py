"""What options of several experiments share: `--jobs`, and lists of numbers."""

from __future__ import annotations

from typing import Annotated

import typer

Jobs = Annotated[int | None, typer.Option(min=1, max=1024, help="Processes. Default: one per core.")]


def read_numbers(name: str, text: str) -> list[float]:
    """Numbers with commas between them."""
    from hushtune.core.errors import SettingError

    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise SettingError(f"{name} must be numbers such as 10,100, but got {text!r}") from None


def read_counts(name: str, text: str, low: int = 1) -> list[int]:
    """Integers with commas between them."""
    from hushtune.core.checks import integer
    from hushtune.core.errors import SettingError

    found = read_numbers(name, text)
    if not all(number.is_integer() for number in found):
        raise SettingError(f"{name} must be integers such as 10,100, but got {text!r}")
    return [integer(name, int(number), low) for number in found]
