"""What a request asks of a node: the node reads it itself, from the bytes that clients bound into their envelopes."""

from __future__ import annotations

import hashlib

from hushtune.client.sheet import Sheet
from hushtune.core.errors import RefusedError
from hushtune.core.roster import Roster
from hushtune.seals.quorum.agenda import Agenda
from hushtune.seals.quorum.ceremony import Step
from hushtune.seals.quorum.layout import layout_of
from hushtune.seals.quorum.node import KIND, Board, Read, Task


def board_of(roster: Roster) -> Board:
    """Who takes part, by a node's own roster."""
    keys = roster.keys or (None,) * len(roster)
    nodes, clients = {node.name: node.key for node in roster.nodes}, dict(zip(roster.ids, keys, strict=True))
    return Board(nodes, clients, roster.digest())


def reader(roster: Roster) -> Read:
    """What tells a node, from a request's bytes, what it is asked: refuses requests of others' rosters and seals.

    Args:
        roster: the node's own.
    """

    def read(content: bytes) -> Task:
        sheet = Sheet.from_bytes(content)
        if sheet.roster != roster.digest():
            raise RefusedError("the request's roster is not the one this node was given")
        if sheet.seal.kind != KIND:
            raise RefusedError(f"these nodes serve no runs under seal '{sheet.seal.name}'")
        sheet.seal.check_nodes(roster.nodes)
        units = sheet.voters * len(roster)
        agenda = Agenda(sheet.bound, sheet.form, sheet.blocks, sheet.noise, units, sheet.added)
        agenda.check()
        needed, digest = sheet.seal.needed(len(roster)), hashlib.sha256(content).digest()
        step = Step(sheet.run, sheet.step, digest, layout_of(sheet.bound), needed)
        return Task(step, sheet.voters, max(1, sheet.bound.tests), agenda.question)

    return read
