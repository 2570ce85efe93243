"""A client's end of a quorum: one message, in which its ballots lie in shares, one sealed envelope for each node."""

from __future__ import annotations

import hashlib

import numpy as np

from hushtune.core.errors import RefusedError, WireError
from hushtune.core.wire import unpack
from hushtune.seals.ends import Due, Seat
from hushtune.seals.quorum.envelopes import about, submitted
from hushtune.seals.quorum.field import SMALL
from hushtune.seals.quorum.layout import layout_of
from hushtune.seals.quorum.node import announced_key
from hushtune.seals.quorum.sharing import crowd, deal


class QuorumClient:
    """Shares its vectors out among the nodes that its own roster names.

    Args:
        seat: where it sits.
    """

    done = True  # it keeps nothing

    def __init__(self, seat: Seat) -> None:
        self._seat = seat
        self.terms = seat.terms

    def step(self, message: bytes, due: Due | None) -> bytes:
        """The client's submission. Its shares follow from the vectors that they protect, and from a secret."""
        if due is None or due.vector is None or due.drawn is None or due.bound is None:
            raise RefusedError("no input is due")
        _, (request, *announced) = unpack(message)
        keys = self._keys(announced)
        layout, vectors = layout_of(due.bound), due.vector()
        bits = np.concatenate([layout.bits(vector) for vector in vectors])
        among, source = crowd(len(keys)), due.drawn("shares", vectors.astype("<i8").tobytes())
        concerning = about(self._seat.run, hashlib.sha256(request).digest(), self._seat.roster.ids[self._seat.number])
        made = submitted(deal(SMALL, among, bits, source), keys, concerning, source)
        if self._seat.identity is not None:
            made = made.signed(self._seat.identity, concerning)
        return made.to_bytes()

    def _keys(self, announced: list[bytes]) -> list[bytes]:
        """The nodes' keys of this run, each signed by the node that the client's own roster names."""
        nodes = self._seat.roster.nodes
        if len(announced) != len(nodes):
            raise WireError(f"the keys of {len(nodes)} nodes must come with a request, but got {len(announced)}")
        return [
            announced_key(node.key, self._seat.run, content) for node, content in zip(nodes, announced, strict=True)
        ]

    def made(self, reply: bytes) -> bool:
        """It has no state."""
        return False

    def dump(self) -> bytes:
        """No bytes: there is no state to keep."""
        return b""

    def load(self, state: bytes) -> QuorumClient:
        """Nothing is taken up."""
        return self

    def close(self) -> None:
        """Does nothing: there is nothing to end."""
