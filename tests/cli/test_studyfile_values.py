"""Every key of every kind of study, with values that do not belong there: taken, or refused in one line of ours."""

from __future__ import annotations

import copy
import math
import re
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hushtune as ht
from hushtune.cli import studyfile as study

EXAMPLES = Path(__file__).parents[2] / "examples"
OWN = """
[clients]
factory = "walked_clients:clients"
[space]
x = { type = "float", low = 0.1, high = 1.0, step = 0.1 }
n = { type = "int", low = 1, high = 32, log = true }
kind = { type = "choice", choices = ["a", "b"] }
[candidates]
sample = 5
seed = 1
[method]
name = "vote"
k = 1
[search]
seed = 1
[ledger]
path = "ledger.db"
[simulation]
seed = 1
reference = "walked_clients:reference"
"""
FACTORY = """
import numpy as np
import hushtune as ht

@ht.objective
def loss(config, data):
    return config["x"]

def reference():
    return ht.Client((np.zeros((2, 1)), np.zeros(2)), loss)

def clients():
    return [reference() for _ in range(3)]

def one():
    return 1
"""
WRONG: list[Any] = ["nonsense", "", -1, 0, 1.5, math.nan, math.inf, 1e308, 10**30, True, [], ["a"], [1], {}, {"x": 1}]
PYTHON = re.compile(
    r"__init__|unhashable|not supported|argument after|NoneType|SeedSequence|object (of|is|has)|Traceback"
)


def places(table: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where a study has tables, keys and entries."""
    if path:
        yield path
    inner = table.items() if isinstance(table, dict) else enumerate(table) if isinstance(table, list) else ()
    for key, value in inner:
        yield from places(value, (*path, key))


def refusals(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """What is said to each wrong value at each place."""
    good = tomllib.loads(path.read_text())
    read = study.read_comparison if "compare" in good else study.read
    read(path)
    for place in places(good):
        for value in WRONG:
            raw = copy.deepcopy(good)
            table = raw
            for key in place[:-1]:
                table = table[key]
            table[place[-1]] = value
            monkeypatch.setattr(tomllib, "loads", lambda _, raw=raw: raw)
            try:
                read(path)
            except ht.SettingError as error:
                yield str(error)
            finally:
                monkeypatch.undo()


LONG = [pytest.param(name, marks=pytest.mark.long) for name in ("digits", "agents", "curator", "surface", "compare")]


@pytest.mark.filterwarnings("ignore::UserWarning")  # Optuna's
@pytest.mark.parametrize("name", ["own", *LONG])
def test_wrong_values_are_refused_in_one_line(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / f"{name}.toml"
    path.write_text(OWN if name == "own" else (EXAMPLES / f"{name}.toml").read_text())
    (tmp_path / "walked_clients.py").write_text(textwrap.dedent(FACTORY))
    said = list(refusals(path, monkeypatch))
    assert len(said) > 150
    for line in said:
        assert "\n" not in line
        assert len(line) < 400
        assert len(re.findall(r"\[(?:data|space|objective|method|clients|privacy)\] ", line)) <= 1, line
        assert "wrong kind" not in line, line
        assert not PYTHON.search(line), line


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("log = true", 'log = "no"', "[space] 'n': log must be a bool, but got 'no'"),
        ("low = 1, high = 32", "low = 1, high = inf", "for an integer, but got high=inf"),
        ("low = 0.1, high = 1.0", "high = 1.0", "needs the keys ['low', 'high']"),
        ("low = 0.1, high = 1.0", "low = 0.1, hi = 1.0", "[space] 'x': needs the keys ['low', 'high'] and may have"),
        ('["a", "b"]', '"ab"', "[space] 'kind': choices must be a list, but got 'ab'"),
        ("sample = 5", "grid = 5", "[candidates] grid must be a table, such as { C = 5 }, but got 5"),
        ("walked_clients:clients", "walked_clients:one", "[clients] factory must return a list of hushtune.Client"),
        ("walked_clients:clients", "walked_clients", "[clients] factory must be a text such as 'module:name'"),
        (
            "walked_clients:reference",
            "walked_clients:clients",
            "[simulation] reference must be a Client, but got a list",
        ),
        ('path = "ledger.db"', "path = 3", "[ledger] path must be a text, but got 3"),
        ("[search]", "[privacy]\nunit = 'client'\n[search]", "[privacy] needs the key 'epsilon', but got ['unit']"),
        ("[search]", "[privacy]\nepsilon = 'exact'\n[search]", "[privacy] `0 < epsilon < inf` must hold"),
    ],
)
def test_what_is_said_to_some(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert old in OWN
    (tmp_path / "study.toml").write_text(OWN.replace(old, new, 1))
    (tmp_path / "walked_clients.py").write_text(textwrap.dedent(FACTORY))
    with pytest.raises(ht.SettingError) as caught:
        study.read(tmp_path / "study.toml")
    assert message in str(caught.value)
