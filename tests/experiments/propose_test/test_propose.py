"""Propose-test's simulations: both tables and both figures."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from experiments.propose_test import propose
from hushtune.core.errors import SettingError


def test_tables_have_their_settings_and_no_run_exceeds_the_bound() -> None:
    found = propose.rows(200, 0)
    tables = [row for row in found if "partitions" in row]
    assert [row["partitions"] for row in tables] == [p for p in (10, 50, 100, 500, 1_000) for _ in range(3)]
    assert {row["epsilon"] for row in tables if row["granularity"] == 0.01} == {6.48}
    assert all(row["epsilon"] <= 2.0 for row in tables[2::3])
    assert tables[0]["gap"] > tables[-1]["gap"]
    assert [row["exceeded"] for row in found if "exceeded" in row] == [0] * 9


def test_by_index_the_first_candidates_are_chosen() -> None:
    """In the published setting; with little noise the order hardly matters."""
    loud, quiet = (list(propose.published(2_000, 0, order))[::14] for order in propose.ORDERS)
    assert [row["order"] for row in (*loud, *quiet)] == ["random", "random", "index", "index"]
    few, many = loud[0]["one of the first 3"], quiet[0]["one of the first 3"]
    assert few < 0.05
    assert many > 0.7
    with pytest.raises(SettingError, match=r"order must be one of \['random', 'index'\], but got 'best'"):
        propose.rows(100, 0, "best")


def test_figures_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(propose, "_PATHS", 20)
    paths = propose.draw(tmp_path, 0)
    assert [path.name for path in paths] == ["propose-published.svg", "propose-quiet.svg"]
    for path in paths:
        assert len(ElementTree.parse(path).getroot()) > 20
