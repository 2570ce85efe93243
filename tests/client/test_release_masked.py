"""The way out through the masked seal: every trip is checked, kept, and answered once."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.client.harness import EVENTS, NOISE, RUN, party, refusal, request

import hushtune as ht
from hushtune.client.party import Party
from hushtune.client.release import respond
from hushtune.client.request import Request
from hushtune.core.roster import Roster
from hushtune.core.wire import pack, unpack
from hushtune.privacy.noise.base import Noise
from hushtune.seals.clear import Clear
from hushtune.seals.ends import Ask, ServerEnd, Trip, converse

MASKED = ht.Masked()
THREE = Roster(("a", "b", "c"))


def masked_request(**changes: Any) -> Request:
    return request(**{"seal": MASKED, "roster": THREE.digest(), **changes})


def masked_run(tmp_path: Path, tamper: Any = None) -> tuple[Any, dict[str, Party], list[tuple[str, str, bytes]]]:
    """Three clients through `respond`, everything the server sends or gets recorded."""
    parties = {name: party(tmp_path, name=name) for name in THREE.ids}
    view: list[tuple[str, str, bytes]] = []

    def exchange(trip: Trip) -> dict[str, bytes]:
        replies = {}
        for name, message in trip.messages.items():
            view.append((trip.name, name, message))
            replies[name] = respond(tamper(trip.name, name, message) if tamper else message, parties[name], THREE)
        return replies

    wanted = masked_request()
    return opened(MASKED.server(RUN, THREE, wanted.terms()), wanted, exchange), parties, view


def opened(server: ServerEnd, wanted: Request, exchange: Any) -> Any:
    ask = Ask(wanted.to_bytes(), 5, 2**20, 3, True, None, 5)
    return converse(server.open(ask), exchange, lambda: None)


def test_a_masked_run_is_charged_once_and_its_messages_are_answered_once(tmp_path: Path) -> None:
    (total, missing, *_), parties, view = masked_run(tmp_path)
    assert not missing
    assert np.abs(total - [3, 3, 0, 0, 0]).max() < 60
    for inside in parties.values():
        assert inside.ledger is not None
        assert len(inside.ledger.entries()) == 1
    for _, name, message in view:  # the same bytes again, also after a restart that lost the session
        assert respond(message, parties[name], THREE) == respond(message, party(tmp_path, name=name), THREE)


def test_lost_state_means_refusal(tmp_path: Path) -> None:
    def forgetful(trip: str, name: str, message: bytes) -> bytes:
        if (trip, name) == ("input", "b"):
            lost.append(respond(message, party(tmp_path, name="b"), THREE))
        return message

    lost: list[bytes] = []
    masked_run(tmp_path, forgetful)
    assert refusal(lost[0]) == "this client has no part in that run, or its state is lost"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"noise": Noise(NOISE.scale * 0.9)}, "not what the run announced"),
        ({"roster": Roster(tuple("abcdefghij")).digest()}, "roster is not the one"),
        ({"seal": Clear()}, "must come through that seal"),
        ({"run": "1" * 32}, "not of this run"),
    ],
)
@pytest.mark.parametrize("trip", ["keys", "input"])
def test_a_request_is_checked_in_every_trip_that_carries_it(
    tmp_path: Path, changes: dict[str, Any], message: str, trip: str
) -> None:
    """Swapping the request after the keys were made does not get past the checks."""
    other = masked_request(**changes).to_bytes()

    def swap(t: str, name: str, content: bytes) -> bytes:
        if t != trip or name != "b":
            return content
        header, parts = unpack(content)
        return pack(header, *parts[:-1], other)

    with pytest.raises(ht.AbortedError, match=f"{message}|are not what the run began with"):
        masked_run(tmp_path, swap)


def masked_opening(parties: dict[str, Party], first_round: int, wanted: Request) -> Any:
    """A server that starts at a round of its choice; what it opened, or why not."""
    server = MASKED.server(RUN, THREE, wanted.terms(), first_round)
    try:
        return opened(server, wanted, lambda trip: {n: respond(m, parties[n], THREE) for n, m in trip.messages.items()})
    except ht.AbortedError as error:
        return str(error)


def test_a_step_is_opened_once_whatever_round_seal_or_process_asks(tmp_path: Path) -> None:
    """The server chooses rounds; the step is what counts."""
    parties = {name: party(tmp_path, name=name) for name in THREE.ids}
    assert isinstance(masked_opening(parties, 0, masked_request()), tuple)
    assert "answered already, for another request" in masked_opening(parties, 5, masked_request())
    restarted = {name: party(tmp_path, name=name) for name in THREE.ids}
    assert "answered already, for another request" in masked_opening(restarted, 9, masked_request())
    clear = masked_request(seal=Clear()).to_bytes()
    assert "the run is under seal 'masked'" in refusal(respond(clear, parties["a"], THREE))
    assert "answered already, for another request" in refusal(respond(clear, party(tmp_path, name="a"), THREE))


def test_a_seal_with_too_few_peers_is_refused_unless_the_policy_allows_it(tmp_path: Path) -> None:
    few = masked_request(seal=ht.Masked(degree=1))
    message = pack({"kind": "masked", "run": RUN, "trip": "keys", "round": 0}, few.to_bytes())
    assert "insecure=True" in refusal(respond(message, party(tmp_path), THREE))
    none_corrupt = masked_request(seal=ht.Masked(corrupt=0.0))
    message = pack({"kind": "masked", "run": RUN, "trip": "keys", "round": 0}, none_corrupt.to_bytes())
    assert "`corrupt >= 0.1` must hold" in refusal(respond(message, party(tmp_path), THREE))


def test_the_terms_of_a_run_cannot_change_between_trips(tmp_path: Path) -> None:
    """Keys agreed for one share of dropouts, the input asked for with another: the noise share would be too small."""
    other = masked_request(seal=ht.Masked(dropouts=0.0)).to_bytes()

    def swap(trip: str, name: str, content: bytes) -> bytes:
        if trip != "input" or name != "b":
            return content
        header, parts = unpack(content)
        return pack(header, *parts[:-1], other)

    with pytest.raises(ht.AbortedError, match="are not what the run began with"):
        masked_run(tmp_path, swap)


def test_the_next_step_is_taken_up_by_a_server_that_was_interrupted(tmp_path: Path) -> None:
    """Server and clients restart after step 0: the run goes on with rounds that no client has seen."""
    events = EVENTS * 2
    both = {"events": events, "privacy": ht.Privacy(5.0)}
    parties = {name: party(tmp_path, name=name) for name in THREE.ids}
    assert isinstance(masked_opening(parties, 0, masked_request(**both)), tuple)
    restarted = {name: party(tmp_path, name=name) for name in THREE.ids}
    assert "answered already" in masked_opening(restarted, 0, masked_request(step=1, **both))
    total, missing, *_ = masked_opening(restarted, 1_000_000, masked_request(step=1, **both))
    assert not missing
    assert np.abs(total - [3, 3, 0, 0, 0]).max() < 60


def test_a_run_whose_secrets_were_forgotten_is_refused_even_without_a_ledger(tmp_path: Path) -> None:
    inside = party(tmp_path)
    inside.ledger = None
    keys = {"kind": "masked", "trip": "keys", "round": 0}
    for number in range(20):
        run = f"{number:032x}"
        reply = respond(pack({**keys, "run": run}, masked_request(run=run).to_bytes()), inside, THREE)
        assert unpack(reply)[0]["kind"] == "keys"
    first = f"{0:032x}"
    reply = respond(pack({**keys, "run": first, "round": 1}, masked_request(run=first).to_bytes()), inside, THREE)
    assert "state is lost" in refusal(reply)
    assert sum(session is not None for session in inside.sessions.values()) == 16


def test_a_message_of_another_seal_does_not_reach_the_runs_own(tmp_path: Path) -> None:
    """The ledger keeps a reply under its seal's name for the place: through another seal it would be given twice."""
    seen: list[bytes] = []

    def twice(trip: str, name: str, message: bytes) -> bytes:
        if (trip, name) == ("unmask", "b"):
            header, parts = unpack(message)
            seen.append(message)
            for kind in ("threshold", "request"):
                other = pack({**header, "kind": kind, "turn": 0}, *parts)
                assert "the run is under seal 'masked'" in refusal(respond(other, parties["b"], THREE))
        return message

    parties = {name: party(tmp_path, name=name) for name in THREE.ids}
    wanted = masked_request()

    def exchange(trip: Trip) -> dict[str, bytes]:
        return {n: respond(twice(trip.name, n, m), parties[n], THREE) for n, m in trip.messages.items()}

    opened(MASKED.server(RUN, THREE, wanted.terms()), wanted, exchange)
    assert len(seen) == 1


def test_a_ledger_is_opened_once_for_each_trip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened_at: list[Path] = []
    connect = sqlite3.connect

    def counted(path: Any, *arguments: Any, **settings: Any) -> sqlite3.Connection:
        opened_at.append(Path(path))
        return connect(path, *arguments, **settings)

    monkeypatch.setattr(sqlite3, "connect", counted)
    _, parties, view = masked_run(tmp_path)
    for name, own in parties.items():
        assert own.ledger is not None
        trips = sum(client == name for _, client, _ in view)
        assert 0 < opened_at.count(own.ledger.path) <= trips + 1  # once more when it is made, for its anchor
