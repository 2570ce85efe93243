from __future__ import annotations

import json
import re
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.conftest import clients_around, tune
from tests.core.test_observer import tell_all
from tests.run.test_tuning import Broken

import hushtune as ht
from hushtune._version import __version__
from hushtune.core.jsonlines import FIELDS, JsonLines, Line, read_line

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


def read(stream: StringIO) -> list[Line]:
    return [read_line(text) for text in stream.getvalue().splitlines()]


def said(stream: StringIO) -> list[tuple[str, dict[str, Any]]]:
    return [(line.kind, dict(line.fields)) for line in read(stream)]


def test_every_event_is_a_line_that_can_be_read_back() -> None:
    stream = StringIO()
    tell_all(JsonLines(stream))
    assert said(stream) == [
        ("begin", {"hushtune": __version__}),
        ("phase", {"phase": 1, "name": "work", "total": 4, "each": ["a", "b"]}),
        ("advance", {"phase": 1, "done": 1, "each": [1, 0]}),
        ("advance", {"phase": 1, "done": 4, "each": [1, 3]}),
        ("end", {"phase": 1, "done": 4}),
        ("say", {"text": "a line"}),
        ("opened", {"step": 1, "of": 2, "what": "top-votes"}),
        ("dropped", {"client": "a", "reason": "no reply"}),
        ("spent", {"epsilon": 0.5, "delta": 1e-5}),
        ("failed", {"reason": "too few"}),
        ("done", {"config": {"x": 1.0}}),
    ]
    assert {kind for kind, _ in said(stream)} == set(FIELDS)
    times = [line.time for line in read(stream)]
    assert times == sorted(times, key=float)  # type: ignore[arg-type]


def test_lines_of_a_real_run_with_an_epsilon_have_no_times() -> None:
    stream = StringIO()
    lines = JsonLines(stream)
    lines.keep_no_times()
    tell_all(lines)
    first, *others = [line.time for line in read(stream)]
    assert first is not None  # of the command, before it was known
    assert set(others) == {None}


def test_a_comparison_chooses_nothing() -> None:
    stream = StringIO()
    JsonLines(stream).done(None)
    assert said(stream)[-1] == ("done", {"config": None})


def test_a_phase_writes_at_most_a_hundred_advances() -> None:
    for total, steps, most in ((20_000, [1] * 20_000, 100), (7, [1] * 7, 7), (1000, [1] * 5 + [995], 1), (0, [0], 0)):
        stream = StringIO()
        with JsonLines(stream).phase("work", total) as advance:
            for step in steps:
                advance(step)
        counts = [fields["done"] for kind, fields in said(stream) if kind == "advance"]
        assert len(counts) == most
        assert said(stream)[-1] == ("end", {"phase": 1, "done": total})


def test_a_phase_that_fails_ends_and_the_next_has_another_number() -> None:
    stream = StringIO()
    lines = JsonLines(stream)
    with pytest.raises(KeyError), lines.phase("first", 10):
        raise KeyError
    with lines.phase("second", 10), lines.phase("inside", 1):
        pass
    numbers = [(kind, fields["phase"]) for kind, fields in said(stream) if kind in ("phase", "end")]
    assert numbers == [("phase", 1), ("end", 1), ("phase", 2), ("phase", 3), ("end", 3), ("end", 2)]


GOOD = {"schema": 1, "kind": "spent", "time": 1.5, "epsilon": 1, "delta": 0.0}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "must be a JSON object"),
        ('{"schema": 1, "kind"', "must be a JSON object"),
        ("[1]", "must be a JSON object"),
        (json.dumps({**GOOD, "schema": 2}), "must have schema 1, but got 2"),
        (json.dumps({"kind": "say"}), "must have schema 1, but got None"),
        (json.dumps({**GOOD, "kind": "refund"}), "must be one of .*, but got 'refund'"),
        (json.dumps({**GOOD, "kind": ["spent"]}), "must be one of"),
        (json.dumps({**GOOD, "more": 1}), "must have the fields"),
        (json.dumps({name: value for name, value in GOOD.items() if name != "delta"}), "must have the fields"),
        (json.dumps({**GOOD, "epsilon": "1"}), "`epsilon` of a line of kind 'spent' cannot be '1'"),
        (json.dumps({**GOOD, "epsilon": True}), "cannot be True"),
    ],
)
def test_what_is_no_such_line_is_refused(text: str, reason: str) -> None:
    assert read_line(json.dumps(GOOD)) == Line("spent", 1.5, {"epsilon": 1, "delta": 0.0})
    with pytest.raises(ht.SettingError, match=reason):
        read_line(text)


def test_the_page_describes_every_kind_and_field() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("## Following a run")[2].partition("\n## ")[0]
    rows = {kind: re.findall(r"`(\w+)`", cell) for kind, cell in re.findall(r"^\| `(\w+)` \| ([^|]*) \|", table, re.M)}
    assert rows == {kind: list(fields) for kind, fields in FIELDS.items()}


# ---- private runs ------------------------------------------------------------------------------------

GRID = ht.Space(x=ht.Float(0.0, 1.0)).grid(x=11)
RUNS: dict[str, tuple[Any, dict[str, Any]]] = {
    "vote": (GRID, {"method": ht.Vote(2)}),
    "tests": (GRID, {"method": ht.ProposeTest(), "seal": ht.Curator()}),
    "adaptive": (GRID.space, {"method": ht.Combine(), "search": ht.Search.adaptive(25), "seal": ht.Clear()}),
    "thompson": (GRID, {"method": ht.Thompson(iterations=2, initial=3, features=8)}),
    "records": (GRID, {"method": ht.Vote(2, voters=2), "privacy": ht.Privacy(3.0, unit="record")}),
}


@pytest.mark.parametrize("name", RUNS)
def test_lines_of_a_private_run_are_the_same_whichever_client_fails(name: str, tmp_path: Path) -> None:
    domain, settings = RUNS[name]
    seen = []
    for failing in ((), (0,), (4,), (1, 2)):
        clients, stream = clients_around(5), StringIO()
        for at in failing:
            clients[at] = ht.Client((np.zeros((4, 1)), np.full(4, 7.0)), Broken())
        for again in (None, ht.Simulation(0), ht.Simulation(0)):  # then it is known who failed; in the end all is known
            given = {"home": tmp_path / str(failing), "observer": JsonLines(stream), "simulation": again}
            tune(clients, domain, **given, **settings)
        seen.append([line for line in said(stream) if line[0] != "done"])
    assert {"phase", "advance", "spent", "opened"} <= {kind for kind, _ in seen[0]}
    assert seen == [seen[0]] * 4
