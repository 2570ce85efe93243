"""A docstring says something: where the name says it all, a few words to please a linter say no more."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FEWEST = 4  # words
FILES = [path for folder in ("src", "experiments") for path in sorted((ROOT / folder).rglob("*.py"))]


def short(content: str) -> Iterator[str]:
    """Which docstrings have fewer words."""
    for node in ast.walk(ast.parse(content)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text is not None and len(text.split()) < FEWEST:
                yield f"{getattr(node, 'name', 'the module')}: {text}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_docstring_is_filler(path: Path) -> None:
    assert list(short(path.read_text())) == []


def test_filler_is_found() -> None:
    content = '"""Good enough for all."""\nclass A:\n    """Values."""\n    def b(self):\n        """Of each."""\n'
    assert list(short(content)) == ["A: Values.", "b: Of each."]
