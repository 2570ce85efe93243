"""The examples that need OpenFHE run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from hushtune.study import read

ROOT = Path(__file__).parent.parent.parent


def test_the_page_about_encryption_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {"__name__": "example"}
    for code in re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "encryption.md").read_text(), re.DOTALL):
        exec(compile(code, "encryption.md", "exec"), scope)
    assert [opened.form["block"] for opened in scope["result"].opened] == ["counts", "sums"]


def test_the_study_is_of_this_seal() -> None:
    assert read(ROOT / "examples" / "encrypted.toml").seal.name == "threshold"
