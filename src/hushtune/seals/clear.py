"""Clear: no protection of single contributions. The server sees each one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from hushtune.core.roster import Roster
from hushtune.seals.base import Protected
from hushtune.seals.ends import Ask, Outcome, Trips
from hushtune.seals.plain import Plain, PlainServer, summed


@dataclass(frozen=True)
class Clear(Plain):
    """Contributions travel as they are, each with its own noise share only.

    The guarantee of a run then holds against everybody who sees the opened sum, but not against the server.

    Args:
        dropouts: share of clients that may fail to answer, in [0, 1); more abort the round, and nothing is opened.
        corrupt: share of clients that may add no noise, in [0, 1).
    """

    name: ClassVar[str] = "clear"
    brief: ClassVar[str] = "no protection from the server"

    def protects(self, facts: Protected) -> list[str]:
        """Nothing, from the server."""
        if not facts.private:
            return ["INSECURE SETTING, seal 'clear': the server sees every client's own contribution."]
        return [
            "INSECURE SETTING, seal 'clear': the server sees individual contributions, each under its own small noise "
            "share only. The guarantee holds against those who see the opened sum, not against the server."
        ]

    def server(self, run: str, roster: Roster, terms: str, first: int = 0, folder: Path | None = None) -> ClearServer:
        """The server's end, which adds up what it sees."""
        return ClearServer(roster, self.dropouts)


class ClearServer(PlainServer):
    """Asks once, and adds up or not."""

    def open(self, ask: Ask) -> Trips:
        """The sum of what arrived, or every client's own vector."""
        own, missing = yield from self.vectors(ask)
        return Outcome(summed(own, ask.length), missing, {}, own if ask.each else None)
