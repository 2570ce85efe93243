"""Events as plain values: what is read is what was written, and nothing else is read."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

import hushtune as ht
from hushtune.privacy.events.answers import PureTests
from hushtune.privacy.events.registry import event_from_json, event_to_json
from hushtune.privacy.events.sums import Event
from hushtune.privacy.events.training import SelectedRuns, TrainingSteps


@pytest.mark.parametrize(
    "event",
    [
        PureTests(0.1, 19),
        PureTests(0.0),
        TrainingSteps(1.1, 0.01, 1000),
        SelectedRuns(1.1, 0.01, 1000, 10.0),
        SelectedRuns(1.1, 0.01, 1000, 10.0, None, 3.0),
    ],
)
def test_events_survive_being_written_down(event: Event) -> None:
    raw = json.loads(json.dumps(event_to_json(event)))
    assert event_from_json(raw) == event
    with pytest.raises(ht.SettingError, match="unknown or missing"):
        event_from_json({**raw, "other": 1})
    first = next(name for name in raw if name != "event")
    with pytest.raises(ht.SettingError, match="unknown or missing"):
        event_from_json({name: value for name, value in raw.items() if name != first})
    with pytest.raises(ht.SettingError, match="event must be one of"):
        event_from_json({**raw, "event": "other"})


@pytest.mark.parametrize(
    "raw",
    [
        {"event": "pure-tests", "epsilon": -0.1},
        {"event": "pure-tests", "epsilon": math.nan},
        {"event": "pure-tests", "epsilon": "0.1"},
        {"event": "pure-tests", "epsilon": True},
        {"event": "pure-tests", "epsilon": None},
        {"event": "pure-tests", "epsilon": 0.1, "times": 0},
        {"event": "pure-tests", "epsilon": 0.1, "times": -19},
        {"event": "pure-tests", "epsilon": 0.1, "times": 1.5},
        {"event": "pure-tests", "epsilon": 0.1, "times": True},
        {"event": "pure-tests", "epsilon": 0.1, "times": 2**31},
        {"event": "training-steps", "multiplier": 1.0, "rate": 0.0, "steps": 3},
        {"event": "training-steps", "multiplier": 1.0, "rate": 1.5, "steps": 3},
        {"event": "training-steps", "multiplier": "1", "rate": 0.5, "steps": 3},
        {"event": "training-steps", "multiplier": math.nan, "rate": 0.5, "steps": 3},
        {"event": "training-steps", "multiplier": 1.0, "rate": 0.5, "steps": 0},
        {"event": "selected-runs", "multiplier": 1.0, "rate": 0.5, "steps": 3, "mean": 0.5},
        {"event": "selected-runs", "multiplier": 1.0, "rate": 0.5, "steps": 3, "mean": math.inf},
        {"event": "selected-runs", "multiplier": 1.0, "rate": 0.5, "steps": 3, "mean": 5.0, "shape": -0.5},
        {"event": "selected-runs", "multiplier": 1.0, "rate": 0.5, "steps": 3, "mean": 5.0, "shape": "poisson"},
        {"event": "selected-runs", "multiplier": 1.0, "rate": 0.5, "steps": 3, "mean": 5.0, "score": -1.0},
        {"event": "selected-runs", "multiplier": 1.0, "rate": 2.0, "steps": 3, "mean": 5.0},
    ],
)
def test_bad_fields_are_refused(raw: dict[str, Any]) -> None:
    with pytest.raises(ht.SettingError):
        event_from_json(raw)
