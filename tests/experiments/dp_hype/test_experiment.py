"""The DP-HYPE experiments on a small federation: arms, intervals, figures, and nothing computed twice."""

from __future__ import annotations

import json
import math
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import hushtune as ht
from experiments.__main__ import app
from experiments.dp_hype import experiment as dp_hype
from experiments.dp_hype import figures as dp_hype_figures
from experiments.dp_hype import tasks as dp_hype_tasks
from experiments.dp_hype.ablations import Accuracies, RawLosses, Subsets
from experiments.dp_hype.experiment import Experiment, arms, interval, ratios, rows
from experiments.dp_hype.tasks import Case, grid, measure
from hushtune.client.objectives import stacked
from hushtune.core.observer import Silent
from hushtune.privacy.noise.base import Noise

pytestmark = pytest.mark.torch

QUIET = Silent()


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dp-hype")
    measure(CASE, folder, 1, QUIET)
    return folder


CASE = Case("digits", 8, "dirichlet:5", rows=400)


def test_the_grid_is_the_artifacts() -> None:
    candidates = grid()
    assert len(candidates) == 100
    assert candidates[0] == {"lr": 0.5, "decay": 0.0, "momentum": 0.0}
    assert candidates[1] == {"lr": 0.5, "decay": 0.0, "momentum": 0.9}
    assert candidates[99] == {"lr": 1e-8, "decay": 1.0, "momentum": 0.9}


def test_every_arm_is_run_with_an_interval(kept: Path) -> None:
    found = list(rows(Experiment([CASE], (3.0, math.inf), 4, True, kept, 1), QUIET))
    summary, others = found[0], found[1:]
    assert summary["opt"] >= summary["random"] > 0
    assert len(summary["accuracies"]) == 100
    assert len(others) == 2 * len(arms(compare=True))
    for row in others:
        assert row["low"] <= row["accuracy"] <= row["high"] <= summary["opt"] + 0.5
        assert (row["sigma"] == 0) == (row["epsilon"] == "inf")
    exact = {row["arm"]: row["accuracy"] for row in others if row["epsilon"] == "inf"}
    assert exact["dp-hype"] == exact["top 5, argmax"] > summary["random"]
    json.dumps(found)


def test_nothing_is_trained_or_scored_twice(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*arguments: object) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr(stacked.Trainer, "train", never)
    first = measure(CASE, kept, 1, QUIET)
    assert first.seconds["training"] > 0
    monkeypatch.setattr(dp_hype_tasks, "_trained", never)
    assert len(list(rows(Experiment([CASE], (1.0,), 2, False, kept, 1), QUIET))) == 5


def test_another_setting_is_measured_anew(kept: Path) -> None:
    other = measure(Case("digits", 8, "iid", rows=300), kept, 1, QUIET)
    assert len(list(kept.iterdir())) >= 2
    assert not np.array_equal(other.accuracy, measure(CASE, kept, 1, QUIET).accuracy)


def test_the_ablations_are_within_their_sensitivities() -> None:
    noise = Noise(50.0)
    every = Accuracies(100, 100).event(noise, "replace-one")
    assert every.l2 == pytest.approx(100 * math.sqrt(100))
    single = Accuracies(1, 100).event(noise, "replace-one")
    assert (single.l1, single.l2) == (100.0, 100.0)
    with pytest.raises(ht.HushtuneError, match="in \\[0, 1\\]"):
        Accuracies(2, 3).check([101, 0, 0])
    with pytest.raises(ht.HushtuneError, match="at most 2"):
        Accuracies(2, 3).check([1, 1, 1])
    assert RawLosses().bounds(grid())[0].count == 100
    assert Subsets().bounds(grid())[0].count == 1


def test_intervals_are_students() -> None:
    assert interval([0.5]) == {"accuracy": 0.5, "low": 0.5, "high": 0.5}
    found = interval([0.4, 0.6])
    assert found["high"] - found["accuracy"] == pytest.approx(12.706 * 0.1, abs=1e-3)


def line(arm: str, points: dict[float, float]) -> list[dict[str, object]]:
    return [{"name": "x", "arm": arm, "epsilon": e, "accuracy": a} for e, a in points.items()]


def test_budget_ratios_are_read_off_between_epsilons() -> None:
    ours = line(dp_hype.OURS, {0.1: 0.5, 1.0: 0.9, 3.0: 0.9})
    published = line(dp_hype.PUBLISHED, {0.1: 0.3, 1.0: 0.7, 3.0: 0.95})
    found = {row["epsilon published"]: row for row in ratios([*ours, *published])}
    assert found[0.1]["at least"]
    assert found[1.0]["budget ratio"] == pytest.approx(math.sqrt(10), rel=0.04)  # about half way on the log scale
    assert 3.0 not in found  # never reached


def test_figures_show_every_federation(kept: Path, tmp_path: Path) -> None:
    found = list(rows(Experiment([CASE], (0.5, 3.0, math.inf), 3, False, kept, 1), QUIET))
    paths = dp_hype_figures.draw(found, tmp_path)
    for path in paths:
        words = "".join(ET.parse(path).getroot().itertext())
        assert "digits, 8 clients, dirichlet:5" in words
        assert "nan" not in path.read_text()
    assert "no noise" in paths[0].read_text()


def test_the_command(tmp_path: Path) -> None:
    options = [
        "--data",
        "digits",
        "--clients",
        "4",
        "--rows",
        "200",
        "--runs",
        "2",
        "--epsilon",
        "3,inf",
        "--jobs",
        "1",
    ]
    found = CliRunner().invoke(app, ["dp-hype", *options, "--out", str(tmp_path), "--json"])
    assert found.exit_code == 0, found.output
    content = json.loads(found.stdout)
    assert {row["arm"] for row in content["rows"]} == {"federation", "hushtune", "dp-hype", "raw losses", "subsets"}
    plain = CliRunner().invoke(app, ["dp-hype", *options, "--out", str(tmp_path)])
    assert "opt=" in plain.stdout
    assert (tmp_path / "dp-hype-accuracy.svg").exists()
    tables = (tmp_path / "dp-hype-tables.md").read_text()
    assert "| epsilon | 3 | no noise |" in tables
    assert "| dp-hype |" in tables


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--data", "imagenet"], "data must be one of"),
        (["--clients", "x"], "clients must be"),
        (["--clients", "1.5"], "clients must be integers"),
        (["--epsilon", "-1", "--data", "digits", "--rows", "100", "--clients", "4"], "epsilon"),
        (["--split", "odd", "--data", "digits"], "split must be"),
        (["--runs", "0"], "runs=0"),
    ],
)
def test_bad_options(options: list[str], message: str, tmp_path: Path) -> None:
    found = CliRunner().invoke(app, ["dp-hype", *options, "--out", str(tmp_path)])
    assert message in str(found.exception)
    assert not list(tmp_path.iterdir())
