from __future__ import annotations

import pytest

from experiments.speed import surfaces


def test_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surfaces, "_WORK", 0.001)
    monkeypatch.setattr(surfaces, "_POINTS", 64)
    monkeypatch.setattr(surfaces, "default_jobs", lambda: 1)
    built, search = surfaces.rows(2, 4)
    assert (built["clients"], built["trials"], built["minimisers"]) == (2, 4, 4)
    assert search["seconds"] > 0
