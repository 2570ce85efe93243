"""What a request asks of a node: the node reads it itself, from the bytes that clients bound into their envelopes."""

from __future__ import annotations

import hashlib

from hushtune.client.request import Request
from hushtune.core.errors import RefusedError
from hushtune.core.roster import Roster
from hushtune.seals.quorum.agenda import Agenda
from hushtune.seals.quorum.ceremony import Step
from hushtune.seals.quorum.layout import layout_of
from hushtune.seals.quorum.node import KIND, Board, Read, Task


def board_of(roster: Roster) -> Board:
    """Who takes part, by a node's own roster."""
    keys = roster.keys or (None,) * len(roster)
    return Board({node.name: node.key for node in roster.nodes}, dict(zip(roster.ids, keys, strict=True)))


def reader(roster: Roster) -> Read:
    """What tells a node, from a request's bytes, what it is asked: refuses requests of others' rosters and seals.

    Args:
        roster: the node's own.
    """

    def read(content: bytes) -> Task:
        request = Request.from_bytes(content)
        if request.roster != roster.digest():
            raise RefusedError("the request's roster is not the one this node was given")
        if request.seal.kind != KIND:
            raise RefusedError(f"nodes serve runs under seal 'quorum', but the request's is '{request.seal.name}'")
        request.seal.check_nodes(roster.nodes)
        bound, units = request.query.bound, request.voters * len(roster)
        agenda = Agenda(bound, request.form, request.query.blocks, request.noise, units)
        agenda.check()
        step = Step(
            request.run,
            request.step,
            hashlib.sha256(content).digest(),
            layout_of(bound),
            request.seal.needed(len(roster)),
        )
        return Task(step, request.voters, max(1, bound.tests), agenda.question)

    return read
