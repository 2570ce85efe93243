from __future__ import annotations

import pytest

from experiments.speed.networks import rows
from hushtune.core.observer import Silent

pytestmark = pytest.mark.torch


def test_it_compares_equal_things() -> None:
    found = list(rows(70, Silent()))
    assert [row["name"] for row in found] == ["adult", "tiny", "mlp", "cnn", "mnist"]
    assert all(row["equal"] and row["candidates"] == 100 and row["ratio"] > 0 for row in found)
