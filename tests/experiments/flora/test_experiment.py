"""FLoRA's experiments in small, on data that comes with scikit-learn; and how regrets are counted."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import hushtune as ht
from experiments.flora import experiment as flora
from experiments.flora import figures as flora_figures
from experiments.flora import tables as flora_tables
from experiments.flora.tasks import MODELS, Cell, cells
from hushtune.core.observer import Silent
from hushtune.methods.surface.models import KINDS


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("flora")
    some = [Cell("digits", "svm", 3, 150, 2, 6, seed) for seed in range(2)]
    experiment = flora.Experiment(some, [3, 6], [3], [3.0, math.inf], [0.02], 2, folder, jobs=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flora, "_POINTS", 64)
        patch.setattr(flora, "_SUMMED", 32)
        patch.setattr("hushtune.methods.surface.models._TREES", 5)
        first = list(flora.rows(experiment, Silent()))
        assert list(flora.rows(experiment, Silent())) == first  # from the same searches
    return first


def test_every_arm_has_its_regret(found: list[dict[str, Any]]) -> None:
    for seed in range(2):
        cell, *arms = [row for row in found if row["seed"] == seed]
        assert cell["arm"] == "cell"
        assert cell["gamma_p"] == pytest.approx(cell["best local score"] / cell["worst local score"], abs=1e-3)
        names = [(row["arm"], row["trials"], row["send"], row["epsilon"]) for row in arms]
        assert names[:4] == [(kind, 6, 6, None) for kind in KINDS]
        assert [n for n in names[4:] if n[0] == "mplm"] == [("mplm", 3, 3, None), ("mplm", 6, 3, None)]
        assert {n for n in names if n[3] is not None} == {
            ("private aplm", 6, 6, 3.0),
            ("private aplm, argmax", 6, 6, 3.0),
            ("private aplm", 6, 6, "inf"),
        }
        for row in arms:
            if row["regret"] is not None:
                expected = (cell["best"] - row["score"]) / (cell["best"] - cell["default"])
                assert row["regret"] == pytest.approx(expected, rel=0.05, abs=0.05)
            assert row["trainings"] is None or 1 <= row["trainings"] <= 6


def test_tables_and_figure(found: list[dict[str, Any]], tmp_path: Path) -> None:
    text = flora_tables.write(found, tmp_path).read_text()
    for title in (
        "Tables 7, 8 and 9",
        "Tables 3 and 10, over all cells",
        "Tables 4 and 11",
        "Table 12",
        "Table 13",
        "Figure 2",
    ):
        assert title in text
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert all(line.count("|") == lines[0].count("|") for line in lines[:3])
    ElementTree.parse(flora_figures.draw(found, tmp_path))


def test_regrets_are_counted_as_in_the_paper() -> None:
    """Table 7's APLM: seven wins, a statistic of 28; and its SVM column with a loss."""
    hgb = flora._summary([0.38, 0.69, 0.12, 0.71, 0.50, 0.61, 0.12])
    assert (hgb["wins"], hgb["ties"], hgb["losses"], hgb["statistic"]) == (7, 0, 0, 28.0)
    assert hgb["mean"] == 0.45
    assert hgb["p"] == pytest.approx(1 / 128, abs=1e-4)
    assert hgb["quartiles"] == pytest.approx([0.25, 0.50, 0.65], abs=0.01)
    svm = flora._summary([2.30, 0.17, 0.67, 0.41, -0.01, 0.79])
    assert (svm["wins"], svm["losses"], svm["statistic"]) == (5, 1, 15.0)
    tie = flora._summary([1.0, 1.0])
    assert (tie["ties"], tie["p"]) == (2, 1.0)


def test_what_cannot_be_learned_is_not_counted() -> None:
    row = {"model": "svm", "parties": 3, "arm": "aplm", "trials": 4, "send": 4, "epsilon": None, "seed": 0}
    rows = [{**row, "data": data, "regret": regret} for data, regret in (("pollen", 9.0), ("sonar", 0.5))]
    rows += [{**row, "data": "heart", "regret": None}, {**row, "data": "sonar", "seed": 1, "regret": 0.7}]
    (own, overall) = flora.aggregate(rows)
    assert own["cells"] == overall["cells"] == 1
    assert own["quartiles"] == [0.6] * 3  # the mean over seeds
    rows += [{**rows[1], "arm": "cell", "best": 0.8, "default": 0.77}]
    assert len(flora.aggregate(rows, gap=0.02)) == 2
    assert flora.aggregate(rows, gap=0.04) == []


def test_cells_with_too_few_rows_and_a_slow_one_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("experiments.flora.tasks.size", lambda name: {"sonar": 208}.get(name, 5_000))
    made = cells(["sonar", "electricity", "mnist:imb2"], ["hgb", "svm"], [3, 10, 50], 2_000, 3, 4, seeds=2, fewest=40)
    places = {(cell.data, cell.model, cell.parties, cell.seed) for cell in made}
    assert {place for place in places if place[0] == "sonar"} == {
        ("sonar", model, 3, seed) for model in ("hgb", "svm") for seed in (0, 1)
    }
    assert ("electricity", "hgb", 50, 0) in places
    assert ("electricity", "hgb", 50, 1) not in places
    assert not any(place[:2] == ("electricity", "svm") for place in places)
    assert {place for place in places if place[0] == "mnist:imb2"} == {
        ("mnist:imb2", "svm", 4, seed) for seed in (0, 1)
    }


def test_the_default_configs_may_lie_outside_their_space() -> None:
    for model in MODELS.values():
        assert len(model.space.candidates([model.default])) == 1
    with pytest.raises(ht.SettingError, match="data must be among"):
        Cell("iris", "svm", 3, None, 3, 4)
    with pytest.raises(ht.SettingError, match="models must be among"):
        Cell("sonar", "tree", 3, None, 3, 4)
