"""Examples in docs that need Opacus."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.pages import pages_of, run

pytestmark = pytest.mark.dpsgd


def test_the_pages_run_and_publish_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    fitted = {page: run(page) for page in pages_of("dpsgd")}["docs/methods/central.md"]["fitted"]
    assert fitted.spent.epsilon <= 3.0
    assert {path.name for path in (tmp_path / "runs" / "linear").iterdir()} >= {"model.pt", "fitted.json"}
