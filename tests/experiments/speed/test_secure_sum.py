from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from experiments.speed.secure_sum import draw, rows
from hushtune.core.observer import Silent


def test_rows_are_exact_and_say_what_was_measured(tmp_path: Path) -> None:
    found = list(rows([4, 9], None, 5, Silent()))
    assert [row["clients"] for row in found] == [4, 9]
    assert all(row["exact"] and row["secure"] and row["trips"] == 5 for row in found)
    assert found[1]["degree"] == 8
    (insecure,) = rows([20], 15, 5, Silent())
    assert insecure["degree"] == 15
    assert not insecure["secure"]
    assert insecure["trips"] == 4
    draw(found, tmp_path / "plot.svg")
    circles = ElementTree.parse(tmp_path / "plot.svg").getroot().findall("{http://www.w3.org/2000/svg}circle")
    assert len(circles) == 4
