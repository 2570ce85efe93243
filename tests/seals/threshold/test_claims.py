"""One process at a time talks to a sidecar: whoever comes second waits, and is refused if that takes too long."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hushtune.core.errors import RefusedError
from hushtune.core.locks import Claim
from hushtune.seals.threshold import process
from hushtune.seals.threshold.process import Sidecar


def test_a_sidecar_that_another_process_talks_to_is_not_talked_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    for name in ("in", "out"):
        os.mkfifo(tmp_path / name)
    monkeypatch.setattr(process, "_AWAKE", 0.1)
    monkeypatch.setattr(Sidecar, "_send", lambda self, header, parts: sent.append(header["op"]))
    monkeypatch.setattr(Sidecar, "_reply", lambda self, patience: ({}, []))
    first = Sidecar.found(tmp_path)
    assert sent == ["ping"]
    with pytest.raises(RefusedError, match="key share is lost"):
        Sidecar.found(tmp_path)
    assert "ping" not in sent[1:]
    first.close()
    assert sent[-1] == "end"
    assert not tmp_path.exists()


def test_a_claim_ends_with_the_object_that_talks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("in", "out"):
        os.mkfifo(tmp_path / name)
    monkeypatch.setattr(Sidecar, "_send", lambda self, header, parts: None)
    monkeypatch.setattr(Sidecar, "_reply", lambda self, patience: ({}, []))
    first = Sidecar.found(tmp_path)
    with pytest.raises(BlockingIOError):
        Claim(tmp_path / "lock")
    del first
    Claim(tmp_path / "lock").close()
