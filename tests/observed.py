"""A list that stays the same list when an objective is copied, so that a test sees all copies' calls."""

from __future__ import annotations

from typing import Any

_LISTS: dict[int, Observed] = {}


class Observed(list[Any]):
    def __init__(self) -> None:
        super().__init__()
        _LISTS[id(self)] = self

    def __reduce__(self) -> Any:
        return _found, (id(self),)

    def __deepcopy__(self, memo: object) -> Observed:
        return self


def _found(number: int) -> Observed:
    return _LISTS[number]
