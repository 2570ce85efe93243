"""Runs that were interrupted are taken up again, and no two share a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.conftest import Make, tune
from tests.observed import Observed

import hushtune as ht
from hushtune.federation.local import LocalFederation


def test_an_interrupted_run_is_resumed_not_repeated(
    make_clients: Make, candidates: ht.Candidates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients, folder = make_clients(5), tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(ht.Result, "save", lambda *a: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            tune(clients, candidates, folder=folder)
    opened = json.loads((folder / "run.json").read_text())["opened"][0]["opened"]["blocks"]
    with monkeypatch.context() as patch:
        patch.setattr(LocalFederation, "exchange", None)  # nobody is asked again
        result = tune(clients, candidates, folder=folder)
    assert result.opened[0].blocks == opened
    with pytest.raises(ht.SettingError, match="holds a finished run"):
        tune(clients, candidates, folder=folder)


def test_scoring_survives_an_interruption(make_clients: Make, candidates: ht.Candidates, tmp_path: Path) -> None:
    calls = Observed()

    class Slow:
        def fingerprint(self) -> str:
            return "slow"

        def losses(self, configs: list[ht.Config], data: Any, seed: int) -> np.ndarray:
            if len(calls) == 2:
                calls.append("interrupted")
                raise KeyboardInterrupt
            calls.append("scored")
            return np.zeros(len(configs))

    clients = [ht.Client((np.zeros((1, 1)), np.array([i])), Slow()) for i in range(8)]
    folder = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        tune(clients, candidates, folder=folder)
    tune(clients, candidates, folder=folder)
    assert calls.count("scored") == 8


def test_other_settings_do_not_resume(make_clients: Make, candidates: ht.Candidates, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    tune(make_clients(3), candidates, folder=folder)
    (folder / "result.json").unlink()
    with pytest.raises(ht.SettingError, match="with other settings"):
        tune(make_clients(3), candidates, folder=folder, method=ht.Vote(2))
    (folder / "run.json").write_text("{")
    with pytest.raises(ht.SettingError, match="damaged"):
        tune(make_clients(3), candidates, folder=folder)


def test_a_refused_run_leaves_its_folder_free(make_clients: Make, candidates: ht.Candidates, tmp_path: Path) -> None:
    clients = make_clients(3)
    tune(clients, candidates)
    with pytest.raises(ht.BudgetError):
        tune(clients, candidates, folder=tmp_path / "second")
    assert not (tmp_path / "second").exists()


def test_two_processes_cannot_run_in_one_folder(make_clients: Make, candidates: ht.Candidates, tmp_path: Path) -> None:
    from hushtune.run.folder import RunFolder

    first, second = (RunFolder(tmp_path / "run", {"same": 1}, None) for _ in range(2))
    first.begin()
    with pytest.raises(ht.SettingError, match="another process is running"):
        second.begin()
    del first
    with pytest.raises(ht.SettingError, match="another process began a run"):
        second.begin()


def test_what_another_process_opened_meanwhile_is_not_forgotten(tmp_path: Path) -> None:
    """A run that was read before its folder was claimed goes on from what is there then."""
    from hushtune.run.folder import RunFolder, records
    from hushtune.run.result import Opened

    def found() -> RunFolder:
        return RunFolder(tmp_path / "run", {"same": 1}, None)

    first = found()
    first.begin()
    first.first_round()
    del first
    other, late = found(), found()
    other.begin()
    assert other.first_round() == 1_000_000
    other.keep(Opened("vote", {"votes": [1]}, 1, 0.0), {}, {})
    del other
    late.begin()
    assert late.opening(0) is not None
    assert late.first_round() == 2_000_000
    left = records(tmp_path / "run")
    assert left is not None
    assert len(left.opened) == 1
    del late
    last = found()
    (tmp_path / "run" / "result.json").write_text("{}")
    with pytest.raises(ht.SettingError, match="holds a finished run"):
        last.begin()
