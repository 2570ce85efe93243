from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hushtune as ht

Change = Callable[[dict[str, Any]], Any]


@pytest.fixture
def folder(make_clients: Callable[..., list[ht.Client]], candidates: ht.Candidates, tmp_path: Path) -> Path:
    return (
        ht.tune(
            make_clients(12),
            candidates,
            method=ht.Vote(2),
            privacy=ht.Privacy(2.0),
            seal=ht.Clear(),
            quiet=True,
            jobs=1,
        )
        .save(tmp_path / "run")
        .parent
    )


def test_an_honest_result_holds(folder: Path) -> None:
    checks = ht.verify(folder)
    assert len(checks) == 14
    assert all(check.holds for check in checks)


def test_a_run_without_epsilon_holds(
    make_clients: Callable[..., list[ht.Client]], candidates: ht.Candidates, tmp_path: Path
) -> None:
    ht.tune(make_clients(3), candidates, method=ht.Vote(2, decode="smooth"), quiet=True, jobs=1).save(tmp_path)
    assert all(check.holds for check in ht.verify(tmp_path))


def _set(*path: Any, to: Any) -> Change:
    def change(raw: dict[str, Any]) -> None:
        for key in path[:-1]:
            raw = raw[key]
        raw[path[-1]] = to

    return change


TAMPERINGS: dict[str, Change] = {
    "smaller epsilon": _set("spent", "epsilon", to=0.5),
    "smaller delta": _set("spent", "delta", to=1e-9),
    "more was asked for": _set("privacy", "epsilon", to=1.0),
    "other relation": _set("privacy", "neighbours", to="zero-out"),
    "less noise in the plan": _set("plan", 0, "variance", to=1.0),
    "fewer changed coordinates": _set("plan", 0, "coordinates", to=1),
    "other scale": _set("noise", "scale", to=99.0),
    "more honest clients": _set("noise", "honest", to=12),
    "no dropouts assumed": _set("seal", "corrupt", to=0.5),
    "other k": _set("method", "k", to=3),
    "other config": _set("config", to={"x": 1.0}),
    "other index": lambda raw: raw.update(index=(raw["index"] + 1) % 11),
    "no index": _set("index", to=None),
    "left out": _set("clients", "left_out", to=[{"client": "client-0", "reason": "no config has a finite loss there"}]),
    "noted": _set("notes", to={"gamma_p": 1.0}),
    "other counts": _set("opened", 0, "blocks", "votes", to=[99, *[0] * 10]),
    "smaller noise variance": _set("opened", 0, "noise_variance", to=1.0),
    "fewer answers": _set("opened", 0, "answered", to=3),
    "hidden disclosure": lambda raw: raw["disclosures"].pop(1),
    "hidden opening": lambda raw: raw["opened"].pop(),
    "no events": _set("plan", to=[]),
    "other statement": _set("statement", to="Nothing was revealed."),
    "ballots not disclosed": lambda raw: raw["disclosures"].pop(0),
    "disclosure without its cost": _set("disclosures", 1, "epsilon", to=0.0),
    "passes for a simulation": _set("simulation", to={"seed": 1, "figures": None}),
    "no ledger": _set("ledger", to=None),
    "invented dropouts": _set("clients", "dropped", to=[{"client": "x", "reason": "y"}]),
    "more answers than clients": _set("opened", 0, "answered", to=2000),
    "protects records": _set("privacy", "unit", to="record"),
    "one count too many": lambda raw: raw["opened"][0]["blocks"]["votes"].append(0),
    "float counts": lambda raw: raw["opened"][0]["blocks"]["votes"].__setitem__(0, 0.5),
    "renamed block": lambda raw: raw["opened"][0].__setitem__("blocks", {"x": [1]}),
    "negative index": _set("index", to=-1),
}


@pytest.mark.parametrize("name", TAMPERINGS)
def test_tampering_is_found(folder: Path, name: str) -> None:
    path = folder / "result.json"
    raw = json.loads(path.read_text())
    TAMPERINGS[name](raw)
    path.write_text(json.dumps(raw))
    assert not all(check.holds for check in ht.verify(folder))


@pytest.mark.parametrize(
    "change", [_set("method", to=3), _set("plan", to="x"), _set("candidates", to=[]), _set("noise", to=None)]
)
def test_damaged_results_give_no_traceback(folder: Path, change: Change) -> None:
    path = folder / "result.json"
    raw = json.loads(path.read_text())
    change(raw)
    path.write_text(json.dumps(raw))
    try:
        assert not all(check.holds for check in ht.verify(folder))
    except ht.SettingError as error:
        assert "\n" not in str(error)
