"""One record is replaced or added, by anything: what must not change of the parts that it is not in."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hushtune.client.rows import Parts
from hushtune.core.fingerprint import fingerprint

KEY = b"k" * 32
VOTERS = 10


def seen(part: Any, look: Callable[[Any], Any]) -> tuple[str, bytes]:
    """All that a part can see: by the trial cache's key, and byte by byte."""
    return fingerprint(part), pickle.dumps(look(part))


def changed(
    records: Sequence[Any], record: Any, build: Callable[[list[Any]], Any], look: Callable[[Any], Any], at: int
) -> dict[str, int]:
    """By relation: how many parts change if `record` takes another one's place, or comes in before it."""
    before = build(list(records))
    replaced = build([*records[:at], record, *records[at + 1 :]])
    added = build([*records[:at], record, *records[at:]])
    return {
        "replace-one": _differ(Parts(VOTERS), before, replaced, look),
        "add-remove": _differ(Parts(VOTERS, "add-remove"), before, added, look),
    }


def _differ(parts: Parts, one: Any, other: Any, look: Callable[[Any], Any]) -> int:
    pairs = zip(parts.of(one, KEY), parts.of(other, KEY), strict=True)
    return sum(seen(mine, look) != seen(yours, look) for mine, yours in pairs)


def described(array: Any) -> Any:
    """An array's type, shape and content; objects one by one, with their types."""
    array = np.asarray(array)
    if array.dtype == object:
        return "object", array.shape, [(type(item).__name__, repr(item)) for item in array.ravel().tolist()]
    return array.dtype.str, array.shape, array.tobytes()
