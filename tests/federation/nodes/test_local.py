"""Nodes of a coordinator's own: in this process where a simulation is marked, else in processes beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.seals.quorum.room import seeded

import hushtune as ht
from hushtune.core.roster import NodeEntry, Roster
from hushtune.core.wire import pack, unpack
from hushtune.federation.local import LocalFederation
from hushtune.federation.nodes.local import SimulatedNodes, nodes_of, own_entries, own_identity
from hushtune.federation.nodes.reach import Nodes
from hushtune.federation.nodes.task import board_of, reader
from hushtune.seals.quorum.node import NodeEnd
from hushtune.testing.toys import SPACE, toy_clients

RUN = "ab" * 16
ASKED = pack({"kind": "quorum", "run": RUN, "is": "key", "at": 0})


def roster(home: Path, seed: int | None) -> Roster:
    return Roster(("a", "b"), nodes=own_entries(home, 3, seed))


def test_identities_are_kept_and_closed_to_others(tmp_path: Path) -> None:
    first, again = own_entries(tmp_path, 3, None), own_entries(tmp_path, 3, None)
    assert first == again
    assert [node.name for node in first] == ["node-1", "node-2", "node-3"]
    assert {node.address for node in first} == {""}
    assert own_entries(tmp_path / "other", 3, None)[0].key != first[0].key
    assert (tmp_path / "nodes" / "node-1" / "identity.key").stat().st_mode & 0o077 == 0


def test_a_simulations_identities_follow_from_its_seed(tmp_path: Path) -> None:
    assert own_entries(tmp_path, 5, 3) == own_entries(tmp_path / "other", 5, 3)
    assert own_identity(tmp_path, "node-1", 3).public != own_identity(tmp_path, "node-1", 4).public
    assert list(tmp_path.iterdir()) == []


def test_a_simulations_nodes_draw_the_same_and_leave_nothing(tmp_path: Path) -> None:
    found = []
    for _ in range(2):
        nodes = nodes_of(roster(tmp_path, 3), tmp_path, 3)
        assert isinstance(nodes, SimulatedNodes)
        found.append(nodes.exchange(dict.fromkeys(["node-1", "node-2"], ASKED)))
        nodes.close()
    assert found[0] == found[1]
    assert set(found[0]) == {"node-1", "node-2"}
    assert found[0]["node-1"] != found[0]["node-2"]
    assert list(tmp_path.iterdir()) == []


def test_real_nodes_are_processes_that_end_with_the_run(tmp_path: Path) -> None:
    nodes = nodes_of(roster(tmp_path, None), tmp_path, None)
    assert isinstance(nodes, Nodes)
    try:
        reply = nodes.exchange({"node-3": ASKED})["node-3"]
        assert isinstance(reply, bytes)
        assert unpack(reply)[0] == {"kind": "quorum", "is": "key"}
        assert (tmp_path / "nodes" / "node-3" / RUN / "secret").stat().st_mode & 0o077 == 0
        ended = nodes.exchange({"node-3": pack({"kind": "quorum", "run": RUN, "is": "end"})})["node-3"]
        assert isinstance(ended, bytes)
        assert not (tmp_path / "nodes" / "node-3" / RUN).exists()
    finally:
        nodes.close()


def test_a_federation_makes_nodes_if_the_roster_names_none(tmp_path: Path) -> None:
    clients = toy_clients(3, SPACE.grid(x=4), None)
    wire = LocalFederation(clients, tmp_path, jobs=1)
    before = wire.key()
    wire.provide(0)
    assert wire.roster.nodes == ()
    wire.provide(5)
    assert len(wire.roster.nodes) == 5
    assert wire.key() == before  # ledgers go by clients alone
    wire.provide(5)
    with pytest.raises(ht.SettingError, match="3 nodes must compute for the clients, but the roster names 5"):
        wire.provide(3)
    wire.close()


class Hosted(LocalFederation):
    """Nodes that are said to be on machines of their own, and are in this process."""

    def nodes(self) -> Any:
        if self._nodes is None:
            board, read = board_of(self.roster), reader(self.roster)
            ends = {
                node.name: NodeEnd(node.name, seeded(node.name), board, self.home / "hosted" / node.name, read)
                for node in self.roster.nodes
            }
            self._nodes = InMemory(ends)
        return self._nodes


class InMemory:
    def __init__(self, ends: dict[str, NodeEnd]) -> None:
        self._ends = ends

    def exchange(self, messages: Mapping[str, bytes]) -> dict[str, bytes]:
        return {name: self._ends[name].step(message) for name, message in messages.items()}

    def close(self) -> None:
        """Nothing was begun."""


def test_some_of_the_clients_can_be_nodes(tmp_path: Path) -> None:
    names, candidates = ("a", "b", "c", "d"), SPACE.grid(x=4)
    nodes = tuple(NodeEntry(name, seeded(name).public, f"{name}.example:7001") for name in names[:3])
    pinned = Roster(names, tuple(seeded(name).public for name in names), bytes(32), nodes)
    clients = [
        replace(client, name=name, identity=seeded(name))
        for name, client in zip(names, toy_clients(4, candidates, None), strict=True)
    ]
    wire = Hosted(clients, tmp_path, pinned, jobs=1)
    result = ht.tune(wire, candidates, method=ht.Vote(k=1), seal=ht.Quorum(), privacy=ht.Privacy(8.0, delta=0))
    assert [node.name for node in result.nodes] == ["a", "b", "c"]
    assert result.answered == 4
    assert "INSECURE" not in result.statement
    assert "a (a.example:7001)" in result.statement
    assert not [path for path in (tmp_path / "hosted").rglob("*") if path.is_file()]  # the run is over
