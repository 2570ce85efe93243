"""Queries: what each client is asked to contribute, and the bound that the runtime enforces on it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np

from hushtune.adaptive import Adaptive, search_from_json
from hushtune.bounds import Bound
from hushtune.client import Party
from hushtune.errors import SettingError, WireError
from hushtune.privacy.skellam import IntArray
from hushtune.search import Search
from hushtune.space import Candidates, Domain, Space


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

    @property
    def scored(self) -> tuple[Search, Domain]:
        """The search whose trials an answer looks up, and over what: it can be done beforehand."""
        ...

    def answer(self, party: Party) -> Any:
        """One unit's vector, from its trials. May extend the trials. Whatever it returns is checked.

        Args:
            party: the inside of one privacy unit: a client, or one part of its rows. `party.losses(configs, seed)`
                gives its losses, shape (configs,), NaN where scoring failed.
        """
        ...


def in_blocks(query: Query, vector: IntArray) -> dict[str, IntArray]:
    """The query's named parts of one vector."""
    ends = np.cumsum(list(query.blocks.values()))[:-1]
    return dict(zip(query.blocks, np.split(vector, ends), strict=True))


_REGISTRY: dict[tuple[str, int], type[Any]] = {}
_Kind = TypeVar("_Kind", bound=type[Any])


def register(kind: _Kind) -> _Kind:
    """Class decorator: makes a query known to clients by its name and version.

    Args:
        kind: a frozen dataclass that is a `Query`. Its name, version and fields are what travels.
    """
    claim(_REGISTRY, (kind.name, kind.version), kind)
    return kind


def claim(registry: dict[Any, type[Any]], key: Any, kind: type[Any]) -> None:
    """Puts a class into a registry. The last one of a name counts, but a name of hushtune's own is nobody else's."""
    names = [f"{one.__module__}.{one.__qualname__}" for one in (registry.get(key, kind), kind)]
    if names[0] != names[1] and any(name.startswith("hushtune.") for name in names):
        raise SettingError(f"names must differ, but {names[0]} and {names[1]} are both called {key!r}: rename one")
    registry[key] = kind


_WRITERS: dict[type, Callable[[Any], Any]] = {
    Candidates: lambda v: json.loads(v.to_json()),
    Space: lambda v: json.loads(v.to_json()),
    Search: lambda v: v.to_json(),
    Adaptive: lambda v: v.to_json(),
}
_READERS: dict[str, Callable[[Any], Any]] = {
    "candidates": lambda v: Candidates.from_json(json.dumps(v)),
    "domain": lambda v: (Candidates if isinstance(v.get("configs"), list) else Space).from_json(json.dumps(v)),
    "search": search_from_json,
}


def query_to_json(query: Query) -> dict[str, Any]:
    """Name, version and fields."""
    plain = {f.name: getattr(query, f.name) for f in fields(query)}  # type: ignore[arg-type]
    written = {name: _WRITERS.get(type(value), lambda v: v)(value) for name, value in plain.items()}
    return {"query": query.name, "version": query.version, **written}


def query_from_json(raw: Mapping[str, Any]) -> Query:
    """The query that `query_to_json` wrote; unknown names, versions and fields are refused."""
    values = dict(raw)
    kind = _REGISTRY.get((values.pop("query", None), values.pop("version", None)))
    if kind is None:
        raise WireError(f"query {raw.get('query')!r} version {raw.get('version')!r} is not known here")
    try:
        query: Query = kind(**{name: _READERS.get(name, lambda v: v)(value) for name, value in values.items()})
    except (TypeError, AttributeError):
        raise WireError(f"query '{kind.name}' got unknown or missing fields: {sorted(values)}") from None
    return query
