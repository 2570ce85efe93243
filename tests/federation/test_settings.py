"""What an engine's own configuration says: strict, because a wrong word there may cost privacy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hushtune as ht
from hushtune.core.identity import Identity
from hushtune.federation.settings import NodeSettings, RunSettings, own_settings, run_settings

APP: dict[str, Any] = dict.fromkeys(("policy", "roster", "identity", "home", "jobs"))


def node(config: dict[str, Any], **app: Any) -> NodeSettings:
    return NodeSettings(config, **{**APP, **app})


# ---- a client's operator -----------------------------------------------------------------------------


def test_the_operator_goes_before_the_app(tmp_path: Path) -> None:
    config = {"hushtune-home": str(tmp_path / "own"), "hushtune-jobs": 3, "hushtune-name": "north", "other": 1}
    found = node(config, home=tmp_path / "app", jobs=7)
    assert (found.home, found.jobs, found.name) == (tmp_path / "own", 3, "north")
    plain = node({"partition-id": 4}, home=tmp_path / "app", jobs=7)
    assert (plain.home, plain.jobs, plain.name, plain.policy) == (tmp_path / "app", 7, "client-4", None)


def test_files_that_are_named_are_read(tmp_path: Path) -> None:
    identity = Identity.new()
    identity.save(tmp_path / "a.key")
    roster = ht.Roster(("a", "b"), (identity.public, Identity.new().public), bytes(32))
    roster.save(tmp_path / "roster.json")
    config = {"hushtune-roster": str(tmp_path / "roster.json"), "hushtune-identity": str(tmp_path / "a.key")}
    found = node(config)
    assert (found.name, found.roster, found.identity) == ("a", roster, identity)
    with pytest.raises(ht.SettingError, match="hushtune-name must be 'a', as in the roster, but got 'b'"):
        node({**config, "hushtune-name": "b"})
    with pytest.raises(ht.SettingError, match="a pinned roster needs an identity"):
        node({"hushtune-roster": str(tmp_path / "roster.json")})
    with pytest.raises(ht.SettingError, match="the roster must hold this client's identity, but it does not"):
        node({"hushtune-roster": str(tmp_path / "roster.json")}, identity=Identity.new())


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "a client needs a name: set hushtune-name or partition-id"),
        ({"partition-id": "4"}, "partition-id"),
        ({"partition-id": -1}, "partition-id"),
        ({"hushtune-name": "../x"}, "name"),
        ({"partition-id": 0, "hushtune-jobs": 0}, "hushtune-jobs"),
        ({"partition-id": 0, "hushtune-home": 3}, "hushtune-home must be a str, but got 3"),
        ({"partition-id": 0, "hushtune-polcy": "x"}, r"hushtune knows the settings .*, but got \['hushtune-polcy'\]"),
        ({"partition-id": 0, "hushtune-policy": "no/such/file"}, "no/such/file"),
    ],
)
def test_a_wrong_word_is_refused_and_not_left_out(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ht.SettingError, match=message):
        node(config)


# ---- a run -------------------------------------------------------------------------------------------


def test_a_run_says_what_it_guarantees_or_that_it_guarantees_nothing() -> None:
    message = 'must set hushtune-epsilon: a number, or "none" to open exact values'
    for config in ({}, {"hushtune-epsilon": ""}, {"epsilon": 3.0}):
        with pytest.raises(ht.SettingError, match=message):
            run_settings(config)
    assert run_settings({"hushtune-epsilon": "none", "hushtune-delta": 1e-6}) == RunSettings({}, {})
    assert run_settings({"hushtune-epsilon": 3.0}).tune == {"privacy": ht.Privacy(3.0)}


def test_all_that_a_run_can_say() -> None:
    found = run_settings(
        {
            "hushtune-epsilon": 2.0,
            "hushtune-delta": 1e-6,
            "hushtune-unit": "record",
            "hushtune-neighbours": "add-remove",
            "hushtune-seal": "clear",
            "hushtune-dropouts": 0.2,
            "hushtune-folder": "runs/a",
            "hushtune-timeout": 60,
            "hushtune-nodes": 5,
            "hushtune-home": "",
            "num-server-rounds": 3,
        }
    )
    assert found.tune == {
        "privacy": ht.Privacy(2.0, 1e-6, "record", "add-remove"),
        "seal": ht.Clear(dropouts=0.2),
        "folder": "runs/a",
    }
    assert found.federation == {"timeout": 60, "nodes": 5}


def test_a_share_alone_is_one_of_the_default_seal() -> None:
    assert run_settings({"hushtune-epsilon": 2.0, "hushtune-dropouts": 0.2}).tune["seal"] == ht.Masked(dropouts=0.2)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"hushtune-epsilon": "3"}, "epsilon='3'"),
        ({"hushtune-epsilon": "None"}, "epsilon='None'"),
        ({"hushtune-epsilon": 0}, "epsilon=0"),
        ({"hushtune-epsilon": 1.0, "hushtune-seal": "open"}, "seal must be one of"),
        ({"hushtune-epsilon": 1.0, "hushtune-epsilon2": 1.0}, r"but got \['hushtune-epsilon2'\]"),
    ],
)
def test_a_guarantee_is_never_guessed(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ht.SettingError, match=message):
        run_settings(config)


def test_entries_of_others_are_left_alone() -> None:
    assert own_settings({"hushtune-home": "x", "home": "y", "x-hushtune-home": "z"}, ("home",)) == {"home": "x"}
