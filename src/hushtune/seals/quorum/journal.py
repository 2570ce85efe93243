"""A node's journal: messages it has taken and replies to them, on disk before anything follows from them."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

from hushtune.core.files import create_once, own

_LENGTH = struct.Struct(">Q")


class Journal:
    """Messages one after the other in a private file. What was cut off while it was written was never taken.

    Args:
        path: of the file, made if it is not there.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        create_once(path, lambda draft: None, private=True)  # durably: a secret without its journal would begin anew
        own(path)

    def read(self) -> Iterator[bytes]:
        """All lines so far, one at a time. What a crash has left of one more is cut off at the end."""
        whole = 0
        with self._path.open("rb") as file:
            while len(begun := file.read(_LENGTH.size)) == _LENGTH.size:
                (length,) = _LENGTH.unpack(begun)
                line = file.read(length)
                if len(line) < length:
                    break
                whole += _LENGTH.size + length
                yield line
        if whole < self._path.stat().st_size:
            os.truncate(self._path, whole)

    def add(self, message: bytes) -> None:
        """Puts one more message at the end; when this returns, it survives a crash."""
        with self._path.open("ab") as file:
            file.write(_LENGTH.pack(len(message)) + message)
            file.flush()
            os.fsync(file.fileno())
