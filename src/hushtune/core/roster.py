"""The roster: the public, ordered list of all clients of a run, and of any nodes that compute for them.
A client knows it before the run and holds on to it."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import os
import re
import socket
import tomllib
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from hushtune.core.errors import SettingError
from hushtune.core.files import replace

Id = str
Role = Literal["clients", "nodes"]
"""Whom a message is for: clients, who hold data, or nodes, who compute for them."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def check_name(name: object, of: str = "client") -> Id:
    """The name of a client or a node, which also names its folder; anything else is refused."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise SettingError(f"a {of}'s name must match {_NAME.pattern}, but got {name!r}")
    return name


@dataclass(frozen=True)
class NodeEntry:
    """A node: an organisation's program that computes with others on what clients have shared among them.

    Args:
        name: a client of the same roster may have the same name, and the same key: it is then the same organisation.
        key: its pinned Ed25519 public key, 32 bytes.
        address: HOST:PORT, where its program listens. Empty: it is in the coordinator's own process.
    """

    name: Id
    key: bytes
    address: str = ""

    def __post_init__(self) -> None:
        check_name(self.name, "node")
        if len(self.key) != 32:
            raise SettingError(f"a node's key must have 32 bytes, but {self.name}'s has {len(self.key)}")
        if self.address:
            parse_address(self.address)

    def to_json(self) -> dict[str, str]:
        """Name, key and address as plain values."""
        return {"name": self.name, "key": self.key.hex(), "address": self.address}

    @classmethod
    def from_json(cls, raw: dict[str, str]) -> NodeEntry:
        """The node that `to_json` wrote.

        Args:
            raw: name, key and address.
        """
        return cls(raw["name"], bytes.fromhex(raw["key"]), raw["address"])

    @property
    def host(self) -> str:
        """Whose machine it runs on, as far as its address tells; empty: the one that it is reached from."""
        return _machine(parse_address(self.address)[0].lower().rstrip(".")) if self.address else ""


def _machine(host: str) -> str:
    """One text for all spellings of an address; empty for what stands for the very machine that looks for it."""
    if host == "localhost" or host.endswith(".localhost"):
        return ""
    try:
        if re.fullmatch(r"[0-9a-fx.]+", host):  # 127.1 and 2130706433 are 127.0.0.1 to whoever connects
            with suppress(OSError):
                host = socket.inet_ntoa(socket.inet_aton(host))
        found = ipaddress.ip_address(host)
        if isinstance(found, ipaddress.IPv6Address):
            found = found.ipv4_mapped or found
    except ValueError:
        return host
    return "" if found.is_loopback or found.is_unspecified else str(found)


def parse_address(address: str) -> tuple[str, int]:
    """Host and port of HOST:PORT; an IPv6 host stands in brackets.

    Args:
        address: as people write it.
    """
    host, _, port = address.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    fine = re.fullmatch(r"\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9._-]+", host) and re.fullmatch(r"[0-9]{1,5}", port)
    if not fine or not 1 <= int(port) <= 65535:
        raise SettingError(f"an address must be HOST:PORT with a port from 1 to 65535, but got {address!r}")
    return bare, int(port)


@dataclass(frozen=True)
class Roster:
    """Who takes part, and how to know them.

    Args:
        ids: the clients' names, in order: letters, digits, dots, dashes and underscores, 64 at most, no two alike.
        keys: their pinned Ed25519 public keys, 32 bytes each, in the same order. None: unpinned, and the server is
            trusted not to impersonate clients.
        seed: 32 random bytes, drawn by the operator when the roster is made, after all clients are known: it orders the
            graph of peers, so a server cannot choose who is whose peer. Empty if unpinned.
        nodes: those who compute for the clients under seal 'quorum', in order; no two with one name or one key.
    """

    ids: tuple[Id, ...]
    keys: tuple[bytes, ...] | None = None
    seed: bytes = b""
    nodes: tuple[NodeEntry, ...] = ()

    def __post_init__(self) -> None:
        if not self.ids:
            raise SettingError("a roster must name at least one client, but got none")
        for name in self.ids:
            check_name(name)
        if len(set(self.ids)) < len(self.ids):
            raise SettingError("a roster must name each client once, but got a name twice")
        if self.keys is not None and len(set(self.keys)) != len(self.ids):
            raise SettingError("a pinned roster must have one key of its own per client")
        if self.keys is not None and len(self.seed) != 32:
            raise SettingError(f"a pinned roster must have a random seed of 32 bytes, but got {len(self.seed)} bytes")
        for one in ("name", "key", "address"):
            found = [getattr(node, one) for node in self.nodes if getattr(node, one)]
            if len(set(found)) < len(found):
                raise SettingError(f"every node must have its own {one}, but two nodes of the roster have the same")

        for node in self.nodes:
            if self.keys is not None and node.name in self.ids and self.keys[self.ids.index(node.name)] != node.key:
                raise SettingError(f"client and node '{node.name}' have one name and must have one key, but got two")

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def pinned(self) -> bool:
        """Whether the clients' keys are known."""
        return self.keys is not None

    def digest(self) -> str:
        """One text per roster."""
        return self._digests[0]

    def clients_digest(self) -> str:
        """One text per list of clients, whichever nodes compute for them."""
        return self._digests[1]

    @cached_property
    def _digests(self) -> tuple[str, str]:
        keys = [key.hex() for key in self.keys] if self.keys is not None else None
        clients = hashlib.sha256(json.dumps([self.ids, keys, self.seed.hex()]).encode()).hexdigest()
        if not self.nodes:
            return clients, clients
        nodes = [[node.name, node.key.hex(), node.address] for node in self.nodes]
        return hashlib.sha256(json.dumps([clients, nodes]).encode()).hexdigest(), clients

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a pinned roster as TOML, to be given to every client by a way the server does not control.

        Args:
            path: replaced if it exists.
        """
        if self.keys is None:
            raise SettingError("only a roster with keys can be saved")
        lines = [f'seed = "{self.seed.hex()}"', "", "[clients]"]
        lines += [f'"{name}" = "{key.hex()}"' for name, key in zip(self.ids, self.keys, strict=True)]
        if self.nodes:
            lines += ["", "[nodes]"]
        lines += [f'"{node.name}" = "{node.key.hex()}@{node.address}"' for node in self.nodes]
        replace(Path(path), "\n".join(lines) + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Roster:
        """A pinned roster from a file.

        Args:
            path: of a file that `save` or `hushtune identity roster` made.
        """
        try:
            raw = tomllib.loads(Path(path).read_text(encoding="utf-8"))
            clients = {str(name): bytes.fromhex(key) for name, key in raw["clients"].items()}
            seed = bytes.fromhex(raw["seed"])
            nodes = tuple(node_entry(str(name), text) for name, text in raw.get("nodes", {}).items())
        except OSError as error:
            raise SettingError(f"{path} cannot be read: {error.strerror}") from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise SettingError(f"{path} must be a roster: `seed` and a table [clients] of names and keys") from None
        if len(seed) != 32 or any(len(key) != 32 for key in clients.values()):
            raise SettingError(f"{path} must hold a seed and keys of 32 bytes each")
        return cls(tuple(clients), tuple(clients.values()), seed, nodes)


def node_entry(name: str, text: str) -> NodeEntry:
    """A node from its name and KEY@HOST:PORT.

    Args:
        name: of the node.
        text: its key in hexadecimal digits, and where it listens.
    """
    key, _, address = text.partition("@")
    if not re.fullmatch(r"[0-9a-fA-F]{64}", key) or not address:
        raise SettingError(
            "a node must be NAME=KEY@HOST:PORT with a key of 64 hexadecimal digits, but got "
            f"'{name}{'=' if text else ''}{text}'"
        )
    return NodeEntry(name, bytes.fromhex(key), address)
