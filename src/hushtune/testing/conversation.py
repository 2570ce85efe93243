"""Both ends of a seal in one place, without ledgers and requests: what opening some vectors takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from hushtune.core.arrays import IntArray
from hushtune.core.identity import Identity
from hushtune.core.observer import Observer, Silent
from hushtune.core.randomness import SystemRandomness
from hushtune.core.roster import Id, Roster
from hushtune.seals.base import Seal
from hushtune.seals.ends import Ask, ClientEnd, Due, Outcome, Replies, Seat, Trip, converse
from hushtune.seals.forms import Form

RUN = "0" * 32


class Conversation:
    """A server's end and every client's, and what they have said to each other.

    Args:
        seal: an instance.
        roster: the clients.
        identities: their signing keys, if the roster is pinned.
        first: the server's first round.
    """

    def __init__(self, seal: Seal, roster: Roster, identities: Sequence[Identity | None] = (), first: int = 0) -> None:
        self.seal, self.roster = seal, roster
        keys = identities or [None] * len(roster)
        self.clients: dict[Id, ClientEnd] = {
            name: seal.client(Seat(RUN, roster, number, "terms", SystemRandomness(), keys[number]))
            for number, name in enumerate(roster.ids)
        }
        self.server = seal.server(RUN, roster, "terms", first)
        self.trips = 0
        self.bytes = 0

    def open(
        self,
        vectors: Mapping[Id, IntArray],
        largest: int,
        *,
        form: Form | None = None,
        blocks: Mapping[str, int] | None = None,
        last: bool = True,
        request: bytes = b"request",
        observer: Observer = Silent(),
    ) -> Outcome:
        """Opens the clients' vectors, nobody dropping out.

        Args:
            vectors: one for each client.
            largest: the largest absolute value of an entry of their sum.
            form: which form of the sum is opened; None: the sum.
            blocks: names and lengths of the vectors' parts. Default: one.
            last: whether no other opening follows.
            request: what stands for the request.
            observer: who watches.
        """
        length = len(next(iter(vectors.values())))
        due = Due(form, blocks or {"numbers": length}, largest)

        def exchange(trip: Trip) -> Replies:
            self.trips += 1
            replies = {}
            with observer.phase(f"{len(trip.messages)} clients: {trip.name}", len(trip.messages)) as advance:
                for client, message in trip.messages.items():
                    given = Due(due.form, due.blocks, due.largest, partial(np.copy, vectors[client]))
                    replies[client] = self.clients[client].step(message, given)
                    self.bytes += len(message) + len(replies[client])
                    advance(1)
            return replies

        ask = Ask(request, length, largest, len(self.roster), last, form, due.opens)
        return converse(self.server.open(ask), exchange, lambda: None)
