"""A node: takes submissions, and goes through a step's ceremony and questions with the other nodes.

All that a node does follows from its secret of the run and from the messages it has taken, which are in a journal
before anything follows from them. A node that was killed reads its journal and is where it was: it repeats what it
sent, or goes on, and draws nothing again. When the run is over, secret and journal are removed: then nobody can open
what clients sent.

The coordinator numbers its messages to a node, from 0 on in each run. The same message again gets the same reply;
another one with the same number, or one too early, is refused. A message is one of these:

- `key`: the reply is the node's public key of the run, signed by its identity;
- `submissions`: envelopes of some clients for one step; the reply names those that were not taken, and why;
- `list`: which clients' submissions the step is about; its ceremony begins, and the reply is for the other nodes;
- `question`: what is asked of the step's sums; an answer begins likewise;
- `round`: what the other nodes have sent; the reply is what this one sends them next, or what came of it;
- `end`: the run is over.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from hushtune.core.errors import CacheError, HushtuneError, RefusedError, WireError
from hushtune.core.files import create_once, make_folder, own, remove_first
from hushtune.core.identity import Identity, verified
from hushtune.core.roster import Id
from hushtune.core.wire import pack, unpack
from hushtune.seals.quorum.ceremony import Held, Node, Step, Sums, prepared
from hushtune.seals.quorum.channel import Line, secured
from hushtune.seals.quorum.engine import Steps
from hushtune.seals.quorum.envelopes import Delivery, NodeKey, about
from hushtune.seals.quorum.field import SMALL, Elements
from hushtune.seals.quorum.journal import Journal
from hushtune.seals.quorum.questions import Answerer, Question
from hushtune.seals.quorum.sharing import crowd, received

KIND = "quorum"
_RUN = re.compile(r"[0-9a-f]{32}")
_OWN_BYTES, _KEY_BYTES = 32, 96


@dataclass(frozen=True)
class Task:
    """What a request asks of nodes, who take it from the request that clients bound into their envelopes.

    Args:
        step: run, number, request, layout of ballots, and the fewest clients.
        voters: ballots of each client.
        times: how many questions may be asked.
        question: a question, from its public parts as the coordinator gives them; everything that privacy rests on is
            the request's.
    """

    step: Step
    voters: int
    times: int
    question: Callable[[Mapping[str, Any]], Question] = field(repr=False)


@dataclass(frozen=True)
class Board:
    """Who takes part, from the node's own roster.

    Args:
        nodes: the nodes' names and the public keys of their identities, in order.
        clients: the clients' names, in order, and their public keys if these are pinned.
        roster: stands for all of it: a coordinator that has another one is told so before any client is asked.
    """

    nodes: Mapping[Id, bytes]
    clients: Mapping[Id, bytes | None]
    roster: str = ""


Read = Callable[[bytes], Task]
"""What a request asks, from its bytes; refuses what this node does not take part in."""


class NodeEnd:
    """One organisation's node, for all runs.

    Args:
        name: in the board.
        identity: its signing key.
        board: who takes part.
        folder: where runs are kept until they are over.
        read: what a request asks.
        drawn: where the secret of a run comes from; only a marked simulation gives another source.
    """

    def __init__(
        self,
        name: Id,
        identity: Identity,
        board: Board,
        folder: Path,
        read: Read,
        drawn: Callable[[int], bytes] = os.urandom,
    ) -> None:
        if board.nodes.get(name) != identity.public:
            raise RefusedError(f"the roster must name node '{name}' with this identity's key")
        self._name, self._identity, self._board, self._folder, self._read = name, identity, board, folder, read
        self._drawn = drawn
        self._runs: dict[str, _Run] = {}

    def step(self, message: bytes) -> bytes:
        """The reply to one message of the coordinator. A refusal names a rule, and no value."""
        try:
            header, parts = unpack(message)
            if header.get("kind") != KIND or not _RUN.fullmatch(str(header.get("run"))):
                raise WireError(f"a message to a node must be of kind '{KIND}', and of a run")
            run = str(header["run"])
            if header.get("is") == "end":
                return self._end(run)
            return self._taken(run, message, header, parts)
        except CacheError:  # which names a path
            return _refused("this node's own files cannot be used")
        except HushtuneError as error:
            return _refused(str(error))

    def _taken(self, run: str, message: bytes, header: Mapping[str, Any], parts: Sequence[bytes]) -> bytes:
        try:
            begins = (header.get("is"), header.get("at")) == ("key", 0)
            return self._of(run, begins).take(message, header, parts)
        except HushtuneError:
            raise
        except BaseException:  # a full disk, or an interruption: what is on record counts, and is read anew
            self._runs.pop(run, None)
            raise

    def _of(self, run: str, begins: bool) -> _Run:
        if run not in self._runs:
            if not begins and not (self._folder / run).exists():
                raise RefusedError("this node has no part in that run, or the run is over")
            folder = self._folder / run
            make_folder(folder)
            secret = _secret(folder / "secret", self._drawn)
            self._runs[run] = _Run(run, self._name, self._identity, self._board, folder, self._read, secret)
        return self._runs[run]

    def _end(self, run: str) -> bytes:
        self._runs.pop(run, None)
        _remove(self._folder / run)
        return pack({"kind": KIND, "is": "ended"})


class _Run:
    """What a node keeps of one run: its secret, its journal, and what follows from them."""

    def __init__(
        self, run: str, name: Id, identity: Identity, board: Board, folder: Path, read: Read, secret: bytes
    ) -> None:
        self._run, self._board, self._folder, self._read = run, board, folder, read
        publics = list(board.nodes.values())
        number = list(board.nodes).index(name) + 1
        self._key = NodeKey(secret[_OWN_BYTES:])
        self._node = Node(crowd(len(publics)), number, identity, publics, secret[:_OWN_BYTES])
        self._steps: dict[int, _Stage] = {}
        self._journal = Journal(folder / "journal")
        self._taken: list[tuple[bytes, bytes]] = []  # the digest of each message, and the reply
        self._resume(self._journal.read())

    def take(self, message: bytes, header: Mapping[str, Any], parts: Sequence[bytes]) -> bytes:
        """The reply to a message, which is on record before anything follows from it."""
        at = header.get("at")
        if type(at) is not int or not 0 <= at <= len(self._taken):
            raise RefusedError(f"message {len(self._taken)} of this run is expected, but got {at!r}")
        if at < len(self._taken):
            earlier, reply = self._taken[at]
            if earlier != _digest(message):
                raise RefusedError(f"message {at} of this run was another one")
            return reply
        _check_form(header, parts, self._node.among.nodes)
        self._journal.add(message)
        return self._answer(message, header, parts)

    def _resume(self, lines: Iterator[bytes]) -> None:
        """Goes on where the journal ends: messages, each followed by its reply if it was given."""
        last = None
        for message in lines:
            last, reply = message, next(lines, None)
            if reply is not None:
                self._apply(*unpack(message))
                self._taken.append((_digest(message), reply))  # as it was sent, to the byte: envelopes are random
                last = None
        if last is not None:
            self._answer(last, *unpack(last))

    def _answer(self, message: bytes, header: Mapping[str, Any], parts: Sequence[bytes]) -> bytes:
        reply = self._apply(header, parts)
        self._journal.add(reply)
        self._taken.append((_digest(message), reply))
        return reply

    def _apply(self, header: Mapping[str, Any], parts: Sequence[bytes]) -> bytes:
        try:
            return self._reply(header, parts)
        except HushtuneError as error:
            return _refused(str(error))
        except Exception:  # it is in the journal: a node that went down by it would do so at every start
            return _refused("internal error")

    def _reply(self, header: Mapping[str, Any], parts: Sequence[bytes]) -> bytes:
        what = header["is"]
        if what == "key":
            if header.get("roster", self._board.roster) != self._board.roster:
                raise RefusedError(
                    "the coordinator's roster is not the one this node was given: coordinator, clients and nodes must "
                    "have the same file"
                )
            return announcement(self._node.identity, self._run, self._key.public)
        number = header["step"]
        if what == "submissions":
            if number not in self._steps:
                task = self._read(parts[0])
                if (task.step.run, task.step.number, task.step.request) != (self._run, number, _digest(parts[0])):
                    raise RefusedError("the request is not of this run and step")
                self._steps[number] = _Stage(self._node, self._key, self._board, task)
            return self._steps[number].submitted(header["clients"], parts[0], parts[1:])
        stage = self._steps.get(number)
        if stage is None:
            raise RefusedError("no submissions were taken for that step")
        if what == "list":
            return stage.listed(header["clients"], parts)
        if what == "question":
            return stage.asked(header["question"])
        return stage.round(parts)


class _Stage:
    """One step of a run: first submissions, then the ceremony, then questions."""

    def __init__(self, node: Node, key: NodeKey, board: Board, task: Task) -> None:
        self._node, self._key, self._board, self._task = node, key, board, task
        self._held: dict[Id, Held] = {}
        self._line: Line | None = None
        self._program: Steps[Sums] | Steps[list[int]] | None = None
        self._answerer: Answerer | None = None
        self._asked = 0

    def submitted(self, clients: Sequence[str], request: bytes, parts: Sequence[bytes]) -> bytes:
        """Takes what it can open; says of the others why not."""
        if self._line is not None:
            raise RefusedError("the step's list is fixed: no submission is taken any more")
        if _digest(request) != self._task.step.request:
            raise RefusedError("all submissions of a step must answer one request")
        refused = {}
        room = np.empty((len(clients), self._task.voters, self._task.step.layout.size), np.uint64)  # in one piece
        for client, part, ballots in zip(clients, parts, room, strict=True):
            try:
                self._hold(client, part, ballots)
            except HushtuneError as error:
                refused[client] = str(error)
        return pack({"kind": KIND, "is": "taken", "refused": refused})

    def _hold(self, client: Id, part: bytes, ballots: Elements) -> None:
        if client not in self._board.clients:
            raise RefusedError("the roster does not name this client")
        if client in self._held:
            raise RefusedError("this client's submission is here already")
        step, node = self._task.step, self._node
        parcel = Delivery.from_bytes(part, node.among.nodes)
        concerning = about(step.run, step.request, client)
        public = self._board.clients[client]
        if public is not None and not verified(public, parcel.signature, parcel.signed_part(concerning)):
            raise RefusedError("a submission must be signed by its client")
        content = parcel.opened(self._key, node.number, concerning)
        ballots[:] = received(SMALL, node.among, node.number, content, ballots.size).reshape(ballots.shape)
        self._held[client] = Held(client, parcel.root, ballots)

    def listed(self, clients: Sequence[str], announced: Sequence[bytes]) -> bytes:
        """Fixes the list, and begins the ceremony; a client whose submission is not here is named."""
        if self._line is not None:
            raise RefusedError("the step's list is fixed already")
        if len(set(clients)) < len(clients):
            raise RefusedError("a list must name each client once")
        if missing := [client for client in clients if client not in self._held]:
            raise RefusedError(f"{len(missing)} of the listed submissions are not here, first '{missing[0]}'")
        step, node = self._task.step, self._node
        if len(clients) < step.needed:
            raise RefusedError(f"a list must name {step.needed} clients at least, but got {len(clients)}")
        keys = [
            announced_key(public, step.run, content) for public, content in zip(node.publics, announced, strict=True)
        ]
        held = [self._held[client] for client in clients]
        self._line = Line(node, self._key, keys, step.about(held))
        return self._begin(secured(prepared(node, step, held), self._line))

    def asked(self, raw: Mapping[str, Any]) -> bytes:
        """Begins the answer to a question."""
        if self._answerer is None or self._program is not None:
            raise RefusedError("a question comes when the ceremony, or the last answer, is over")
        assert self._line is not None
        told = json.dumps([self._asked, raw], sort_keys=True).encode()
        self._asked += 1
        line = replace(self._line, about=hashlib.sha256(self._line.about + told).digest())
        return self._begin(secured(self._answerer.compute(self._task.question(raw)), line))

    def round(self, parcels: Sequence[bytes]) -> bytes:
        """Goes on with what the other nodes have sent."""
        if self._program is None:
            raise RefusedError("nothing is under way in that step")
        return self._go(lambda program: program.send(list(parcels)))

    def _begin(self, program: Any) -> bytes:
        self._program = program
        return self._go(next)

    def _go(self, move: Callable[[Any], list[bytes]]) -> bytes:
        program, self._program = self._program, None
        try:
            sent = move(program)
        except StopIteration as end:
            return self._over(end.value)
        self._program = program
        return pack({"kind": KIND, "is": "parcels"}, *sent)

    def _over(self, found: Sums | list[int]) -> bytes:
        if isinstance(found, Sums):
            self._answerer = Answerer(self._node, found, self._task.times)
            self._held.clear()
            return pack({"kind": KIND, "is": "checked", "bad": list(found.bad)})
        return pack({"kind": KIND, "is": "opened", "values": found})


def _digest(message: bytes) -> bytes:
    return hashlib.sha256(message).digest()


def _refused(reason: str) -> bytes:
    return pack({"kind": "refused", "reason": reason})


def announcement(identity: Identity, run: str, public: bytes) -> bytes:
    """A node's public key of a run, signed."""
    return pack({"kind": KIND, "is": "key"}, public, identity.sign(_announced(run, public)))


def announced_key(identity: bytes, run: str, content: bytes) -> bytes:
    """The public key in a node's announcement; a WireError if the owner of `identity` has not signed it."""
    header, parts = unpack(content)
    if header != {"kind": KIND, "is": "key"} or len(parts) != 2:
        raise WireError("a node's key was expected")
    if not verified(identity, parts[1], _announced(run, parts[0])):
        raise WireError("a node's key of the run must be signed by the node that the roster names")
    return parts[0]


def _announced(run: str, public: bytes) -> bytes:
    return f"hushtune quorum key {run} ".encode() + public


def _check_form(header: Mapping[str, Any], parts: Sequence[bytes], nodes: int) -> None:
    """Refuses, before anything is kept of it, what is no message at all."""
    fields: dict[str, set[str]] = {
        "key": set(),
        "submissions": {"step", "clients"},
        "list": {"step", "clients"},
        "question": {"step", "question"},
        "round": {"step"},
    }
    wanted = fields.get(str(header.get("is")))
    if wanted is None or set(header) - {"roster"} != wanted | {"kind", "run", "is", "at"}:
        raise WireError(f"a message to a node must be one of {sorted(fields)}, with its fields")
    if "step" in wanted and type(header["step"]) is not int:
        raise WireError("a step must be a whole number")
    if "clients" in wanted:
        names = header["clients"]
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise WireError("clients must be a list of names")
        if header["is"] == "submissions" and len(parts) != 1 + len(names):
            raise WireError("submissions must hold the request, and one part for each client")
    if header["is"] in ("list", "round") and len(parts) != nodes:
        raise WireError(f"a {header['is']} must hold one part of each of {nodes} nodes, but got {len(parts)}")
    if "question" in wanted and not isinstance(header["question"], dict):
        raise WireError("a question must be an object")


def _remove(folder: Path) -> None:
    """The secret goes first, and stays gone: without it the journal opens nothing. Drafts of it that a crash has left
    may be the secret too."""
    if folder.exists():
        remove_first([path for path in folder.iterdir() if "secret" in path.name])
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()


def _secret(path: Path, drawn: Callable[[int], bytes]) -> bytes:
    """What a node draws for one run, once."""

    def write(draft: Path) -> None:
        draft.write_bytes(drawn(_OWN_BYTES + _KEY_BYTES))

    create_once(path, write, private=True)
    own(path)
    found = path.read_bytes()
    if len(found) != _OWN_BYTES + _KEY_BYTES:
        raise RefusedError("this node's secret of the run is damaged: the run must begin anew")
    return found
