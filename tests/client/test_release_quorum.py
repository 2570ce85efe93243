"""The way out under a quorum: one message, only to nodes that the client's own roster and policy name, charged before
it leaves, and in shares that follow from the vector that they protect."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.client.harness import CANDIDATES, RUN, party, refusal
from tests.seals.quorum.room import seeded

import hushtune as ht
from hushtune.client.party import Party
from hushtune.client.release import respond
from hushtune.client.request import Request
from hushtune.core.identity import Identity
from hushtune.core.roster import NodeEntry, Roster
from hushtune.core.secret import Secret
from hushtune.core.wire import pack, unpack
from hushtune.methods.vote.ballots import TopVotes
from hushtune.privacy.ledger import Ledger
from hushtune.seals.quorum.envelopes import NodeKey, Submission, about
from hushtune.seals.quorum.field import SMALL
from hushtune.seals.quorum.node import KIND, announcement
from hushtune.seals.quorum.sharing import crowd, joined, received

NAMES = ("node-1", "node-2", "node-3")
APART = tuple(NodeEntry(name, seeded(name).public, f"{name}.example.org:7000") for name in NAMES)
ROSTER = Roster(("a", "b"), (seeded("a").public, seeded("b").public), bytes(32), APART)
KEYS = {name: NodeKey(seeded(name).secret * 3) for name in NAMES}
QUERY = TopVotes(2, CANDIDATES, 0, tests=1)
PRIVACY = ht.Privacy(1.0, 0.0)
QUORUM = ht.Quorum(nodes=3)
OWN = ht.Policy(epsilon=1.0, delta=0.0)  # what the owner of a machine grants, for all runs together


def asked(roster: Roster = ROSTER, **changes: Any) -> Request:
    """A request for the winner's place at epsilon 1."""
    noise = QUORUM.noise(2.0)
    events = (QUERY.bound.event(noise, "replace-one"),)
    made = Request(RUN, 0, roster.digest(), QUERY, None, QUORUM, noise, PRIVACY, 1, events)
    return replace(made, **changes)


def told(wanted: Request, signers: tuple[Identity, ...] = tuple(map(seeded, NAMES))) -> bytes:
    """What the coordinator sends: the request, and the keys of nodes."""
    keys = [announcement(who, wanted.run, KEYS[name].public) for who, name in zip(signers, NAMES, strict=False)]
    return pack({"kind": KIND, "run": wanted.run}, wanted.to_bytes(), *keys)


def alone(folder: Path, policy: ht.Policy = OWN, losses: Any = None) -> Party:
    """A client on a machine of its own."""
    inside = party(folder, losses, policy=policy)
    inside.client = replace(inside.client, identity=seeded("a"))
    inside.detached = True
    return inside


def ledger_of(inside: Party) -> Ledger:
    assert inside.ledger is not None
    return inside.ledger


def spent(inside: Party) -> float:
    return ledger_of(inside).spent().epsilon if ledger_of(inside).exists else 0.0


def refused(inside: Party, message: bytes, roster: Roster = ROSTER) -> str:
    """Why; nothing is charged then."""
    before = spent(inside)
    reason = refusal(respond(message, inside, roster))
    assert spent(inside) == before
    return reason


def shares(reply: bytes, wanted: Request, voters: int = 1) -> dict[int, Any]:
    """What each node gets."""
    made, size = Submission.from_bytes(reply, 3), voters * wanted.query.bound.length
    concerning = about(wanted.run, hashlib.sha256(wanted.to_bytes()).digest(), "a")
    contents = {at: made.delivery(at).opened(KEYS[name], at, concerning) for at, name in enumerate(NAMES, 1)}
    return {at: received(SMALL, crowd(3), at, content, size) for at, content in contents.items()}


def test_one_message_is_the_whole_conversation_and_is_charged_once(tmp_path: Path) -> None:
    inside, wanted = alone(tmp_path), asked()
    reply = respond(told(wanted), inside, ROSTER)
    assert joined(SMALL, crowd(3), shares(reply, wanted), 1).tolist() == [1, 1, 0, 0, 0]
    assert spent(inside) == 1.0
    assert respond(told(wanted), inside, ROSTER) == reply
    assert respond(told(wanted), alone(tmp_path), ROSTER) == reply  # another process
    assert len(ledger_of(inside).entries()) == 1


# ---- whom it sends to ----------------------------------------------------------------------------------


def placed(*addresses: str) -> Roster:
    return replace(ROSTER, nodes=tuple(replace(node, address=at) for node, at in zip(APART, addresses, strict=True)))


@pytest.mark.parametrize(
    ("roster", "reason"),
    [
        (replace(ROSTER, nodes=()), "the roster must name 3 nodes, but names 0"),
        (replace(ROSTER, nodes=APART[:2]), "the roster must name 3 nodes, but names 2"),
        (placed("one:1", "one:2", "two:1"), "must be accepted with insecure=True"),
        (placed("one:1", "one:2", "one:3"), "must be accepted with insecure=True"),
        (placed("", "", ""), "must be accepted with insecure=True"),
    ],
)
def test_rosters_whose_nodes_are_too_few_or_in_one_pair_of_hands(tmp_path: Path, roster: Roster, reason: str) -> None:
    inside = alone(tmp_path)
    assert reason in refused(inside, told(asked(roster)), roster)
    assert not ledger_of(inside).exists or not ledger_of(inside).entries()
    if "insecure" in reason:
        allowing = alone(tmp_path, replace(OWN, insecure=True))
        assert unpack(respond(told(asked(roster)), allowing, roster))[0] == {"kind": "submission"}


def test_nodes_that_its_policy_does_not_name(tmp_path: Path) -> None:
    two = replace(OWN, nodes=NAMES[:2])
    assert "but the run's nodes are ['node-1', 'node-2', 'node-3']" in refused(alone(tmp_path, two), told(asked()))
    three = replace(OWN, nodes=(*NAMES, "another"))
    assert unpack(respond(told(asked()), alone(tmp_path, three), ROSTER))[0] == {"kind": "submission"}


def test_a_roster_that_the_coordinator_has_changed(tmp_path: Path) -> None:
    others = replace(ROSTER, nodes=(*APART[:2], replace(APART[2], key=seeded("stranger").public)))
    assert "roster is not the one" in refused(alone(tmp_path), told(asked(others)))
    assert "the roster must name 5 nodes" in refused(alone(tmp_path), told(asked(seal=ht.Quorum(nodes=5))))


@pytest.mark.parametrize(
    "signers",
    [
        (*map(seeded, NAMES[:2]), seeded("stranger")),
        (seeded("node-2"), seeded("node-1"), seeded("node-3")),
        tuple(map(seeded, NAMES[:2])),
    ],
)
def test_keys_that_its_rosters_nodes_have_not_signed(tmp_path: Path, signers: tuple[Identity, ...]) -> None:
    inside = alone(tmp_path)
    assert "node" in refused(inside, told(asked(), signers))
    assert spent(inside) == 0.0


def test_keys_of_another_run(tmp_path: Path) -> None:
    wanted = asked()
    _, (_, *keys) = unpack(told(asked(run="1" * 32)))
    message = pack({"kind": KIND, "run": wanted.run}, wanted.to_bytes(), *keys)
    assert "must be signed by the node" in refused(alone(tmp_path), message)
    other = pack({"kind": KIND, "run": "1" * 32}, wanted.to_bytes(), *keys)
    assert "not of this run" in refused(alone(tmp_path), other)


# ---- what it costs -------------------------------------------------------------------------------------


def test_another_request_or_other_keys_for_the_same_step(tmp_path: Path) -> None:
    inside = alone(tmp_path)
    respond(told(asked()), inside, ROSTER)
    quiet = QUORUM.noise(4.0)
    other = asked(noise=quiet, events=(QUERY.bound.event(quiet, "replace-one"),))
    for again in (inside, alone(tmp_path)):
        assert "answered already, for another request" in refused(again, told(other))
        _, (request, *keys) = unpack(told(asked()))
        assert "answered already" in refused(again, pack({"kind": KIND, "run": RUN}, request, *keys, b""))
    assert len(ledger_of(inside).entries()) == 1


def test_a_second_run_beyond_the_limit(tmp_path: Path) -> None:
    inside = alone(tmp_path)
    respond(told(asked()), inside, ROSTER)
    assert "its limit would be exceeded" in refused(inside, told(asked(run="1" * 32)))
    assert "its limit would be exceeded" in refused(alone(tmp_path), told(asked(run="1" * 32)))


def test_no_owner_has_set_a_limit(tmp_path: Path) -> None:
    assert "no limit" in refused(alone(tmp_path, ht.Policy(delta=0.0)), told(asked()))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"noise": QUORUM.noise(1.0)}, "is not what the run announced"),
        ({"noise": QUORUM.noise(0.0)}, "is not what the run announced"),
        ({"voters": 2}, "one voter if unit is 'client', but got voters=2"),
        ({"privacy": ht.Privacy(0.5, 0.0)}, "costs epsilon 1, more than the stated 0.5"),
        ({"privacy": None}, "must have no noise and no events|no epsilon at all"),
        ({"query": TopVotes(2, CANDIDATES, 0)}, "is not what the run announced"),
        ({"step": 1}, "step 1 is not what the run announced"),
    ],
    ids=str,
)
def test_what_is_not_paid_for(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    assert re.search(reason, refused(alone(tmp_path), told(asked(**changes))))


def test_it_is_charged_before_anything_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed while it writes to its ledger it has sent nothing; killed right after, it has paid, and sends the same."""

    class Killed(BaseException):
        pass

    commit = Ledger.commit

    def before(self: Ledger, *arguments: Any) -> bytes:
        raise Killed

    def after(self: Ledger, *arguments: Any) -> bytes:
        kept.append(commit(self, *arguments))
        raise Killed

    kept: list[bytes] = []
    monkeypatch.setattr(Ledger, "commit", before)
    with pytest.raises(Killed):
        respond(told(asked()), alone(tmp_path), ROSTER)
    assert spent(alone(tmp_path)) == 0.0
    monkeypatch.setattr(Ledger, "commit", after)
    with pytest.raises(Killed):
        respond(told(asked()), alone(tmp_path), ROSTER)
    assert spent(alone(tmp_path)) == 1.0
    monkeypatch.setattr(Ledger, "commit", commit)
    assert respond(told(asked()), alone(tmp_path), ROSTER) == kept[0]
    assert len(ledger_of(alone(tmp_path)).entries()) == 1


def test_without_a_place_in_the_ledger_nothing_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Ledger, *arguments: Any) -> bytes:
        raise ht.LedgerError("the disk is full")

    monkeypatch.setattr(Ledger, "commit", full)
    assert "it cannot be used" in refusal(respond(told(asked()), alone(tmp_path), ROSTER))


# ---- a machine that is rolled back ---------------------------------------------------------------------


def rolled_back(folder: Path, losses: Any, wanted: Request | None = None) -> dict[int, Any]:
    """The shares that a client sends whose ledger knows nothing, but whose secret is the same."""
    folder.mkdir()
    inside = alone(folder, losses=losses)
    inside.secret = Secret(lambda: b"its own secret, the same always ")
    wanted = wanted or asked()
    return shares(respond(told(wanted), inside, ROSTER), wanted)


LEFT, RIGHT = np.arange(5.0), np.arange(5.0)[::-1].copy()


def test_a_machine_that_is_rolled_back_repeats_its_shares(tmp_path: Path) -> None:
    first, again = (rolled_back(tmp_path / name, LEFT) for name in "ab")
    assert all((first[at] == again[at]).all() for at in first)


def test_two_vectors_or_two_requests_never_have_the_same_polynomials(tmp_path: Path) -> None:
    """Else the difference of two shares of one node would be that of two ballots."""
    quiet = QUORUM.noise(4.0)
    other = asked(noise=quiet, events=(QUERY.bound.event(quiet, "replace-one"),))
    found = [
        rolled_back(tmp_path / "left", LEFT),
        rolled_back(tmp_path / "right", RIGHT),
        rolled_back(tmp_path / "request", LEFT, other),
        rolled_back(tmp_path / "run", LEFT, asked(run="1" * 32)),
    ]
    for at, one in enumerate(found):
        for two in found[at + 1 :]:
            for node in one:
                apart = SMALL.sub(one[node], two[node])
                assert len(set(apart.tolist())) == len(apart)
                assert apart.min() > 2**20
                assert apart.max() < SMALL.prime - 2**20
