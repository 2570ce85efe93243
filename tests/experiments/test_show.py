from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from experiments import show
from experiments.machine import machine

ROWS = [{"name": "a", "seconds": 1.5, "all": [1, 2]}, {"name": "b", "seconds": 2, "all": []}]


def test_rows_are_printed_as_they_come_and_given_back(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[str] = []

    def measured() -> Iterator[dict[str, Any]]:
        for row in ROWS:
            yield row
            seen.append(capsys.readouterr().out)

    assert show.rows(measured(), as_json=False, hidden=["all"]) == ROWS
    assert seen == ["name=a  seconds=1.5\n", "name=b  seconds=2\n"]


def test_as_json_they_are_one_object_with_the_machine(capsys: pytest.CaptureFixture[str]) -> None:
    show.rows(iter(ROWS), as_json=True)
    assert json.loads(capsys.readouterr().out) == {"machine": machine(), "rows": ROWS}
    assert set(machine()) == {"processor", "cores", "python"}
    assert machine()["processor"]


@pytest.mark.parametrize(("as_json", "said"), [(False, "wrote a.md\nwrote b.md\n"), (True, "")])
def test_files_are_named_unless_there_is_json(capsys: pytest.CaptureFixture[str], as_json: bool, said: str) -> None:
    show.files([Path("a.md"), Path("b.md")], as_json)
    assert capsys.readouterr().out == said
