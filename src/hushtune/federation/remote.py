"""Clients on machines of their own, behind whatever carries bytes to them. Knows no transport."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hushtune.core.errors import SettingError, WireError
from hushtune.core.identity import verified
from hushtune.core.observer import Observer
from hushtune.core.roster import Id, Roster, check_name
from hushtune.core.secret import Secret
from hushtune.core.wire import unpack_reply
from hushtune.core.words import counted
from hushtune.federation.base import Dropped, Federation, Reach, Traffic, for_clients
from hushtune.federation.envelope import Answer, Letter, proof_text
from hushtune.federation.nodes.reach import Nodes
from hushtune.privacy.ledger import Ledger
from hushtune.seals.ends import Trip

log = logging.getLogger("hushtune")

Carry = Callable[[Mapping[Id, bytes]], Mapping[Id, bytes | Dropped]]
"""One trip: a letter for each node, by its name, to what came back from it."""


class RemoteFederation(Federation):
    """Clients that are reached by letters.

    Every client looks into its ledger, checks and scores when it is first asked: that saves a trip.

    With a pinned roster, the first letter is the same for all and goes to every node; a client proves by a signature
    which node it is behind, and no other node gets its later ones. Without, a client is its node.

    Args:
        nodes: names of the nodes.
        carry: the transport.
        home: folder of the coordinator's ledgers.
        roster: the pinned roster; None: all nodes, as they are.
        simulated: whether this is a marked simulation. Clients that are not of the same mind do not count.
    """

    def __init__(
        self, nodes: Sequence[Id], carry: Carry, home: Path, roster: Roster | None = None, simulated: bool = False
    ) -> None:
        if roster is None and not nodes:
            raise SettingError("a run needs at least one client, but no node is connected")
        self.home = home
        self.roster = roster or Roster(tuple(nodes))
        self.traffic = Traffic()
        self._nodes = tuple(nodes)
        self._carry = carry
        self._reach: Reach | None = None
        self._pinned = roster is not None
        self.simulated = simulated
        self._seats: dict[Id, Id] = {} if self._pinned else {node: node for node in nodes}  # client -> node

    def key(self) -> str:
        """The roster; unpinned nodes have new names after a restart, so then only how many there are."""
        return self.roster.clients_digest() if self._pinned else f"{len(self._nodes)} nodes"

    def coordinator_ledger(self) -> Ledger:
        """The coordinator's ledger for this roster; all unpinned nodes share one, whatever their names are today."""
        name = self.roster.clients_digest()[:16] if self._pinned else "nodes"
        return Ledger(self.home / "coordinator" / f"ledger-{name}.db")

    def nodes(self) -> Reach:
        """At the addresses that the roster names."""
        if self._reach is None:
            self._reach = Nodes(self.roster, Secret.kept(self.home / "coordinator"))
        return self._reach

    def close(self) -> None:
        """Lets go of nodes."""
        if self._reach is not None:
            self._reach.close()
            self._reach = None

    def exchange(self, trip: Trip, observer: Observer) -> Mapping[Id, bytes | Dropped]:
        """One trip. What a transport does not deliver, late and malformed answers are dropouts."""
        if trip.to == "nodes":
            return self.to_nodes(trip, observer)
        self.traffic.trips += 1
        nodes = None if self._pinned else self._nodes
        letters = {id_: Letter(message, nodes).to_bytes() for id_, message in for_clients(trip).items()}
        observer.say(f"{trip.name}: asking {counted(len(letters), 'client')}")
        with observer.phase(trip.name, len(letters)) as advance:
            unmet = self._pinned and not set(letters) <= set(self._seats) and len(set(letters.values())) == 1
            replies = self._to_all(letters) if unmet else self._by_seat(letters)
            advance(sum(map(_good, replies.values())))
        return replies

    def _by_seat(self, letters: Mapping[Id, bytes]) -> Mapping[Id, bytes | Dropped]:
        answers = self._trip({self._seats[id_]: letter for id_, letter in letters.items() if id_ in self._seats})
        replies: dict[Id, bytes | Dropped] = {}
        for id_ in letters:
            answer = answers[self._seats[id_]] if id_ in self._seats else Dropped("no node is this client's")
            if isinstance(answer, Answer) and answer.name != id_:
                answer = Dropped(
                    f"its node answered as {_shown(answer.name)}; with a pinned roster, give it to both sides"
                )
            replies[id_] = answer.reply if isinstance(answer, Answer) else answer
        return replies

    def _to_all(self, letters: Mapping[Id, bytes]) -> Mapping[Id, bytes | Dropped]:
        """A message that is the same for all, with a pinned roster: finds out which client is behind which node."""
        (letter,) = set(letters.values())
        self._seats.clear()
        keys = dict(zip(self.roster.ids, self.roster.keys or (), strict=True))
        replies: dict[Id, bytes | Dropped] = {}
        for node, answer in self._trip(dict.fromkeys(self._nodes, letter)).items():
            if isinstance(answer, Dropped):
                log.warning("%s: %s", node, answer.reason)
            elif answer.name not in keys or not verified(
                keys[answer.name], answer.proof, proof_text(answer.name, node, letter)
            ):
                log.warning("%s does not prove to be a client of the roster", node)
            elif answer.name in replies:
                log.warning(
                    "%s and %s both are '%s'; the first one counts", self._seats[answer.name], node, answer.name
                )
            else:
                self._seats[answer.name] = node
                replies[answer.name] = answer.reply
        absent = Dropped("no node has proved to be this client")
        return {id_: replies.get(id_, absent) for id_ in letters}

    def _trip(self, letters: Mapping[Id, bytes]) -> dict[Id, Answer | Dropped]:
        """Sends letters to nodes; what is not an answer of this run's kind is a dropout."""
        received = self._carry(letters)
        answers: dict[Id, Answer | Dropped] = {}
        for node, letter in letters.items():
            content = received.get(node, Dropped("no reply"))
            self.traffic.count(letter, content)
            answers[node] = self._read(content)
        return answers

    def _read(self, content: bytes | Dropped) -> Answer | Dropped:
        if isinstance(content, Dropped):
            return content
        try:
            answer = Answer.from_bytes(content)
        except WireError as error:
            return Dropped(f"malformed reply: {error}")
        if answer.simulated != self.simulated:
            return Dropped(f"the client is {'' if answer.simulated else 'not '}marked as a simulation")
        return answer


def _good(reply: bytes | Dropped) -> bool:
    """Whether it is more than a refusal."""
    try:
        unpack_reply(reply)
    except WireError:
        return False
    return True


def _shown(name: str) -> str:
    """A client's own word for its name, if it is a name at all."""
    try:
        return f"'{check_name(name)}'"
    except SettingError:
        return "somebody else"
