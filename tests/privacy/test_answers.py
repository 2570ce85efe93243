from __future__ import annotations

from pathlib import Path

import pytest

import hushtune as ht
from hushtune.privacy.answers import Answers


def test_one_answer_per_step(tmp_path: Path) -> None:
    answers = Answers(tmp_path / "answers.db")
    assert answers.earlier("r", 0, b"request") is None
    answers.begin("r", 0, b"request")
    with pytest.raises(ht.RefusedError, match="being answered already"):
        answers.begin("r", 0, b"request")
    with pytest.raises(ht.RefusedError, match="state is lost"):
        answers.earlier("r", 0, b"request")
    answers.finish("r", 0, b"reply")
    assert Answers(tmp_path / "answers.db").earlier("r", 0, b"request") == b"reply"
    with pytest.raises(ht.RefusedError, match="for another request"):
        answers.earlier("r", 0, b"other")
    assert answers.earlier("r", 1, b"request") is None


def test_a_damaged_record_is_refused(tmp_path: Path) -> None:
    (tmp_path / "answers.db").write_bytes(b"x" * 5000)
    with pytest.raises(ht.LedgerError, match="damaged"):
        Answers(tmp_path / "answers.db").earlier("r", 0, b"request")
