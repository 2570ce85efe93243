"""Nodes of a coordinator's own, for runs whose roster names none: all on one machine, which is INSECURE."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from hushtune.core.identity import Identity
from hushtune.core.randomness import SimulatedRandomness
from hushtune.core.roster import Id, NodeEntry, Roster
from hushtune.core.secret import Secret
from hushtune.core.wire import pack, unpack
from hushtune.federation.base import Reach
from hushtune.federation.nodes.own import Own
from hushtune.federation.nodes.reach import Nodes
from hushtune.federation.nodes.task import board_of, reader
from hushtune.seals.quorum.node import NodeEnd

IDENTITY = "identity.key"


def own_entries(home: Path, nodes: int, seed: int | None) -> tuple[NodeEntry, ...]:
    """So many nodes without an address, with keys that are kept under `home`, or follow from a simulation's seed.

    Args:
        home: the coordinator's folder.
        nodes: how many.
        seed: of a marked simulation; None: a real run.
    """
    names = [f"node-{number}" for number in range(1, nodes + 1)]
    return tuple(NodeEntry(name, own_identity(home, name, seed).public) for name in names)


def own_identity(home: Path, name: Id, seed: int | None) -> Identity:
    """The identity of one of them: made when it is first needed, and the same ever after.

    Args:
        home: the coordinator's folder.
        name: of the node.
        seed: of a marked simulation; None: a real run.
    """
    if seed is not None:
        return Identity(SimulatedRandomness(seed, f"identity of {name}").bytes(32))
    path = home / "nodes" / name / IDENTITY
    if not path.exists():
        Identity.new().save(path)
    return Identity.load(path)


def nodes_of(roster: Roster, home: Path, seed: int | None) -> Reach:
    """How a run in one process reaches the nodes that its roster names: at their addresses, or, if they have none, in
    processes of their own on this machine. A marked simulation's are in this process.

    Args:
        roster: the run's.
        home: the coordinator's folder.
        seed: of a marked simulation; None: a real run.
    """
    if seed is not None:
        return SimulatedNodes(roster, seed)

    def own(entry: NodeEntry) -> Own:
        return Own(entry.name, home / "nodes" / entry.name / IDENTITY, home / "nodes")

    return Nodes(roster, Secret.kept(home / "coordinator"), own)


class SimulatedNodes:
    """Nodes of a marked simulation, in this process: what they draw follows from its seed.

    Args:
        roster: the run's.
        seed: of the simulation.
    """

    def __init__(self, roster: Roster, seed: int) -> None:
        self._place = TemporaryDirectory(prefix="hushtune-nodes-")
        self._first: dict[str, int] = {}  # by run: the number of the first message after that for keys
        board, read = board_of(roster), reader(roster)
        self._ends = {
            node.name: NodeEnd(
                node.name,
                own_identity(Path(), node.name, seed),
                board,
                Path(self._place.name) / node.name,
                read,
                SimulatedRandomness(seed, f"secret of {node.name}").bytes,
            )
            for node in roster.nodes
        }

    def exchange(self, messages: Mapping[Id, bytes]) -> dict[Id, bytes]:
        """Every named node's reply."""
        return {name: self._ends[name].step(self._numbered(message)) for name, message in messages.items()}

    def _numbered(self, message: bytes) -> bytes:
        """A run that is taken up again finds nodes that begin anew, in the middle of it: then numbers do as well."""
        header, parts = unpack(message)
        if not (at := header.get("at", 0)):  # the first message of a run, or the last
            return message
        first = self._first.setdefault(header["run"], at)
        return message if first == 1 else pack(header | {"at": at - first + 1}, *parts)

    def close(self) -> None:
        """Removes what they kept."""
        self._place.cleanup()
