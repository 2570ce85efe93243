"""What every federation must do: carry each message to the client it is for, and its reply back, whatever the seal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from hushtune.client.client import Client
from hushtune.client.search.base import Search
from hushtune.core.errors import SettingError
from hushtune.core.observer import Silent
from hushtune.federation.base import Dropped, Federation
from hushtune.run.result import Result
from hushtune.run.tuning import tune
from hushtune.seals.base import Seal
from hushtune.seals.ends import Trip
from hushtune.seals.registry import default_seal
from hushtune.testing.numbers import CANDIDATES, Totals, holder
from hushtune.testing.values import expect

_LENGTH = 5
_SUMS = 2
Make = Callable[[Sequence[Client], Path], AbstractContextManager[Federation]]
"""Gives a federation of these clients, with a folder for its files; what it started ends with the context."""


def check_federation(make: Make, clients: int = 4, seal: Seal | None = None) -> None:
    """Runs two sums over a federation, and compares everything with the clients' vectors; an AssertionError says what
    broke.

    Checked: the roster names every client; sums are exact, so each message reached the client it was for; a message
    that comes twice gets the same bytes; a trip to another role is refused; traffic is counted.

    Args:
        make: gives the federation. Called twice, with a fresh folder each time.
        clients: how many.
        seal: under which sums are opened. Default: `Masked()`.
    """
    vectors = np.random.default_rng(0).integers(-9, 9, (clients, _SUMS, _LENGTH))
    names = [f"client-{at}" for at in range(clients)]

    under = seal or default_seal()

    def parties() -> list[Client]:
        return [holder(name, own[None], seal=under) for name, own in zip(names, vectors, strict=True)]

    with TemporaryDirectory(prefix="hushtune-") as place:
        with make(parties(), Path(place) / "sums") as federation:
            expect(
                len(federation.roster) == clients, f"the roster must have {clients} clients: {federation.roster.ids}"
            )
            result = _summed(federation, under)
            expect(not result.dropped, f"every client must answer, but {result.dropped} did not")
            for step, opened in enumerate(result.opened):
                exact = vectors[:, step].sum(0).tolist() == opened.blocks["numbers"]
                expect(exact, f"sum {step + 1} is not that of the clients' vectors: a message went astray")
            counted = federation.traffic
            expect(
                counted.trips > 0 and counted.messages > 0 and counted.size > 0, f"traffic is not counted: {counted}"
            )
        with make(parties(), Path(place) / "messages") as federation:
            _check_messages(federation)


def _summed(federation: Federation, seal: Seal) -> Result:
    method = Totals(_SUMS, _LENGTH)
    return tune(federation, CANDIDATES, method=method, seal=seal, search=Search(), observer=Silent())


def _check_messages(federation: Federation) -> None:
    """What is no request is refused by each client itself, in the same words twice."""
    ids = federation.roster.ids
    junk = Trip("junk", {name: f"no message {name}".encode() for name in ids})
    first, second = (dict(federation.exchange(junk, Silent())) for _ in range(2))
    expect(set(first) == set(ids), f"a trip must give something for each of {ids}, but gave {sorted(first)}")
    silent = [name for name, reply in first.items() if isinstance(reply, Dropped)]
    expect(not silent, f"clients that are there must answer, but {silent} did not")
    expect(first == second, "a message that comes twice must get the same bytes")
    try:
        federation.exchange(Trip("to nodes", {ids[0]: b"x"}, to="nodes"), Silent())
    except SettingError:
        return
    expect(False, "a federation without nodes must refuse a trip to nodes")
