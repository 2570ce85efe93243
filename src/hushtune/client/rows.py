"""What a client holds, row by row, and how it is split into parts that answer for themselves (unit "record").

One record must touch one part only, whatever the record is:

- "replace-one": rows keep their places, so a part is a fixed set of places. The places are shuffled by a fixed
  permutation that depends on nothing but their number.
- "add-remove": places move when a row is added, so a part is chosen by a hash of the record itself. (Under replace-one
  a hash would be wrong: the old and the new record may fall into two parts.)

If rows repeat a person, `subjects` says whose each row is, and all rows of a person go to the part that a hash of the
person's name gives, under either relation. Under "replace-one" a person's rows then become anything else, in number
too, under the SAME name; the names of all persons stay as they are. Rows whose subject is missing are one person's.

The hash has a key that is the client's own secret, so that nobody else can tell, or choose, which records share a part.
What a part holds is a function of its own rows: of a record's bytes see `encoding.py`, of a part's types `own.py`. A
record that cannot be dealt with is its part's failure, and no other's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hushtune.client.encoding import encoded, is_from, is_sparse
from hushtune.client.own.rows import own
from hushtune.core.checks import integer
from hushtune.core.errors import SettingError
from hushtune.privacy.accounting import Neighbours

MOST_VOTERS = 10_000


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
        sized = hasattr(data, "__len__") and (hasattr(data, "take") or isinstance(data, Sequence))
        if not sized or isinstance(data, str | bytes):
            raise SettingError(
                f"voters={self.voters} needs rows: a list, an array, a table, Rows(X, y), or whatever has `len` and "
                f"`take`, but got {type(data).__name__}; without, use voters=1"
            )
        if self.neighbours == "add-remove" and _columns(data) is None and getattr(data, "subjects", None) is None:
            raise SettingError(
                "neighbours='add-remove' splits by the records' content, which needs Rows, an array, a table or a "
                f"list, but got {type(data).__name__}; use 'replace-one'"
            )

    def of(self, data: Any, key: bytes) -> list[Any]:
        """The parts; some may be empty. What keeps a part from being made stands in its place, as an error.

        Args:
            data: the client's.
            key: the client's own secret for this: nobody else can tell which records share a part.
        """
        if self.voters == 1:
            return [data]
        places, odd = self._places(data, key)
        return [self._part(data, np.flatnonzero(places % self.voters == part), odd) for part in range(self.voters)]

    def _places(self, data: Any, key: bytes) -> tuple[NDArray[np.int64], dict[int, str]]:
        """A number for each row, and by row the type of a value whose content cannot be told."""
        subjects = getattr(data, "subjects", None)
        if subjects is None and self.neighbours == "replace-one":
            return _by_place(data), {}
        records, odd = encoded([subjects] if subjects is not None else _columns(data) or [])
        return _by_content(records, key), odd

    def _part(self, data: Any, indices: NDArray[np.intp], odd: Mapping[int, str]) -> Any:
        """One part, or the error that its own rows cause: other parts have nothing to do with it."""
        if kind := next((odd[row] for row in indices.tolist() if row in odd), None):
            return SettingError(
                f"a record must have content to be split by, but got a value of type {kind}; hand over numbers, texts, "
                "dates, lists or dicts, and make objects of them inside the objective"
            )
        try:
            return own_rows(rows_at(data, indices))
        except Exception as error:
            return error


WHOLE = Parts()


def held_out(data: Any, validation: float, seed: int, alike: bool = False) -> Split:
    """Rows to train on and rows to score on.

    Args:
        data: with a length; a `Split` stays as it is.
        validation: share of the rows to score on; at least one.
        seed: of the draw.
        alike: whether both have the labels in the same shares, as far as they go; needs `y`.
    """
    if isinstance(data, Split):
        return data
    order = np.random.default_rng(seed).permutation(len(data))
    if alike:
        order = order[in_turn(np.asarray(data.y)[order])]
    cut = max(1, round(validation * len(data)))
    return Split(rows_at(data, order[cut:]), rows_at(data, order[:cut]))


def in_turn(labels: NDArray[Any]) -> NDArray[np.intp]:
    """An order in which any first rows have the labels in about the same shares as all rows.

    A label's only row comes in the middle: where less than half of the rows are held out, it is trained on. Where rows
    have several labels each, the order is as it was.

    Args:
        labels: one per row, shape (rows,).
    """
    if labels.ndim != 1:
        return np.arange(len(labels))
    _, label, counts = np.unique(labels, return_inverse=True, return_counts=True)
    grouped = np.argsort(label, kind="stable")
    rank = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
    place = np.empty(len(labels))
    place[grouped] = (rank + 0.5) / np.repeat(counts, counts)
    return np.argsort(place, kind="stable")


def repeated(count: int, batch: int, steps: int) -> NDArray[np.intp]:
    """Row numbers, each about as often, that are enough for so many steps; shape (batch * steps,).

    Args:
        count: rows that there are.
        batch: rows in a step.
        steps: how many.
    """
    return np.resize(np.arange(count), batch * steps)


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
    """The rows at the given indices of an array, a table, a list, or whatever has `take`."""
    if hasattr(values, "iloc"):
        return values.iloc[indices]
    if is_from(values, "pyarrow"):
        return values.take(indices)
    if hasattr(values, "shape"):
        return (values.tocsr() if is_sparse(values) else values)[indices]
    if hasattr(values, "take"):
        return values.take(indices)
    return [values[at] for at in indices]


def own_rows(part: Any) -> Any:
    """A part's rows as if there were no others: with types and categories that follow from their own values."""
    if isinstance(part, Rows):
        return replace(part, X=own(part.X), y=own(part.y), subjects=own(part.subjects))
    return own(part)


def _by_place(data: Any) -> NDArray[np.int64]:
    """Each row's place in a fixed shuffled order."""
    return np.random.default_rng(count_of(data)).permutation(count_of(data))


def _by_content(records: Sequence[bytes], key: bytes) -> NDArray[np.int64]:
    """A number from each record's own content, which only who has the key can tell."""
    hashes = [hashlib.blake2b(record, key=key, digest_size=7).digest() for record in records]
    return np.array([int.from_bytes(digest, "big") for digest in hashes], dtype=np.int64)


def _columns(data: Any) -> list[Any] | None:
    """What the records consist of; None if that cannot be told."""
    if isinstance(data, Rows):
        return [data.X, data.y]
    listed = isinstance(data, Sequence) and not isinstance(data, str | bytes)
    return [data] if listed or hasattr(data, "shape") or hasattr(data, "iloc") or is_from(data, "pyarrow") else None
