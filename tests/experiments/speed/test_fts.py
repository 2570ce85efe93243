from __future__ import annotations

import json

from experiments.speed.fts import rows


def test_rows_are_plain() -> None:
    (row,) = rows([29])
    assert row["ratio"] > 1
    json.dumps(row)
