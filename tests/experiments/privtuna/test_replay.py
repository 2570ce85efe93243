"""The replay of PrivTuna's study, on small tables of the same form."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from typer.testing import CliRunner

import hushtune as ht
from experiments.__main__ import app
from experiments.privtuna import published as privtuna_published
from experiments.privtuna import replay as privtuna_replay
from experiments.privtuna import replay_tables as privtuna_replay_tables
from experiments.privtuna import strategies as privtuna_strategies
from experiments.privtuna.published import load
from experiments.privtuna.strategies import GRIDS, PROCESS, STRATEGIES, SURFACES
from experiments.privtuna.tables import points, wins
from hushtune.core.observer import Silent

RATES, MOMENTA = (0.01, 0.1, 0.5), (0.0, 0.6, 0.9)
CASES = [("mnist", "label", 1.0, 5), ("emnist", "qty", 0.4, 3)]
Table = list[dict[str, Any]]


def named(case: tuple[str, str, float, int]) -> dict[str, Any]:
    return dict(zip(("dataset", "skew", "beta", "n_clients"), case, strict=True))


def accuracy(rate: float, momentum: float, batch: int) -> float:
    """Best at lr .1 and momentum .6; small batches are better."""
    return round(0.9 - abs(np.log10(rate / 0.1)) / 5 - abs(momentum - 0.6) / 4 - batch / 1_000, 6)


def tables() -> dict[str, Table]:
    grid = [(rate, momentum) for rate in RATES for momentum in MOMENTA]
    local: Table = [
        {**named(case), "client": client, "lr": rate, "momentum": momentum, "batch_size": batch}
        | {"val_accuracy": accuracy(rate, momentum, batch)}
        for case in CASES
        for client in range(case[3])
        for rate, momentum in grid
        for batch in (16, 32)
    ]
    federated: Table = [
        {**named(case), "server_lr": rate, "server_momentum": momentum, "batch_size": batch}
        | {"accuracy": accuracy(rate, momentum, batch)}
        for case in CASES
        for rate, momentum in grid
        for batch in (8, 16, 32)
    ]
    derived: Table = [
        {"method": "DBSCAN", "version": "original_data", **named(case), "candidate": number}
        | {"lr": rate, "momentum": 0.6, "batch_size": 16, "accuracy_gap": gap}
        for case in CASES
        for number, (rate, gap) in enumerate([(0.5, 0.2), (0.1, 0.008)])
    ]
    return {"local_search": local, "federated_grid": federated, "derived_global_hp": derived}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HUSHTUNE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("hushtune.methods.surface.models._TREES", 20)
    own = tmp_path / "privtuna_lho"
    own.mkdir()
    for name, lines in tables().items():
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, list(lines[0]))
        writer.writeheader()
        writer.writerows(lines)
        (own / f"{name}.csv.gz").write_bytes(gzip.compress(text.getvalue().encode()))
    return own


def replayed() -> list[dict[str, Any]]:
    return list(privtuna_replay.rows(load(), Silent(), jobs=1))


def test_the_tables_become_searches_and_grids(folder: Path) -> None:
    first, second = load()
    assert first.place == ("mnist", "label", 1.0, 5)
    assert second.place == ("emnist", "quantity", 0.4, 3)
    assert first.searches.losses.shape == (5, 9)
    assert first.whole.losses.shape == (5, 18)
    at = first.searches.configs.index({"lr": 0.1, "momentum": 0.6})
    assert first.searches.losses[0, at] == pytest.approx(1 - accuracy(0.1, 0.6, 16))  # the best over batch sizes
    assert first.accuracy.max() == pytest.approx(accuracy(0.1, 0.6, 8))
    assert first.points.shape == (27, 3)


def test_the_nearest_point_is_ours_by_scaled_knobs_and_theirs_by_batch_size(folder: Path) -> None:
    study = load()[0]
    config = {"lr": 0.09, "momentum": 0.61, "batch_size": 25.0}
    assert study.grid[study.nearest(config)] == {"lr": 0.1, "momentum": 0.6}
    assert study.points[study.nearest_plain(config)].tolist() == [0.1, 0.6, 32]
    assert privtuna_replay.ours(study, config) == pytest.approx(0)
    assert privtuna_replay.theirs(study, config) == pytest.approx(0.024)


def test_every_strategy_and_surface_has_its_gap(folder: Path) -> None:
    found = replayed()
    own = [row for row in found if row["data"] == "mnist"]
    assert own[0]["arm"] == "grid"
    assert {"lr": 0.1, "momentum": 0.6}.items() <= own[0].items()
    arms = [(row["arm"], row["scale"]) for row in own[1:]]
    for scale in ("linear", "log", "theirs"):
        assert {arm for arm, other in arms if other == scale} >= set(STRATEGIES)
    assert {arm for arm, scale in arms if scale == "log"} == {*STRATEGIES, *GRIDS, *SURFACES, PROCESS}
    assert {arm for arm, scale in arms if scale == "linear"} == {*STRATEGIES, *GRIDS}
    for row in own[1:]:
        assert (row["arm"] in GRIDS) == ("clusters" in row)
        assert row.get("gap hindsight", 0) <= row["gap"] or row["scale"] == "published"
    gaps = {(row["arm"], row["scale"]): row["gap"] for row in own[1:]}
    assert all(gaps[surface, "log"] == 0 for surface in SURFACES)
    assert gaps["best-mean", "log"] == gaps["mean of bests", "linear"] == 0
    published = next(row for row in own if row.get("scale") == "published")
    assert (published["gap first"], published["gap hindsight"]) == (0.2, 0.008)
    assert [candidate["lr"] for candidate in published["candidates"]] == [0.5, 0.1]
    assert published["gap"] == pytest.approx(accuracy(0.1, 0.6, 8) - accuracy(0.5, 0.6, 8), abs=1e-4)
    json.dumps(found)


def test_each_surface_is_computed_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    plain: Callable[..., Any] = privtuna_strategies.loss_surfaces
    monkeypatch.setattr(privtuna_strategies, "loss_surfaces", lambda *a, **k: calls.append(1) or plain(*a, **k))
    replayed()
    assert len(calls) == len(CASES)


def test_wins_and_ties() -> None:
    place = {"data": "a", "split": "b", "clients": 2, "seed": 0}
    found = [
        {**place, "arm": "grid", "lr": 0.5, "momentum": 0.6},
        {**place, "arm": "mean", "scale": "linear", "lr": 0.4, "momentum": 0.6},
        {**place, "arm": "median", "scale": "linear", "lr": 0.3, "momentum": 0.6},
        {**place, "arm": "median", "scale": "log", "lr": 0.5, "momentum": 0.6},
    ]
    assert wins(found, ("mean", "median"), "linear") == {"mean": (1, 1), "median": (0, 1)}


def test_figures_of_gaps() -> None:
    assert points([0.0, 0.01, 0.05]) == "2.0 / 1.0 / 5.0"
    assert points([]) == "-"


def test_tables_and_figure(folder: Path, tmp_path: Path) -> None:
    found = replayed()
    text = privtuna_replay_tables.write(found, tmp_path / "tables.md").read_text()
    for words in (
        "by skew",
        "by data",
        "PF-DBSCAN returns",
        "SGM+U, a Gaussian process",
        "The authors' way",
        "of 4: alone + with others",
        "a random grid point",
    ):
        assert words in text
    line = next(line for line in text.splitlines() if line.startswith("| DBSCAN, original | "))
    first, *others = [sum(map(int, cell.split("+"))) for cell in line.split("|")[2:-1]]
    assert (first, others) == (2, [4, 4])  # its first candidate has the best momentum, its second the best lr, too
    figure = ElementTree.parse(privtuna_replay_tables.draw(found, tmp_path / "gaps.svg"))
    assert len(list(figure.iter("{http://www.w3.org/2000/svg}rect"))) == 6 * 4


def test_seeds_are_told_apart(folder: Path, tmp_path: Path) -> None:
    found = list(privtuna_replay.rows(load(), Silent(), jobs=1, seeds=2))
    assert [row["seed"] for row in found if row["arm"] == "grid"] == [0, 0, 1, 1]
    processes = [(row["data"], row["lr"], row["momentum"]) for row in found if row["arm"] == PROCESS]
    assert processes[:2] == processes[2:]  # fitted once, for no seed changes it
    assert (
        "Mean gap by seed, the least and the most of 2"
        in privtuna_replay_tables.write(found, tmp_path / "t").read_text()
    )


def test_from_the_command_line(folder: Path, tmp_path: Path) -> None:
    arguments = ["privtuna", "--replay", "--json", "--jobs", "1"]
    files = ["--out", str(tmp_path / "tables.md"), "--plot", str(tmp_path / "gaps.svg")]
    outcome = CliRunner().invoke(app, [*arguments, *files])
    assert outcome.exit_code == 0, outcome.output
    assert len([row for row in json.loads(outcome.stdout)["rows"] if row["arm"] == "grid"]) == 2
    assert (tmp_path / "tables.md").exists()
    assert (tmp_path / "gaps.svg").exists()


def test_a_missing_or_broken_table_is_named_in_one_line(folder: Path) -> None:
    path = folder / privtuna_published.FILES["federated_grid"]
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ht.SettingError, match=r"federated_grid.csv.gz must be whole, but got EOFError"):
        load()
    path.unlink()
    with pytest.raises(ht.SettingError, match=r"federated_grid.csv.gz must be in .*HUSHTUNE_DATA") as error:
        load()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("options", "got"), [([], "neither"), (["--replay", "--train"], "both")])
def test_one_of_two_has_to_be_chosen(options: list[str], got: str) -> None:
    outcome = CliRunner().invoke(app, ["privtuna", *options])
    assert outcome.exit_code != 0
    assert isinstance(outcome.exception, ht.SettingError)
    assert str(outcome.exception) == f"choose one of --replay and --train, but got {got}"
