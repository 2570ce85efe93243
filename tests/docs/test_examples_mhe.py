"""The examples that need OpenFHE run."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.pages import ROOT, pages_of, run

from hushtune.cli.studyfile import read

pytestmark = pytest.mark.mhe


def test_the_pages_run_and_open_averages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scope = {page: run(page) for page in pages_of("mhe")}["docs/encryption.md"]
    assert [opened.form["block"] for opened in scope["result"].opened] == ["counts", "sums"]


def test_the_study_is_of_this_seal() -> None:
    seal = read(ROOT / "examples" / "encrypted.toml").study.seal
    assert seal is not None
    assert seal.name == "threshold"
