from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hushtune as ht
from hushtune.core import files
from hushtune.core.files import archive, create_once, replace, unarchive


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
