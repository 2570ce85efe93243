from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

import hushtune as ht
from hushtune.core.roster import NodeEntry, Roster, node_entry


def test_a_pinned_roster_has_a_seed() -> None:
    """Without one, a server would choose the neighbours by choosing the run's id."""
    with pytest.raises(ht.SettingError, match="random seed of 32 bytes, but got 0 bytes"):
        Roster(("a",), (bytes(32),))


def test_rosters_name_each_client_once() -> None:
    with pytest.raises(ht.HushtuneError):
        Roster(("a", "a"))
    with pytest.raises(ht.HushtuneError):
        Roster(())


def _nodes(**changed: object) -> tuple[NodeEntry, ...]:
    entries = [NodeEntry(f"node-{at}", bytes([at]) * 32, f"10.0.0.{at}:7000") for at in (1, 2, 3)]
    return (dataclasses.replace(entries[0], **changed), *entries[1:])  # type: ignore[arg-type]


def _with(nodes: tuple[NodeEntry, ...]) -> Roster:
    return Roster(("a", "b"), (bytes(32), bytes([1]) * 32), bytes(32), nodes)


def test_a_roster_with_nodes_comes_back_from_its_file(tmp_path: Path) -> None:
    roster = _with(_nodes(address="[::1]:7000"))
    roster.save(tmp_path / "roster.toml")
    assert Roster.load(tmp_path / "roster.toml") == roster
    assert roster.nodes[0].host == ""  # whatever machine reads it: its own


@pytest.mark.parametrize(
    ("host", "machine"),
    [
        *(
            (own, "")
            for own in ("127.0.0.1", "127.9.9.9", "127.1", "2130706433", "0x7f000001", "0.0.0.0", "localhost.")
        ),
        *((own, "") for own in ("LOCALHOST", "a.localhost", "[::1]", "[::ffff:127.0.0.1]", "[::]")),
        *((other, "10.0.0.1") for other in ("10.0.0.1", "10.1", "167772161", "[::ffff:10.0.0.1]")),
        *((other, "a.org") for other in ("a.org", "A.org.", "a.ORG")),
        *((other, "fd00::1") for other in ("[fd00::1]", "[FD00:0::1]")),
        ("cafe", "cafe"),
    ],
)
def test_a_machine_is_the_same_however_its_address_is_written(host: str, machine: str) -> None:
    assert NodeEntry("node", bytes(32), f"{host}:7000").host == machine


def test_nodes_are_part_of_what_requests_are_bound_to_and_not_of_who_the_clients_are() -> None:
    rosters = [_with(()), _with(_nodes()), _with(_nodes(key=bytes([9]) * 32)), _with(_nodes(address="10.0.0.9:1"))]
    assert len({roster.digest() for roster in rosters}) == len(rosters)
    assert {roster.clients_digest() for roster in rosters} == {rosters[0].digest()}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"key": bytes([2]) * 32}, "every node must have its own key"),
        ({"name": "node-2"}, "every node must have its own name"),
        ({"address": "10.0.0.2:7000"}, "every node must have its own address"),
        ({"key": b"short"}, "key must have 32 bytes, but node-1's has 5"),
        ({"name": "../x"}, "a node's name must match"),
        ({"address": "10.0.0.1"}, "must be HOST:PORT"),
        ({"address": "10.0.0.1:0"}, "a port from 1 to 65535"),
        ({"address": "a b:70"}, "must be HOST:PORT"),
        ({"address": "::1:70"}, "must be HOST:PORT"),
    ],
)
def test_nodes_are_checked(changed: dict[str, object], message: str) -> None:
    with pytest.raises(ht.SettingError, match=message):
        _with(_nodes(**changed))


@pytest.mark.parametrize("text", ["", "00", "zz" * 32 + "@h:1", "00" * 32, "00" * 32 + "@"])
def test_a_node_is_written_as_its_key_and_address(text: str) -> None:
    with pytest.raises(ht.SettingError, match="a node must be NAME=KEY@HOST:PORT"):
        node_entry("n", text)


def test_a_client_that_is_a_node_has_one_key() -> None:
    ids, keys = ("node-1", "b"), (bytes([1]) * 32, bytes([7]) * 32)
    ht.Roster(ids, keys, bytes(32), _nodes(key=keys[0]))
    with pytest.raises(ht.SettingError, match="client and node 'node-1' have one name and must have one key"):
        ht.Roster(ids, keys, bytes(32), _nodes(key=bytes([9]) * 32))
