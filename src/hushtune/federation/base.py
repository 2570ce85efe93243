"""What a run needs of a federation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from hushtune.client.rows import Parts
from hushtune.client.search.base import Search
from hushtune.core.errors import SettingError
from hushtune.core.observer import Observer
from hushtune.core.roster import Id, Roster
from hushtune.core.space import Domain, Space
from hushtune.privacy.charges import Charge
from hushtune.privacy.ledger import Ledger
from hushtune.seals.ends import Trip


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


class Federation(ABC):
    """The clients and how to reach them. Moves bytes; knows neither methods nor seals.

    A trip says which role its recipients have. Whoever has no recipients of a role refuses the trip.
    """

    roster: Roster  # all clients, in public order
    traffic: Traffic  # what was carried so far
    simulated: bool  # whether all clients are marked as a simulation

    @abstractmethod
    def key(self) -> str:
        """What stays the same about the clients when a run is taken up again."""

    @abstractmethod
    def coordinator_ledger(self) -> Ledger:
        """The coordinator's ledger for these clients."""

    @abstractmethod
    def exchange(self, trip: Trip, observer: Observer) -> Mapping[Id, bytes | Dropped]:
        """One trip: a message to each named recipient, and what came back.

        Args:
            trip: the messages, and for whom they are.
            observer: who watches.
        """

    def check_ledgers(self, charge: Charge, needed: int) -> None:
        """Refuses a run that fewer than `needed` clients' own ledgers allow, if that is known beforehand.

        Args:
            charge: what the run costs.
            needed: how many clients must answer.
        """

    def check(self, space: Space, parts: Parts) -> None:
        """Lets objectives refuse a space, and data that cannot be split so, before anything is spent, if it can.

        Args:
            space: of the candidates.
            parts: how each client will be split.
        """

    def score(self, search: Search, domain: Domain, observer: Observer, private: bool, parts: Parts) -> None:
        """Has every client, or every part of it, fill its trials now; else each does so when it is first asked.

        Args:
            search: how.
            domain: over what.
            observer: who watches.
            private: whether the run has an epsilon.
            parts: how each client is split.
        """


def for_clients(trip: Trip) -> Mapping[Id, bytes]:
    """The messages of a trip to clients; trips to others are refused.

    Args:
        trip: what is to be carried.
    """
    if trip.to != "clients":
        raise SettingError(f"this federation reaches clients only, but a trip is for {trip.to}")
    return trip.messages
