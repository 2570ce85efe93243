"""Clear: no protection of single contributions. The server sees each one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hushtune.errors import WireError
from hushtune.privacy.skellam import IntArray
from hushtune.roster import Id, Roster
from hushtune.seals.base import Exchange, Reserve, Seal, Summed
from hushtune.wire import pack, unpack_reply


@dataclass(frozen=True)
class Clear(Seal):
    """Contributions travel as they are, each with its own noise share only.

    The guarantee of a run then holds against everybody who sees the opened sum, but not against the server.

    Args:
        dropouts: share of clients that may fail to answer, in [0, 1); more abort the round, and nothing is opened.
        corrupt: share of clients that may add no noise, in [0, 1).
    """

    name: ClassVar[str] = "clear"

    def traffic(self, clients: int, length: int, bits: int, request: int, pinned: bool) -> tuple[float, int]:
        """One request, one vector."""
        return 2, request + len(protect(np.zeros(length, dtype=np.int64)))

    def session(self, run: str, roster: Roster, terms: str, first: int = 0) -> ClearSession:
        """The server's end."""
        return ClearSession(roster)


def protect(vector: IntArray) -> bytes:
    """A client's vector as it leaves the client: the vector itself."""
    return pack({"kind": "vector"}, vector.astype("<i8").tobytes())


@dataclass
class ClearSession:
    """The server's end: asks once, and adds up or not."""

    roster: Roster

    def gather(
        self, request: bytes, length: int, exchange: Exchange, reserve: Reserve
    ) -> tuple[dict[Id, IntArray], dict[Id, str]]:
        """What arrived from each client, and why each of the others is missing."""
        own: dict[Id, IntArray] = {}
        missing: dict[Id, str] = {}
        reserve()
        replies = exchange("asking clients", dict.fromkeys(self.roster.ids, request))
        for client in self.roster.ids:
            try:
                own[client] = vector_of(replies.get(client), length)
            except WireError as error:
                missing[client] = str(error)
        return own, missing

    def sum(self, request: bytes, length: int, bits: int, exchange: Exchange, last: bool, reserve: Reserve) -> Summed:
        """The sum of what arrived."""
        own, missing = self.gather(request, length, exchange, reserve)
        total = np.zeros(length, dtype=np.int64)
        for vector in own.values():
            total += vector
        return Summed(total, missing, {})


def vector_of(reply: Any, length: int) -> IntArray:
    """The vector in a reply; a WireError says why there is none."""
    header, parts = unpack_reply(reply)
    if header.get("kind") != "vector" or len(parts) != 1 or len(parts[0]) != 8 * length:
        raise WireError(f"a reply must hold {length} integers")
    return np.frombuffer(parts[0], dtype="<i8").astype(np.int64)
