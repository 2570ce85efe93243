"""The Python that README, docs and examples show, and which tests run it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tools.docs_pages import pages, taken_apart

ROOT = Path(__file__).parent.parent
RUN_BY = {  # all others are run by tests/docs/test_examples.py; these by test_examples_EXTRA.py beside it
    "docs/encryption.md": "mhe",
    "docs/flower.md": "flower",
    "docs/methods/central.md": "dpsgd",
    "docs/objectives.md": "torch",
}


def blocks(page: str) -> list[str]:
    """Its Python, each block at its own line numbers."""
    found, _ = taken_apart((ROOT / page).read_text(encoding="utf-8"))
    return ["\n" * (block.line - 1) + "\n".join(block.lines) for block in found if block.language == "python"]


def pages_of(extra: str) -> list[str]:
    """The pages whose Python needs an extra; "core": those of the core install."""
    return [page for page in pages(ROOT) if blocks(page) and RUN_BY.get(page, "core") == extra]


def run(page: str) -> dict[str, Any]:
    """Runs all Python of a page, in its order; what names stand for afterwards."""
    scope: dict[str, Any] = {"__name__": "example"}
    for code in blocks(page):
        exec(compile(code, page, "exec", dont_inherit=True), scope)
    return scope
