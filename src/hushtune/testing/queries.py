"""What every query must do: be the same once it has travelled, and have the vector that its bound is for."""

from __future__ import annotations

import json

from hushtune.errors import WireError
from hushtune.query import Query, query_from_json, query_to_json
from hushtune.search import Search
from hushtune.space import Candidates, Space
from hushtune.testing.bounds import check_bound
from hushtune.testing.values import check_value, expect


def check_query(query: Query) -> None:
    """Tries a query and its bound; an AssertionError says what broke.

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
