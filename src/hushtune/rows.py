"""What a client holds, row by row, and how it is split into parts that answer for themselves (unit "record").

One record must touch one part only, whatever the record is:

- "replace-one": rows keep their places, so a part is a fixed set of places. The places are shuffled by a fixed
  permutation that depends on nothing but their number.
- "add-remove": places move when a row is added, so a part is chosen by a hash of the record itself. (Under replace-one
  a hash would be wrong: the old and the new record may fall into two parts.)

If rows repeat a person, `subjects` says whose each row is, and all rows of a person go to one part. A "place" is then a
person's place in the order of first appearance.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hushtune.checks import integer
from hushtune.errors import SettingError
from hushtune.privacy.accounting import Neighbours

MOST_VOTERS = 10_000
_HASH_KEY = b"hushtune parts 1"


class Data(Protocol):
    """What a client holds: anything with a length and `take`."""

    def __len__(self) -> int: ...

    def take(self, indices: Any) -> Data:
        """The rows at the given indices, as the same kind of data."""
        ...


@dataclass(frozen=True)
class Rows:
    """Features and labels, row by row.

    Args:
        X: shape (rows, ...).
        y: shape (rows,).
        subjects: whose each row is, shape (rows,): names or numbers. None: every row is a record of its own.
    """

    X: Any = field(repr=False)
    y: Any = field(repr=False)
    subjects: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if len(self.X) != len(self.y):
            raise SettingError(f"`len(X) == len(y)` must hold, but got {len(self.X)} and {len(self.y)}")
        if self.subjects is not None and len(self.subjects) != len(self.y):
            raise SettingError(f"`len(subjects) == len(y)` must hold, but got {len(self.subjects)} and {len(self.y)}")

    def __len__(self) -> int:
        return len(self.y)

    def take(self, indices: Any) -> Rows:
        """The rows at the given indices."""
        subjects = None if self.subjects is None else rows_at(self.subjects, indices)
        return Rows(rows_at(self.X, indices), rows_at(self.y, indices), subjects)


@dataclass(frozen=True)
class Split:
    """Rows to train on and rows to score on, when they are given apart (a simulation's reference)."""

    train: Rows
    test: Rows


@dataclass(frozen=True)
class Parts:
    """How a client is split into the units that answer.

    Args:
        voters: how many parts there are. 1: the client answers as a whole.
        neighbours: the relation that one record must touch one part under.
    """

    voters: int = 1
    neighbours: Neighbours = "replace-one"

    def __post_init__(self) -> None:
        integer("voters", self.voters, 1, MOST_VOTERS)

    def check(self, data: Any) -> None:
        """Refuses a KIND of data that cannot be split. Does not look into it."""
        if self.voters == 1:
            return
        if not (hasattr(data, "__len__") and (hasattr(data, "take") or isinstance(data, Sequence))):
            raise SettingError(f"voters={self.voters} needs data with `len` and `take`, but got {type(data).__name__}")
        if self.neighbours == "add-remove" and _columns(data) is None:
            raise SettingError(
                "neighbours='add-remove' splits by the records' content, which needs Rows, an array or a table, "
                f"but got {type(data).__name__}; use 'replace-one'"
            )

    def of(self, data: Any) -> list[Any]:
        """The parts; some may be empty."""
        if self.voters == 1:
            return [data]
        places = _by_content(data) if self.neighbours == "add-remove" else _by_place(data)
        return [rows_at(data, np.flatnonzero(places % self.voters == part)) for part in range(self.voters)]


WHOLE = Parts()


def rows_at(values: Any, indices: NDArray[np.intp]) -> Any:
    """The rows at the given indices of an array, a table, a list, or whatever has `take`."""
    if hasattr(values, "iloc"):
        return values.iloc[indices]
    if isinstance(values, np.ndarray):
        return values[indices]
    if hasattr(values, "take"):
        return values.take(indices)
    return np.asarray(values)[indices]


def _by_place(data: Any) -> NDArray[np.int64]:
    """Each row's place, or its subject's, in a fixed shuffled order."""
    subjects = getattr(data, "subjects", None)
    places = np.arange(len(data)) if subjects is None else _first_seen(np.asarray(subjects))
    count = int(places.max(initial=-1)) + 1
    return np.random.default_rng(count).permutation(count)[places]


def _first_seen(subjects: NDArray[Any]) -> NDArray[np.int64]:
    """Each row's subject, numbered in the order of first appearance."""
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(subject, len(numbers)) for subject in subjects.tolist()], dtype=np.int64)


def _by_content(data: Any) -> NDArray[np.int64]:
    """A number from each record's own content, or from its subject alone."""
    subjects = getattr(data, "subjects", None)
    columns = [subjects] if subjects is not None else _columns(data)
    assert columns is not None
    listed = [_plain(column) for column in columns]
    hashes = [
        hashlib.blake2b(repr(row).encode(), key=_HASH_KEY, digest_size=7).digest() for row in zip(*listed, strict=True)
    ]
    return np.array([int.from_bytes(digest, "big") for digest in hashes], dtype=np.int64)


def _columns(data: Any) -> list[Any] | None:
    """What the records consist of; None if that cannot be told."""
    if isinstance(data, Rows):
        return [data.X, data.y] if data.subjects is None else [data.subjects]
    return [data] if isinstance(data, np.ndarray) or hasattr(data, "iloc") else None


def _plain(column: Any) -> list[Any]:
    """One plain value or tuple per row, which depends on that row only: not on the column's type, nor on an index."""
    array = np.asarray(column)
    flat = array.reshape(len(array), -1)
    if flat.dtype.kind in "fiub":
        return [row.tobytes() for row in np.ascontiguousarray(flat, dtype=np.float64)]
    return [tuple(float(value) if _is_number(value) else str(value) for value in row) for row in flat.tolist()]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, str)
