"""The experiment on records on a small made data set: what it keeps, what it compares, and its tables."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.conftest import Hushtune, in_this_process

from experiments.__main__ import app
from experiments.records import tables, tasks
from experiments.records.experiment import ARMS, SUM, USUAL, VOTES, WINNER, Experiment, form_of, rows
from experiments.records.kept import Kept
from experiments.records.linear import Linear, Scale, balanced
from experiments.records.tasks import DEFAULT, Case, accuracy, cases, grid, losses, rows_of
from hushtune.cli import start
from hushtune.client.rows import Rows, Split
from hushtune.core.observer import Silent

QUIET = Silent()
CASE = Case("eeg", 3)


def made(name: str, rows: int | None = None, seed: int = 0, **_: Any) -> Split:
    """Two clouds that a line parts, one label rarer than the other."""
    rng = np.random.default_rng([len(name), seed])
    y = (np.arange(460) % 4 == 0).astype(int)
    x = rng.normal(size=(460, 3)) + y[:, None]
    return Split(Rows(x[:360], y[:360]), Rows(x[360:], y[360:]))


@pytest.fixture(autouse=True)
def without_data(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks.data_of.cache_clear()
    monkeypatch.setattr(tasks, "load", made)


def experiment(folder: Path, **settings: Any) -> Experiment:
    known: dict[str, Any] = {
        "federations": [CASE],
        "voters": [2, 50],
        "epsilons": (1.0, math.inf),
        "draws": 3,
        "full_steps": [False],
        "folder": folder,
        "measured": folder / "measured",
        "jobs": 1,
    }
    return Experiment(**{**known, **settings})


def test_the_same_seed_gives_the_same_figures_and_nothing_is_measured_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = list(rows(experiment(tmp_path / "one"), QUIET))
    assert found == list(rows(experiment(tmp_path / "other"), QUIET))
    arms = [(row["arm"], row.get("voters"), row.get("epsilon")) for row in found]
    for arm in (WINNER, VOTES, SUM):
        assert {row[1:] for row in arms if row[0] == arm} == {("2", 1.0), ("2", "inf"), (USUAL, 1.0)}

    def never(name: str, rows: int | None = None, seed: int = 0) -> Split:
        raise AssertionError("no data is needed where all is kept")

    tasks.data_of.cache_clear()
    monkeypatch.setattr(tasks, "load", never)
    kept = experiment(tmp_path / "none", measured=tmp_path / "one" / "measured")
    assert list(rows(kept, QUIET)) == found
    with pytest.raises(AssertionError, match="no data is needed"):
        list(rows(experiment(tmp_path / "none", measured=kept.measured, epsilons=(0.5,)), QUIET))


def test_full_steps_are_kept_apart(tmp_path: Path) -> None:
    both = list(rows(experiment(tmp_path, full_steps=[False, True]), QUIET))
    assert {row.get("steps") for row in both} == {None, "its own", "all rows'"}
    lines = (tmp_path / "measured" / "eeg-3-iid-0.json").read_text().splitlines()
    assert {json.loads(line)["full_steps"] for line in lines[1:]} == {False, True}


def test_what_a_choice_is_held_against(tmp_path: Path) -> None:
    facts = next(rows(experiment(tmp_path), QUIET))
    good, default = accuracy(CASE, tmp_path)
    assert facts["opt"] == round(good.max(), 4) >= facts["without privacy"] >= good.min()
    assert facts["default"] == round(default, 4)
    assert (facts["rows"], facts["stated rows"]) == (120, 60)
    assert rows_of(Case("eeg", 10)) == {"rows": 36, "stated rows": 18}


def test_tables_have_a_line_for_every_federation(tmp_path: Path) -> None:
    found = list(rows(experiment(tmp_path), QUIET))
    page, kept = tables.write(found, tmp_path, "records")
    text = page.read_text()
    assert text.count("| 3, eeg, iid |") == 1 + 2 * len(ARMS)
    assert [json.loads(line) for line in kept.read_text().splitlines()] == found
    assert tables.mean(found, arm="nothing") is None


@pytest.fixture
def experiments(monkeypatch: pytest.MonkeyPatch, capfd: Any) -> Iterator[Hushtune]:
    yield from in_this_process(lambda: start(app, "experiments"), monkeypatch, capfd)


def test_the_command_writes_tables(experiments: Hushtune, tmp_path: Path) -> None:
    few = ["--data", "eeg", "--clients", "3", "--split", "iid", "--voters", "2", "--epsilon", "1", "--seeds", "0"]
    places = ["--out", str(tmp_path), "--measured", str(tmp_path / "measured"), "--jobs", "1", "--draws", "2"]
    done = experiments("records", *few, *places, "--json")
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["rows"]) == 1 + 2 * len(ARMS)
    assert (tmp_path / "records-tables.md").exists()


def test_means_are_kept_by_what_ballots_say() -> None:
    assert form_of(WINNER, 10, 20, 1.0) == "width=0.5, grades=3"
    assert form_of(WINNER, 10, 2, 0.1) == "width=1.0, grades=3"
    assert form_of(VOTES, 10, 20, 1.0) == "k=3"
    assert form_of(SUM, 10, 20, math.inf) == "k=5, decode=smooth"


def test_rows_are_kept_by_what_was_run(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "a.json")
    assert kept.facts(lambda: {"opt": 1.0}) == {"opt": 1.0}
    assert kept.mean({"arm": "a"}, "1", lambda: 0.5) == 0.5
    assert kept.mean({"arm": "b"}, "1", lambda: 0.25) == 0.25
    again = Kept(tmp_path / "a.json")
    assert again.facts(lambda: {}) == {"opt": 1.0}
    assert again.mean({"arm": "a"}, "1", lambda: 0.0) == 0.5
    assert again.mean({"arm": "a"}, "3", lambda: 0.75) == 0.75


def test_a_case_is_scored_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case("eeg", 3, voters=4, full_steps=False)
    found = losses(case, tmp_path, 1)
    assert found.shape == (12, 30)
    monkeypatch.setattr(tasks, "_client_losses", lambda *_: 1 / 0)
    np.testing.assert_array_equal(losses(case, tmp_path, 1), found)


def test_parts_need_rows() -> None:
    assert [case.voters for case in cases(["eeg"], [3], ["iid"], [1, 15, 16], 0)] == [1, 15]
    with pytest.raises(ValueError, match="data must be one of"):
        Case("nothing", 3)


def test_a_part_of_more_takes_more_steps() -> None:
    data = made("eeg").train
    few, many = Linear(2), Linear(2).as_part(5)
    assert Linear(2, full_steps=False).as_part(5) == Linear(2, full_steps=False)
    assert [len(list(one._batches(100, 0, 1))) for one in (few, many)] == [2, 8]
    slow = {"lr": 0.001, "weight_decay": 1e-5}
    assert many.losses([slow], data, 0)[0] <= few.losses([slow], data, 0)[0]


def test_a_config_that_diverges_and_a_part_of_one_row_have_failed() -> None:
    data = made("eeg").train
    found = Linear(2).losses([{"lr": 1e30, "weight_decay": 1e20}, DEFAULT], data, 0)
    assert np.isnan(found[0])
    assert 0 <= found[1] < 0.5
    assert np.isnan(Linear(2).losses([DEFAULT], data.take([0]), 0)).all()


def test_all_labels_count_the_same() -> None:
    x, y = np.ones((4, 1), np.float32), np.array([0, 0, 0, 1])
    always = np.array([[[1.0, 0.0]], [[0.0, 1.0]]], np.float32)
    np.testing.assert_array_equal(balanced(always, x, y), [0.5, 0.5])


def test_features_far_out_are_brought_in() -> None:
    rows = Rows(np.array([[0.0], [1.0], [2.0], [1e9]]), np.zeros(4))
    scaled = Scale.of(rows.X).of_rows(rows)
    assert scaled.shape == (4, 2)
    assert np.abs(scaled[:, 0]).max() <= 5
    assert len(grid()) == 30
