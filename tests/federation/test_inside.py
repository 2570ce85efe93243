"""What fails inside a client on a machine of its own, and what it keeps to itself."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.federation.harness import Wire

import hushtune as ht

PINNED = pytest.mark.parametrize("pinned", [False, True])


def _kills(config: ht.Config, data: ht.Rows) -> float:
    os._exit(3)


def _raises(config: ht.Config, data: ht.Rows) -> float:
    raise RuntimeError(f"secret {data.y[0]}")


@pytest.mark.parametrize("objective", [_kills, _raises])
def test_an_objective_that_fails_or_kills_its_process_is_not_seen(tmp_path: Path, objective: Any) -> None:
    wire = Wire(tmp_path)
    good, bad = wire.objective, ht.objective(objective)
    client = wire.client
    wire.client = lambda at: setattr(wire, "objective", bad if at == 1 else good) or client(at)  # type: ignore[assignment]
    result = wire.tune()
    assert result.dropped == result.late == {}
    assert {len(seen.answer) for seen in wire.seen if seen.trip == "keys"} == {
        len(next(seen.answer for seen in wire.seen if seen.trip == "keys"))
    }
    assert "secret" not in result.statement


class _Panic(BaseException):
    pass


class _Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def _panics() -> Any:
    raise _Panic


def _mute() -> Any:
    raise _Mute


def _exits() -> Any:
    raise SystemExit(3)


class _NoLength:
    shape = None

    def __len__(self) -> int:
        raise ValueError("no length")


LOADERS: dict[str, Any] = {
    "panics": _panics,
    "mute": _mute,
    "exits": _exits,
    "scalar": lambda: np.array(3.0),
    "no length": _NoLength,
    "nothing": lambda: None,
    "three": lambda: (1, 2, 3),
    "empty": lambda: (np.zeros((0, 1)), np.zeros(0)),
}


@pytest.mark.parametrize("kind", list(LOADERS))
@pytest.mark.parametrize("unit", ["client", "record"])
def test_whatever_data_is_loaded_nobody_sees_the_difference(tmp_path: Path, kind: str, unit: Any) -> None:
    wire = Wire(tmp_path)
    client = wire.client

    def make(at: int) -> ht.Client:
        made = client(at)
        made.data = LOADERS[kind] if at == 3 else made.data
        return made

    wire.client = make  # type: ignore[method-assign]
    method = ht.Vote(k=1, voters=2 if unit == "record" else 1)
    result = wire.tune(method=method, privacy=ht.Privacy(1.0, unit=unit))
    assert result.dropped == result.late == {}
    sizes: dict[str, set[int]] = {}
    for seen in wire.seen:
        sizes.setdefault(seen.trip, set()).add(len(seen.answer))
    assert all(len(found) == 1 for found in sizes.values())


class _Picky:
    """Refuses a space, and a kind of data, as objectives may."""

    def check(self, space: ht.Space) -> None:
        raise ht.SettingError("knob 'x' must be a parameter of the model")

    def losses(self, configs: Any, data: Any, seed: int) -> Any:
        return np.zeros(len(configs))


def test_a_space_that_is_refused_does_not_tell_who_has_data(tmp_path: Path) -> None:
    """Else a server could ask at no cost."""
    wire = Wire(tmp_path, objective=_Picky())
    client = wire.client

    def make(at: int) -> ht.Client:
        made = client(at)
        made.data = _panics if at == 3 else made.data
        return made

    wire.client = make  # type: ignore[method-assign]
    with pytest.raises(ht.AbortedError, match="got 0; .*must be a parameter of the model"):
        wire.tune()


def test_rows_that_cannot_be_split_do_not_tell_who_has_data(tmp_path: Path) -> None:
    wire = Wire(tmp_path)
    client = wire.client

    def make(at: int) -> ht.Client:
        made = client(at)
        made.data = _panics if at == 3 else lambda: [1.0, 2.0, 3.0]
        return made

    wire.client = make  # type: ignore[method-assign]
    privacy = ht.Privacy(1.0, unit="record", neighbours="add-remove")
    assert wire.tune(method=ht.Vote(k=1, voters=2), privacy=privacy).dropped == {}


def test_data_that_cannot_be_loaded_is_not_seen(tmp_path: Path) -> None:
    def unreadable() -> Any:
        raise FileNotFoundError("no such hospital")

    def asked(place: str, **settings: Any) -> ht.Result:
        wire = Wire(tmp_path / place)
        client = wire.client

        def make(at: int) -> ht.Client:
            made = client(at)
            made.data = unreadable if at == 2 else made.data
            return made

        wire.client = make  # type: ignore[method-assign]
        result = wire.tune(**settings)
        log = tmp_path / place / "machine-2" / "clients" / "client-2" / "client.log"
        assert "no such hospital" in log.read_text()
        return result

    assert asked("client", method=ht.Vote(k=1)).dropped == {}
    records = ht.Privacy(1.0, unit="record")
    assert asked("record", method=ht.Vote(k=1, voters=3), privacy=records).dropped == {}
    assert "objective failed" in asked("exact", privacy=None).dropped["node-102"]


@PINNED
def test_secrets_are_in_the_state_only_until_the_run_is_over(tmp_path: Path, pinned: bool) -> None:
    wire = Wire(tmp_path, pinned=pinned)
    states: list[bytes] = []

    def keep(trip: str, node: str, content: bytes, is_answer: bool) -> bytes:
        states.append(wire.states.get(node, b""))
        return content

    wire.tamper = keep
    wire.tune()
    assert any(states)
    assert set(wire.states.values()) == {b""}
    seeds = {json.loads(json.loads(s)["session"])["rounds"][0]["seed"] for s in states if b'"seed' in s}
    assert len(seeds) == 5
    sent = b"".join(seen.letter + seen.answer for seen in wire.seen)
    disk = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    for seed in seeds:
        assert bytes.fromhex(seed) not in sent + disk
        assert seed.encode() not in sent + disk


def test_a_ledger_that_refuses_does_so_before_anything_is_scored(tmp_path: Path) -> None:
    wire = Wire(tmp_path)
    wire.tune()
    wire.objective = ht.objective(_raises)
    with pytest.raises(ht.BudgetError):
        wire.tune()
    for path in (tmp_path / "server" / "coordinator").iterdir():  # the ledger and its anchor
        path.unlink()
    with pytest.raises(ht.AbortedError, match="ledger: its limit would be exceeded"):
        wire.tune()
    assert (
        not list(tmp_path.rglob("machine-1/clients/*/client.log"))
        or "objective failed" not in (tmp_path / "machine-1" / "clients" / "client-1" / "client.log").read_text()
    )
