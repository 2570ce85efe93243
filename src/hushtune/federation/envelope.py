"""What travels between a server and its clients' machines: a message or a reply, and who is meant.

To a client: the message, and, if no roster is pinned, the names of all nodes. Back: the reply, whose it is, whether it
comes from a marked simulation, and, if identities are pinned, a signature that ties the client's name to its node.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from hushtune.core.errors import WireError
from hushtune.core.roster import Id
from hushtune.core.wire import pack, unpack

_TO, _FROM = "to-client", "from-client"


@dataclass(frozen=True)
class Letter:
    """To a client.

    Args:
        message: what the run asks.
        nodes: all clients by the names of their nodes; None if the clients know the roster.
    """

    message: bytes
    nodes: tuple[Id, ...] | None

    def to_bytes(self) -> bytes:
        """The letter on the wire."""
        return pack({"kind": _TO, "nodes": self.nodes}, self.message)

    @classmethod
    def from_bytes(cls, content: bytes) -> Letter:
        """Parses and type-checks; whatever is not a letter is a WireError."""
        header, parts = unpack(content)
        nodes = header.get("nodes")
        well_formed = nodes is None or (isinstance(nodes, list) and all(isinstance(node, str) for node in nodes))
        if header.get("kind") != _TO or set(header) != {"kind", "nodes"} or len(parts) != 1 or not well_formed:
            raise WireError("a letter to a client was expected")
        return cls(parts[0], None if nodes is None else tuple(nodes))


@dataclass(frozen=True)
class Answer:
    """From a client.

    Args:
        reply: what the client's `release.respond` gave.
        name: whose reply it is.
        simulated: whether the client is marked as a simulation.
        proof: with pinned identities, its signature of `proof_text`.
    """

    reply: bytes
    name: Id
    simulated: bool
    proof: bytes

    def to_bytes(self) -> bytes:
        """The answer on the wire."""
        return pack({"kind": _FROM, "name": self.name, "simulated": self.simulated}, self.reply, self.proof)

    @classmethod
    def from_bytes(cls, content: bytes) -> Answer:
        """Parses and type-checks; whatever is not an answer is a WireError."""
        header, parts = unpack(content)
        name, simulated = header.get("name"), header.get("simulated")
        if header.get("kind") != _FROM or len(parts) != 2 or not isinstance(name, str) or type(simulated) is not bool:
            raise WireError("an answer of a client was expected")
        return cls(parts[0], name, simulated, parts[1])


def proof_text(name: Id, node: Id, letter: bytes) -> bytes:
    """What a client signs to show that it is behind a node: fresh for every letter."""
    return f"hushtune node 1 {name} {node} {hashlib.sha256(letter).hexdigest()}".encode()
