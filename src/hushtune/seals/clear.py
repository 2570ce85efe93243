"""Clear: no protection of single contributions. The server sees each one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hushtune.client import Id
from hushtune.errors import WireError
from hushtune.privacy.skellam import IntArray
from hushtune.seals.base import Seal
from hushtune.wire import pack, unpack


@dataclass(frozen=True)
class Clear(Seal):
    """Contributions travel as they are, each with its own noise share only.

    The guarantee of a run then holds against everybody who sees the opened sum, but not against the server.
    """

    name: ClassVar[str] = "clear"

    def protect(self, vector: IntArray) -> bytes:
        """The vector itself."""
        return pack({"kind": "vector"}, vector.astype("<i8").tobytes())

    def open(self, replies: Mapping[Id, bytes], length: int) -> tuple[IntArray, dict[Id, str]]:
        """Adds up what arrived."""
        total = np.zeros(length, dtype=np.int64)
        rejected: dict[Id, str] = {}
        for client, reply in replies.items():
            try:
                total += _vector(reply, length)
            except WireError as error:
                rejected[client] = str(error)
        return total, rejected


def _vector(reply: bytes, length: int) -> IntArray:
    header, parts = unpack(reply)
    if header.get("kind") == "refused":
        raise WireError(f"refused: {header.get('reason')}")
    if header.get("kind") != "vector" or len(parts) != 1 or len(parts[0]) != 8 * length:
        raise WireError(f"a reply must hold {length} integers")
    return np.frombuffer(parts[0], dtype="<i8").astype(np.int64)
