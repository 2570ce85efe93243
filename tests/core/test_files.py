from __future__ import annotations

import os
import sqlite3
import stat
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hushtune as ht
from hushtune.core import files
from hushtune.core.errors import CacheError
from hushtune.core.files import append, archive, create_once, make_folder, make_private, own, replace, unarchive


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_made_once_and_folders_above_it_too(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file"
    assert create_once(path, lambda draft: draft.write_text("first") and None)
    assert not create_once(path, lambda draft: draft.write_text("second") and None)
    assert path.read_text() == "first"
    assert names(path.parent) == ["file"]


def test_a_name_never_stands_for_a_half_written_file(tmp_path: Path) -> None:
    path = tmp_path / "file"

    def fails(draft: Path) -> None:
        draft.write_text("half")
        Path(f"{draft}-wal").write_text("of a database")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        create_once(path, fails)
    assert names(tmp_path) == []


def test_of_many_that_make_a_file_at_once_one_does(tmp_path: Path) -> None:
    path, together, made = tmp_path / "file", threading.Barrier(8), []

    def one(number: int) -> None:
        def write(draft: Path) -> None:
            draft.write_text(str(number))
            together.wait()

        made.append((create_once(path, write), number))

    threads = [threading.Thread(target=one, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    winners = [number for first, number in made if first]
    assert [path.read_text()] == [str(number) for number in winners]
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("content", ["täxt", b"\x00\xff", ""])
def test_a_file_is_replaced_by_text_or_bytes(tmp_path: Path, content: str | bytes) -> None:
    path = tmp_path / "new" / "file"
    replace(path, "old")
    replace(path, content)
    assert path.read_bytes() == (content.encode() if isinstance(content, str) else content)
    assert names(path.parent) == ["file"]


def test_the_old_content_stays_until_the_new_one_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    replace(path, "old")

    def full(path: Path) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(files, "_sync", full)
    with pytest.raises(OSError, match="disk full"):
        replace(path, "new")
    assert path.read_text() == "old"
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("make", [lambda path: replace(path, "x"), lambda path: create_once(path, Path.touch)])
def test_an_error_names_the_file_and_not_its_draft(make: Any) -> None:
    with pytest.raises(OSError, match="/proc/") as caught:  # where nobody can make a file
        make(Path("/proc/file"))
    assert (caught.value.filename, caught.value.filename2) == ("/proc/file", None)


def test_an_error_of_the_last_step_names_the_file_alone(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder") as caught:
        replace(tmp_path / "folder", "x")
    assert (caught.value.filename, caught.value.filename2) == (str(tmp_path / "folder"), None)


@pytest.mark.parametrize("make", [lambda path: replace(path, "x"), lambda path: create_once(path, Path.touch)])
def test_content_is_on_disk_before_its_name_and_the_name_before_the_return(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Any
) -> None:
    order: list[str] = []

    def noted(name: str, real: Any) -> Any:
        def call(*args: Any) -> Any:
            order.append(name)
            return real(*args)

        return call

    for name in ("fsync", "link", "replace"):
        monkeypatch.setattr(os, name, noted(name, getattr(os, name)))
    make(tmp_path / "file")
    assert [name.replace("link", "replace") for name in order] == ["fsync", "replace", "fsync"]


@pytest.mark.parametrize("pack", [False, True])
def test_arrays_come_back_from_an_archive_as_they_were(tmp_path: Path, pack: bool) -> None:
    arrays = {"a": np.arange(6).reshape(2, 3), "b": np.array([np.nan, -0.0]), "none": np.zeros((0, 4), dtype=np.int8)}
    path = tmp_path / "file.npz"
    path.write_bytes(archive(arrays, pack))
    again = unarchive(path)
    assert list(again) == list(arrays)
    for name, values in arrays.items():
        assert again[name].dtype == values.dtype
        np.testing.assert_array_equal(again[name], values)


def test_a_damaged_archive_is_refused_wherever_it_is_cut_and_objects_always(tmp_path: Path) -> None:
    whole, path = archive({"a": np.arange(3)}, pack=True), tmp_path / "file.npz"
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        with pytest.raises(ht.SettingError, match=r"file\.npz must be whole, but got .*; remove it to begin anew"):
            unarchive(path)
    path.write_bytes(archive({"a": np.array([{"pickled": 1}], dtype=object)}))
    with pytest.raises(ht.SettingError, match="must be whole, but got ValueError"):
        unarchive(path)
    with pytest.raises(ht.SettingError, match="FileNotFoundError"):
        unarchive(tmp_path / "none.npz")


# ---- private files -------------------------------------------------------------------------------------------


@pytest.fixture
def open_to_all() -> Iterator[None]:
    """A umask that takes nothing away."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def database(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE t (x)")
    db.close()


MAKERS = {
    "replace": lambda path: replace(path, "x", private=True),
    "create_once": lambda path: create_once(path, lambda draft: draft.write_text("x") and None, private=True),
    "a database": lambda path: create_once(path, database, private=True),
    "make_private": make_private,
    "append": lambda path: append(path, "x"),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
def test_a_private_file_is_never_open_to_others_not_for_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, open_to_all: None, make: Any
) -> None:
    """Looked at after every call into the system, in a folder that everybody may write to."""
    tmp_path.chmod(0o777)
    path, seen = tmp_path / "new" / "folder" / "file", set()

    def look(frame: Any, event: str, argument: Any) -> None:
        if event == "c_return" and "hushtune" in frame.f_code.co_filename:
            seen.update((found.name[0], mode(found)) for found in tmp_path.rglob("*"))

    sys.setprofile(look)
    try:
        make(path)
    finally:
        sys.setprofile(None)
    assert mode(path) == 0o600
    assert {kind for _, kind in seen} <= {0o600, 0o700}
    assert ("n", 0o700) in seen


@pytest.mark.parametrize("make", [lambda path: replace(path, "x"), lambda path: create_once(path, Path.touch)])
def test_other_files_are_as_open_as_the_umask_says(tmp_path: Path, open_to_all: None, make: Any) -> None:
    make(tmp_path / "new" / "file")
    assert (mode(tmp_path / "new"), mode(tmp_path / "new" / "file")) == (0o777, 0o666)


@pytest.mark.parametrize(("before", "after"), [(0o644, 0o600), (0o666, 0o600), (0o640, 0o600), (0o444, 0o400)])
def test_a_private_file_that_is_open_to_others_is_mended(tmp_path: Path, before: int, after: int) -> None:
    path = tmp_path / "file"
    path.write_text("kept")
    path.chmod(before)
    own(path)
    assert (mode(path), path.read_text()) == (after, "kept")


def test_a_folder_is_mended_and_those_above_it_are_left_alone(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    make_folder(tmp_path / "a" / "b")
    (tmp_path / "a" / "b").chmod(0o755)
    make_folder(tmp_path / "a" / "b")
    assert mode(tmp_path / "a" / "b") == 0o755
    own(tmp_path / "a" / "b", folder=True)
    assert [mode(path) for path in (tmp_path, tmp_path / "a", tmp_path / "a" / "b")] == [0o755, 0o700, 0o700]


def test_what_is_not_there_is_nobodys(tmp_path: Path) -> None:
    own(tmp_path / "none")
    assert names(tmp_path) == []


@pytest.mark.parametrize("use", [own, make_private, lambda path: append(path, "secret")])
def test_a_file_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: Any) -> None:
    path = tmp_path / "file"
    path.write_text("theirs")
    path.chmod(0o666)
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    with pytest.raises(CacheError, match=r"file must belong to the user who runs this \(uid \d+\).*`chown`") as caught:
        use(path)
    assert "\n" not in str(caught.value)
    assert (mode(path), path.read_text()) == (0o666, "theirs")


def test_a_mode_that_cannot_be_changed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.touch(0o644)
    monkeypatch.setattr(Path, "chmod", lambda self, mode: None)  # as on a disk without modes
    with pytest.raises(CacheError, match="readable by its owner only, but it has mode 644.*on a disk that keeps modes"):
        own(path)


def test_a_link_counts_as_what_it_leads_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch(0o644)
    (tmp_path / "link").symlink_to("file")
    own(tmp_path / "link")
    assert mode(tmp_path / "file") == 0o600
    (tmp_path / "nowhere").symlink_to("none")
    with pytest.raises(CacheError, match="a link to nothing: remove it"):
        make_private(tmp_path / "nowhere")
    assert not (tmp_path / "none").exists()
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(CacheError, match="link must belong"):
        own(tmp_path / "link")


def test_where_modes_say_nothing_nothing_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.touch(0o644)
    monkeypatch.setattr(files.os, "name", "nt")
    own(path)
    monkeypatch.undo()
    assert mode(path) == 0o644


def test_a_database_in_use_keeps_its_locks_while_it_is_looked_at(tmp_path: Path) -> None:
    """Opening and closing the file in this process would end them, and a second writer would get in."""
    path = tmp_path / "file"
    create_once(path, database, private=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
        make_private(path)
        own(path)
        child = os.fork()
        if child == 0:
            try:
                with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other:
                    other.execute("BEGIN IMMEDIATE")
                os._exit(0)
            except sqlite3.OperationalError:
                os._exit(7)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_text_is_added_to_a_private_file(tmp_path: Path) -> None:
    append(tmp_path / "log", "one\n")
    append(tmp_path / "log", "\udcff\n")
    assert (tmp_path / "log").read_text() == "one\n\\udcff\n"


def test_what_is_no_private_file_of_ours_keeps_its_mode(tmp_path: Path) -> None:
    """A path that a user gave may lead anywhere: to a folder that all share, or to somebody's public file."""
    shared, public, database = tmp_path / "shared", tmp_path / "notes.txt", tmp_path / "other.db"
    shared.mkdir()
    shared.chmod(0o1777)
    public.write_text("for everybody\nto read\n")
    with closing(sqlite3.connect(database)) as db:
        db.execute("CREATE TABLE t (x)")
    for path, mode in ((shared, 0o1777), (public, 0o644), (database, 0o644)):
        path.chmod(mode)
        with pytest.raises(ht.SettingError):
            ht.Identity.load(path)
        with pytest.raises(ht.LedgerError):
            ht.Ledger(path).entries()
        own(path, folder=path.is_file())
        assert stat.S_IMODE(path.stat().st_mode) == mode
