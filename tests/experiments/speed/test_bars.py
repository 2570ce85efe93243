from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from experiments.__main__ import app
from experiments.speed import bars, bars_page, bars_table
from experiments.speed.bars import Bar, Command, Measured, whole
from hushtune.cli.app import app as hushtune_app
from hushtune.core.errors import SettingError
from hushtune.core.observer import Silent

ROOT = Path(__file__).parents[3]
QUIET = Silent()
SUMS = Command("secure-sum --clients 4,9 --length 5", 1)
PROPOSE = Command("propose --runs 100", 1, full=True)
WRONG = Command("secure-sum --clients some", 1)
TABLE = [
    Bar("few", "sums", "4 clients", SUMS, bars_table.value("cpu_seconds", clients=4), "CPU s", 600, "900: elsewhere"),
    Bar("many", "sums", "9 clients", SUMS, bars_table.value("cpu_seconds", clients=9), "CPU s", 0.0, why="it is work"),
    Bar("trips", "sums", "trips", SUMS, bars_table.value("trips", clients=4), "trips", 5, better="higher"),
    Bar("none", "sums", "whole", SUMS, whole, "s", None),
    Bar("long", "others", "long", PROPOSE, bars_table._slowest, "s", 60),
    Bar("wrong", "others", "wrong", WRONG, whole, "s", 60),
]


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "experiments.speed.bars.time.sleep", lambda seconds: None
    )  # how busy others are does not matter
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)  # commands run at the repository's root
    monkeypatch.setattr(bars, "_others", lambda: 0.25)


def commands_of(program: typer.Typer) -> set[str]:
    group: Any = typer.main.get_command(program)
    return set(group.commands)


def measured(table: list[Bar], folder: Path, full: bool = False) -> list[dict[str, Any]]:
    return list(bars.measure(table, bars.chosen(table, full, []), folder, QUIET))


def test_figures_are_read_from_what_the_commands_print(tmp_path: Path) -> None:
    rows = {row["name"]: row for row in measured(TABLE, tmp_path)}
    assert "long" not in rows
    assert rows["few"]["met"] is True
    assert 0 < rows["few"]["figure"] < 600
    assert rows["many"]["met"] is False
    assert (rows["trips"]["figure"], rows["trips"]["met"]) == (5, True)
    assert (rows["none"]["figure"], rows["none"]["met"]) == (rows["few"]["seconds"], None)
    assert rows["wrong"]["figure"] is None
    assert rows["wrong"]["not_measured"].startswith("clients must be numbers")
    for row in rows.values():
        assert {"name", "figure", "unit", "bar", "met", "reference", "seconds", "cpu_seconds", "machine"} <= set(row)
        assert not any(isinstance(value, dict | list) for value in row.values())
        assert row["others"] == 0.25


def test_of_hushtune_itself_only_the_time_counts(tmp_path: Path) -> None:
    version = Command("--version", 1, program=bars.HUSHTUNE)
    (row,) = measured([Bar("version", "starts", "its version", version, whole, "s", 60)], tmp_path)
    assert (row["command"], row["met"], row["not_measured"]) == ("hushtune --version", True, "")
    assert row["figure"] == row["seconds"] > 0


def test_an_interrupted_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = bars.chosen(TABLE, True, [])
    run, ran = bars._run, []

    def interrupted(command: Command, work: Path) -> Measured:
        ran.append(command)
        if command is PROPOSE:
            raise KeyboardInterrupt
        return run(command, work)

    monkeypatch.setattr(bars, "_run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(bars.measure(TABLE, commands, tmp_path, QUIET))
    first = json.loads((tmp_path / "bars.json").read_text())
    assert list(first) == [SUMS.arguments]
    monkeypatch.setattr(bars, "_run", lambda command, work: ran.append(command) or run(command, work))
    rows = {row["name"]: row for row in bars.measure(TABLE, commands, tmp_path, QUIET)}
    assert ran == [SUMS, PROPOSE, PROPOSE, WRONG]
    assert rows["few"]["seconds"] == first[SUMS.arguments]["seconds"]
    assert list(json.loads((tmp_path / "bars.json").read_text())) == [SUMS.arguments, PROPOSE.arguments]
    bars.finished(commands, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_measured_is_kept_with_its_date_or_named(tmp_path: Path) -> None:
    before = [{**row, "measured": "2026-01-02"} for row in measured(TABLE[4:5], tmp_path, full=True)]
    rows = bars.merged(TABLE, measured(TABLE[:4], tmp_path), before, tmp_path)
    assert [row["name"] for row in rows] == [*(bar.name for bar in TABLE), "bench"]
    text = bars_page.page(rows, "page.json")
    assert "(full form, 2026-01-02)" in text
    assert "- `wrong`: not measured yet; `python -m experiments bars` does" in text
    assert "**sums: 9 clients** (`many`)" in text
    assert "Other processes kept 25% of all cores busy when its command began" in text
    assert "CPU seconds in all. Why: it is work." in text
    assert "900: elsewhere" in text
    assert "6 bars: 4 met, 1 missed (many), 1 not measured (wrong)" in text
    assert "| python -m experiments ... | form |" in text
    assert "| `propose --runs 100` | full | 2026-01-02 |" in text
    assert rows[-1]["figure"] == round(rows[0]["seconds"])
    stale = [{**row, "not_measured": "of old"} for row in bars.merged(TABLE, [], [], tmp_path)]
    assert "of old" not in bars_page.page(bars.merged(TABLE, [], stale, tmp_path), "page.json")
    stricter = [replace(bar, bar=-1) if bar.name == "long" else bar for bar in TABLE]
    assert [row["met"] for row in bars.merged(stricter, [], rows, tmp_path) if row["name"] == "long"] == [False]
    other = [replace(bar, command=WRONG) if bar.name == "long" else bar for bar in TABLE]
    assert [row["figure"] for row in bars.merged(other, [], rows, tmp_path) if row["name"] == "long"] == [None]


def test_the_page_is_rewritten_from_its_own_rows(tmp_path: Path) -> None:
    rows = bars.merged(TABLE, measured(TABLE, tmp_path), [], tmp_path)
    path = tmp_path / "docs" / "page.md"
    bars_page.write(rows, path)
    assert bars.read(path.with_suffix(".json")) == rows
    assert "(page.json)" in path.read_text()
    path.with_suffix(".json").write_text("[]")
    with pytest.raises(SettingError, match="must hold rows of bars"):
        bars.read(path.with_suffix(".json"))


def test_names_must_be_known() -> None:
    with pytest.raises(SettingError, match="but got fastest"):
        bars.chosen(TABLE, False, ["few", "fastest"])
    assert bars.chosen(TABLE, False, ["long", "few", "many"]) == [SUMS, PROPOSE]


def test_the_table_is_whole() -> None:
    names = [bar.name for bar in bars_table.BARS]
    assert len(set(names)) == len(names)
    known = {bars.EXPERIMENTS: commands_of(app), bars.HUSHTUNE: commands_of(hushtune_app)}
    for bar in bars_table.BARS:
        assert bar.command.arguments.split()[0] in known[bar.command.program]
        assert "|" not in bar.what + bar.reference + bar.why


def test_the_command_writes_the_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(bars_table, "BARS", TABLE[:3])
    shown = CliRunner().invoke(app, ["bars", "--only", "few", "--out", "page.md"])
    assert shown.exit_code == 0, shown.output
    assert "4 bars: 3 met, 1 missed (many)" in shown.output  # one command gives three; and how long all take
    assert "# Performance" in (tmp_path / "page.md").read_text()
    again = CliRunner().invoke(app, ["bars", "--json", "--out", "page.md"])
    found = json.loads(again.stdout)
    assert set(found) == {"machine", "rows"}
    assert [row["name"] for row in found["rows"]] == ["few", "many", "trips", "bench"]
    assert not (tmp_path / "runs" / "bench" / "bars.json").exists()


def test_busy_cores_are_seen(tmp_path: Path) -> None:
    told = tmp_path / "stat"
    told.write_text("cpu  10 5 5 70 10 0 0 0 0 0\ncpu0 1 1 1 1\n")
    assert bars._ticks(told) == (20, 100)
