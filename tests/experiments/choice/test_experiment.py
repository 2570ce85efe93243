"""The experiment on what choices cost: arms, priors, budgets and goals, on a small federation and on made-up rows."""

from __future__ import annotations

import math
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from experiments.__main__ import app
from experiments.ballots import Votes
from experiments.choice import federations
from experiments.choice.arms import BOTH, MAIN, PUBLISHED, REVERSED, SMOOTHED, SUM, WINNER, WITH_PRIOR, arms, smoothed
from experiments.choice.experiment import Experiment, prior_for, rows
from experiments.choice.federations import Known, cases, known
from experiments.choice.figure import draw
from experiments.choice.goals import goals
from experiments.choice.tables import write
from experiments.dp_hype.tasks import Case, grid
from hushtune.core.observer import Silent
from hushtune.methods.prior import Prior

pytestmark = pytest.mark.torch

QUIET = Silent()
CASE = Case("digits", 8, "dirichlet:5", rows=400)
EPSILONS = (0.1, 0.25, 0.5, 1.0, 3.0, math.inf)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Where the kept files are: a copy of the repository's, so that tests add none there."""
    here, own = federations.MEASURED, tmp_path_factory.mktemp("measured")
    for name in ("adult", "digits"):
        shutil.copy(here / f"{name}-100-iid-0.npz", own)
    federations.MEASURED = own
    yield own
    federations.MEASURED = here


@pytest.fixture(scope="module")
def found(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return list(rows(Experiment([CASE], EPSILONS, 5, True, tmp_path_factory.mktemp("work"), 1), QUIET))


def test_every_arm_has_a_row_for_every_epsilon(found: list[dict[str, Any]]) -> None:
    summary, others = found[0], found[1:]
    assert summary["opt"] >= summary["random"] > 0
    assert summary["prior"] == "adult"
    names = {row["arm"] for row in others}
    assert {*MAIN, REVERSED, SMOOTHED, BOTH} <= names
    assert len(others) == len(names) * len(EPSILONS)
    assert all(row["low"] <= row["accuracy"] <= row["high"] for row in others)


def test_what_is_kept_is_not_measured_again(folder: Path, found: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*arguments: object) -> None:
        raise AssertionError("measured again")

    monkeypatch.setattr(federations, "measure", never)
    again = known(CASE, Path("nowhere"), 1, QUIET)
    assert again.repeated is not None
    assert again.votes.losses.shape == (8, 100)
    assert (folder / f"{CASE.name}.npz").stat().st_size < 50_000


def test_a_prior_comes_from_another_data_set(folder: Path) -> None:
    wanted = Experiment([CASE], (1.0,), 1, False, Path("nowhere"), 1)
    accuracy = known(Case("adult", 100), Path("nowhere"), 1, QUIET).votes.accuracy
    assert prior_for(CASE, wanted, QUIET) == Prior(
        accuracy.tolist(), 30, "adult: accuracy of what each candidate trains"
    )


def made(rng: np.random.Generator, rows_: int = 50) -> Known:
    """Forty voters, each with some held-out rows, who agree on how good candidates are, but for chance."""
    candidates = grid()
    truth = np.array([abs(math.log10(config["lr"]) + 1) / 10 for config in candidates.configs])
    losses = rng.binomial(rows_, 0.1 + 0.8 * truth, (40, 100)) / rows_
    return Known(CASE, Votes(candidates, losses, 40, 1 - truth), None)


def test_a_reversed_prior_does_no_more_than_its_voters() -> None:
    """With an epsilon that leaves no noise to speak of, 40 who agree outvote 30 who say the opposite."""
    federation = made(np.random.default_rng(0), 100_000)
    every = arms(federation, Prior(list(range(100)), 30, "nothing"))
    exact = {name: every[name].votes.accuracies(every[name].vote, None, every[name].seal, 1)[1] for name in every}
    assert exact[REVERSED] > 0.9 * exact[WINNER]
    worst = federation.votes.accuracy.min()
    assert exact["winner, prior of 100"] < exact[WINNER]  # it has more voters than there are
    assert exact[REVERSED] > worst


def test_smoothed_losses_are_closer_to_the_truth() -> None:
    federation = made(np.random.default_rng(1)).votes
    truth = 0.1 + 0.8 * (1 - federation.accuracy)
    before, after = (np.abs(votes.losses - truth).mean() for votes in (federation, smoothed(federation)))
    assert after < 0.7 * before


def test_losses_that_say_nothing_stay_as_they_are() -> None:
    federation = made(np.random.default_rng(2)).votes
    federation.losses[0] = 0.25
    federation.losses[1] = np.nan
    federation.losses[2, 5] = np.nan
    after = smoothed(federation).losses
    assert (after[0] == 0.25).all()
    assert np.isnan(after[1]).all()
    assert np.isnan(after[2]).sum() == 1


def test_tables_have_every_federation_and_arm(found: list[dict[str, Any]], tmp_path: Path) -> None:
    text = write(found, tmp_path).read_text()
    for words in ("digits 8, alpha 5", *MAIN, SMOOTHED, "soft, width 0.25", "as published at 0.25", "## Goals"):
        assert words.replace("dirichlet:", "alpha ") in text
    assert "nan" not in text


def test_the_page_has_the_tables_as_they_were_written() -> None:
    folder = Path(__file__).parents[3] / "docs" / "results"
    written = set((folder / "choice-tables.md").read_text().splitlines())
    shown = [line for line in (folder / "choice.md").read_text().splitlines() if line.startswith(("|", "- the winner"))]
    assert len(shown) > 60
    assert [line for line in shown if line not in written] == []


def made_up(accuracies: dict[str, float], data: str = "adult") -> list[dict[str, Any]]:
    """Rows of a federation whose arms have one accuracy at every epsilon."""
    named = {"name": data, "data": data, "clients": 100, "split": "iid"}
    arms_ = [
        {**named, "arm": arm, "epsilon": epsilon, "accuracy": value}
        for arm, value in accuracies.items()
        for epsilon in EPSILONS[:-1]
    ]
    return [{**named, "arm": "federation", "opt": 0.9, "random": 0.5}, *arms_]


def test_goals_that_are_met_and_missed() -> None:
    level = made_up({PUBLISHED: 0.8, SUM: 0.8, WINNER: 0.8, WITH_PRIOR: 0.8})
    assert all("missed" not in line for line in goals(level))
    behind = list(goals(made_up({PUBLISHED: 0.8, SUM: 0.83, WINNER: 0.77, WITH_PRIOR: 0.8}, "eeg")))
    assert behind[0].endswith("met on 0 of 1; missed on eeg iid by 2.0 points")
    assert behind[2].endswith("met on 0 of 1; missed on eeg iid by 1.0 points")
    assert behind[3].endswith("missed on eeg iid by 5.5 points")
    assert "missed" not in behind[-1]


def test_where_there_is_nothing_to_choose_no_goal_applies() -> None:
    rows_ = made_up({PUBLISHED: 0.8, SUM: 0.8, WINNER: 0.1, WITH_PRIOR: 0.1})
    rows_[0]["random"] = 0.86
    assert all("0 of 0" in line for line in goals(rows_))


def test_the_picture_has_a_panel_for_each_of_three(found: list[dict[str, Any]], tmp_path: Path) -> None:
    path = draw(found, tmp_path / "choice.svg")
    words = "".join(ET.parse(path).getroot().itertext())
    assert "Digits" in words
    assert all(arm in words for arm in MAIN)
    assert path.read_text().count("<polygon") == len(MAIN)


def test_federations_by_name() -> None:
    assert [case.rows for case in cases(["mnist", "digits"], [100], ["iid"], 0)] == [10_000, None]


def test_the_command(folder: Path, tmp_path: Path) -> None:
    options = ["--data", "adult", "--split", "iid", "--epsilon", "0.5,1", "--draws", "2"]
    done = CliRunner().invoke(app, ["choice", *options, "--out", str(tmp_path), "--plot", str(tmp_path / "p.svg")])
    assert done.exit_code == 0, done.output
    assert "arm=winner  " in done.output
    assert (tmp_path / "choice-tables.md").exists()
    assert (tmp_path / "p.svg").exists()
    one = CliRunner().invoke(app, ["choice", "--epsilon", "1,inf", "--plot", str(tmp_path / "p.svg")])
    assert "--plot needs at least two finite values of --epsilon, but got 1,inf" in str(one.exception)
