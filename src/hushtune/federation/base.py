"""What a run needs of a federation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

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


class Reach(Protocol):
    """How nodes are reached."""

    def exchange(self, messages: Mapping[Id, bytes]) -> Mapping[Id, bytes | Dropped]:
        """A message to each named node, and what came back.

        Args:
            messages: by the nodes' names.
        """
        ...

    def close(self) -> None:
        """Ends what was begun."""
        ...


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

    def provide(self, nodes: int) -> None:
        """Sees to it that so many nodes compute for the clients; refused, if they cannot be had.

        Args:
            nodes: how many; 0: none are needed.
        """
        if nodes and len(self.roster.nodes) != nodes:
            raise SettingError(
                f"{nodes} nodes must compute for the clients, but the roster names {len(self.roster.nodes)}: make one "
                "that does, with `hushtune identity roster ... --node NAME=KEY@HOST:PORT`"
            )

    def close(self) -> None:
        """Ends what it has begun for a run; another run begins it anew."""

    def nodes(self) -> Reach:
        """How the nodes are reached that compute for the clients."""
        raise SettingError("this federation reaches clients only, and no nodes")

    def to_nodes(self, trip: Trip, observer: Observer) -> Mapping[Id, bytes | Dropped]:
        """One trip to the nodes that the roster names.

        Args:
            trip: the messages.
            observer: who watches.
        """
        watching = observer if not trip.again else Observer()
        with watching.phase(trip.name, len(trip.messages)) as advance:
            replies = self.nodes().exchange(trip.messages)
            advance(len(replies))
        return replies

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
