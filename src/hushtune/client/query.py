"""Queries: what each client is asked to contribute, and the bound that the runtime enforces on it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from hushtune.client.party import Party
from hushtune.client.search.base import Search
from hushtune.core.codec import fields_from_json, fields_to_json
from hushtune.core.errors import SettingError, WireError
from hushtune.core.registry import Registry
from hushtune.core.space import Domain
from hushtune.privacy.bounds import Bound


class Query(ABC):
    """What each privacy unit is asked. Public, serialisable and versioned: a frozen dataclass that derives from this.

    Its name, version and fields are what travels.
    """

    name: ClassVar[str]
    version: ClassVar[int]
    meaning: ClassVar[str]  # what one contribution is, in words
    per_candidate: ClassVar[bool] = True  # whether a block with as many entries as candidates has one for each
    broadcast: ClassVar[bool] = False  # whether a later request tells all clients what was opened

    @property
    @abstractmethod
    def blocks(self) -> Mapping[str, int]:
        """Named parts of the vector and their lengths."""

    @property
    @abstractmethod
    def bound(self) -> Bound:
        """On one privacy unit's vector."""

    @property
    @abstractmethod
    def scored(self) -> tuple[Search, Domain]:
        """The search whose trials an answer looks up, and over what: it can be done beforehand."""

    @abstractmethod
    def answer(self, party: Party) -> Any:
        """One unit's vector, from its trials. May extend the trials. Whatever it returns is checked.

        Args:
            party: the inside of one privacy unit: a client, or one part of its rows. `party.losses(configs, seed)`
                gives its losses, shape (configs,), NaN where scoring failed.
        """

    @property
    def added(self) -> tuple[int, ...]:
        """Public scores that whoever keeps the sum secret adds to it before answering; empty: none."""
        return ()

    @property
    def own_run(self) -> str | None:
        """The run that it belongs to, if clients keep something for it under that run's id; else None."""
        return None


_QUERIES: Registry[Query] = Registry("query", own="hushtune.methods.registry")
_Kind = TypeVar("_Kind", bound=type[Query])


def register(kind: _Kind) -> _Kind:
    """Class decorator: makes a query known to clients by its name and version.

    Args:
        kind: a frozen dataclass that is a `Query`. Its name, version and fields are what travels.
    """
    if not issubclass(kind, Query):
        raise SettingError(f"a query must derive from hushtune.client.query.Query, but {kind.__name__} does not")
    _QUERIES.claim((kind.name, kind.version), kind)
    return kind


def query_class(name: str) -> type[Query]:
    """The newest version of a query that has this name."""
    found = [kind for (known, _), kind in sorted(_QUERIES.known.items()) if known == name]
    if not found:
        raise SettingError(f"query '{name}' is not known here")
    return found[-1]


def query_to_json(query: Query) -> dict[str, Any]:
    """Name, version and fields."""
    return {"query": query.name, "version": query.version, **fields_to_json(query)}


def query_from_json(raw: Mapping[str, Any]) -> Query:
    """The query that `query_to_json` wrote; unknown names, versions and fields are refused."""
    values = dict(raw)
    kind = _QUERIES.known.get((values.pop("query", None), values.pop("version", None)))
    if kind is None:
        raise WireError(f"query {raw.get('query')!r} version {raw.get('version')!r} is not known here")
    try:
        query: Query = kind(**fields_from_json(kind, values))
    except (TypeError, AttributeError):
        raise WireError(f"query '{kind.name}' got unknown or missing fields: {sorted(values)}") from None
    return query
