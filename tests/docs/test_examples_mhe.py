"""The examples that need OpenFHE run."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.pages import ROOT, pages_of, run

from hushtune.study import read


def test_the_pages_run_and_open_averages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scope = {page: run(page) for page in pages_of("openfhe")}["docs/encryption.md"]
    assert [opened.form["block"] for opened in scope["result"].opened] == ["counts", "sums"]


def test_the_study_is_of_this_seal() -> None:
    assert read(ROOT / "examples" / "encrypted.toml").seal.name == "threshold"
