"""`hushtune prior`: a study's candidates scored on public data, for `[method] prior`."""

from __future__ import annotations

import json
import random
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.conftest import Hushtune
from tests.cli.test_studyfile import GOOD, write

import hushtune as ht
from hushtune.cli.studyfile import read, read_comparison
from hushtune.run.public import public_losses

OWN = """
import numpy as np
import hushtune as ht

@ht.objective
def loss(config, data):
    if config["C"] > 9:
        return float("nan")
    return abs(config["C"] - 1)

@ht.objective
def failing(config, data):
    return float("nan")

@ht.objective
def raising(config, data):
    raise ValueError("never")

def public():
    return ht.Client((np.zeros((4, 1)), np.zeros(4)), loss)

def useless():
    return ht.Client((np.zeros((4, 1)), np.zeros(4)), failing)

def broken():
    return ht.Client((np.zeros((4, 1)), np.zeros(4)), raising)

def nothing():
    return 3

def protected():
    return ht.Client((np.zeros((4, 1)), np.zeros(4)), loss, policy=ht.Policy(epsilon=0.1, delta=0))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A study, and next to it a module of the user's own, under a name that no other test has imported."""
    module = f"own_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{module}.py").write_text(OWN)
    monkeypatch.setenv("HUSHTUNE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("sys.path", [str(tmp_path), *__import__("sys").path])
    write(tmp_path, GOOD.replace("grid = { C = 2 }", "grid = { C = 5, kernel = ['rbf'], degree = [2] }"))
    (tmp_path / "module").write_text(module)
    return tmp_path


def own(folder: Path, function: str) -> str:
    return f"{(folder / 'module').read_text()}:{function}"


def test_candidates_are_scored_on_public_data_and_the_study_takes_it(hushtune: Hushtune, folder: Path) -> None:
    study, out = folder / "study.toml", folder / "prior.json"
    said = hushtune("prior", study, "--client", own(folder, "public"), "--out", out, "--jobs", "1")
    assert said.returncode == 0, said.stderr
    assert f"prior: {out}, 5 candidates, 1 of which failed" in said.stdout
    assert f"PUBLIC: {out} holds every loss as it is, and nothing protects the data" in said.stdout
    assert "by itself it would choose: C = 1, kernel = rbf, degree = 2" in said.stdout
    study.write_text(study.read_text().replace('name = "vote"', 'name = "vote"\nprior = "prior.json"'))
    method = read(study).study.method
    assert isinstance(method, ht.Vote)
    assert method.prior == ht.Prior.load(out)
    assert method.prior.source == f"5 candidates scored on PUBLIC data: {own(folder, 'public')}"
    again = hushtune("prior", study, "--client", own(folder, "public"), "--out", out)
    assert again.returncode == 2
    assert "must not be there yet" in again.stderr


def test_what_was_scored_is_kept_and_json_says_the_same(hushtune: Hushtune, folder: Path) -> None:
    command = ["prior", folder / "study.toml", "--client", own(folder, "public"), "--jobs", "1", "--json", "--out"]
    first = json.loads(hushtune(*command, folder / "one.json").stdout)
    assert first["best"] == {"C": 1.0, "kernel": "rbf", "degree": 2}
    assert (first["candidates"], first["failed"]) == (5, 1)
    with sqlite3.connect(folder / "home" / "trials.db") as trials:
        before = list(trials.execute("select count(*) from trials"))
    hushtune(*command, folder / "two.json")
    with sqlite3.connect(folder / "home" / "trials.db") as trials:
        assert list(trials.execute("select count(*) from trials")) == before
    assert (folder / "one.json").read_text() == (folder / "two.json").read_text()


def test_an_example_data_set_is_public_data_unless_the_clients_hold_it(hushtune: Hushtune, folder: Path) -> None:
    study, out = folder / "study.toml", folder / "prior.json"
    refused = hushtune("prior", study, "--data", "digits", "--out", out)
    assert refused.returncode == 2
    assert "must be public data, but 'digits' is what the study's clients hold" in refused.stderr
    text = study.read_text()
    study.write_text(text[: text.index("[data]")] + "[clients]\nfactory = 'a:b'\n" + text[text.index("[space]") :])
    said = hushtune("prior", study, "--data", "digits", "--rows", "200", "--out", out, "--jobs", "1", "--quiet")
    assert said.returncode == 0, said.stderr
    assert ht.Prior.load(out).source.startswith("5 candidates scored on PUBLIC data: digits, 200 rows")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "either --data or --client, but got both or neither"),
        (("--data", "mnist", "--client", "a:b"), "either --data or --client, but got both or neither"),
        (("--data", "flowers"), "name must be one of"),
        (("--client", "nowhere"), "--client must be a text such as 'module:name'"),
        (("--client", "OWN:nothing"), "must give a hushtune.Client, but gave a int"),
        (("--client", "OWN:nothing", "--rows", "9"), "--rows is for --data, but got --rows 9 with --client"),
        (("--client", "OWN:protected"), "has a policy, a ledger or an identity"),
        (("--client", "OWN:useless", "--jobs", "1"), "but all of them failed on these data"),
        (("--client", "OWN:broken", "--jobs", "1"), "ValueError: never"),
    ],
    ids=str,
)
def test_what_cannot_be_a_prior_is_refused_and_nothing_written(
    hushtune: Hushtune, folder: Path, arguments: tuple[str, ...], message: str
) -> None:
    given = [one.replace("OWN:", own(folder, "")) for one in arguments]
    said = hushtune("prior", folder / "study.toml", "--out", folder / "prior.json", *given)
    assert said.returncode == 2
    assert message in said.stderr
    assert said.stderr.count("\n") <= 2, said.stderr
    assert not (folder / "prior.json").exists()


def test_a_study_without_a_list_has_nothing_to_score(hushtune: Hushtune, folder: Path) -> None:
    study = folder / "study.toml"
    text = study.read_text()
    study.write_text(text[: text.index("[candidates]")] + text[text.index("[objective]") :])
    said = hushtune("prior", study, "--client", own(folder, "public"), "--out", folder / "prior.json")
    assert "needs a study with a table [candidates]" in said.stderr


def test_configs_are_scored_with_the_seed_of_the_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUSHTUNE_HOME", str(tmp_path))

    @ht.objective
    def drawn(config: ht.Config, data: ht.Rows) -> float:
        return random.random()

    client, candidates = ht.Client((np.zeros((4, 1)), np.zeros(4)), drawn), ht.Space(x=ht.Int(0, 0)).grid()
    for seed in (0, 7):
        losses = public_losses(client, candidates, ht.Search(seed), 1, ht.Silent())
        assert losses.tolist() == [random.Random(seed).random()]


# ---- in a study file ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (
            "{ near = { C = 1.0, kernel = 'rbf', degree = 2 }, voters = 5, within = 0.1 }",
            ht.Prior.near({"C": 1.0, "kernel": "rbf", "degree": 2}, 5, 0.1),
        ),
        (
            "{ scores = [0, 1, 2, 3, 4], source = 'a table' }",
            ht.Prior([0, 1, 2, 3, 4], source="a table"),
        ),
    ],
    ids=["near", "scores"],
)
def test_a_study_says_what_is_believed(folder: Path, said: str, meant: ht.Prior) -> None:
    study = folder / "study.toml"
    study.write_text(study.read_text().replace('name = "vote"', f'name = "vote"\nprior = {said}'))
    method: Any = read(study).study.method
    assert method.prior == meant


def test_methods_of_a_comparison_have_priors_too(folder: Path) -> None:
    study = folder / "study.toml"
    table = "[compare]\nmethods = [{ name = 'vote', prior = { scores = [0, 1, 2, 3, 4] } }, { name = 'vote' }]\n"
    text = study.read_text()
    study.write_text(text[: text.index("[method]")] + text[text.index("[privacy]") :] + table)
    assert [method.prior for method in read_comparison(study).methods] == [ht.Prior([0, 1, 2, 3, 4]), None]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("3", "prior must be a table, such as"),
        ("{ voters = 3 }", "exactly one of file, near, scores, but got []"),
        ("{ file = 'a', scores = [1] }", "exactly one of file, near, scores"),
        ("{ scores = [0, 1, 2, 3, 4], within = 1 }", "unknown key 'within'; beside scores it has ['source', 'voters']"),
        ("{ scores = 3 }", "scores must be a list"),
        ("{ near = 3 }", "near must be a table"),
        ("{ near = { C = 1.0 } }", "near a config of the candidates' space"),
        ("{ scores = [0, 1] }", "one score for each of 5 candidates, but got 2"),
        ("{ scores = [0, 1, 2, 3, 4], voters = 0 }", "a prior's voters"),
        ("'prior.json'", "a prior's file must be readable"),
        ("''", "file must be a text"),
    ],
    ids=str,
)
def test_a_studys_prior_is_checked(folder: Path, said: str, message: str) -> None:
    study = folder / "study.toml"
    study.write_text(study.read_text().replace('name = "vote"', f'name = "vote"\nprior = {said}'))
    with pytest.raises(ht.SettingError) as refused:
        read(study)
    assert message in str(refused.value)
    assert str(refused.value).startswith("[method] ")
