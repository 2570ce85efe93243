"""`--log-json`: what happens, as lines of JSON, beside the bars or instead of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import Hushtune
from tests.cli.test_cli import STUDY
from tests.cli.test_studyfile_comparison import compared

from hushtune.core.jsonlines import read_line


def kinds(text: str) -> list[str]:
    return [kind for kind in (read_line(line).kind for line in text.splitlines()) if kind not in ("advance", "end")]


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    return path


RUN = ["begin", *["phase"] * 3, "spent", *["phase"] * 2, "opened", "done"]


def test_a_file_gets_the_lines_beside_the_bars(hushtune: Hushtune, study: Path, tmp_path: Path) -> None:
    log = tmp_path / "logs" / "run.jsonl"
    done = hushtune("run", study, "--out", tmp_path / "run", "--log-json", log)
    assert done.returncode == 0, done.stderr
    assert kinds(log.read_text()) == RUN
    assert "scoring" in done.stderr
    again = hushtune("run", study, "--out", tmp_path / "other", "--log-json", log, "--quiet")
    assert again.returncode == 2
    assert len(again.stderr.splitlines()) == 1
    assert kinds(log.read_text()) == [*RUN, "begin", "failed"]  # the ledger has nothing left
    reason = read_line(log.read_text().splitlines()[-1]).fields["reason"]
    assert "would bring it to epsilon 2" in reason


def test_a_dash_puts_lines_in_place_of_bars(hushtune: Hushtune, study: Path, tmp_path: Path) -> None:
    study.write_text(STUDY + "[simulation]\nseed = 1\n")
    done = hushtune("run", study, "--out", tmp_path / "run", "--log-json", "-", "--json")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith('{"schema"')
    assert kinds(done.stderr)[:2] == ["begin", "phase"]
    assert kinds(done.stderr)[-1] == "done"


def test_a_comparison_is_one_thing_to_watch(hushtune: Hushtune, tmp_path: Path) -> None:
    log = tmp_path / "compare.jsonl"
    done = hushtune("compare", compared(tmp_path), "--out", tmp_path / "compared", "--quiet", "--log-json", log)
    assert (done.returncode, done.stderr) == (0, "")
    assert kinds(log.read_text()) == ["begin", "phase", "phase", "done"]
    assert read_line(log.read_text().splitlines()[-1]).fields == {"config": None}


@pytest.mark.parametrize("command", ["run", "compare"])
def test_a_study_that_cannot_be_read_is_on_the_log(hushtune: Hushtune, tmp_path: Path, command: str) -> None:
    log = tmp_path / "log.jsonl"
    failed = hushtune(command, tmp_path / "none.toml", "--out", tmp_path / "out", "--log-json", log)
    assert failed.returncode == 2
    assert kinds(log.read_text()) == ["begin", "failed"]
    reason = read_line(log.read_text().splitlines()[-1]).fields["reason"]
    assert reason == f"study file {tmp_path / 'none.toml'} does not exist"


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_spent(
    hushtune: Hushtune, study: Path, tmp_path: Path, home: Path
) -> None:
    refused = hushtune("run", study, "--out", tmp_path / "run", "--log-json", tmp_path)
    assert refused.returncode == 2
    assert refused.stderr == f"error: {tmp_path} cannot be used: Is a directory\n"
    assert not home.exists()
    assert not (tmp_path / "run").exists()
