"""What multiparty CKKS costs: PrivTuna's Tables II and III, through the seal's own protocol, a process per party."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hushtune.client.client import Client
from hushtune.client.objectives.base import objective
from hushtune.client.party import Party
from hushtune.client.rows import WHOLE
from hushtune.client.search.base import Search
from hushtune.client.trials import TrialStore
from hushtune.core.arrays import IntArray
from hushtune.core.errors import SettingError
from hushtune.core.observer import Observer
from hushtune.core.randomness import SystemRandomness
from hushtune.core.roster import Id, Roster
from hushtune.core.secret import Secret
from hushtune.core.space import Candidates, Config, Float, Space
from hushtune.methods.base import Facts
from hushtune.methods.combine.cells import Cells
from hushtune.methods.combine.method import Combine
from hushtune.methods.combine.tallies import CellCounts, ConfigSums
from hushtune.privacy.noise.base import Noise
from hushtune.run.simulation import Shortcut
from hushtune.seals.base import Seal
from hushtune.seals.forms import Form
from hushtune.seals.threshold.process import Sidecar
from hushtune.seals.threshold.seal import Threshold
from hushtune.testing.conversation import Conversation

Vectors = dict[Id, dict[str, IntArray]]
"""What each client contributes, by block."""

_RUN = "0" * 32
_SPENT = ("cpu_seconds", "wall_seconds", "bytes_per_client")
_KEYS = ("begin", "keys", "second", "third", "joint", "public", "first")
_PRIMITIVES = {
    "secret and public key share": ("keys",),
    "joint public key": ("public",),
    "relinearisation shares, all three": ("second", "third"),
    "relinearisation key": ("first",),
    "encrypt": ("encrypt",),
    "add": ("add",),
    "multiply": ("multiply",),
    "divide": ("divide",),
    "compare": ("polynomial",),
    "bootstrapping share": ("refresh",),
    "bootstrapping, server": ("boot", "booted"),
    "decryption share with smudging": ("decrypt",),
    "fusion": ("fuse",),
}
RINGS = {10: 2**14, 20: 2**15}
_GRID = Space(lr=Float(0.01, 0.5), momentum=Float(0.0, 0.95)).grid(lr=8, momentum=5)


class Room:
    """All parties of a run and its server, with what they have used."""

    def __init__(self, clients: int, ring: int) -> None:
        self.seal = Threshold(ring=ring, smudging=0.0)
        self.ids = tuple(f"client-{at:02}" for at in range(clients))
        self._talk = Conversation(self.seal, Roster(self.ids))

    def open(self, form: Form, vectors: Vectors, largest: int) -> tuple[Any, dict[str, Any]]:
        """What is opened, and a row of what that took."""
        clients = len(self.ids)
        blocks = {name: len(values) for name, values in vectors[self.ids[0]].items()}
        whole = {client: np.concatenate(list(own.values())) for client, own in vectors.items()}
        circuit = self.seal.circuit(form, clients, largest, form.length(blocks))
        began, wall, sent = self._cpu(), time.monotonic(), self._talk.bytes
        outcome = self._talk.open(whole, largest, form=form, blocks=blocks, last=False)
        return outcome.values, {
            "cpu_seconds": self._cpu() - began,
            "wall_seconds": time.monotonic() - wall,
            "bytes_per_client": (self._talk.bytes - sent) // clients,
            "lambda": outcome.smudging,
            "degrees": "x".join(str(len(one) - 1) for one in circuit.series),
        }

    def sidecars(self) -> list[Sidecar]:
        """All processes that run: the clients' and the evaluator."""
        ends: list[Any] = list(self._talk.clients.values())
        server: Any = self._talk.server
        running = [end._sidecar for end in ends] + [server._keys and server._keys.evaluator]
        return [one for one in running if one is not None]

    def _cpu(self) -> float:
        return time.process_time() + sum(one.total for one in self.sidecars())

    def close(self) -> None:
        """Ends all processes that run."""
        for one in self.sidecars():
            one.close()


def rows(clients: list[int], observer: Observer) -> Iterator[dict[str, Any]]:
    """For each number of clients: PF-Mean and PF-DBSCAN, with keys and after keys, and every primitive."""
    for count in clients:
        ring = RINGS.get(count, 2**15)
        with tempfile.TemporaryDirectory() as folder, observer.phase(f"{count} parties", 4) as advance:
            room = Room(count, ring)
            try:
                yield from _rows(room, ring, Path(folder), advance)
            finally:
                room.close()


def _rows(room: Room, ring: int, folder: Path, advance: Callable[[int], None]) -> Iterator[dict[str, Any]]:
    parties, common = parties_of(room.ids, folder), {"clients": len(room.ids), "ring": ring}
    mean, form, largest = _mean(room.seal, parties)
    _, keys = room.open(form, mean, largest)  # makes the keys; what follows does not
    advance(1)
    yield {"name": "PF-Mean with its keys", **common, **_rounded(keys)}
    quotients, found = room.open(form, mean, largest)
    advance(1)
    yield {"name": "PF-Mean", **common, **_rounded(found), "mse": _mse(quotients, form, mean)}
    counts, _, form, largest = counts_of(room.seal, parties)
    mask, first = room.open(form, counts, largest)
    advance(1)
    exact = form.of(_total(counts))
    sums, _, form, largest = clusters_of(room.seal, parties, np.rint(mask) > 0)
    quotients, second = room.open(form, sums, largest)
    advance(1)
    both = {name: first[name] + second[name] for name in _SPENT}
    said = {"lambda": f"{first['lambda']}, {second['lambda']}", "degrees": f"{first['degrees']}, {second['degrees']}"}
    yield {
        "name": "PF-DBSCAN",
        **common,
        **_rounded({**both, **said}),
        "mse": _mse(quotients, form, sums),
        "mask_exact": bool((np.rint(mask) == exact).all()),
    }
    yield {"name": "PF-DBSCAN with its keys", **common, **_rounded(with_keys(keys, found, both))}
    yield from _primitives(room, common)


def with_keys(first: Mapping[str, Any], again: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """What another opening takes together with keys.

    Args:
        first: what an opening took that made the keys.
        again: what the same opening took when they were there.
        other: what the other one took then.
    """
    return {name: first[name] - again[name] + other[name] for name in _SPENT}


def _rounded(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: round(value, 3) if isinstance(value, float) else value for name, value in row.items()}


def _primitives(room: Room, common: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """CPU milliseconds of one call each, over all calls that were made."""
    evaluator = room.sidecars()[-1]
    evaluator.call("multiply")
    (one,) = evaluator.call("boot", label="primitive")
    shares = [part for end in room.sidecars()[:-1] for part in end.call("refresh", one, label="primitive")]
    evaluator.call("booted", *shares)
    spent: Counter[str] = Counter()
    made: Counter[str] = Counter()
    for sidecar in room.sidecars():
        spent.update(sidecar.cpu)
        made.update(sidecar.calls)
    for name, operations in _PRIMITIVES.items():
        seconds = sum(spent[op] for op in operations)
        calls = max(made[op] for op in operations)
        yield {"name": name, **common, "calls": calls, "cpu_ms": round(1000 * seconds / max(1, calls), 1)}


# ---- what the parties hold ---------------------------------------------------------------------------


@objective
def _loss(config: Config, data: Any) -> float:
    """Best around the party's own learning rate, with a large momentum; or around another one, with a small one."""
    near = abs(config["lr"] - data[0]) + 0.2 * abs(config["momentum"] - 0.9)
    far = 0.1 + abs(config["lr"] - 0.1) + 0.2 * abs(config["momentum"] - 0.1)
    return float(min(near, far, 1.0))


def parties_of(ids: Sequence[Id], folder: Path) -> dict[Id, Party]:
    """Clients that have searched already.

    Args:
        ids: their names.
        folder: where their trials are kept.
    """
    rng, store = np.random.default_rng(0), TrialStore(folder / "trials.db")
    data = {id_: np.array([rng.uniform(0.35, 0.45)]) for id_ in ids}
    return {
        id_: Party(id_, Client(data[id_], _loss), store, folder, SystemRandomness(), secret=Secret.simulated(0, id_))
        for id_ in ids
    }


def _method(strategy: Any, clients: int, seal: Seal) -> Combine:
    candidates: Candidates = _GRID
    return Combine(strategy).settled(Facts(candidates, clients, None, seal, Search()))


def _vectors(query: CellCounts | ConfigSums, parties: Mapping[Id, Party]) -> Vectors:
    noise = Threshold(), Noise(0.0), 1
    everybody = Shortcut(list(parties.values()), WHOLE, _GRID, Search(), *noise, 0)
    return {id_: dict(blocks) for id_, blocks in everybody.gather(query).items()}


def _mean(seal: Seal, parties: Mapping[Id, Party]) -> tuple[Vectors, Form, int]:
    query = _method("mean", len(parties), seal).query(_GRID, Search())
    assert isinstance(query, ConfigSums)
    form = Form("sums", over="counts", least=len(parties) * query.unit, step=query.unit)
    return _vectors(query, parties), form, len(parties) * query.bound.largest


def counts_of(seal: Seal, parties: Mapping[Id, Party]) -> tuple[Vectors, CellCounts, Form, int]:
    """PF-DBSCAN's first opening, which cells are dense: vectors, what is asked, the form, and the largest sum.

    Args:
        seal: under which.
        parties: the clients.
    """
    method = _method("dbscan", len(parties), seal)
    query = method.query(_GRID, Search())
    assert isinstance(query, CellCounts)
    form = Form("counts", at_least=method.min_points)
    return _vectors(query, parties), query, form, len(parties) * query.bound.largest


def clusters_of(seal: Seal, parties: Mapping[Id, Party], dense: Any) -> tuple[Vectors, ConfigSums, Form, int]:
    """Its second opening, the means of clusters: the same.

    Args:
        seal: under which.
        parties: the clients.
        dense: which cells are.
    """
    method = _method("dbscan", len(parties), seal)
    if not dense.any():
        raise SettingError(f"clients must be so many that a cell is dense, but got {len(parties)}; try 10")
    clusters = tuple(Cells(_GRID.space, method.cell).clusters(dense).tolist())
    query = method.query(_GRID, Search(), clusters)
    assert isinstance(query, ConfigSums)
    form = Form("sums", over="counts", least=(method.min_points or 1) * query.unit, step=query.unit)
    return _vectors(query, parties), query, form, len(parties) * query.bound.largest


def _total(vectors: Vectors) -> dict[str, IntArray]:
    blocks = list(vectors.values())
    return {name: np.sum([block[name] for block in blocks], axis=0) for name in blocks[0]}


def _mse(values: Any, form: Form, vectors: Vectors) -> float:
    return float(f"{np.mean((values - form.of(_total(vectors))) ** 2):.2g}")
