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
    assert len(checks) == 18
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


PAIRS: dict[str, Change] = {
    "voters": _set("method", "voters", to=3),
    "more pairs": _set("method", "send", to=9),
    "impossible pairs": _set("opened", 0, "own", "client-0", "found", to=[10**6]),
    "impossible points": _set("opened", 0, "own", "client-0", "points", 0, to=2**60),
    "other losses": _set("opened", 0, "own", "client-0", "losses", to=[2**39] * 6),
    "a sum beside": _set("opened", 0, "blocks", to={"votes": [1]}),
    "a client less": lambda raw: raw["opened"][0]["own"].pop("client-1"),
    "a client renamed": lambda raw: raw["opened"][0]["own"].update(
        {"client-9": raw["opened"][0]["own"].pop("client-1")}
    ),
    "a dropout": _set("clients", "dropped", to=[{"client": "client-7", "reason": "no reply"}]),
    "other notes": _set("notes", "gamma_p", to=1.0),
    "another form": _set("method", "form", to="sum"),
    "another seal": _set("seal", "name", to="masked"),
}


@pytest.mark.parametrize("name", PAIRS)
def test_tampering_with_pairs_is_found(
    make_clients: Callable[..., list[ht.Client]], candidates: ht.Candidates, tmp_path: Path, name: str
) -> None:
    settings: dict[str, Any] = {"seal": ht.Clear(), "search": ht.Search.adaptive(6), "quiet": True, "jobs": 1}
    ht.tune(make_clients(3), candidates.space, method=ht.Surface(), folder=tmp_path, **settings)
    assert all(check.holds for check in ht.verify(tmp_path))
    raw = json.loads((tmp_path / "result.json").read_text())
    PAIRS[name](raw)
    raw["statement"] = None
    (tmp_path / "result.json").write_text(json.dumps(raw))
    checks = ht.verify(tmp_path)
    assert not all(check.holds for check in checks), name


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("maximum", _set("method", "kind", to="mplm")),
        ("search", _set("search", to={"seed": 0, "trials": 3, "sampler": "tpe"})),
        ("pairs", _set("method", "send", to=9_999)),
    ],
)
def test_tampering_with_a_noisy_surface_is_found(
    make_clients: Callable[..., list[ht.Client]], candidates: ht.Candidates, tmp_path: Path, name: str, change: Change
) -> None:
    settings: dict[str, Any] = {"privacy": ht.Privacy(3.0), "search": ht.Search.adaptive(6), "quiet": True, "jobs": 1}
    ht.tune(make_clients(3), candidates, method=ht.Surface(), folder=tmp_path, **settings)
    raw = json.loads((tmp_path / "result.json").read_text())
    change(raw)
    raw["statement"] = None
    (tmp_path / "result.json").write_text(json.dumps(raw))
    assert not all(check.holds for check in ht.verify(tmp_path))
