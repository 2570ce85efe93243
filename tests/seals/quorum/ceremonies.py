"""Nodes that hold a step's ceremony in one process, for tests: what they send is recorded, and can be tampered with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from hushtune.core.identity import Identity
from hushtune.core.randomness import SimulatedRandomness
from hushtune.privacy.bounds import Bound
from hushtune.seals.quorum.ceremony import Held, Node, Step, prepared
from hushtune.seals.quorum.engine import Steps
from hushtune.seals.quorum.field import SMALL, Elements
from hushtune.seals.quorum.layout import layout_of
from hushtune.seals.quorum.questions import Answerer, Question
from hushtune.seals.quorum.sharing import Crowd, deal, received

KEYS, COMMITMENTS, COINS, SIGNATURES, FIGURES = range(5)
"""The first rounds, by what is sent in them."""

Tamper = Callable[[int, int, int, bytes], bytes]
"""What arrives, from the round, who sends, who receives, and what was sent."""


class Record(NamedTuple):
    """What happened: messages by round, sender and receiver, and each node's result or error."""

    sent: list[dict[int, list[bytes]]]
    results: dict[int, Any]
    errors: dict[int, Exception]


def observed(programs: Sequence[Steps[Any]], tamper: Tamper = lambda turn, sender, receiver, sent: sent) -> Record:
    """Runs all nodes in step, and ends when one of them has ended or refused to go on."""
    record = Record([], {}, {})
    incoming: dict[int, Any] = dict.fromkeys(range(1, len(programs) + 1))
    while not record.results and not record.errors:
        record.sent.append({})
        for number, program in enumerate(programs, 1):
            try:
                record.sent[-1][number] = program.send(incoming[number])
            except StopIteration as end:
                record.results[number] = end.value
            except Exception as error:
                record.errors[number] = error
        turn, outgoing = len(record.sent) - 1, record.sent[-1]
        incoming = {
            receiver: [tamper(turn, at, receiver, sent[receiver - 1]) for at, sent in outgoing.items()]
            for receiver in incoming
        }
    return record


def nodes_of(among: Crowd, seed: int = 0) -> list[Node]:
    identities = [Identity(SimulatedRandomness(seed, f"identity {at}").bytes(32)) for at in among.points]
    publics = [identity.public for identity in identities]
    secrets = [SimulatedRandomness(seed, f"secret {number}").bytes(32) for number in among.points]
    return [Node(among, at, identities[at - 1], publics, secrets[at - 1]) for at in among.points]


def step_of(bound: Bound, needed: int) -> Step:
    return Step("0" * 32, 0, b"r" * 32, layout_of(bound), needed)


def submitted(among: Crowd, ballots: Sequence[Sequence[Elements]], seed: int = 0) -> list[list[Held]]:
    """What each node holds of clients' ballots, given in bits: one list for each client."""
    held: list[list[Held]] = [[] for _ in among.points]
    for client, own in enumerate(ballots):
        bits = np.stack(own)
        sent = deal(SMALL, among, bits.ravel(), SimulatedRandomness(seed, f"client {client}"))
        for number, content in enumerate(sent, 1):
            share = received(SMALL, among, number, content, bits.size).reshape(bits.shape)
            held[number - 1].append(Held(f"c{client}", bytes([client]) * 32, share))
    return held


def written(bound: Bound, vectors: Sequence[Any]) -> list[list[Elements]]:
    """One ballot for each client."""
    return [[layout_of(bound).bits(np.asarray(vector))] for vector in vectors]


def asked(node: Node, step: Step, held: Sequence[Held], questions: Sequence[Question], times: int) -> Steps[Any]:
    """One node's whole step: its sums' digest, all answers, and what they are based on."""
    sums = yield from prepared(node, step, held)
    answerer, answers = Answerer(node, sums, times), []
    for question in questions:
        answers.append((yield from answerer.compute(question)))
    return sums.digest, answers, sums.basis
