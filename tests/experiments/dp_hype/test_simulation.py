from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from experiments.dp_hype import simulation as dp_hype_simulation
from hushtune.core.observer import Silent


@pytest.mark.statistical
def test_the_figure_and_its_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A smaller figure: the bound stays below the simulation by 6 sigma (< 1e-8), and small k beats voting for all."""
    monkeypatch.setattr(dp_hype_simulation, "OVERLAPS", (0.2, 1.0))
    monkeypatch.setattr(dp_hype_simulation, "GOODS", (4,))
    monkeypatch.setattr(dp_hype_simulation, "SIZES", (10, 100))
    monkeypatch.setattr(dp_hype_simulation, "EPSILONS", (1.0,))
    monkeypatch.setattr(dp_hype_simulation, "KS", (5, 100))
    found = list(dp_hype_simulation.rows(200, 0, Silent()))
    assert len(found) == 2 * 5 - 1  # ten candidates allow no k = 100
    for row in found:
        spread = np.sqrt(max(row["success"] * (1 - row["success"]), 1e-3) / 200)
        assert row["bound"] <= row["success"] + 6 * spread, row
    assert all(row["success"] > 0.9 for row in found if row["k"] == 5)
    assert all(row["success"] < 0.3 for row in found if row["k"] == 100)
    dp_hype_simulation.draw(found, tmp_path / "figure.svg")
    lines = ElementTree.parse(tmp_path / "figure.svg").getroot().findall("{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 2 * 2 * 3
