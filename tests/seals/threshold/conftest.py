from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.seals.threshold.harness import Room


@pytest.fixture
def room() -> Iterator[Callable[..., Room]]:
    """Makes rooms, and ends their processes."""
    made: list[Room] = []

    def make(clients: int, **changes: Any) -> Room:
        made.append(Room(clients, **changes))
        return made[-1]

    yield make
    for one in made:
        one.close()
