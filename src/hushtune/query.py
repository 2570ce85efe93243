"""Queries: what each client is asked to contribute, and the bound that the runtime enforces on it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np

from hushtune.checks import integer
from hushtune.client import Party
from hushtune.errors import BoundError, SettingError, WireError
from hushtune.privacy.accounting import Event, Neighbours, SkellamShift
from hushtune.privacy.noise import Noise
from hushtune.privacy.skellam import IntArray
from hushtune.randomness import Randomness, words
from hushtune.space import Candidates


class Bound(Protocol):
    """What ONE privacy unit's vector must satisfy, and so what a change of one unit can do to the sum."""

    @property
    def length(self) -> int:
        """The vector's length."""
        ...

    @property
    def largest(self) -> int:
        """The largest absolute value of one entry of one unit's vector."""
        ...

    @property
    def total(self) -> int | None:
        """What the entries of one unit's vector add up to; None if that is not fixed."""
        ...

    def check(self, vector: Any) -> IntArray:
        """The vector as integers; BoundError if it breaks the bound."""
        ...

    def default(self, randomness: Randomness) -> IntArray:
        """A vector that satisfies the bound and depends on no data."""
        ...

    def event(self, noise: Noise, change: Neighbours) -> Event:
        """What opening the noisy sum costs, if one unit's vector may change so (`Privacy.change`)."""
        ...


@dataclass(frozen=True)
class KHot:
    """A ballot: `length` zeros and ones, exactly `k` of them ones.

    Replacing one ballot by another moves 2 min(k, length - k) counts by one each; leaving one out moves k
    (DP-HYPE, Lemma IV.1, which states 2k; two ballots of more than half the candidates must overlap).
    """

    k: int
    length: int

    def __post_init__(self) -> None:
        if integer("k", self.k, 1) > self.length:
            raise SettingError(f"`1 <= k <= candidates` must hold, but got k={self.k}, candidates={self.length}")

    @property
    def largest(self) -> int:
        """A vote is one."""
        return 1

    @property
    def total(self) -> int:
        """k ones."""
        return self.k

    def check(self, vector: Any) -> IntArray:
        """Refuses anything but k ones among zeros."""
        ballot = np.asarray(vector)
        if ballot.shape != (self.length,) or ballot.dtype.kind not in "iub":
            raise BoundError(f"a ballot must be {self.length} integers, but got shape {ballot.shape} of {ballot.dtype}")
        if not (np.isin(ballot, (0, 1)).all() and int(ballot.sum()) == self.k):
            raise BoundError(f"a ballot must be zeros and exactly {self.k} ones")
        return ballot.astype(np.int64)

    def default(self, randomness: Randomness) -> IntArray:
        """A uniformly random ballot."""
        ballot = np.zeros(self.length, dtype=np.int64)
        ballot[np.argsort(words(randomness, self.length), kind="stable")[: self.k]] = 1
        return ballot

    def event(self, noise: Noise, change: Neighbours) -> Event:
        """Exact: the changed counts move by one each, the others not at all."""
        changed = 2 * min(self.k, self.length - self.k) if change == "replace-one" else self.k
        return SkellamShift(noise.variance, changed)


class Query(Protocol):
    """Public, serialisable, versioned. A frozen dataclass, found by name and version in the registry."""

    name: ClassVar[str]
    version: ClassVar[int]
    meaning: ClassVar[str]  # what one contribution is, in words

    @property
    def blocks(self) -> Mapping[str, int]:
        """Named parts of the vector and their lengths."""
        ...

    @property
    def bound(self) -> Bound:
        """On one privacy unit's vector."""
        ...

    def answer(self, party: Party) -> Any:
        """One unit's vector, from its trials. May extend the trials. Whatever it returns is checked."""
        ...


def in_blocks(query: Query, vector: IntArray) -> dict[str, IntArray]:
    """The query's named parts of one vector."""
    ends = np.cumsum(list(query.blocks.values()))[:-1]
    return dict(zip(query.blocks, np.split(vector, ends), strict=True))


_REGISTRY: dict[tuple[str, int], type[Any]] = {}
_Kind = TypeVar("_Kind", bound=type[Any])


def register(kind: _Kind) -> _Kind:
    """Class decorator: makes a query known to clients by its name and version."""
    _REGISTRY[kind.name, kind.version] = kind
    return kind


def query_to_json(query: Query) -> dict[str, Any]:
    """Name, version and fields."""
    plain = {f.name: getattr(query, f.name) for f in fields(query)}  # type: ignore[arg-type]
    return {
        "query": query.name,
        "version": query.version,
        **{name: json.loads(v.to_json()) if isinstance(v, Candidates) else v for name, v in plain.items()},
    }


def query_from_json(raw: Mapping[str, Any]) -> Query:
    """The query that `query_to_json` wrote; unknown names, versions and fields are refused."""
    values = dict(raw)
    kind = _REGISTRY.get((values.pop("query", None), values.pop("version", None)))
    if kind is None:
        raise WireError(f"query {raw.get('query')!r} version {raw.get('version')!r} is not known here")
    readers: dict[str, Callable[[Any], Any]] = {"candidates": lambda v: Candidates.from_json(json.dumps(v))}
    try:
        query: Query = kind(**{name: readers.get(name, lambda v: v)(value) for name, value in values.items()})
    except TypeError:
        raise WireError(f"query '{kind.name}' got unknown or missing fields: {sorted(values)}") from None
    return query
