"""The roster: the public, ordered list of all clients of a run. A client knows it before the run and holds on to it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tomllib
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


def check_name(name: object) -> Id:
    """The name of a client, which also names its folder; anything else is refused."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise SettingError(f"a client's name must match {_NAME.pattern}, but got {name!r}")
    return name


@dataclass(frozen=True)
class Roster:
    """Who takes part, and how to know them.

    Args:
        ids: the clients' names, in order: letters, digits, dots, dashes and underscores, 64 at the most, no two alike.
        keys: their pinned Ed25519 public keys, 32 bytes each, in the same order. None: unpinned, and the server is
            trusted not to impersonate clients.
        seed: 32 random bytes, drawn by the operator when the roster is made, after all clients are known: it orders the
            graph of peers, so a server cannot choose who is whose peer. Empty if unpinned.
    """

    ids: tuple[Id, ...]
    keys: tuple[bytes, ...] | None = None
    seed: bytes = b""

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

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def pinned(self) -> bool:
        """Whether the clients' keys are known."""
        return self.keys is not None

    def digest(self) -> str:
        """One text per roster."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        keys = [key.hex() for key in self.keys] if self.keys is not None else None
        return hashlib.sha256(json.dumps([self.ids, keys, self.seed.hex()]).encode()).hexdigest()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a pinned roster as TOML, to be given to every client by a way the server does not control.

        Args:
            path: replaced if it exists.
        """
        if self.keys is None:
            raise SettingError("only a roster with keys can be saved")
        lines = [f'seed = "{self.seed.hex()}"', "", "[clients]"]
        lines += [f'"{name}" = "{key.hex()}"' for name, key in zip(self.ids, self.keys, strict=True)]
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
        except OSError as error:
            raise SettingError(f"{path} cannot be read: {error.strerror}") from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise SettingError(f"{path} must be a roster: `seed` and a table [clients] of names and keys") from None
        if len(seed) != 32 or any(len(key) != 32 for key in clients.values()):
            raise SettingError(f"{path} must hold a seed and keys of 32 bytes each")
        return cls(tuple(clients), tuple(clients.values()), seed)
