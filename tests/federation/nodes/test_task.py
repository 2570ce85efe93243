"""What a request asks of a node, as the node reads it itself."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import pytest
from tests.seals.quorum.room import seeded

import hushtune as ht
from hushtune.client.request import Request
from hushtune.core.errors import HushtuneError, RefusedError, WireError
from hushtune.core.roster import NodeEntry, Roster
from hushtune.federation.nodes.task import board_of, reader
from hushtune.methods.vote.ballots import TopVotes
from hushtune.privacy.noise import geometric
from hushtune.seals.quorum.layout import layout_of
from hushtune.seals.quorum.questions import Total, Winner
from hushtune.testing.toys import SPACE

NODES = tuple(NodeEntry(f"node-{at}", seeded(f"node-{at}").public) for at in (1, 2, 3))
ROSTER = Roster(tuple("abcdefghij"), nodes=NODES)
SEAL = ht.Quorum(nodes=3, dropouts=0.2)
QUERY = TopVotes(2, SPACE.grid(x=5), 0)


def request(**changes: Any) -> Request:
    settings: dict[str, Any] = {
        "run": "0" * 32,
        "step": 4,
        "roster": ROSTER.digest(),
        "query": QUERY,
        "form": None,
        "seal": SEAL,
        "noise": SEAL.noise(3.0),
        "privacy": ht.Privacy(1.0),
        "voters": 1,
        "events": (),
    }
    return Request(**settings | changes)


def test_it_reads_run_step_bound_and_noise_from_the_request() -> None:
    content = request().to_bytes()
    task = reader(ROSTER)(content)
    assert (task.step.run, task.step.number) == ("0" * 32, 4)
    assert task.step.request == hashlib.sha256(content).digest()
    assert task.step.layout.conditions == layout_of(QUERY.bound).conditions
    assert task.step.needed == 8
    assert (task.voters, task.times) == (1, 1)
    assert task.question({"name": "sum"}) == Total(0, 5, 9)


def test_what_is_added_to_a_winners_sums_is_the_requests() -> None:
    query = replace(QUERY, tests=1, added=(1, 0, 2, 0, 3))
    task = reader(ROSTER)(request(query=query).to_bytes())
    asked = task.question({"name": "winner"})
    assert isinstance(asked, Winner)
    assert asked.added == (1, 0, 2, 0, 3)


def test_voters_are_units() -> None:
    privacy = ht.Privacy(1.0, unit="record")
    task = reader(ROSTER)(request(voters=50, privacy=privacy).to_bytes())
    assert task.voters == 50


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"roster": "0" * 64}, "roster is not the one"),
        ({"roster": Roster(ROSTER.ids).digest()}, "roster is not the one"),
        ({"seal": ht.Masked(), "noise": ht.Masked().noise(3.0)}, "this one's seal is 'masked'"),
        ({"seal": ht.Quorum(nodes=5), "noise": ht.Quorum(nodes=5).noise(3.0)}, "must name 5 nodes, but names 3"),
    ],
)
def test_what_is_not_for_this_node_is_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises((RefusedError, WireError, ht.SettingError), match=reason):
        reader(ROSTER)(request(**changes).to_bytes())


@pytest.mark.parametrize("content", [b"", b"garbage", request().to_bytes()[:-1], request().to_bytes() + b"x"])
def test_what_is_no_request_is_refused(content: bytes) -> None:
    with pytest.raises(HushtuneError):
        reader(ROSTER)(content)


def test_a_request_with_other_noise_is_another_one() -> None:
    """Clients bind their envelopes to the digest: a node that is shown less noise opens none of them."""
    first, other = (reader(ROSTER)(request(noise=SEAL.noise(scale)).to_bytes()) for scale in (3.0, 1.5))
    assert first.step.request != other.step.request


def test_the_board_has_the_keys_of_the_roster() -> None:
    board = board_of(ROSTER)
    assert board.nodes == {node.name: node.key for node in NODES}
    assert board.clients == dict.fromkeys(ROSTER.ids)
    keys = tuple(seeded(name).public for name in ROSTER.ids)
    assert board_of(replace(ROSTER, keys=keys, seed=bytes(32))).clients == dict(zip(ROSTER.ids, keys, strict=True))


def test_rates_come_from_the_scale_that_clients_were_charged_for() -> None:
    question = reader(ROSTER)(request(query=replace(QUERY, tests=1)).to_bytes()).question({"name": "winner"})
    assert question == Winner(geometric.rate_of(3.0), 10)
