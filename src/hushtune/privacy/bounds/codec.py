"""Bounds as plain values, for nodes: they check vectors of queries that they do not know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hushtune.core.codec import fields_from_json, fields_to_json
from hushtune.core.errors import WireError
from hushtune.privacy.bounds.ballots import AtMost, KHot
from hushtune.privacy.bounds.base import Bound
from hushtune.privacy.bounds.scores import Scores
from hushtune.privacy.bounds.vectors import Ball, Box, Tally

_KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in (AtMost, Ball, Box, KHot, Scores, Tally)}


def bound_to_json(bound: Bound) -> dict[str, Any] | None:
    """Kind and fields of one of hushtune's own bounds; None for any other.

    Args:
        bound: on one unit's vector.
    """
    name = type(bound).__name__
    return {"kind": name, **fields_to_json(bound)} if _KINDS.get(name) is type(bound) else None


def bound_from_json(raw: Any) -> Bound:
    """The bound that `bound_to_json` wrote; a WireError if it is anything else.

    Args:
        raw: kind and fields.
    """
    if not isinstance(raw, Mapping) or raw.get("kind") not in _KINDS:
        raise WireError(f"a bound must be one of {sorted(_KINDS)}, with its fields")
    kind = _KINDS[raw["kind"]]
    try:
        found: Bound = kind(**fields_from_json(kind, {name: raw[name] for name in raw if name != "kind"}))
    except (TypeError, AttributeError):
        raise WireError(f"a bound of kind {raw['kind']} has unknown or missing fields") from None
    return found
