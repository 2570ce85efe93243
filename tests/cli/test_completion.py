"""A shell's completion, through the program's own `main`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import numpy as np
import pytest
import typer
from tests.cli.conftest import Hushtune

from hushtune.cli import options
from hushtune.cli.app import app
from hushtune.data.sources import SOURCES
from hushtune.data.splits import split
from hushtune.methods.registry import METHODS
from hushtune.privacy.accounting import Renyi, Sums, Unit
from hushtune.privacy.guarantee import Neighbours
from hushtune.seals.registry import SEALS

Complete = Callable[[str], list[str]]


@pytest.fixture
def complete(hushtune: Hushtune, monkeypatch: pytest.MonkeyPatch) -> Complete:
    def completed(line: str) -> list[str]:
        monkeypatch.setenv("_HUSHTUNE_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
        done = hushtune()
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.split()

    return completed


def test_commands_and_options(complete: Complete) -> None:
    commands: Any = typer.main.get_command(app)
    assert complete("hushtune ") == list(commands.commands)
    assert complete("hushtune ledger ") == ["show", "limit"]
    assert complete("hushtune plan --sea") == ["--seal"]


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("plan --method ", options.METHODS),
        ("plan --seal m", ["masked"]),
        ("plan --unit ", ["client", "record"]),
        ("ledger limit x --neighbours z", ["zero-out"]),
        ("ledger limit x --rule ", ["sums", "renyi"]),
        ("split d", ["digits"]),
        ("split digits --how imb", ["imb1", "imb2"]),
    ],
)
def test_values(complete: Complete, line: str, values: list[str]) -> None:
    assert complete(f"hushtune {line}") == values


def test_the_script_for_a_shell(hushtune: Hushtune, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_HUSHTUNE_COMPLETE", "source_bash")
    done = hushtune()
    assert done.returncode == 0
    assert "_HUSHTUNE_COMPLETE=complete_bash" in done.stdout
    assert "complete -o default -F _hushtune_completion hushtune" in done.stdout


def test_what_is_completed_is_what_there_is() -> None:
    assert set(options.DATA) == set(SOURCES)
    assert set(options.SEALS) == {seal.name for seal in SEALS}
    assert list(get_args(Unit)) == options.UNITS
    assert list(get_args(Neighbours)) == options.NEIGHBOURS
    assert [Sums.name, Renyi.name] == options.RULES
    assert set(options.METHODS) == {method.name for method in METHODS}
    for kind in options.SPLITS:
        split(kind + "1" * kind.endswith(":"), np.arange(100) % 10, 4, 0)
