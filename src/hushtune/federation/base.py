"""What a run needs of a federation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from hushtune.privacy.charges import Charge
from hushtune.privacy.ledger import Ledger
from hushtune.progress import Progress
from hushtune.roster import Id, Roster
from hushtune.rows import Parts
from hushtune.search import Search
from hushtune.space import Domain, Space


@dataclass(frozen=True)
class Dropped:
    """No reply: what the transport saw, never what happened inside the client."""

    reason: str


@dataclass
class Traffic:
    """What was carried in a run, both ways."""

    trips: int = 0
    messages: int = 0
    size: int = 0  # bytes

    def count(self, sent: bytes, reply: bytes | Dropped) -> None:
        """Adds one message, and the reply if there was one."""
        answered = isinstance(reply, bytes)
        self.messages += 1 + answered
        self.size += len(sent) + (len(reply) if isinstance(reply, bytes) else 0)

    def per_client(self, clients: int) -> dict[str, float]:
        """Trips, and an average client's messages and bytes."""
        return {
            "trips": self.trips,
            "messages": round(self.messages / clients, 2),
            "bytes": round(self.size / clients),
        }


class Federation(Protocol):
    """The clients and how to reach them. Moves bytes; knows neither methods nor seals."""

    @property
    def roster(self) -> Roster:
        """All clients, in public order."""
        ...

    @property
    def traffic(self) -> Traffic:
        """What was carried so far."""
        ...

    def key(self) -> str:
        """What stays the same about the clients when a run is taken up again."""
        ...

    def coordinator_ledger(self) -> Ledger:
        """The coordinator's ledger for these clients."""
        ...

    def check_ledgers(self, charge: Charge, needed: int) -> None:
        """Refuses a run that fewer than `needed` clients' own ledgers allow, if that is known beforehand."""
        ...

    def check(self, space: Space, parts: Parts) -> None:
        """Lets objectives refuse a space, and data be refused that cannot be split so, before anything is spent."""
        ...

    def score(self, search: Search, domain: Domain, progress: Progress, private: bool, parts: Parts) -> None:
        """Has every client, or every part of it, fill its trials; `private` if the run has an epsilon."""
        ...

    def exchange(self, name: str, out: Mapping[Id, bytes], progress: Progress) -> Mapping[Id, bytes | Dropped]:
        """One trip: a message to each named client, and what came back."""
        ...
