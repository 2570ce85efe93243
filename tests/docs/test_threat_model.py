"""The threat model names a test for each attack, and the page of seal Quorum one for each rule: it must be there, under
that name."""

from __future__ import annotations

import re

import pytest
from tests.pages import ROOT

NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+)[^`]*)?`")
TABLES = {"threat-model.md": ("## Attacks on 0.1", 4, 60), "quorum.md": ("## Rules, and the tests", 3, 25)}
"""Where a page's tables begin, how many columns they have, and how many rows there are at least."""


@pytest.mark.parametrize("page", TABLES)
def test_every_row_has_its_tests(page: str) -> None:
    begin, columns, least = TABLES[page]
    text = (ROOT / "docs" / page).read_text()
    lines = [line for line in text[text.index(begin) :].splitlines() if line.startswith("| ")]
    rows = [line for line in lines if not line.startswith(("| attack ", "| rule "))]
    assert len(rows) >= least
    for row in rows:
        cells = row.strip("| ").split(" | ")
        assert len(cells) == columns, row
        named = NAMED.findall(cells[-1])
        assert named, row
        for path, name in named:
            source = (ROOT / path).read_text()
            assert not name or f"def {name}(" in source, f"{path}::{name}"
