"""What a file of data holds, as one digest: the same for the same rows in any order, however they are packed."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
from collections.abc import Iterable

import numpy as np

_PARTS = ("", "_train", "_test")


def content_digest(name: str, content: bytes) -> str:
    """SHA-256 of all rows of an .npz file (features and class) or of a .csv.gz file (but for its column `split`).

    Training and test rows of an .npz file count as two sets. Bytes of the file itself would not do: they depend on
    the versions of the libraries that packed it, and copies of one data set have their rows in different orders.

    Args:
        name: of the file; its ending says what it is.
        content: the file's bytes.
    """
    parts = _npz(content) if name.endswith(".npz") else {"": _csv(content)}
    whole = hashlib.sha256()
    for part, rows in parts.items():
        whole.update(f"{part}\n".encode())
        for row in sorted(hashlib.sha256(row).digest() for row in rows):
            whole.update(row)
    return whole.hexdigest()


def _npz(content: bytes) -> dict[str, Iterable[bytes]]:
    found: dict[str, Iterable[bytes]] = {}
    with np.load(io.BytesIO(content)) as file:
        for part in _PARTS:
            if f"X{part}" in file:
                x, y = file[f"X{part}"], file[f"y{part}"]
                both = np.column_stack([x.reshape(len(x), -1), y]).astype("<f4") + np.float32(0)  # there is one zero
                found[part] = [row.tobytes() for row in both]
    return found


def _csv(content: bytes) -> Iterable[bytes]:
    heads, *rows = csv.reader(io.StringIO(gzip.decompress(content).decode(), newline=""))
    kept = [at for at, head in enumerate(heads) if head != "split"]
    return ["\0".join(row[at] for at in kept).encode() for row in [heads, *rows]]
