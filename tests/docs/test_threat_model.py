"""The threat model names a test for each attack: it must be there, under that name."""

from __future__ import annotations

import re

from tests.pages import ROOT

PAGE = (ROOT / "docs" / "threat-model.md").read_text()
TABLES = PAGE[PAGE.index("## Attacks on 0.1") :]
ROWS = [line for line in TABLES.splitlines() if line.startswith("| ") and not line.startswith("| attack ")]
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+)[^`]*)?`")


def test_every_attack_has_its_tests() -> None:
    assert len(ROWS) > 50
    for row in ROWS:
        cells = row.strip("| ").split(" | ")
        assert len(cells) == 4, row
        named = NAMED.findall(cells[3])
        assert named, row
        for path, name in named:
            text = (ROOT / path).read_text()
            assert not name or f"def {name}(" in text, f"{path}::{name}"
