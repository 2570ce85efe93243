from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hushtune as ht

Make = Callable[..., list[ht.Client]]


@pytest.fixture
def result(make_clients: Make, candidates: ht.Candidates) -> ht.Result:
    return ht.tune(
        make_clients(12),
        candidates,
        method=ht.Vote(2, decode="argmax"),
        privacy=ht.Privacy(2.0),
        observer=ht.Silent(),
        jobs=1,
    )


def test_result_json_has_the_stated_schema(result: ht.Result, tmp_path: Path) -> None:
    path = result.save(tmp_path / "run")
    raw = json.loads(path.read_text())
    assert raw["schema"] == 2
    assert raw["hushtune"] == ht.__version__
    assert set(raw["privacy"]) == {"epsilon", "delta", "neighbours", "unit"}
    assert set(raw["spent"]) == {"epsilon", "delta"}
    assert set(raw["clients"]) == {"asked", "answered", "dropped", "late", "left_out", "nodes", "pinned"}
    for field in ("config", "method", "seal", "disclosures", "statement", "opened", "events", "ledger"):
        assert raw[field]
    assert raw["simulation"] is None
    assert raw["seconds"] == {}  # how long clients take depends on their data


def test_round_trip_through_a_folder(result: ht.Result, tmp_path: Path) -> None:
    result.save(tmp_path)
    again = ht.Result.load(tmp_path)
    assert again.to_json() == result.to_json()
    assert again.statement == result.statement


def test_another_runs_result_is_never_overwritten(
    result: ht.Result, make_clients: Make, candidates: ht.Candidates, tmp_path: Path
) -> None:
    result.save(tmp_path)
    result.save(tmp_path)
    other = ht.tune(
        make_clients(3), candidates, method=ht.Vote(1), observer=ht.Silent(), jobs=1, home=tmp_path / "another"
    )
    with pytest.raises(ht.SettingError, match="another run's result"):
        other.save(tmp_path)


def test_to_optuna_gives_the_opened_values_as_trials(result: ht.Result) -> None:
    study = result.to_optuna()
    assert len(study.trials) == len(result.candidates)
    assert [t.value for t in study.trials] == result.opened[0].blocks["votes"]
    chosen = [t.params for t in study.trials if t.user_attrs["chosen"]]
    assert chosen == [result.config]
    assert study.best_params == result.config  # plain argmax


def test_to_optuna_takes_defaults_outside_the_space(make_clients: Make) -> None:
    candidates = ht.Space(x=ht.Float(0.0, 1.0)).candidates([{"x": 0.3}, {"x": 7.0}])
    result = ht.tune(make_clients(3), candidates, method=ht.Vote(1), observer=ht.Silent(), jobs=1)
    trials = result.to_optuna().trials
    assert [trial.params for trial in trials] == [{"x": 0.3}, {}]
    assert [trial.user_attrs["config"] for trial in trials] == [{"x": 0.3}, {"x": 7.0}]


def test_a_file_in_place_of_a_folder_and_a_folder_in_place_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "result.json").touch()
    for read in (ht.Result.load, ht.verify, ht.report):
        with pytest.raises(ht.SettingError, match="json must be a folder, but got a file: give the folder that"):
            read(tmp_path / "result.json")
    (tmp_path / "other" / "result.json").mkdir(parents=True)
    with pytest.raises(ht.SettingError, match="json cannot be read: Is a directory; give a folder that"):
        ht.Result.load(tmp_path / "other")


def test_a_folder_is_a_path() -> None:
    for read in (ht.Result.load, ht.verify, ht.report):
        with pytest.raises(ht.SettingError, match="folder must be a str or a PathLike, but got 5"):
            read(5)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "does not exist"),
        ("{", "must be a JSON file"),
        ("[]", "must be what `hushtune run` wrote, but it has no schema; restore it from a backup, or run"),
        (b"\xff\xfe\x00\x01", "must be a JSON file, but it is damaged or of another kind; restore it"),
        ("[" * 100_000, "must be a JSON file"),
        ('{"schema": 1}', "must have schema 2, but got 1: read it with the release of hushtune that wrote it$"),
        ('{"schema": 2}', "is damaged: the field 'ledger' is missing; restore it from a backup, or run"),
    ],
)
def test_loading_something_else(tmp_path: Path, content: Any, message: str) -> None:
    if content is not None:
        (tmp_path / "result.json").write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(ht.SettingError, match=message):
        ht.Result.load(tmp_path)


def test_the_statement_names_an_insecure_seal(make_clients: Make, candidates: ht.Candidates, tmp_path: Path) -> None:
    settings = {"method": ht.Vote(2), "privacy": ht.Privacy(2.0), "observer": ht.Silent(), "jobs": 1}
    clear = ht.tune(make_clients(3), candidates, seal=ht.Clear(), home=tmp_path / "a", **settings)
    assert "INSECURE SETTING, seal 'clear': the server sees individual contributions" in clear.statement
    lenient = make_clients(8)
    for client in lenient:
        client.policy = ht.Policy(insecure=True)
    few = ht.tune(lenient, candidates, seal=ht.Masked(degree=4), home=tmp_path / "b", **settings)
    assert "INSECURE SETTING, degree=4" in few.statement
    assert "even if it lies" not in few.statement


def test_the_statement_names_everything(result: ht.Result) -> None:
    text = result.statement
    for part in (
        "(2, 1e-05)-differential privacy for each client",
        "replace-one",
        "Seal 'masked': a server that follows the protocol sees no single contribution but their sum",
        "together with up to 1 of the 12 clients",
        "identities not pinned: the server is trusted not to impersonate or invent clients, and not to lie about",
        ": NEW; what was spent",
        "Not covered: the training that follows",
        "who took part",
        "12 clients were asked, 12 answered",
    ):
        assert part in text, part
