from __future__ import annotations

import pytest

from experiments.speed.flower import rows
from hushtune.core.observer import Silent

pytestmark = pytest.mark.flower


def test_it_is_exact_on_both_sides() -> None:
    (row,) = rows([4], length=10, repeats=1, observer=Silent())
    assert (row["nodes"], row["trips"], row["messages"]) == (4, 4, 8)
    assert row["seconds"] > 0
    assert row["secagg_seconds"] > 0
