from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import clients_around

import hushtune as ht
from hushtune.review.verification import STATED

Change = Callable[[dict[str, Any]], Any]


RUNS: dict[str, dict[str, Any]] = {
    "vote": {"method": ht.Vote(2), "privacy": ht.Privacy(2.0), "seal": ht.Clear()},
    "pairs": {"method": ht.Surface(), "seal": ht.Clear(), "search": ht.Search.adaptive(6)},
    "noisy surface": {"method": ht.Surface(), "privacy": ht.Privacy(3.0), "search": ht.Search.adaptive(6)},
}


@cache
def honest(name: str) -> str:
    """A run's result.json, made once for all tests."""
    domain: Any = ht.Space(x=ht.Float(0.0, 1.0)) if name == "pairs" else ht.Space(x=ht.Float(0.0, 1.0)).grid(x=11)
    clients = clients_around(12 if name == "vote" else 3)
    return json.dumps(ht.tune(clients, domain, observer=ht.Silent(), jobs=1, **RUNS[name]).to_json())


def changed(folder: Path, name: str, change: Change) -> Path:
    """A folder with an honest run's result, and something in it changed."""
    raw = json.loads(honest(name))
    change(raw)
    (folder / "result.json").write_text(json.dumps(raw))
    return folder


@pytest.mark.parametrize(("name", "claims"), [("vote", 22), ("pairs", None), ("noisy surface", None)])
def test_an_honest_result_holds(tmp_path: Path, name: str, claims: int | None) -> None:
    checks = ht.verify(changed(tmp_path, name, lambda raw: None), home=tmp_path / "none")
    assert claims in (None, len(checks))
    assert all(check.holds for check in checks)


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
    "less noise in the events": _set("events", 0, "variance", to=1.0),
    "fewer changed coordinates": _set("events", 0, "coordinates", to=1),
    "other scale": _set("noise", "scale", to=99.0),
    "more honest clients": _set("noise", "honest", to=12),
    "no dropouts assumed": _set("seal", "corrupt", to=0.5),
    "other k": _set("method", "k", to=3),
    "other config": lambda raw: raw["config"].update(x=0.0 if raw["config"]["x"] else 1.0),  # whichever noise chose
    "other index": lambda raw: raw.update(index=(raw["index"] + 1) % 11),
    "no index": _set("index", to=None),
    "left out": _set(
        "clients", "left_out", to=[{"client": "client-00", "reason": "no config has a finite loss there"}]
    ),
    "noted": _set("notes", to={"gamma_p": 1.0}),
    "other counts": _set("opened", 0, "blocks", "votes", to=[99, *[0] * 10]),
    "a client's lie beyond the noise": lambda raw: raw["opened"][0]["blocks"].update(
        votes=[v + 500 * (at == 0) - 500 * (at == 1) for at, v in enumerate(raw["opened"][0]["blocks"]["votes"])]
    ),
    "smaller noise variance": _set("opened", 0, "noise_variance", to=1.0),
    "fewer answers": _set("opened", 0, "answered", to=3),
    "hidden disclosure": lambda raw: raw["disclosures"].pop(1),
    "hidden opening": lambda raw: raw["opened"].pop(),
    "no events": _set("events", to=[]),
    "other statement": _set("statement", to="Nothing was revealed."),
    "no statement": _set("statement", to=None),
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
def test_tampering_is_found(tmp_path: Path, name: str) -> None:
    assert not all(check.holds for check in ht.verify(changed(tmp_path, "vote", TAMPERINGS[name])))


def test_an_opening_that_no_clients_can_send_is_found_by_the_check_of_the_run(tmp_path: Path) -> None:
    """Entries that cancel each other leave every other claim about the opening as it was."""
    name = "a client's lie beyond the noise"
    wrong = [check for check in ht.verify(changed(tmp_path, "vote", TAMPERINGS[name])) if not check.holds]
    claims = {check.claim: check.detail for check in wrong}
    assert claims["the opened values are ones that clients can send"].endswith("voters can send")


@pytest.mark.parametrize(
    "change", [_set("method", to=3), _set("events", to="x"), _set("candidates", to=[]), _set("noise", to=None)]
)
def test_damaged_results_give_no_traceback(tmp_path: Path, change: Change) -> None:
    try:
        assert not all(check.holds for check in ht.verify(changed(tmp_path, "vote", change)))
    except ht.SettingError as error:
        assert "\n" not in str(error)


PAIRS: dict[str, Change] = {
    "voters": _set("method", "voters", to=3),
    "more pairs": _set("method", "send", to=9),
    "impossible pairs": _set("opened", 0, "own", "client-00", "found", to=[10**6]),
    "impossible points": _set("opened", 0, "own", "client-00", "points", 0, to=2**60),
    "other losses": _set("opened", 0, "own", "client-00", "losses", to=[2**39] * 6),
    "a sum beside": _set("opened", 0, "blocks", to={"votes": [1]}),
    "a client less": lambda raw: raw["opened"][0]["own"].pop("client-01"),
    "a client renamed": lambda raw: raw["opened"][0]["own"].update(
        {"client-09": raw["opened"][0]["own"].pop("client-01")}
    ),
    "a dropout": _set("clients", "dropped", to=[{"client": "client-07", "reason": "no reply"}]),
    "other notes": _set("notes", "gamma_p", to=1.0),
    "another value to open": _set("method", "opens", to="sum"),
    "another seal": _set("seal", "name", to="masked"),
}


def figures_hold(folder: Path) -> bool:
    """Whether everything holds that the statement alone does not give away."""
    return all(check.holds for check in ht.verify(folder) if check.claim != STATED)


@pytest.mark.parametrize("name", PAIRS)
def test_tampering_with_pairs_is_found(tmp_path: Path, name: str) -> None:
    assert not figures_hold(changed(tmp_path, "pairs", PAIRS[name]))


@pytest.mark.parametrize(
    "change",
    [
        _set("method", "kind", to="mplm"),
        _set("search", to={"seed": 0, "trials": 3, "sampler": "tpe"}),
        _set("method", "send", to=9_999),
    ],
    ids=["maximum", "search", "pairs"],
)
def test_tampering_with_a_noisy_surface_is_found(tmp_path: Path, change: Change) -> None:
    assert not figures_hold(changed(tmp_path, "noisy surface", change))


def test_a_total_with_little_noise_is_held_to_its_reach_and_not_to_deviations() -> None:
    """Seven deviations of noise of variance 0.3 are passed by one honest run in 30,000."""
    from types import SimpleNamespace

    from hushtune.privacy.bounds import KHot
    from hushtune.privacy.limits import FAILURE
    from hushtune.privacy.noise.base import Noise
    from hushtune.review.verification import _totals

    noise, bound = Noise(0.3**0.5 / 2), KHot(1, 4)
    reach, variance = noise.reach(10, 10, 4, FAILURE), noise.opened_variance(10, 10)
    assert 7 * (4 * variance) ** 0.5 < 4 < reach

    def holds(more: int) -> bool:
        opened = SimpleNamespace(answered=10, blocks={"votes": [10 + more, 0, 0, 0]}, noise_variance=variance)
        result = SimpleNamespace(method=ht.Vote(voters=1), noise=noise, honest=10, opened=[opened])
        (check,) = _totals(result, SimpleNamespace(queries=[SimpleNamespace(bound=bound)]))  # type: ignore[arg-type]
        return check.holds

    assert [holds(more) for more in (0, 4, reach, -reach, reach + 1)] == [True, True, True, True, False]
