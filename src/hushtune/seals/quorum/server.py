"""The coordinator's end: it carries envelopes to nodes and parcels between them, and reads what nodes have opened.

It can open no envelope and no parcel. It chooses which submissions to hand on, and so who is missing; nodes open
nothing if too many are.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from hushtune.core.errors import AbortedError, WireError
from hushtune.core.roster import Id
from hushtune.core.wire import pack, unpack_reply
from hushtune.core.words import counted
from hushtune.seals.ends import Ask, Outcome, Replies, Trip, Trips, check_enough
from hushtune.seals.oracle import NONE, Mechanism
from hushtune.seals.quorum.carried import Carried
from hushtune.seals.quorum.envelopes import Submission
from hushtune.seals.quorum.node import KIND
from hushtune.seals.quorum.questions import GRID

_ROOM = 2**24  # bytes of envelopes in one message to a node, unless a single one is larger
_BESIDE = 2**10  # bytes that go with each of them, or less
_FAR = 2**61  # nothing that nodes open is so large

log = logging.getLogger("hushtune")

_NOTHING = "nothing is opened"
Asking = Generator[Trip, Replies, Any]


class QuorumServer:
    """Carries one run's messages.

    Whatever it sends follows from what it got, so that a run that is taken up again sends nodes the same bytes, and
    they answer what they answered. What clients sent is kept until then: nobody asks them twice.

    Args:
        run: its id.
        clients: their names, in order.
        nodes: their names, in order.
        dropouts: the share of clients that may be missing.
        folder: where it keeps what it goes on with; None: the run is not taken up again.
        roster: stands for the roster that names them; empty: nodes are not told.
    """

    def __init__(
        self,
        run: str,
        clients: Sequence[Id],
        nodes: Sequence[Id],
        dropouts: float,
        folder: Path | None = None,
        roster: str = "",
    ) -> None:
        self._run, self._clients, self._nodes, self._dropouts = run, clients, nodes, dropouts
        self._roster = {"roster": roster} if roster else {}
        self._carried = Carried(folder)
        self._sent = 0  # messages to each node
        self._keys: list[bytes] | None = None
        self._step = -1

    def open(self, ask: Ask) -> Trips:
        """What nodes open of one step: the sums, a form of them, or the answers that a method asks for."""
        self._step = ask.step
        if self._keys is None:
            replies = yield from self._to_nodes("asking nodes for their keys", "key", self._roster)
            self._keys = [replies[node] for node in self._nodes]
        self._sent = self._carried.begin(ask.step, self._sent)
        held, missing = yield from self._collected(ask)
        bad = yield from self._together("checking ballots", "list", {"clients": held}, self._keys)
        if not isinstance(bad.get("bad"), list) or not set(map(str, bad["bad"])) <= set(held):
            raise AbortedError("nodes must say whose ballots they left out, but got something else")
        missing |= dict.fromkeys(bad["bad"], "sent what no client can send: nodes left it out")
        if ask.choose is None:
            opened = yield from self._asked({"name": "sum"}, ask.opens)
            scale = GRID if ask.form is not None and ask.form.over is not None else None
            values = np.array(opened, dtype=np.int64)
            return Outcome(values / scale if scale else values, missing, {})
        ask.missing.update(missing)
        yield from self._answers(ask)
        return Outcome(np.array(ask.answers, dtype=np.int64), missing, {})

    def finish(self) -> Generator[Trip, Replies, None]:
        """Has nodes forget the run: their keys of it go, and with them what clients sent."""
        message = pack({"kind": KIND, "run": self._run, "is": "end"})
        replies = yield Trip("ending", dict.fromkeys(self._nodes, message), to="nodes")
        for node in self._nodes:
            try:
                unpack_reply(replies.get(node))
            except WireError as error:
                log.warning(
                    "%s was not told that the run is over, and keeps its keys of it for a while: %s", node, error
                )
        self._carried.forget()

    def close(self) -> None:
        """Does nothing: there is nothing to end."""

    # ---- from clients to nodes -----------------------------------------------------------------------

    def _collected(self, ask: Ask) -> Generator[Trip, Replies, tuple[list[Id], dict[Id, str]]]:
        """Whose submissions all nodes hold, and why each of the others is missing."""
        found, missing = self._carried.found(ask.step, len(self._nodes))
        if not found:
            found, missing = yield from self._from_clients(ask)
            check_enough(ask.needed, len(self._clients), missing, f"answer (dropouts={self._dropouts:g})")
            self._carried.keep(ask.step, found, missing)  # of too few nothing is kept: the next command asks again
        for names in _portions(found):
            missing |= yield from self._handed(ask, names, found)
        check_enough(ask.needed, len(self._clients), missing, f"send what nodes can open (dropouts={self._dropouts:g})")
        return [client for client in found if client not in missing], missing

    def _from_clients(self, ask: Ask) -> Generator[Trip, Replies, tuple[dict[Id, Submission], dict[Id, str]]]:
        """What clients send, in one trip."""
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
        return found, missing

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

    def _asked(self, question: dict[str, Any], count: int = 1) -> Generator[Trip, Replies, list[int]]:
        found = yield from self._together("computing", "question", {"question": question})
        values = found.get("values")
        if (
            not isinstance(values, list)
            or len(values) != count
            or any(type(value) is not int or abs(value) >= _FAR for value in values)
        ):
            raise AbortedError(f"nodes must open {counted(count, 'whole number')}, but got something else")
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
            ask.answers.append(question.place(value, ask.length))

    def _to_nodes(
        self, name: str, what: str, fields: dict[str, Any], parts: Mapping[Id, Sequence[bytes]] | None = None
    ) -> Generator[Trip, Replies, Mapping[Id, bytes]]:
        """One message to each node; all must answer, or nothing is opened."""
        header = {"kind": KIND, "run": self._run, "is": what, "at": self._sent}
        if what != "key":  # which is the first message to nodes, also where a run is taken up again
            header |= {"step": self._step}
        messages = {node: pack(header | fields, *(parts or {}).get(node, ())) for node in self._nodes}
        self._sent += 1
        replies = yield Trip(name, messages, to="nodes", again=what == "round")
        for node in self._nodes:
            try:
                unpack_reply(replies.get(node))
            except WireError as error:
                away = not isinstance(replies.get(node), bytes)
                what = "when it is there again, give the same command: no client is charged twice" if away else _NOTHING
                raise AbortedError(f"all nodes must answer, but {node}: {error}; {what}") from None
        return replies


def _portions(found: Mapping[Id, Submission]) -> Iterator[list[Id]]:
    """Clients whose envelopes go to a node in one message."""
    portion: list[Id] = []
    size = 0
    for client, submission in found.items():
        more = max(map(len, submission.envelopes)) + _BESIDE
        if portion and size + more > _ROOM:
            yield portion
            portion, size = [], 0
        portion.append(client)
        size += more
    if portion:
        yield portion


class _NextQuestion(Exception):
    """A method asks what it has no answer to yet."""

    def __init__(self, raw: dict[str, Any], order: Sequence[int] | None) -> None:
        super().__init__()
        self.raw, self._order = raw, order

    def place(self, value: int, places: int) -> int:
        """The answer, from what nodes opened: a place, or how far down the order it is."""
        if not 0 <= value < places + (self._order is not None):
            raise AbortedError(f"nodes must open one of {places} places, but got {value}")
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

    def noisy_max(self, mechanism: Mechanism | None = None) -> int:
        """The answer, if there is one."""
        if not self._left:
            raise _NextQuestion({"name": "winner"}, None)
        return self._left.pop(0)
