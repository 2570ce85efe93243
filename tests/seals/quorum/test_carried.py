"""What a coordinator keeps, so that a run that is taken up again asks no client twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from hushtune.core.errors import CacheError
from hushtune.seals.quorum.carried import Carried
from hushtune.seals.quorum.envelopes import NodeKey, Submission, submitted

KEYS = [NodeKey(bytes([at]) * 96).public for at in (1, 2, 3)]


def submission() -> Submission:
    return submitted([b"one", b"two", b"three"], KEYS, b"about")


def test_submissions_and_places_survive(tmp_path: Path) -> None:
    first, sent = Carried(tmp_path), {"a": submission(), "b": submission()}
    assert first.begin(0, 1) == 1
    assert first.found(0, 3) == ({}, {})
    first.keep(0, sent, {"c": "away"})
    assert first.begin(1, 57) == 57
    again = Carried(tmp_path)
    assert again.found(0, 3) == (sent, {"c": "away"})
    assert (again.begin(0, 9), again.begin(1, 1), again.begin(2, 80)) == (1, 57, 80)
    assert (tmp_path / "submissions-0").stat().st_mode & 0o077 == 0


def test_what_is_over_is_removed(tmp_path: Path) -> None:
    carried = Carried(tmp_path)
    carried.begin(0, 1)
    carried.keep(0, {"a": submission()}, {})
    carried.forget()
    assert list(tmp_path.iterdir()) == []


def test_without_a_folder_nothing_is_kept() -> None:
    carried = Carried(None)
    assert carried.begin(0, 1) == 1
    carried.keep(0, {"a": submission()}, {})
    assert carried.found(0, 3) == ({}, {})
    carried.forget()


@pytest.mark.parametrize("content", [b"", b"H\x01", b"garbage", b"H\x01\x00\x00\x00\x02{}"])
def test_damaged_records_are_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "submissions-0").write_bytes(content)
    with pytest.raises(CacheError, match="damaged"):
        Carried(tmp_path).found(0, 3)
    (tmp_path / "quorum.json").write_bytes(content)
    with pytest.raises(CacheError, match="damaged"):
        Carried(tmp_path)
