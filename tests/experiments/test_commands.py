"""`python -m experiments`: one entry, the same manners as `hushtune`, and nothing of it in the package."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.cli.conftest import Hushtune, in_this_process
from tests.cli.test_startup import loaded

from experiments.__main__ import app
from hushtune.cli import start

ROOT = Path(__file__).parents[2]
COMMANDS: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
PROGRAM = "python -m experiments"


@pytest.fixture
def experiments(monkeypatch: pytest.MonkeyPatch, capfd: Any) -> Iterator[Hushtune]:
    yield from in_this_process(lambda: start(app, PROGRAM), monkeypatch, capfd)


def test_it_starts_at_the_repositorys_root() -> None:
    command = [sys.executable, "-m", "experiments", "secure-sum", "--clients", "some"]
    failed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (failed.returncode, failed.stdout) == (2, "")
    assert failed.stderr == "error: clients must be numbers such as 10,100, but got 'some'\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["foo"], "error: No such command 'foo'; see `python -m experiments --help`"),
        (
            ["flora", "--jobs", "0"],
            "error: Invalid value for '--jobs': 0 is not in the range 1<=x<=1024; "
            "see `python -m experiments flora --help`",
        ),
        (["privtuna"], "error: choose one of --replay and --train, but got neither"),
        (["fts", "--epsilon", "0"], "error: `0 < epsilon < inf` must hold, but got epsilon=0.0"),
    ],
)
def test_errors_are_one_line(experiments: Hushtune, arguments: list[str], message: str) -> None:
    failed = experiments(*arguments)
    assert (failed.returncode, failed.stdout) == (2, "")
    assert failed.stderr.splitlines() == [message]


def test_an_internal_error_says_how_to_see_where(experiments: Hushtune, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("experiments.speed.secure_sum.rows", lambda *_: 1 / 0)
    failed = experiments("secure-sum")
    assert (failed.returncode, failed.stdout) == (4, "")
    (line,) = failed.stderr.splitlines()
    assert line.startswith("internal error: ZeroDivisionError")
    assert line.endswith("run `python -m experiments --verbose ...` to see where")


def test_help_loads_nothing_heavy() -> None:
    program = f"import runpy, sys; sys.path.insert(0, {str(ROOT)!r}); sys.argv[1:] = ['--help']"
    assert loaded(f"{program}; runpy.run_module('experiments', run_name='__main__')") == set()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_json_and_a_help(experiments: Hushtune, name: str) -> None:
    assert "--json" in {option for parameter in COMMANDS[name].params for option in parameter.opts}
    shown = experiments(name, "--help")
    assert shown.returncode == 0
    assert f"Usage: {PROGRAM} {name} [OPTIONS]" in shown.stdout


def test_the_page_of_results_lists_them_all() -> None:
    page = (ROOT / "docs" / "results" / "README.md").read_text()
    assert re.findall(rf"^\| `{PROGRAM} ([a-z-]+)` \|", page, re.MULTILINE) == list(COMMANDS)


def test_the_package_knows_nothing_of_them() -> None:
    wrong = re.compile(r"^\s*(from|import) experiments\b", re.MULTILINE)
    assert [path for path in (ROOT / "src").rglob("*.py") if wrong.search(path.read_text())] == []
