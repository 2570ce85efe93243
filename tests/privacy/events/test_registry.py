"""Events as plain values: what is read is what was written, and nothing else is read."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

import hushtune as ht
from hushtune.privacy.events.answers import PureTests
from hushtune.privacy.events.registry import EVENTS, event_from_json, event_to_json
from hushtune.privacy.events.sums import Event, Exact, GaussianVector, SkellamShift, SkellamVector
from hushtune.privacy.events.training import SelectedRuns, TrainingSteps

KEPT: list[tuple[Event, dict[str, Any]]] = [  # as ledgers of earlier releases hold them: these may never change
    (SkellamShift(9.5, 2), {"event": "skellam-shift", "variance": 9.5, "coordinates": 2}),
    (
        SkellamVector(9.5, 4.0, 2.0, 0.5),
        {"event": "skellam-vector", "variance": 9.5, "l1": 4.0, "l2": 2.0, "rate": 0.5},
    ),
    (GaussianVector(3.0, 2.0), {"event": "gaussian-vector", "deviation": 3.0, "l2": 2.0, "rate": 1.0}),
    (PureTests(0.25, 3), {"event": "pure-tests", "epsilon": 0.25, "times": 3}),
    (TrainingSteps(1.5, 0.1, 20), {"event": "training-steps", "multiplier": 1.5, "rate": 0.1, "steps": 20}),
    (
        SelectedRuns(1.5, 0.1, 20, 4.0, 0.0, 2.0),
        {
            "event": "selected-runs",
            "multiplier": 1.5,
            "rate": 0.1,
            "steps": 20,
            "mean": 4.0,
            "shape": 0.0,
            "score": 2.0,
        },
    ),
    (Exact(), {"event": "exact"}),
]


@pytest.mark.parametrize(("event", "raw"), KEPT, ids=lambda value: getattr(value, "name", ""))
def test_an_event_is_kept_under_its_name_and_comes_back(event: Event, raw: dict[str, Any]) -> None:
    assert json.loads(json.dumps(event_to_json(event))) == raw
    assert event_from_json(raw) == event


def test_every_kind_is_among_them() -> None:
    assert {raw["event"] for _, raw in KEPT} == set(EVENTS)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"event": "free"}, r"event must be one of \['exact', .*\], but got 'free'"),
        ({}, "but got None"),
        ([], "an event must have a name and fields, but got list"),
        ("exact", "but got str"),
        ({"event": "exact", "epsilon": 0}, r"event 'exact' got unknown or missing fields: \['epsilon'\]"),
        ({"event": "skellam-shift", "variance": 9.5}, r"missing fields: \['variance'\]"),
        ({"event": "skellam-shift", "variance": -1.0, "coordinates": 2}, "variance"),
        ({"event": "skellam-shift", "variance": 9.5, "coordinates": True}, "coordinates"),
    ],
)
def test_an_event_that_is_not_understood_is_refused_and_never_skipped(raw: Any, message: str) -> None:
    with pytest.raises(ht.SettingError, match=message):
        event_from_json(raw)


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
