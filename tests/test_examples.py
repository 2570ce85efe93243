"""Every Python example in README and docs runs, in order, in an empty folder; every study in examples/ is valid."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import hushtune as ht
from hushtune.study import read

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
CODE = re.compile(r"```python\n(.*?)```", re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)\)")


@pytest.mark.parametrize("page", [p for p in PAGES if CODE.search(p.read_text())], ids=lambda p: p.name)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {"__name__": "example", "ht": ht}
    for code in CODE.findall(page.read_text()):
        if "import torch" in code or page.name in ("flower.md", "encryption.md"):
            continue  # tests/{torch,flower,openfhe}/test_examples.py run it
        exec(compile(code, str(page), "exec", dont_inherit=True), scope)
    if page.name == "README.md":
        assert all(check.holds for check in ht.verify(tmp_path / "runs" / "first"))
        assert scope["result"].spent.epsilon <= 1.0


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("study", sorted((ROOT / "examples").glob("*.toml")), ids=lambda p: p.name)
def test_example_studies_are_valid(study: Path) -> None:
    assert len(read(study).clients) > 0
