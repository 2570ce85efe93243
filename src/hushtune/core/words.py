"""Words of messages and pages."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """How many there are: "1 client", "2 clients".

    Args:
        number: how many.
        noun: one of them, whose plural ends in s.
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"
