"""What a node's process is told first, over its pipe: never by arguments or environment, which others can read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from hushtune.core.errors import SettingError
from hushtune.core.identity import Identity
from hushtune.core.roster import Id, NodeEntry, Roster
from hushtune.core.words import counted

DAYS = 30


@dataclass(frozen=True)
class Own:
    """What belongs to one node.

    Args:
        name: in the roster. None: the one that the roster gives its identity.
        identity: its signing key, or the file that holds it: then only the node's own process reads it.
        folder: where its runs are kept, in a folder of the node's name.
        days: how long a run is kept that nobody ends, after its last message.
        served: whether others reach it through a front: then it has its folder to itself, and bounds how many runs
            there are. Else several coordinators of one user may each have a process for it, with runs of their own.
    """

    name: Id | None
    identity: Identity | Path
    folder: Path
    days: int = DAYS
    served: bool = False

    def named(self, roster: Roster) -> tuple[Id, Identity]:
        """The node's name and identity; refused if the roster does not name it so.

        Args:
            roster: the node's own.
        """
        identity = self.identity if isinstance(self.identity, Identity) else Identity.load(self.identity)
        for node in roster.nodes:
            if node.key == identity.public:
                if self.name not in (None, node.name):
                    raise SettingError(
                        f"the node's name must be '{node.name}', as in the roster, but got '{self.name}'"
                    )
                return node.name, identity
        names = ", ".join(node.name for node in roster.nodes)
        raise SettingError(
            "the roster must name a node with this identity's key, but it names "
            + (f"{counted(len(roster.nodes), 'node')} with other keys ({names})" if names else "no nodes")
            + "; make one with `hushtune identity roster ... --node NAME=KEY@HOST:PORT`"
        )


def told(own: Own, roster: Roster) -> bytes:
    """All that a node's process must know, for its pipe only.

    Args:
        own: of the node.
        roster: the node's.
    """
    of = own.identity
    return json.dumps(
        {
            "name": own.name,
            "identity": {"secret": of.secret.hex()} if isinstance(of, Identity) else {"path": str(of.absolute())},
            "folder": str(own.folder.absolute()),
            "days": own.days,
            "served": own.served,
            "clients": roster.ids,
            "keys": None if roster.keys is None else [key.hex() for key in roster.keys],
            "seed": roster.seed.hex(),
            "nodes": [node.to_json() for node in roster.nodes],
        }
    ).encode()


def heard(content: bytes) -> tuple[Own, Roster]:
    """What `told` has written.

    Args:
        content: from the pipe.
    """
    raw = json.loads(content)
    of = raw["identity"]
    identity = Identity(bytes.fromhex(of["secret"])) if "secret" in of else Path(of["path"])
    keys = None if raw["keys"] is None else tuple(map(bytes.fromhex, raw["keys"]))
    nodes = tuple(map(NodeEntry.from_json, raw["nodes"]))
    roster = Roster(tuple(raw["clients"]), keys, bytes.fromhex(raw["seed"]), nodes)
    return Own(raw["name"], identity, Path(raw["folder"]), raw["days"], raw["served"]), roster
