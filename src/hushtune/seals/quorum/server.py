"""The coordinator's end: it carries envelopes to nodes and parcels between them, and reads what nodes have opened.

It can open no envelope and no parcel. It chooses which submissions to hand on, and so who is missing; nodes open
nothing if too many are.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from hushtune.core.errors import AbortedError, WireError
from hushtune.core.roster import Id
from hushtune.core.wire import pack, unpack_reply
from hushtune.seals.ends import Ask, Outcome, Replies, Trip, Trips, check_enough
from hushtune.seals.oracle import NONE, Mechanism
from hushtune.seals.quorum.envelopes import Submission
from hushtune.seals.quorum.node import KIND

_CHUNK = 4096  # submissions in one message to a node

Asking = Generator[Trip, Replies, Any]


class QuorumServer:
    """Carries one run's messages.

    Args:
        run: its id.
        clients: their names, in order.
        nodes: their names, in order.
        dropouts: the share of clients that may be missing.
    """

    def __init__(self, run: str, clients: Sequence[Id], nodes: Sequence[Id], dropouts: float) -> None:
        self._run, self._clients, self._nodes, self._dropouts = run, clients, nodes, dropouts
        self._sent = 0  # messages to each node
        self._keys: list[bytes] | None = None
        self._step = -1

    def open(self, ask: Ask) -> Trips:
        """What nodes open of one step: the sums, or the answers that a method asks for."""
        self._step += 1
        if self._keys is None:
            replies = yield from self._to_nodes("asking nodes for their keys", "key", {})
            self._keys = [replies[node] for node in self._nodes]
        held, missing = yield from self._collected(ask)
        bad = yield from self._together("checking ballots", "list", {"clients": held}, self._keys)
        if not isinstance(bad.get("bad"), list) or not set(map(str, bad["bad"])) <= set(held):
            raise AbortedError("nodes must say whose ballots they left out, but got something else")
        missing |= dict.fromkeys(bad["bad"], "sent what no client can send: nodes left it out")
        if ask.choose is None:
            opened = yield from self._asked({"name": "total"})
            return Outcome(np.array(opened, dtype=np.int64), missing, {})
        ask.missing.update(missing)
        yield from self._answers(ask)
        return Outcome(np.array(ask.answers, dtype=np.int64), missing, {})

    def close(self) -> None:
        """Does nothing: there is nothing to end."""

    # ---- from clients to nodes -----------------------------------------------------------------------

    def _collected(self, ask: Ask) -> Generator[Trip, Replies, tuple[list[Id], dict[Id, str]]]:
        """Whose submissions all nodes hold, and why each of the others is missing."""
        assert self._keys is not None
        message = pack({"kind": KIND, "run": self._run}, ask.request, *self._keys)
        replies = yield Trip("asking clients", dict.fromkeys(self._clients, message), inputs=True)
        found: dict[Id, Submission] = {}
        missing: dict[Id, str] = {}
        for client in self._clients:
            try:
                unpack_reply(replies.get(client))
                found[client] = Submission.from_bytes(replies[client], len(self._nodes))
            except WireError as error:
                missing[client] = str(error)
        check_enough(ask.needed, len(self._clients), missing, f"answer (dropouts={self._dropouts:g})")
        names = list(found)
        for at in range(0, len(names), _CHUNK):
            missing |= yield from self._handed(ask, names[at : at + _CHUNK], found)
        check_enough(ask.needed, len(self._clients), missing, f"send what nodes can open (dropouts={self._dropouts:g})")
        return [client for client in names if client not in missing], missing

    def _handed(
        self, ask: Ask, names: list[Id], found: Mapping[Id, Submission]
    ) -> Generator[Trip, Replies, dict[Id, str]]:
        parts = {
            node: [ask.request, *(found[client].delivery(number).to_bytes() for client in names)]
            for number, node in enumerate(self._nodes, 1)
        }
        replies = yield from self._to_nodes("handing envelopes to nodes", "submissions", {"clients": names}, parts)
        refused: dict[Id, str] = {}
        for node in self._nodes:
            header, _ = unpack_reply(replies[node])
            told = header.get("refused")
            if not isinstance(told, dict) or not set(told) <= set(names):
                raise AbortedError(f"{node} must say whose submissions it did not take; nothing is opened")
            refused |= {client: f"{node}: {reason}" for client, reason in told.items()}
        return refused

    # ---- among nodes ---------------------------------------------------------------------------------

    def _together(self, name: str, what: str, fields: dict[str, Any], parts: Sequence[bytes] = ()) -> Asking:
        """Has nodes talk to each other until they are done; gives what all of them say then."""
        given: dict[Id, Sequence[bytes]] = dict.fromkeys(self._nodes, tuple(parts))
        replies = yield from self._to_nodes(name, what, fields, given)
        while True:
            read = [unpack_reply(replies[node]) for node in self._nodes]
            if all(header.get("is") == "parcels" for header, _ in read):
                for node, (_, sent) in zip(self._nodes, read, strict=True):
                    if len(sent) != len(self._nodes):
                        raise AbortedError(f"{node} must send something to each node; nothing is opened")
                given = {node: [sent[number] for _, sent in read] for number, node in enumerate(self._nodes)}
                replies = yield from self._to_nodes(name, "round", {}, given)
                continue
            first = read[0][0]
            if any(header != first for header, _ in read):
                raise AbortedError("nodes do not say the same: nothing can be relied on")
            return first

    def _asked(self, question: dict[str, Any]) -> Generator[Trip, Replies, list[int]]:
        found = yield from self._together("computing", "question", {"question": question})
        values = found.get("values")
        if not isinstance(values, list) or any(type(value) is not int for value in values):
            raise AbortedError("nodes must open whole numbers, but got something else")
        return values

    def _answers(self, ask: Ask) -> Asking:
        """Asks what a method asks, one question after the other: it is run anew with every answer that it has got."""
        assert ask.choose is not None
        while True:
            oracle = _Asking(ask.answers)
            try:
                ask.choose(oracle)
                return
            except _NextQuestion as stopped:
                question = stopped
            (value,) = yield from self._asked(question.raw)
            ask.answers.append(question.place(value))

    def _to_nodes(
        self, name: str, what: str, fields: dict[str, Any], parts: Mapping[Id, Sequence[bytes]] | None = None
    ) -> Generator[Trip, Replies, Mapping[Id, bytes]]:
        """One message to each node; all must answer, or nothing is opened."""
        header = {"kind": KIND, "run": self._run, "is": what, "at": self._sent}
        if what != "key":
            header |= {"step": self._step}
        messages = {node: pack(header | fields, *(parts or {}).get(node, ())) for node in self._nodes}
        self._sent += 1
        replies = yield Trip(name, messages, to="nodes")
        for node in self._nodes:
            try:
                unpack_reply(replies.get(node))
            except WireError as error:
                raise AbortedError(f"all nodes must answer, but {node}: {error}; nothing is opened") from None
        return replies


class _NextQuestion(Exception):
    """A method asks what it has no answer to yet."""

    def __init__(self, raw: dict[str, Any], order: Sequence[int] | None) -> None:
        super().__init__()
        self.raw, self._order = raw, order

    def place(self, value: int) -> int:
        """The answer, from what nodes opened: a place, or how far down the order it is."""
        if self._order is None:
            return value
        return NONE if value == 0 else self._order[value - 1]


class _Asking:
    """An oracle that has the answers so far, and stops a method at the next question."""

    def __init__(self, answers: Sequence[int]) -> None:
        self._left = list(answers)

    def above_threshold(self, level: Fraction, order: Sequence[int]) -> int | None:
        """The answer, if there is one."""
        places = [int(place) for place in order]
        if not self._left:
            raise _NextQuestion(
                {"name": "above", "level": [level.numerator, level.denominator], "order": places}, places
            )
        place = self._left.pop(0)
        return None if place == NONE else place

    def noisy_max(self, mechanism: Mechanism) -> int:
        """The answer, if there is one."""
        if not self._left:
            raise _NextQuestion({"name": "winner"}, None)
        return self._left.pop(0)
