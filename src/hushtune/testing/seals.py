"""What every seal must do: open the exact sum of whoever answered, or nothing, and say the same thing twice."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from hushtune.client.search.base import Search
from hushtune.client.simulation import Simulation
from hushtune.core.errors import AbortedError
from hushtune.core.observer import Observer, Silent
from hushtune.core.randomness import drawn_from
from hushtune.core.roster import Id
from hushtune.core.wire import unpack
from hushtune.federation.base import Dropped
from hushtune.federation.local import LocalFederation
from hushtune.privacy.guarantee import Privacy
from hushtune.run.result import Result
from hushtune.run.tuning import tune
from hushtune.seals.base import Seal, floor_share
from hushtune.seals.ends import Trip
from hushtune.seals.registry import seal_from_json
from hushtune.testing.numbers import CANDIDATES, NORM, Totals, holder
from hushtune.testing.values import expect

_LENGTH = 5
_SEED = 7  # of a curator's noise, where it must be known


class _Wire(LocalFederation):
    """Clients of which some fall silent, or that get every message twice."""

    silent: tuple[Id, ...] = ()
    since = 0  # the trip from which on they are
    twice = False

    def exchange(self, trip: Trip, observer: Observer) -> Mapping[Id, bytes | Dropped]:
        """Carries one trip, but for clients that are silent; twice, if so told."""
        lost = self.silent if self.traffic.trips >= self.since else ()
        heard = {client: message for client, message in trip.messages.items() if client not in lost}
        carried = replace(trip, messages=heard)
        replies = dict(super().exchange(carried, observer))
        if self.twice:
            again = super().exchange(carried, observer)
            other = [client for client in heard if again[client] != replies[client] and not _refusal(again[client])]
            words = f"trip '{trip.name}': the same message must get the same bytes or a refusal, but from {other}"
            expect(not other, words)
        return {**replies, **{client: Dropped("its machine is gone") for client in trip.messages if client in lost}}


def _refusal(reply: bytes | Dropped) -> bool:
    """Whether a client that has forgotten what it said refuses to say it again: a second draw would be worse."""
    return isinstance(reply, bytes) and unpack(reply)[0].get("kind") == "refused"


class _Trial:
    """Random vectors, and runs that add them up."""

    def __init__(self, seal: Seal, clients: int, seed: int, place: Path) -> None:
        rng = np.random.default_rng(seed)
        directions = rng.normal(size=(clients, 2, _LENGTH))
        scaled = NORM * 0.99 * directions / np.linalg.norm(directions, axis=2, keepdims=True)
        self.vectors = np.trunc(scaled).astype(np.int64)
        self.names = [f"client-{at}" for at in range(clients)]
        self._seal, self._place, self._made = seal, place, 0
        self._curated = seal.noise_at == "curator"
        self._privacy = Privacy(4.0) if self._curated else None  # without noise there is no such seal

    def wire(self, seed: int | None = None) -> _Wire:
        """Fresh clients, with ledgers of their own; or, with a seed, those of a marked simulation."""
        self._made += 1
        clients = [holder(name, own[None]) for name, own in zip(self.names, self.vectors, strict=True)]
        return _Wire(clients, self._place / str(self._made), seed=seed, jobs=1)

    def run(self, wire: _Wire, sums: int, seed: int | None = None) -> None:
        """Opens so many sums."""
        folder = wire.home / "run"
        result = tune(
            wire,
            CANDIDATES,
            method=Totals(sums, _LENGTH),
            privacy=self._privacy,
            seal=self._seal,
            search=Search(),
            simulation=None if seed is None else Simulation(seed),
            folder=folder,
            observer=Silent(),
        )
        if seed is not None or not self._curated:
            self._compare(result, seed)

    def run_known(self, sums: int, silent: tuple[Id, ...] = (), since: int = 0) -> _Wire:
        """Opens so many sums, in a simulation where a curator's noise would be unknown otherwise."""
        seed = _SEED if self._curated else None
        wire = self.wire(seed)
        wire.silent, wire.since = silent, since
        self.run(wire, sums, seed)
        return wire

    def kept(self) -> list[Any]:
        """What the last run has on record as opened."""
        text = (self._place / str(self._made) / "run" / "run.json").read_text(encoding="utf-8")
        opened: list[Any] = json.loads(text)["opened"]
        return opened

    def _compare(self, result: Result, seed: int | None) -> None:
        """Every opened sum is that of the clients who answered, and of what noise a curator's seed gives."""
        there = [at for at, name in enumerate(self.names) if name not in result.dropped]
        for step, opened in enumerate(result.opened):
            noise = result.noise.by_curator(_LENGTH, drawn_from(seed, f"curator {step}"))
            error = np.abs(np.array(opened.blocks["numbers"]) - self.vectors[there, step].sum(0) - noise).max()
            expect(error == 0, f"sum {step + 1} of {len(there)} clients' vectors is off by {error}")


def check_seal(seal: Seal, clients: int = 10, seed: int = 0) -> None:
    """Runs a seal with random vectors over clients of this process; an AssertionError says what broke.

    Checked: sums are exact (a curator's, but for its noise, in a simulation); a message that comes twice gets the same
    bytes, or a refusal; with as many silent clients as `dropouts` allows, from any trip on, the sum is that of the
    others; with one more in the first trip nothing is opened, and in later ones nothing wrong. Whether a seal hides
    anything, no such test can show.

    Args:
        seal: an instance.
        clients: how many; so many that `dropouts` allows for one, if it is not 0.
        seed: of the vectors.
    """
    expect(seal_from_json(json.loads(json.dumps(seal.to_json()))) == seal, f"{seal} is another one once it was JSON")
    with TemporaryDirectory(prefix="hushtune-") as place:
        trial = _Trial(seal, clients, seed, Path(place))
        wire = trial.wire()
        wire.twice = True
        trial.run(wire, sums=2)
        trips, allowed = trial.run_known(sums=1).traffic.trips, floor_share(seal.dropouts, clients)
        for since in range(trips):
            if allowed:
                _check_silent(trial, since, allowed, aborts=False)
            _check_silent(trial, since, allowed + 1, aborts=None if since else True)


def _check_silent(trial: _Trial, since: int, count: int, aborts: bool | None) -> None:
    """So many clients are silent from some trip on; whether that aborts the run may be left open."""
    words = f"with {count} of {len(trial.names)} clients silent from trip {since + 1} on"
    try:
        trial.run_known(1, tuple(trial.names[-count:]), since)
    except AbortedError as error:
        expect(aborts is not False, f"{words} a sum must be opened, but: {error}")
        kept = trial.kept()
        expect(not kept, f"{words} nothing must be opened, but {len(kept)} were")
    else:
        expect(not aborts, f"{words} nothing must be opened, but the sum was")
