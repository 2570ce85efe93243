"""Events as plain values, by name: what ledgers, requests and results keep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hushtune.core.codec import fields_from_json, fields_to_json
from hushtune.core.errors import SettingError
from hushtune.privacy.events.answers import PureTests
from hushtune.privacy.events.sums import Event, Exact, GaussianVector, SkellamShift, SkellamVector
from hushtune.privacy.events.training import SelectedRuns, TrainingSteps

_KINDS = (SkellamShift, SkellamVector, GaussianVector, PureTests, TrainingSteps, SelectedRuns, Exact)
EVENTS: dict[str, type[Any]] = {kind.name: kind for kind in _KINDS}


def event_to_json(event: Event) -> dict[str, Any]:
    """The event as plain values."""
    return {"event": event.name, **fields_to_json(event)}


def event_from_json(raw: Mapping[str, Any]) -> Event:
    """The event that `event_to_json` wrote; an unknown one is refused, never skipped."""
    if not isinstance(raw, Mapping):
        raise SettingError(f"an event must have a name and fields, but got {type(raw).__name__}")
    fields = dict(raw)
    kind = EVENTS.get(fields.pop("event", ""))
    if kind is None:
        raise SettingError(f"event must be one of {sorted(EVENTS)}, but got {raw.get('event')!r}")
    try:
        event: Event = kind(**fields_from_json(kind, fields))
    except TypeError:
        raise SettingError(f"event '{kind.name}' got unknown or missing fields: {sorted(fields)}") from None
    return event
