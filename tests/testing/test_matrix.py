"""README and docs/matrix.md say of every method x seal x noise what the conformance suite finds."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.matrix import CELLS, END, PAGE, README, in_readme, line, page, parsed, suite_of, table

from hushtune.testing import Outcome

STALE = "README or docs/matrix.md says otherwise: run make matrix"
STATED = parsed(PAGE.read_text(encoding="utf-8"))


def test_every_cell_is_stated() -> None:
    assert set(STATED) == set(CELLS), STALE
    assert len(CELLS) == 8 * 5 * 3


@pytest.mark.parametrize(
    "key",
    [key for key in CELLS if suite_of(key, STATED.get(key, Outcome("works"))) != "make test-quorum"],
    ids=" ".join,
)
def test_a_cell_turns_out_as_stated(key: tuple[str, str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under seal 'threshold' a cell that works is refused without OpenFHE; `make test-mhe` has it."""
    monkeypatch.setenv("HUSHTUNE_MHE", str(tmp_path / "none"))
    outcome = CELLS[key].check()
    if outcome.state == "missing":
        assert "run `hushtune mhe setup`" in outcome.reason
        assert (key[1], STATED[key].state) == ("threshold", "works"), STALE
    else:
        assert outcome == STATED[key], STALE


def test_both_files_are_what_their_cells_make() -> None:
    assert page(STATED) == PAGE.read_text(encoding="utf-8"), STALE
    text = README.read_text(encoding="utf-8")
    assert in_readme(text, STATED) == text, STALE
    assert parsed(page(STATED)) == STATED


def test_a_changed_outcome_shows_in_both_files() -> None:
    key = ("Vote", "masked", "client")
    changed = {**STATED, key: Outcome("refused", "votes are over, but got a vote")}
    assert line(key, changed[key]) in page(changed)
    assert page(changed) != page(STATED)
    assert "votes are over." in table(changed)
    text = README.read_text(encoding="utf-8")
    assert in_readme(text, changed) != text
    assert in_readme(text, changed).split(END)[1] == text.split(END)[1]
