"""Nodes of one process that compute together, for tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from hushtune.core.randomness import SimulatedRandomness
from hushtune.seals.quorum.engine import Engine, Steps, together
from hushtune.seals.quorum.field import LARGE, Elements, Field
from hushtune.seals.quorum.sharing import KEY_BYTES, Crowd, deal, joined, received

T = TypeVar("T")


def keys_of(among: Crowd, seed: int = 0) -> list[dict[tuple[int, ...], bytes]]:
    """What each node holds."""
    source = SimulatedRandomness(seed, "groups")
    keys = {group: source.bytes(32) for group in among.groups}
    return [{group: key for group, key in keys.items() if number in group} for number in among.points]


def engines(among: Crowd, seed: int = 0) -> list[Engine]:
    return [Engine(among, number, SimulatedRandomness(seed, f"node {number}")) for number in among.points]


def dealt(field: Field, among: Crowd, values: Any, seed: int = 0) -> list[Elements]:
    secrets = field.elements(np.asarray(values, dtype=object))
    sent = deal(field, among, secrets, SimulatedRandomness(seed, "dealer"))
    return [received(field, among, at, content, len(secrets)) for at, content in enumerate(sent, 1)]


def computed(among: Crowd, program: Callable[[Engine, int], Steps[Elements]], seed: int = 0) -> list[int]:
    """What a program's shares open to, at every node."""

    def opened(engine: Engine) -> Steps[Elements]:
        shares = yield from program(engine, engine.number - 1)
        return (yield from engine.open(shares))

    found = together([opened(engine) for engine in engines(among, seed)])
    for other in found[1:]:
        assert np.array_equal(found[0], other)
    return [int(value) for value in found[0]]


Rounds = list[list[list[bytes]]]
"""What was sent, by round, sender and receiver."""


def recorded(programs: Sequence[Steps[T]]) -> tuple[list[T], Rounds]:
    """What nodes' programs end in, and all that they sent."""
    sent: list[list[list[bytes]]] = [[] for _ in programs]
    found = together([_noted(program, notes) for program, notes in zip(programs, sent, strict=True)])
    return found, [list(each) for each in zip(*sent, strict=True)]


def _noted(program: Steps[T], notes: list[list[bytes]]) -> Steps[T]:
    got: Any = None
    while True:
        try:
            out = program.send(got)
        except StopIteration as end:
            return end.value
        notes.append(list(out))
        got = yield out


def openings(among: Crowd, rounds: Rounds) -> list[dict[int, Elements]]:
    """The values that nodes showed to everybody, by round. All other rounds must be fresh sharings: no key is sent
    twice, and nobody gets what somebody else gets."""
    found, seen = [], set()
    for sent in rounds:
        if all(len(set(messages)) == 1 for messages in sent) and any(messages[0] for messages in sent):
            count = len(sent[0][0]) // LARGE.width
            found.append({at: LARGE.from_bytes(messages[0], count) for at, messages in enumerate(sent, 1)})
            continue
        for messages in sent:
            if any(messages):
                assert not seen & set(messages)
                assert len(set(messages)) == among.nodes
                assert {len(message) for message in messages[: among.degree]} == {KEY_BYTES}
                seen.update(messages)
    return found


def low_degree(among: Crowd, rounds: Rounds) -> int:
    """How many rounds opened something; each must have opened polynomials of degree t: those of degree 2 t are
    products, and could be factored."""
    found = openings(among, rounds)
    for values in found:
        joined(LARGE, among, values, among.degree)
    return len(found)
