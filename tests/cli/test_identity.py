"""`hushtune identity roster`: clients and nodes, with their keys."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Hushtune

from hushtune.core.roster import Roster

CLIENT = f"a={'0' * 64}"


def entry(number: int, name: str | None = None, key: str | None = None) -> str:
    return f"--node={name or f'node-{number}'}={key or f'{number:064x}'}@127.0.0.1:{7000 + number}"


def test_a_roster_with_nodes(hushtune: Hushtune, tmp_path: Path) -> None:
    path = tmp_path / "roster.toml"
    made = hushtune("identity", "roster", path, CLIENT, *map(entry, (1, 2, 3)))
    given = "give it to every client and node by a way the server does not control"
    assert made.stdout == f"made {path} with 1 client and 3 nodes; {given}\n"
    roster = Roster.load(path)
    assert [(node.name, node.key, node.address) for node in roster.nodes] == [
        (f"node-{at}", bytes([0] * 31 + [at]), f"127.0.0.1:{7000 + at}") for at in (1, 2, 3)
    ]
    told = json.loads(hushtune("identity", "roster", tmp_path / "b", CLIENT, *map(entry, range(5)), "--json").stdout)
    assert told["nodes"] == [f"node-{at}" for at in range(5)]
    assert told["digest"] == Roster.load(tmp_path / "b").digest()


def test_a_roster_without_nodes_says_nothing_of_them(hushtune: Hushtune, tmp_path: Path) -> None:
    path = tmp_path / "roster.toml"
    made = hushtune("identity", "roster", path, CLIENT)
    assert made.stdout == f"made {path} with 1 client; give it to every client by a way the server does not control\n"
    assert Roster.load(path).nodes == ()


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([entry(1)], "nodes must be one of [3, 5, 7], but got 1"),
        ([entry(at) for at in range(4)], "nodes must be one of [3, 5, 7], but got 4"),
        ([entry(1), entry(2), entry(3, name="node-1")], "every node must have its own name"),
        ([entry(1), entry(2), entry(3, key="0" * 63 + "1")], "every node must have its own key"),
        ([entry(1), entry(2), entry(2, name="node-3", key="3" * 64)], "every node must have its own address"),
        (
            [entry(1), entry(2), "--node=node-3"],
            "a node must be NAME=KEY@HOST:PORT with a key of 64 hexadecimal digits, but got 'node-3'",
        ),
        ([entry(1), entry(2), f"--node=node-3={'3' * 64}@host"], "an address must be HOST:PORT"),
        ([entry(1), entry(2), f"--node={'3' * 64}@host:1"], "must be NAME=KEY@HOST:PORT"),
    ],
)
def test_nodes_that_cannot_be(hushtune: Hushtune, tmp_path: Path, nodes: list[str], message: str) -> None:
    failed = hushtune("identity", "roster", tmp_path / "roster.toml", CLIENT, *nodes)
    assert (failed.returncode, failed.stdout) == (2, "")
    (line,) = failed.stderr.splitlines()
    assert message in line
    assert not (tmp_path / "roster.toml").exists()
