"""What every query must do: be the same once it has travelled, and have the vector that its bound is for."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from hushtune.client.party import Party
from hushtune.client.query import Query, query_from_json, query_to_json
from hushtune.client.release import contribution
from hushtune.client.rows import WHOLE
from hushtune.client.search.base import Search
from hushtune.core.arrays import IntArray
from hushtune.core.errors import RefusedError, WireError
from hushtune.core.space import Candidates, Space
from hushtune.federation.local import LocalFederation
from hushtune.privacy.bounds import Bound
from hushtune.testing.bounds import check_bound, passes
from hushtune.testing.numbers import holder
from hushtune.testing.values import check_value, expect


def check_query(query: Query) -> None:
    """Tries a query, its bound, and what clients do when an answer breaks it; an AssertionError says what broke.

    Args:
        query: a registered one, with the settings that are tried.
    """
    check_value(query)
    try:
        hash(query)
    except TypeError as error:
        raise AssertionError(f"query '{query.name}' must be hashable, with tuples for lists: {error}") from None
    expect(bool(query.meaning.strip()), f"query '{query.name}' must say what its vector means")
    expect(type(query.version) is int, f"query '{query.name}' must have a whole version, but got {query.version!r}")
    _check_travel(query)
    lengths = dict(query.blocks)
    expect(bool(lengths), f"query '{query.name}' must have at least one block")
    expect(min(lengths.values()) >= 1, f"query '{query.name}': blocks must have a length, but got {lengths}")
    expect(
        sum(lengths.values()) == query.bound.length,
        f"query '{query.name}': blocks {lengths} must add up to the bound's length {query.bound.length}",
    )
    search, domain = query.scored
    expect(isinstance(search, Search), f"query '{query.name}': `scored` must begin with a Search, but got {search!r}")
    expect(
        isinstance(domain, Candidates | Space), f"query '{query.name}': `scored` must end with candidates or a space"
    )
    check_bound(query.bound)
    _check_enforced(query)


def _check_travel(query: Query) -> None:
    """Clients get the query as JSON, and find its class by name and version."""
    written = json.loads(json.dumps(query_to_json(query), allow_nan=False))
    try:
        read = query_from_json(written)
    except WireError as error:
        raise AssertionError(f"query '{query.name}' cannot be read again: {error}; is it registered?") from None
    expect(read == query, f"query '{query.name}' is another one once it was JSON: {read} instead of {query}")
    expect(query_to_json(read) == query_to_json(query), f"query '{query.name}' is written in another way once read")
    try:
        query_from_json({**written, "no such field": 1})
    except WireError:
        return
    raise AssertionError(f"query '{query.name}' must refuse fields that it does not have")


@dataclass(frozen=True)
class _Beyond:
    """Answers what the bound does not allow."""

    bound: Bound
    name: str

    def answer(self, party: Party) -> IntArray:
        """Every entry is too large."""
        return np.full(self.bound.length, self.bound.largest + 1, dtype=np.int64)


def _check_enforced(query: Query) -> None:
    """Whatever a query answers, a client sends what its bound allows; without epsilon it may refuse."""
    beyond: Any = _Beyond(query.bound, query.name)
    numbers = np.zeros((1, 1, 1), dtype=np.int64)
    with TemporaryDirectory(prefix="hushtune-") as place:
        (party,) = LocalFederation([holder("client", numbers)], Path(place), seed=0, jobs=1).parties.values()
        for private in (True, False):
            try:
                sent = contribution(beyond, party, WHOLE, private)
            except RefusedError:
                expect(not private, f"query '{query.name}': with epsilon, an answer beyond its bound must not show")
                continue
            expect(passes(query.bound, sent), f"query '{query.name}': a client sent what {query.bound} does not allow")
