from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np

import hushtune as ht
from hushtune.data.holdings import holdings
from hushtune.data.splits import shares

ROWS = ht.Rows(np.zeros((1000, 1)), np.repeat(np.arange(10), 100))


def test_a_table_of_who_holds_what() -> None:
    found = holdings(shares("dirichlet:0.5", ROWS, 8, seed=0))
    assert found.counts.sum(axis=0).tolist() == [100] * 10
    assert found.rows()[0]["rows"] == found.counts[0].sum()
    lines = found.table().splitlines()
    assert lines[0].split() == ["client", "rows", *"0123456789"]
    assert len(lines) == 9


def test_a_picture_of_who_holds_what(tmp_path: Path) -> None:
    found = holdings(shares("dirichlet:0.1", ROWS, 20, seed=0))
    found.draw(tmp_path / "who.svg")
    dots = ET.parse(tmp_path / "who.svg").getroot().findall("{http://www.w3.org/2000/svg}circle")
    assert len(dots) == np.count_nonzero(found.counts)


def test_numbers_are_shown_in_bands() -> None:
    rows = ht.Rows(np.zeros((300, 1)), np.linspace(0, 1, 300))
    found = holdings(shares("iid", rows, 3, seed=0))
    assert found.counts.shape == (3, 12)
    assert found.counts.sum() == 300
