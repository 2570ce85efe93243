"""Files that appear whole or not at all."""

from __future__ import annotations

import io
import os
import uuid
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from hushtune.core.errors import SettingError


def create_once(path: Path, write: Callable[[Path], None]) -> bool:
    """Has `write` fill a draft and gives it its name, durably. False, and no change, if the name is taken."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = _draft(path)
    try:
        with _real_name(draft, path):
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


def replace(path: Path, content: str | bytes) -> None:
    """Writes a file durably, the old content staying until the new one is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = _draft(path)
    try:
        with _real_name(draft, path):
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


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
