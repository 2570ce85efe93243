"""What a client holds, row by row, and how it is split into parts that answer for themselves (unit "record").

One record must touch one part only, whatever the record is:

- "replace-one": rows keep their places, so a part is a fixed set of places. The places are shuffled by a fixed
  permutation that depends on nothing but their number.
- "add-remove": places move when a row is added, so a part is chosen by a hash of the record itself. (Under replace-one
  a hash would be wrong: the old and the new record may fall into two parts.)

If rows repeat a person, `subjects` says whose each row is, and all rows of a person go to the part that a hash of the
person's name gives, under either relation. Under "replace-one" a person's rows then become anything else, in number
too, under the SAME name; the names of all persons stay as they are. Rows whose subject is missing are one person's.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hushtune.core.checks import integer
from hushtune.core.errors import SettingError
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
        rows = count_of(self.y)
        if count_of(self.X) != rows:
            raise SettingError(f"`len(X) == len(y)` must hold, but got {count_of(self.X)} and {rows}")
        if self.subjects is not None and count_of(self.subjects) != rows:
            raise SettingError(f"`len(subjects) == len(y)` must hold, but got {count_of(self.subjects)} and {rows}")

    def __len__(self) -> int:
        return count_of(self.y)

    def take(self, indices: Any) -> Rows:
        """The rows at the given indices.

        Args:
            indices: row numbers, shape (any,).
        """
        subjects = None if self.subjects is None else rows_at(self.subjects, indices)
        return Rows(rows_at(self.X, indices), rows_at(self.y, indices), subjects)


@dataclass(frozen=True)
class Split:
    """Rows to train on and rows to score on, when they are given apart (a simulation's reference).

    Args:
        train: rows to train on.
        test: rows to score on.
    """

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
        if self.neighbours == "add-remove" and _columns(data) is None and getattr(data, "subjects", None) is None:
            raise SettingError(
                "neighbours='add-remove' splits by the records' content, which needs Rows, an array or a table, "
                f"but got {type(data).__name__}; use 'replace-one'"
            )

    def of(self, data: Any) -> list[Any]:
        """The parts; some may be empty."""
        if self.voters == 1:
            return [data]
        places = self._places(data)
        return [rows_at(data, np.flatnonzero(places % self.voters == part)) for part in range(self.voters)]

    def _places(self, data: Any) -> NDArray[np.int64]:
        if (subjects := getattr(data, "subjects", None)) is not None:
            return _by_content([subjects])
        if self.neighbours == "add-remove":
            return _by_content(_columns(data) or [])
        return _by_place(data)


WHOLE = Parts()


def held_out(data: Any, validation: float, seed: int) -> Split:
    """Rows to train on and rows to score on."""
    if isinstance(data, Split):
        return data
    order = np.random.default_rng(seed).permutation(len(data))
    cut = max(1, round(validation * len(data)))
    return Split(rows_at(data, order[cut:]), rows_at(data, order[:cut]))


def in_rows(data: Any) -> Any:
    """A tuple (X, y) as Rows; anything else as it is."""
    if not isinstance(data, tuple):
        return data
    if len(data) != 2:
        raise SettingError(f"data as a tuple must be (X, y), but got {len(data)} items")
    return Rows(*data)


def count_of(values: Any) -> int:
    """How many rows there are."""
    return int(values.shape[0]) if hasattr(values, "shape") else len(values)


def rows_at(values: Any, indices: NDArray[np.intp]) -> Any:
    """The rows at the given indices of an array, a table, a list, or whatever has `take`.

    What is taken must not depend on the other rows: a list stays a list, because its type as an array would.
    """
    if hasattr(values, "iloc"):
        return values.iloc[indices]
    if hasattr(values, "shape"):
        return values[indices]
    if hasattr(values, "take"):
        return values.take(indices)
    return [values[at] for at in indices]


def _by_place(data: Any) -> NDArray[np.int64]:
    """Each row's place in a fixed shuffled order."""
    return np.random.default_rng(count_of(data)).permutation(count_of(data))


def _by_content(columns: Sequence[Any]) -> NDArray[np.int64]:
    """A number from each record's own content."""
    records = zip(*(_records(column) for column in columns), strict=True)
    hashes = [hashlib.blake2b(b"|".join(record), key=_HASH_KEY, digest_size=7).digest() for record in records]
    return np.array([int.from_bytes(digest, "big") for digest in hashes], dtype=np.int64)


def _columns(data: Any) -> list[Any] | None:
    """What the records consist of; None if that cannot be told."""
    if isinstance(data, Rows):
        return [data.X, data.y]
    return [data] if hasattr(data, "shape") or hasattr(data, "iloc") else None


def _records(column: Any) -> list[bytes]:
    """Each row's own bytes: they depend neither on other rows, nor on the column's type or index."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "fiub":
        doubles = np.ascontiguousarray(column.reshape(len(column), math.prod(column.shape[1:])), dtype=">f8")
        doubles = np.where(np.isnan(doubles), np.nan, doubles).astype(">f8")
        tagged = np.empty((*doubles.shape, 9), dtype=np.uint8)
        tagged[..., 0] = ord("n")
        tagged[..., 1:] = doubles.view(np.uint8).reshape(*doubles.shape, 8)
        return [row.tobytes() for row in tagged]
    if hasattr(column, "__array__"):
        column = np.asarray(column).tolist()
    return [_encoded(row) for row in column]


def _encoded(value: Any) -> bytes:
    """A value's own bytes: equal numbers have the same, whatever their type."""
    if isinstance(value, list | tuple | np.ndarray):
        return b"".join(_encoded(item) for item in value)
    if isinstance(value, int | float | np.number) and not isinstance(value, complex | np.complexfloating):
        try:
            number = float(value)
        except OverflowError:
            return b"i" + str(value).encode()
        return b"n" + struct.pack(">d", math.nan if math.isnan(number) else number)
    return b"s" + str(value).encode(errors="surrogatepass")
