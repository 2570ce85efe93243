"""Files that appear whole or not at all, and private ones, which nobody but their owner can read.

A private file has its mode from the moment it is made, whatever the folder's mode and the umask are, so there is no
moment at which somebody else could open it; `own` looks at it again whenever it is used. Where modes say nothing about
who can read a file (Windows), nothing is checked.
"""

from __future__ import annotations

import io
import os
import stat
import uuid
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from hushtune.core.errors import CacheError, SettingError

_OTHERS = 0o077  # what a mode allows anybody but the owner


def own(path: Path, folder: bool = False) -> None:
    """Sees to it that a private file, if it is there, is this user's and closed to everybody else.

    A mode that allows more is mended. Raises CacheError if the file belongs to somebody else, or cannot be mended. A
    link is followed: what counts is where it leads. Of a path that a user gave, first make sure that it is a private
    file of ours: anybody else's file keeps its mode.

    Args:
        path: of the file.
        folder: whether it is a folder instead. What is there and of the other kind is left alone.
    """
    if os.name != "posix":
        return
    try:
        found = path.stat()
        if stat.S_ISDIR(found.st_mode) != folder:
            return
        if found.st_uid == os.geteuid() and found.st_mode & _OTHERS:
            with suppress(PermissionError, NotImplementedError):
                path.chmod(stat.S_IMODE(found.st_mode) & ~_OTHERS)
            found = path.stat()
    except FileNotFoundError:
        if path.is_symlink():
            raise CacheError(f"{path} must be a file or a folder, but it is a link to nothing: remove it") from None
        return
    if found.st_uid != os.geteuid():
        raise CacheError(
            f"{path} must belong to the user who runs this (uid {os.geteuid()}), but it belongs to uid {found.st_uid}: "
            "give it to that user with `chown`, or choose another place"
        )
    if found.st_mode & _OTHERS:
        raise CacheError(
            f"{path} must be readable by its owner only, but it has mode {stat.S_IMODE(found.st_mode):o}, and that "
            "cannot be changed there: choose a place on a disk that keeps modes"
        )


def make_private(path: Path) -> None:
    """Makes a private file, empty, with the folders above it; if it is there already, it is only checked (`own`).

    It is never opened then: closing a database that is in use would end its locks.
    """
    make_folder(path.parent)
    with suppress(FileExistsError):
        _make(path, private=True)
    own(path)


def make_folder(path: Path) -> None:
    """Makes a folder, and those above it that are missing, for their owner only. One that is there stays as it is."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)


def append(path: Path, text: str) -> None:
    """Adds text to a private file, which is made if it is not there."""
    make_private(path)
    with path.open("a", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)


def create_once(path: Path, write: Callable[[Path], None], private: bool = False) -> bool:
    """Has `write` fill a draft and gives it its name, durably. False, and no change, if the name is taken."""
    _above(path, private)
    draft = _draft(path)
    try:
        with _real_name(draft, path):
            _make(draft, private)
            write(draft)
            _sync(draft)
            os.link(draft, path)  # unlike a rename, this fails if somebody else was faster
    except FileExistsError:
        return False
    finally:
        for leftover in (draft, Path(f"{draft}-wal"), Path(f"{draft}-shm")):
            leftover.unlink(missing_ok=True)
    _sync(path.parent)
    return True


def replace(path: Path, content: str | bytes, private: bool = False) -> None:
    """Writes a file durably, the old content staying until the new one is complete."""
    _above(path, private)
    draft = _draft(path)
    try:
        with _real_name(draft, path):
            _make(draft, private)
            draft.write_bytes(content.encode() if isinstance(content, str) else content)
            _sync(draft)
            os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    _sync(path.parent)


def archive(arrays: Mapping[str, Any], pack: bool = False) -> bytes:
    """Named arrays as the bytes of an .npz file."""
    buffer = io.BytesIO()
    (np.savez_compressed if pack else np.savez)(buffer, **arrays)
    return buffer.getvalue()


def unarchive(path: Path) -> dict[str, Any]:
    """The arrays of an .npz file that `archive` wrote."""
    try:
        with np.load(path) as file:
            return {name: file[name] for name in file}
    except (OSError, EOFError, ValueError, LookupError, zlib.error, zipfile.BadZipFile) as error:
        raise SettingError(
            f"{path} must be whole, but got {type(error).__name__}: {error}; remove it to begin anew"
        ) from None


def _make(path: Path, private: bool) -> None:
    """A new, empty file, which has its mode from the first moment."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666))


def _above(path: Path, private: bool) -> None:
    if private:
        make_folder(path.parent)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)


def _draft(path: Path) -> Path:
    """Where a file is written before it gets its name: hidden, beside it."""
    return path.parent / f".{path.name}.{uuid.uuid4().hex}"


@contextmanager
def _real_name(draft: Path, path: Path) -> Iterator[None]:
    """Errors name the file that a user asked for, not its draft."""
    try:
        yield
    except OSError as error:
        if str(error.filename) == str(draft):
            error.filename, error.filename2 = str(path), None
        raise


def remove_first(paths: Sequence[Path]) -> None:
    """Removes files of one folder, on the disk too before this returns: whatever follows, they do not come back.

    Args:
        paths: the files.
    """
    for path in paths:
        path.unlink(missing_ok=True)
    for folder in {path.parent for path in paths}:
        _sync(folder)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
