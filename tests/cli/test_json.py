"""What a person would pipe is one JSON object on the output, whatever the command."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Hushtune

from hushtune.cli.options import print_json
from hushtune.core.roster import Roster


def object_of(hushtune: Hushtune, *arguments: str | Path) -> Any:
    done = hushtune(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    return json.loads(line)


def test_what_is_not_finite_is_null(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"rule": {"epsilon": math.inf, "orders": (1.5, math.nan)}, "name": "x", "count": 3})
    assert json.loads(capsys.readouterr().out, parse_constant=pytest.fail) == {
        "rule": {"epsilon": None, "orders": [1.5, None]},
        "name": "x",
        "count": 3,
    }


def test_identities_and_rosters(hushtune: Hushtune, tmp_path: Path) -> None:
    made = object_of(hushtune, "identity", "new", tmp_path / "client.key")
    assert object_of(hushtune, "identity", "show", tmp_path / "client.key") == made
    assert hushtune("identity", "show", tmp_path / "client.key").stdout == f"{made['public']}\n"
    path = tmp_path / "roster.toml"
    pinned = object_of(hushtune, "identity", "roster", path, f"a={made['public']}", f"b={'0' * 64}")
    assert pinned == {"path": str(path), "clients": ["a", "b"], "nodes": [], "digest": Roster.load(path).digest()}


def test_all_ledgers_under_home(hushtune: Hushtune, home: Path) -> None:
    for path in (home / "ledger.db", home / "clients" / "a" / "ledger.db", home / "coordinator" / "ledger-1.db"):
        hushtune("ledger", "limit", path, "--epsilon", "1", "--delta", "1e-5")
    assert len(object_of(hushtune, "ledger", "show")["ledgers"]) == 3  # `fit` has its own in home itself


def test_a_ledgers_limit(hushtune: Hushtune, tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    limit = ("ledger", "limit", path, "--delta", "1e-5", "--epsilon")
    made = object_of(hushtune, *limit, "1", "--unit", "record")
    assert (made["made"], made["unit"], made["limit"]["epsilon"]) == (True, "record", 1)
    raised = object_of(hushtune, *limit, "2")
    assert (raised["made"], raised["left"]) == (False, {"epsilon": 2, "delta": 1e-5})
    (shown,) = object_of(hushtune, "ledger", "show", path)["ledgers"]
    assert shown == {name: value for name, value in raised.items() if name != "made"}


def test_the_environment_for_encryption(hushtune: Hushtune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\nexit 0\n")  # whatever it is asked to import is there
    python.chmod(0o755)
    monkeypatch.setenv("HUSHTUNE_MHE", str(tmp_path))
    assert object_of(hushtune, "mhe", "setup") == {"python": str(python)}
    assert "is there already" in hushtune("mhe", "setup").stdout
