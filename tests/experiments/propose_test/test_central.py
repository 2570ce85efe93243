"""`python -m experiments central` in its quick form: every arm, its tables and its figure; and that it resumes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import hushtune as ht
from experiments.propose_test import central, central_figures
from experiments.propose_test.central_tasks import TASKS
from hushtune.core.observer import Silent

pytestmark = pytest.mark.dpsgd


def test_every_arm_is_compared_and_nothing_is_done_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = replace(TASKS["digits"].quick(), rates=(0.1, 1.0), voters=5, most=300)
    monkeypatch.setattr(central.Experiment, "tasks", lambda self: [task])
    experiment = central.Experiment(["digits"], [8.0], 2, tmp_path, jobs=1)
    found = list(central.rows(experiment, Silent()))
    assert [row["arm"] for row in found] == [*central.arms(task), central.ORACLE, central.FREE]
    best = {row["arm"]: row["accuracy"] for row in found}
    assert best[central.FREE] >= best[central.ORACLE] - 5
    noise = {row["arm"]: row["multiplier"] for row in found}
    assert noise["untuned"] < noise["noisy-max"] < noise["repeat-and-select"] < noise["try-all"]
    assert noise[central.FREE] == 0
    monkeypatch.setattr(central, "_outcome", None)  # everything is kept
    assert list(central.rows(experiment, Silent())) == found
    figure, table, costs = central_figures.write(experiment, found, tmp_path / "figures")
    assert "<svg" in figure.read_text()
    assert table.read_text().count("\n") == len(found) + 2
    assert "| repeat-and-select | no | K, mean 2 | all |" in costs.read_text()


def test_an_unknown_task_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ht.SettingError, match="data must be among"):
        central.Experiment(["poems"], [1.0], 1, tmp_path).tasks()
