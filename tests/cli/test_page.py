"""docs/cli.md names every command, exit code and table of a study, and no others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from hushtune.cli import EXIT_CODES
from hushtune.cli.app import app
from hushtune.cli.studyfile import _TABLES

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()


def commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield name, command
    for word, sub in (inner or {}).items():
        yield from commands(sub, f"{name} {word}")


COMMANDS = dict(commands(typer.main.get_command(app), "hushtune"))


def test_every_command_is_on_the_page_and_no_other() -> None:
    named = re.findall(r"^\| `(hushtune [a-z -]+)` \|", PAGE, re.MULTILINE)
    assert sorted(named) == sorted(COMMANDS)


def test_every_command_takes_json_as_the_page_says() -> None:
    assert "Every command takes it." in PAGE.partition("## For programs: `--json`")[2].partition("##")[0]
    for name, command in COMMANDS.items():
        assert any("--json" in option.opts for option in command.params), name


def test_exit_codes_are_those_of_the_program() -> None:
    assert {int(code): words for code, words in re.findall(r"^\| (\d+) \| (.+) \|$", PAGE, re.MULTILINE)} == EXIT_CODES


def test_tables_of_a_study_and_their_keys_are_those_that_are_read() -> None:
    rows = dict(re.findall(r"^\| `\[(\w+)\]` \| (.+?) \| ", PAGE, re.MULTILINE))
    assert set(rows) == set(_TABLES)
    for table, keys in _TABLES.items():
        assert set(re.findall(r"`(\w+)`", rows[table])) >= (keys or set()), table


def test_no_help_text_holds_what_rich_would_take_for_markup() -> None:
    for name, command in COMMANDS.items():
        for text in (command.help, *(getattr(parameter, "help", None) for parameter in command.params)):
            assert "[" not in (text or ""), name


def test_completion_is_told() -> None:
    for option in typer.main.get_command(app).params:
        if "completion" in option.opts[0]:
            assert f"`hushtune {option.opts[0]}`" in PAGE
