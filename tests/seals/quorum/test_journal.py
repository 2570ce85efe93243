"""A journal gives back what was complete, whatever a crash has left of the rest."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from hushtune.seals.quorum.journal import Journal

MESSAGES = [b"one", b"", b"a longer message", bytes(range(20))]


def written(path: Path) -> bytes:
    journal = Journal(path)
    for message in MESSAGES:
        journal.add(message)
    assert list(journal.read()) == MESSAGES
    return path.read_bytes()


def test_what_was_written_is_read_by_another_process(tmp_path: Path) -> None:
    written(tmp_path / "journal")
    assert list(Journal(tmp_path / "journal").read()) == MESSAGES


def test_cut_off_at_every_byte_what_was_complete_is_read_and_the_rest_is_cut(tmp_path: Path) -> None:
    content = written(tmp_path / "whole")
    ends = [0]
    for message in MESSAGES:
        ends.append(ends[-1] + 8 + len(message))
    assert ends[-1] == len(content)
    path = tmp_path / "journal"
    for size in range(len(content) + 1):
        path.write_bytes(content[:size])
        whole = sum(end <= size for end in ends) - 1
        assert list(Journal(path).read()) == MESSAGES[:whole]
        assert path.stat().st_size == ends[whole]
        Journal(path).add(b"next")
        assert list(Journal(path).read()) == [*MESSAGES[:whole], b"next"]


@pytest.mark.skipif(os.name != "posix", reason="modes")
def test_the_file_is_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        written(tmp_path / "new")
        (tmp_path / "old").touch(mode=0o666)
        Journal(tmp_path / "old")
    finally:
        os.umask(before)
    for name in ("new", "old"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
