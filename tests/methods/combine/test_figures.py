from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hushtune as ht
from hushtune.methods.figures import notes_figure, value_text

SPACE = ht.Space(x=ht.Float(0.0, 1.0), y=ht.Float(0.0, 1.0))


@ht.objective
def distance(config: ht.Config, data: ht.Rows) -> float:
    return float(abs(config["x"] - 0.25) + abs(config["y"] - 0.75)) / 2


def combined(home: Path, space: ht.Space = SPACE, **settings: Any) -> ht.Result:
    clients = [ht.Client((np.zeros((2, 1)), np.zeros(2)), distance) for _ in range(12)]
    candidates = space.grid(**dict.fromkeys(space.knobs, 5))
    given = {"method": ht.Combine("dbscan"), "home": home, "observer": ht.Silent(), "jobs": 1, **settings}
    return ht.tune(clients, candidates, **given)


@pytest.mark.parametrize("privacy", [None, ht.Privacy(20.0)], ids=["exact", "private"])
def test_two_knobs_are_a_grid_of_cells_with_the_dense_ones_marked(tmp_path: Path, privacy: Any) -> None:
    result = combined(tmp_path, privacy=privacy)
    grid, clusters, notes = result.method.figures(result)
    assert grid.words.startswith("Cells of the grid over the clients' good configs; dense ones are marked")
    assert 'class="cell chosen"' in grid.svg
    assert "not dense" in grid.svg
    assert clusters.columns[0] == "cluster"
    assert {"x", "y"} <= set(clusters.columns)
    assert len(clusters.rows) >= 1
    assert [row[0] for row in notes.rows] == list(result.notes)


def test_a_note_is_shown_with_few_digits_and_text_as_it_is(tmp_path: Path) -> None:
    assert (value_text(0.123456789), value_text("word"), value_text(3)) == ("0.123457", "word", "3")
    result = combined(tmp_path)
    assert notes_figure(result, "head").columns == ("head", "")
