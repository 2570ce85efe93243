"""Seals: how single contributions stay hidden."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from hushtune.errors import SettingError
from hushtune.seals.base import Seal
from hushtune.seals.clear import Clear
from hushtune.seals.curator import Curator
from hushtune.seals.masked import Masked
from hushtune.seals.threshold import Threshold

SEALS: dict[str, type[Seal]] = {kind.name: kind for kind in (Clear, Curator, Masked, Threshold)}


def seal_from_json(raw: Mapping[str, Any]) -> Seal:
    """The seal that `Seal.to_json` wrote."""
    values = dict(raw)
    kind = SEALS.get(str(values.pop("name", None)))
    if kind is None:
        raise SettingError(f"seal must be one of {sorted(SEALS)}, but got {raw.get('name')!r}")
    known = [field.name for field in fields(kind)]
    for name in values:
        if name not in known:
            raise SettingError(f"seal '{kind.name}' has no field '{name}'; its fields are {known}")
    return kind(**values)
