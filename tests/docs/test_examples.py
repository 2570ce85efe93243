"""Every Python example in README, docs and examples runs, in order, in an empty folder; every study is valid."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.pages import ROOT, RUN_BY, blocks, pages_of, run
from tools.docs_pages import pages

import hushtune as ht
from hushtune.cli.studyfile import read, read_comparison

LINK = re.compile(r"\]\((?!https?:)([^)#]+)(#[^)]*)?\)")


@pytest.mark.parametrize("page", pages_of("core"))
def test_examples_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0})  # the other core has tests of its own
    scope = run(page)
    if page == "README.md":
        assert all(check.holds for check in ht.verify(tmp_path / "runs" / "first"))
        assert scope["result"].spent.epsilon <= 1.0


@pytest.mark.parametrize(("page", "extra"), RUN_BY.items())
def test_pages_that_need_an_extra_are_run_by_its_tests(page: str, extra: str) -> None:
    assert blocks(page)
    assert f'pages_of("{extra}")' in (ROOT / "tests" / "docs" / f"test_examples_{extra}.py").read_text()
    assert f"make test-{extra}" in (ROOT / ".ci" / "run").read_text()


def test_every_documented_command_is_run_or_covered() -> None:
    """That they work is for `make docs-check`: here only that it knows what to do with each of them."""
    command = [sys.executable, str(ROOT / "tools" / "docs_check.py"), "--list", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {"make demo", "hushtune verify runs/first"} <= {row["shown"] for row in json.loads(done.stdout)["rows"]}


@pytest.mark.parametrize("page", pages(ROOT))
def test_links_lead_somewhere(page: str) -> None:
    for target, anchor in LINK.findall((ROOT / page).read_text()):
        path = (ROOT / page).parent / target
        assert path.exists(), target
        if anchor:
            assert anchor[1:] in anchors(path), f"{target}{anchor}"


def anchors(page: Path) -> set[str]:
    """What GitHub makes of the headings."""
    headings = re.findall(r"^#+ +(.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("study", sorted((ROOT / "examples").glob("*.toml")), ids=lambda p: p.name)
def test_example_studies_are_valid(study: Path) -> None:
    take = read_comparison if "[compare]" in study.read_text() else read
    assert len(take(study).clients) > 0
