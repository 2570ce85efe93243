"""What a client reads of a request is what the server wrote, or it is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.client.harness import CANDIDATES, EVENTS, QUERY, RUN, request

import hushtune as ht
from hushtune.client.request import Request, parts_of
from hushtune.client.rows import WHOLE, Parts
from hushtune.core.errors import WireError
from hushtune.core.wire import pack, unpack
from hushtune.methods.vote.ballots import TopVotes
from hushtune.privacy.noise.base import Noise
from hushtune.seals.forms import Form

RECORD = ht.Privacy(2.0, unit="record", neighbours="add-remove")
REQUESTS = {
    "vote": {},
    "masked": {"seal": ht.Masked(dropouts=0.2), "step": 3},
    "curator": {"seal": ht.Curator(), "noise": Noise(7.5, "curator")},
    "exact": {"noise": Noise(0.0), "privacy": None, "events": ()},
    "records": {"privacy": RECORD, "voters": 4},
    "form": {"form": Form("votes", at_least=3), "privacy": None, "events": (), "noise": Noise(0.0)},
    "several": {"events": EVENTS * 3, "step": 2},
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_survives_the_wire_and_is_the_same_bytes_again(name: str) -> None:
    asked = request(**REQUESTS[name])
    again = Request.from_bytes(asked.to_bytes())
    assert again == asked
    assert again.to_bytes() == asked.to_bytes()
    assert again.noise.at == asked.seal.noise_at  # who adds noise follows from the seal, not from the server's word


def fields(**changes: Any) -> bytes:
    header, _ = unpack(request().to_bytes())
    return pack({name: value for name, value in {**header, **changes}.items() if value is not ...})


@pytest.mark.parametrize("name", list(unpack(request().to_bytes())[0]))
def test_no_field_may_be_missing(name: str) -> None:
    with pytest.raises(WireError, match="missing or wrong field|not known here|a request was expected"):
        Request.from_bytes(fields(**{name: ...}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"run": "0" * 31}, "a run id must be 32 hex digits"),
        ({"run": "0" * 32 + "\n"}, "a run id must be 32 hex digits"),
        ({"run": "../" + "0" * 29}, "a run id must be 32 hex digits"),
        ({"run": "G" * 32}, "a run id must be 32 hex digits"),
        ({"run": 7}, "expected str"),
        ({"step": "0"}, "expected int"),
        ({"step": True}, "expected int"),
        ({"step": 0.0}, "expected int"),
        ({"voters": False}, "expected int"),
        ({"scale": "3"}, "expected float"),
        ({"scale": -1.0}, "scale"),
        ({"roster": None}, "expected str"),
        ({"kind": "reply"}, "a request was expected"),
        ({"extra": 1}, r"a request has unknown fields \['extra'\]"),
        ({"events": [{"event": "free"}]}, "event must be one of"),
        ({"events": [{"event": "exact"}] * 10_001}, "at most 10000 events, but got 10001"),
        ({"events": 3}, "missing or wrong field"),
        ({"events": [{"event": "pure-tests", "epsilon": 0.1, "times": n} for n in range(1, 10)]}, "but got 9"),
        ({"events": [{"event": "pure-tests", "epsilon": 0.1, "times": 10**4200}]}, "times"),
        ({"events": [{"event": "gaussian-vector", "deviation": 10**4200, "l2": 1.0}]}, "deviation"),
        ({"events": [{"event": "gaussian-vector", "deviation": 1e308, "l2": 1.0}]}, "deviation"),
        ({"events": [{"event": "skellam-shift", "variance": 1e308, "coordinates": 1}]}, "variance"),
        ({"events": [{"event": "skellam-shift", "variance": [[[]]], "coordinates": 1}]}, "variance"),
        ({"events": [{"event": "skellam-vector", "variance": 1.0, "l1": 2**60, "l2": 2**60}]}, "norm"),
        ({"privacy": {"epsilon": 1.0, "lambda": 2}}, "missing or wrong field"),
        ({"privacy": {"epsilon": 1000.0}}, "epsilon=1000"),
        ({"privacy": 3}, "missing or wrong field"),
        ({"seal": {"name": "os.system"}}, "seal must be one of"),
        ({"seal": {"name": "clear", "dropouts": 2}}, "dropouts=2"),
        ({"query": {"query": "top-votes", "version": 99}}, "version 99 is not known here"),
        ({"query": []}, "."),
        ({"form": {"block": 3}}, "a form must name blocks"),
        ({"form": {"block": "votes", "power": 2}}, "a form has unknown or missing fields"),
    ],
)
def test_anything_else_is_refused_in_one_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises((WireError, ht.SettingError), match=message) as caught:
        Request.from_bytes(fields(**changes))
    assert "\n" not in str(caught.value)


def test_a_request_has_no_parts() -> None:
    header, _ = unpack(request().to_bytes())
    with pytest.raises(WireError, match="a request was expected"):
        Request.from_bytes(pack(header, b""))


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({"step": 1}, True),
        ({"run": "1" * 32}, True),
        ({"roster": "another"}, True),
        ({"query": TopVotes(2, CANDIDATES, 1)}, True),
        ({"seal": ht.Clear(dropouts=0.2)}, False),
        ({"privacy": ht.Privacy(2.5)}, False),
        ({"privacy": None}, False),
        ({"voters": 2}, False),
        ({"noise": Noise(1.0)}, False),
        ({"events": EVENTS * 2}, False),
        ({"events": ()}, False),
    ],
)
def test_terms_are_what_stays_the_same_in_a_run(changes: dict[str, Any], same: bool) -> None:
    assert (request(**changes).terms() == request().terms()) == same


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({"step": 1, "run": "1" * 32, "noise": Noise(1.0), "events": ()}, True),
        ({"query": TopVotes(1, CANDIDATES, 0)}, False),
        ({"query": TopVotes(2, CANDIDATES, 1)}, False),
        ({"form": Form("votes")}, False),
    ],
)
def test_the_question_stands_for_the_query_and_the_form(changes: dict[str, Any], same: bool) -> None:
    assert (request(**changes).question == request().question) == same


def test_clients_are_split_so_that_a_record_touches_one_part() -> None:
    assert parts_of(1, None) == parts_of(1, ht.Privacy(1.0)) == WHOLE
    assert parts_of(1, ht.Privacy(1.0, neighbours="zero-out")) == WHOLE
    assert parts_of(4, RECORD) == Parts(4, "add-remove")
    assert parts_of(4, ht.Privacy(1.0, unit="record")) == Parts(4, "replace-one")
    assert request(privacy=RECORD, voters=4).parts == Parts(4, "add-remove")


def test_what_was_read_once_is_not_shared_with_another_message() -> None:
    """Parsing is remembered by the message's bytes: one other byte is read anew."""
    first = Request.from_bytes(request().to_bytes())
    assert Request.from_bytes(request().to_bytes()) is first
    other = Request.from_bytes(replace(request(), run="1" * 32).to_bytes())
    assert (first.run, other.run) == (RUN, "1" * 32)
    assert other.query == QUERY


@pytest.mark.parametrize("number", ["9" * 1_000_000, "1e400", "NaN", "Infinity", "[" * 100_000])
def test_numbers_beyond_all_bounds_are_refused_quickly(number: str) -> None:
    """A million digits are never computed with: Python stops at 4,300; 1e400 is read as infinite."""
    text = json.dumps(unpack(request().to_bytes())[0])
    event = f'{{"event": "skellam-shift", "variance": {number}, "coordinates": 1}}'
    text = text.replace('"events": [', f'"events": [{event}, ')
    assert number in text
    message = b"H\x01" + len(text).to_bytes(4, "big") + text.encode()
    with pytest.raises((WireError, ht.SettingError), match="a header must be JSON|variance"):
        Request.from_bytes(message)
