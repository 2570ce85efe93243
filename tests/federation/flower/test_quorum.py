"""The quorum on a SuperLink and SuperNodes as real processes, with `hushtune node` for each of three organisations."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.federation.flower.deployment import BIN, Deployment
from tests.federation.flower.test_deployment import Pace

import hushtune as ht
from hushtune.core.roster import NodeEntry, Roster

pytestmark = pytest.mark.flower

CLIENTS, NODES = 3, 3


def free_address(number: int) -> str:
    """On an address of its own, of this machine."""
    host = f"127.0.0.{number + 1}"
    with socket.socket() as found:
        found.bind((host, 0))
        return f"{host}:{found.getsockname()[1]}"


class Organisations:
    """Keys of three clients and three nodes, and the roster that pins them.

    Args:
        folder: for all of it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / "roster.toml"
        folder.mkdir()
        keys = {name: ht.Identity.new() for name in (*self._named("client"), *self._named("node"))}
        for name, identity in keys.items():
            identity.save(folder / f"{name}.key")
        entries = [
            NodeEntry(name, keys[name].public, free_address(number)) for number, name in enumerate(self._named("node"))
        ]
        clients = tuple(self._named("client"))
        self.roster = Roster(clients, tuple(keys[name].public for name in clients), os.urandom(32), tuple(entries))
        self.roster.save(self.path)
        (folder / "policy.toml").write_text("epsilon = 1.0\ndelta = 1e-5\ninsecure = true\n")

    @staticmethod
    def _named(what: str) -> list[str]:
        return [f"{what}-{number}" for number in range(3)]

    def config(self, number: int) -> str:
        """What a SuperNode is given."""
        own = {"roster": self.path, "identity": self.folder / f"client-{number}.key"}
        return " ".join(
            f"hushtune-{name}='{path}'" for name, path in (own | {"policy": self.folder / "policy.toml"}).items()
        )

    def start(self, entry: NodeEntry) -> subprocess.Popen[str]:
        """A node's program, which has said that it is ready."""
        own = ["--identity", str(self.folder / f"{entry.name}.key"), "--home", str(self.folder / entry.name)]
        command = [str(BIN / "hushtune"), "node", "--listen", entry.address, "--roster", str(self.path), *own, "--json"]
        node = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert node.stdout is not None
        assert json.loads(node.stdout.readline())["address"] == entry.address
        return node

    @contextmanager
    def served(self) -> Iterator[dict[str, subprocess.Popen[str]]]:
        """All nodes; whichever are there at the end are ended."""
        nodes: dict[str, subprocess.Popen[str]] = {}
        try:
            for entry in self.roster.nodes:
                nodes[entry.name] = self.start(entry)
            yield nodes
        finally:
            for node in nodes.values():
                node.kill()
                node.communicate()

    def kept(self) -> list[Path]:
        """Whatever nodes still have of runs."""
        return [path for path in self.folder.glob("node-*/nodes/*/*/*") if path.name != "lock"]


def test_a_node_that_is_killed_opens_nothing_and_started_again_the_same_run_finishes(tmp_path: Path) -> None:
    """It goes down when clients have been asked. The second run asks no client anything."""
    of, state = Organisations(tmp_path / "keys"), tmp_path / "run"
    with Deployment(tmp_path / "deployment") as deployment, of.served() as nodes:
        deployment.ensure({number: of.config(number) for number in range(CLIENTS)})
        asked = {
            "hushtune_seal": "quorum",
            "hushtune_epsilon": 1.0,
            "hushtune_roster": of.path,
            "hushtune_nodes": CLIENTS,
            "hushtune_folder": state,
        }
        first = Pace(tmp_path / "first", 0)
        run = deployment.submit(pace=first.folder, out=tmp_path / "none", **asked)
        first.reached(0)
        nodes["node-1"].kill()
        first.release(0)
        ended = deployment.finished(run)
        assert "failed" in ended
        assert "all nodes must answer, but node-1: no reply" in ended
        assert "nothing was opened" in ended
        assert json.loads((state / "run.json").read_text())["opened"] == []

        nodes["node-1"].communicate()
        nodes["node-1"] = of.start(of.roster.nodes[1])
        second = Pace(tmp_path / "second")
        run = deployment.submit(pace=second.folder, out=tmp_path / "out", **asked)
        assert "completed" in deployment.finished(run), (deployment.folder / "link.log").read_text()[-3000:]
        assert not list(second.folder.glob("before-*"))
    result = ht.Result.load(tmp_path / "out")
    assert result.opened[0].blocks == {"answers": [result.index]}
    assert result.answered == CLIENTS
    assert [node.address for node in result.nodes] == [node.address for node in of.roster.nodes]
    assert "3 of 3 nodes are on the coordinator's own machine" in result.statement  # which this test's are
    assert all(check.holds for check in ht.verify(tmp_path / "out"))
    assert not of.kept()
    for number in range(CLIENTS):
        ledger = ht.Ledger(deployment.folder / f"node-{number}" / "clients" / f"client-{number}" / "ledger.db")
        assert len(ledger.entries()) == 1
