"""PrivTuna's study with real training, in small; and nothing trained twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import hushtune as ht
from experiments.__main__ import app
from experiments.privtuna import experiment as privtuna
from experiments.privtuna import figures as privtuna_figures
from experiments.privtuna import tables as privtuna_tables
from experiments.privtuna.strategies import STRATEGIES, SURFACES
from experiments.privtuna.tasks import TASKS, Case, Size, grid, measure
from hushtune.client.objectives import stacked
from hushtune.core.observer import Silent

pytestmark = pytest.mark.torch

QUIET = Silent()
SMALL = Size(200, epochs=2, rounds=2)
CASES = [Case("digits", split, 3, size=SMALL) for split in ("iid", *privtuna.SPLITS)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("privtuna")


@pytest.fixture(scope="module")
def found(folder: Path) -> list[dict[str, Any]]:
    return list(privtuna.rows(privtuna.Experiment(CASES, folder, 1), QUIET))


def test_the_grids_are_table_1s() -> None:
    assert len(grid("iid")) == 49
    for skew in ("label", "feature", "quantity"):
        assert len(grid(skew)) == 24
    assert grid("label")[0] == {"lr": 0.01, "momentum": 0.0}
    assert grid("iid")[48] == {"lr": 0.5, "momentum": 0.95}


def test_the_settings_are_the_figures() -> None:
    some = privtuna.cases(["mnist", "svhn"], 1, Size(), every=False)
    assert len(some) == 2 * (3 * 2 + 3)
    assert {case.clients for case in some if case.skew == "iid"} == {10, 20, 50}
    assert len(privtuna.cases(["mnist"], 2, Size(), every=True)) == 2 * (9 * 2 + 3)


@pytest.mark.parametrize(("data", "shape"), [("mnist", (1, 28, 28)), ("emnist", (1, 28, 28)), ("svhn", (3, 32, 32))])
def test_networks_fit_their_pictures(data: str, shape: tuple[int, ...]) -> None:
    task = TASKS[data]
    assert np.prod(shape) == task.inputs
    for module in (task.small(), task.paper()):
        assert module(torch.zeros(2, *shape)).shape == (2, task.classes)


def test_every_derived_config_is_trained(found: list[dict[str, Any]]) -> None:
    for case in CASES:
        best, *arms = [row for row in found if row["split"] == case.split]
        assert best["arm"] == "grid"
        assert best["accuracy"] >= best["mean"] > 0
        assert [row["arm"] for row in arms] == [*STRATEGIES, *STRATEGIES, *SURFACES]
        for row in arms:
            assert row["gap"] == pytest.approx(best["accuracy"] - row["accuracy"], abs=2e-4)
    json.dumps(found)


def test_nothing_is_trained_twice(folder: Path, found: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*arguments: object) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr(stacked.Trainer, "train", never)
    assert list(privtuna.rows(privtuna.Experiment(CASES, folder, 1), QUIET)) == found
    assert not list(folder.glob("*/training-*"))


def test_a_config_that_is_missing_is_trained_alone(folder: Path, found: list[dict[str, Any]]) -> None:
    path = folder / CASES[1].name / "trained.json"
    kept = json.loads(path.read_text())
    lost = next(iter(kept["accuracy"]))
    value = kept["accuracy"].pop(lost)
    path.write_text(json.dumps(kept))
    measured = measure(CASES[1], folder, 1, QUIET)
    assert measured.accuracy[lost] == pytest.approx(value, abs=0.02)  # the same to rounding
    assert len(json.loads(path.read_text())["accuracy"]) == len(kept["accuracy"]) + 1


def test_tables_and_figures(found: list[dict[str, Any]], tmp_path: Path) -> None:
    text = privtuna_tables.write(found, tmp_path).read_text()
    for words in ("the ground truth", "by skew", "by data", "of 6: alone + with others", "Every derived config"):
        assert words in text
    paths = privtuna_figures.draw(found, tmp_path)
    assert len(paths) == 4
    for path in paths:
        ElementTree.parse(path)
    other = [{**row, "client lr": 0.1} for row in found]
    assert privtuna_tables.write(other, tmp_path).name == "privtuna-tables-client-0.1.md"
    assert privtuna_figures.draw(other, tmp_path)[0].name == "privtuna-iid-client-0.1.svg"
    skewed = [row for row in found if row["skew"] == "quantity"]
    assert len(privtuna_figures.draw(skewed, tmp_path / "some")) == 2


def test_clients_that_learn_faster_search_no_more(folder: Path, found: list[dict[str, Any]]) -> None:
    before = (folder / CASES[1].name / "trials.db").read_bytes()
    faster = Case("digits", CASES[1].split, 3, size=Size(200, epochs=2, rounds=2, client_lr=0.1))
    slow, fast = measure(CASES[1], folder, 1, QUIET), measure(faster, folder, 1, QUIET)
    assert (folder / CASES[1].name / "trials.db").read_bytes() == before
    assert fast.derived == slow.derived
    assert max(fast.accuracy.values()) > max(slow.accuracy.values())


def test_bad_settings() -> None:
    with pytest.raises(ht.SettingError, match="data must be one of .*'imagenet'"):
        Case("imagenet", "iid", 3)
    with pytest.raises(ht.SettingError, match="split must be one of .*'imb1'"):
        Case("digits", "imb1", 4)


def test_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(privtuna, "SPLITS", ("dirichlet:1.0",))
    monkeypatch.setattr(privtuna, "SKEWED", (3,))
    monkeypatch.setattr(privtuna, "IID", (3,))
    out, plots = tmp_path / "run", tmp_path / "plots"
    arguments = ["privtuna", "--train", "--quick", "--out", str(out), "--plot", str(plots), "--jobs", "1"]
    outcome = CliRunner().invoke(app, [*arguments, "--json"])
    assert outcome.exit_code == 0, outcome.output
    rows = json.loads(outcome.stdout)["rows"]
    assert [row["split"] for row in rows if row["arm"] == "grid"] == ["dirichlet:1.0", "iid"]
    assert (out / "privtuna-tables.md").exists()
    assert (plots / "privtuna-iid.svg").exists()
    monkeypatch.setattr(privtuna, "IID", (3, 4))
    outcome = CliRunner().invoke(app, [*arguments, "--json", "--done"])
    assert json.loads(outcome.stdout)["rows"] == rows
