"""The server's end with clients that reply otherwise than they were asked to; nothing here needs OpenFHE."""

from __future__ import annotations

from typing import Any

import pytest

import hushtune as ht
from hushtune.core.errors import AbortedError
from hushtune.core.roster import Roster
from hushtune.seals.ends import Ask, Trip
from hushtune.seals.forms import Form
from hushtune.seals.threshold import server as module
from hushtune.seals.threshold.server import ThresholdServer
from hushtune.seals.threshold.wire import END, packed

IDS = ("a", "b")
SEAL = ht.Threshold(ring=2**14, smudging=0.0)
DUE = {"keys": 2, "relin": 1, "input": 2, "decrypt": 1}  # parts of each client's reply, for a comparison


class Evaluator:
    """Stands for the process that computes."""

    def call(self, op: str, *parts: bytes, **header: Any) -> list[bytes]:
        return [b"found"]

    def close(self) -> None:
        pass


@pytest.mark.parametrize(("trip", "count"), [(trip, n) for trip, due in DUE.items() for n in range(4) if n != due])
def test_a_reply_with_another_number_of_parts_is_a_missing_one(
    monkeypatch: pytest.MonkeyPatch, trip: str, count: int
) -> None:
    """It ends the run by the client's name, and not by an internal error."""
    monkeypatch.setattr(module.Sidecar, "start", lambda *given, **named: Evaluator())
    server = ThresholdServer("a" * 32, Roster(IDS), lambda *given: (SEAL.circuit(*given), 0.0))
    trips = server.open(Ask(b"request", 3, 8, 2, last=True, form=Form("counts", at_least=4), opens=3))
    told: list[str] = []

    def replies(sent: Trip) -> dict[str, bytes]:
        told.append(sent.name)
        parts = {client: DUE.get(sent.name, 0) for client in IDS} | ({"b": count} if sent.name == trip else {})
        header = {"kind": sent.name, "round": 0}
        return {client: packed(header, *[b"part"] * many) for client, many in parts.items()}

    def driven() -> None:
        sent = next(trips)
        while True:
            sent = trips.send(replies(sent))

    with pytest.raises(AbortedError, match=f"lost b in trip '{trip}': .*must have {DUE[trip]} parts, but got {count}"):
        driven()
    assert told[-2:] == [trip, END]
