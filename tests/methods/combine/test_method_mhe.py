"""PF-Mean and PF-DBSCAN through `tune`: the same method under encryption as in the clear, and less is opened."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.conftest import tune as _tune
from tests.federation.harness import Wire
from tests.methods.combine.test_method import Nothing, clients

import hushtune as ht
from hushtune.core.errors import AbortedError
from hushtune.methods.combine.tallies import CellCounts, ConfigSums

pytestmark = pytest.mark.mhe

GRID = ht.Space(x=ht.Float(1e-3, 1.0, log=True), kind=ht.Choice(["a", "b"])).grid(x=13)


def tune(parties: list[ht.Client], **changes: Any) -> ht.Result:
    return _tune(parties, GRID, **{"privacy": None, "seal": ht.Threshold(), **changes})


@pytest.mark.parametrize("strategy", ["mean", "dbscan"])
def test_it_finds_what_clear_sums_find_and_opens_less(strategy: Any, tmp_path: Path) -> None:
    method = ht.Combine(strategy)
    result = tune(clients(4), method=method, folder=tmp_path / "run")
    clear = tune(clients(4), method=ht.Combine(strategy, opens="sums"), seal=ht.Clear())
    assert result.config["kind"] == clear.config["kind"]
    assert np.log10(result.config["x"]) == pytest.approx(np.log10(clear.config["x"]), abs=0.02)
    whats = [d.what for d in result.disclosures[:-1]]
    means = f"of the summed {ConfigSums.meaning}: the sums divided by the counts"
    dense = f"of the summed {CellCounts.meaning}: which of the counts are at least 4"
    assert whats == ([means] if strategy == "mean" else [dense, means])
    assert all(opened.smudging is not None and opened.smudging >= 20 for opened in result.opened)
    assert "together with up to 3 of the 4 clients" in result.statement
    assert "TRUSTED: the server, to follow the protocol" in result.statement
    assert all(check.holds for check in ht.verify(tmp_path / "run"))
    loaded = ht.Result.load(tmp_path / "run")
    assert loaded.to_json() == result.to_json()


def test_what_was_opened_cannot_be_edited_unseen(tmp_path: Path) -> None:
    tune(clients(3), method=ht.Combine("dbscan"), folder=tmp_path)
    path = tmp_path / "result.json"
    whole = path.read_text()

    def edited(change: Any) -> bool:
        raw = json.loads(whole)
        change(raw)
        path.write_text(json.dumps(raw))
        return not all(check.holds for check in ht.verify(tmp_path))

    assert not edited(lambda raw: None)
    assert edited(lambda raw: raw["opened"][0].update(smudging=60.0))
    assert edited(lambda raw: raw["opened"][0]["form"].update(at_least=2))
    assert edited(lambda raw: raw["opened"][0].update(form=None))
    assert edited(lambda raw: raw["opened"][0]["blocks"]["counts"].__setitem__(0, 2))
    with pytest.raises(ht.SettingError, match="seal 'masked' has no field 'ring'"):
        edited(lambda raw: raw["seal"].update(name="masked"))


def test_a_vote_with_epsilon_is_a_noisy_sum_here_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = tune(clients(3), method=ht.Vote(k=2), privacy=ht.Privacy(5.0, 1e-5), folder=tmp_path / "run")
    assert result.opened[0].form is None
    assert result.opened[0].noise_variance > 0
    assert result.spent.epsilon <= 5
    assert all(check.holds for check in ht.verify(tmp_path / "run"))
    monkeypatch.setenv("HUSHTUNE_HOME", str(tmp_path / "another"))
    noisy = tune(clients(3), method=ht.Combine("dbscan"), privacy=ht.Privacy(9.0, 1e-5), folder=tmp_path / "two")
    assert [opened.form for opened in noisy.opened] == [None, None]
    assert all(check.holds for check in ht.verify(tmp_path / "two"))


def test_a_client_that_cannot_contribute_stops_the_run_with_its_reason() -> None:
    with pytest.raises(AbortedError, match="lost client-02 in trip 'input': refused: no config has a finite loss here"):
        tune(clients(2, Nothing()), method=ht.Combine())


@pytest.mark.parametrize("pinned", [False, True])
def test_a_process_for_every_message_finds_the_key_share_again(tmp_path: Path, pinned: bool) -> None:
    wire = Wire(tmp_path, clients=3, pinned=pinned)
    settings: dict[str, Any] = {"method": ht.Combine("dbscan"), "privacy": None, "seal": ht.Threshold()}
    result = wire.tune(**settings)
    local = wire.tune(method=ht.Combine("dbscan", opens="sums"), privacy=None, seal=ht.Clear())
    assert result.config["x"] == pytest.approx(local.config["x"], abs=0.01)
    assert not any(wire.states.values())  # nothing is left, not even where a sidecar was
    assert len({seen.trip for seen in wire.seen}) >= 5


def test_a_machine_that_restarts_has_lost_its_share(tmp_path: Path) -> None:
    def restart(trip: str, node: str) -> str | None:
        if trip == "decrypt" and node == wire.nodes[1]:
            (pipes,) = tmp_path.glob("machine-1/clients/*/threshold/*/*")
            os.kill(_reader_of(pipes / "in"), signal.SIGKILL)
        return None

    wire = Wire(tmp_path, clients=3, fail=restart)
    with pytest.raises(AbortedError, match="key share is lost.*nothing was opened"):
        wire.tune(method=ht.Combine("mean"), privacy=None, seal=ht.Threshold())


def _reader_of(pipe: Path) -> int:
    """The process that has a named pipe as its standard input."""
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.readlink(entry / "fd" / "0") == str(pipe):
                return int(entry.name)
        except OSError:
            continue
    raise AssertionError("nobody reads it")
