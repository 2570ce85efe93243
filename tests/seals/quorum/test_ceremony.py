from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from tests.seals.quorum.ceremonies import (
    COINS,
    COMMITMENTS,
    FIGURES,
    KEYS,
    SIGNATURES,
    Record,
    Tamper,
    nodes_of,
    observed,
    step_of,
    submitted,
    written,
)

from hushtune.core.errors import AbortedError, WireError
from hushtune.core.identity import Identity
from hushtune.privacy.bounds import Ball, KHot
from hushtune.seals.quorum import ceremony
from hushtune.seals.quorum.ceremony import Held, Node, _committed, prepared
from hushtune.seals.quorum.field import SMALL
from hushtune.seals.quorum.sharing import crowd, value_at

BOUND = KHot(2, 6)
NODES = (3, 5, 7)
VECTORS = [[1, 1, 0, 0, 0, 0], [0, 1, 1, 0, 0, 0], [0, 1, 0, 0, 0, 1], [1, 0, 0, 0, 1, 0]]
OTHERS = [[0, 0, 0, 0, 1, 1], [1, 0, 0, 1, 0, 0], [0, 0, 1, 1, 0, 0], [0, 0, 1, 0, 1, 0]]
NOBODY: Tamper = lambda turn, sender, receiver, sent: sent  # noqa: E731


def held_by(nodes: list[Node], vectors: Any = VECTORS, seed: int = 0) -> list[list[Held]]:
    return submitted(nodes[0].among, written(BOUND, vectors), seed)


def run(
    nodes: list[Node], held: list[list[Held]], tamper: Tamper = NOBODY, needed: int = 3, bound: Any = BOUND
) -> Record:
    step = step_of(bound, needed)
    return observed([prepared(node, step, own) for node, own in zip(nodes, held, strict=True)], tamper)


def opened(record: Record) -> list[int]:
    assert not record.errors
    return value_at(SMALL, {number: sums.shares for number, sums in record.results.items()}).tolist()


def aborted(record: Record, kind: type[Exception], says: str) -> None:
    """Someone refused to go on, by a named error, and no figure had left any node."""
    assert not record.results
    assert record.errors
    for error in record.errors.values():
        assert type(error) is kind
        assert says in str(error)
    assert not any(record.sent[FIGURES:])


@pytest.mark.parametrize("count", NODES)
def test_sums_are_those_of_all_ballots(count: int) -> None:
    nodes = nodes_of(crowd(count))
    record = run(nodes, held_by(nodes))
    assert opened(record) == np.sum(VECTORS, axis=0).tolist()
    assert len({sums.digest for sums in record.results.values()}) == 1
    for sums in record.results.values():
        assert sums.clients == ("c0", "c1", "c2", "c3")
        assert sums.bad == ()
        assert "shares" not in repr(sums)
    assert len(record.sent) == FIGURES + 2  # the last is where all end


def test_sums_of_vectors_of_either_sign() -> None:
    nodes, bound, vectors = nodes_of(crowd(3)), Ball(5, 2), [[-3, 4], [-4, -1], [0, 2]]
    record = run(nodes, submitted(nodes[0].among, written(bound, vectors)), bound=bound)
    assert opened(record) == SMALL.elements([-7, 5]).tolist()


@pytest.mark.parametrize("count", NODES)
def test_nothing_sent_before_all_have_signed_depends_on_ballots(count: int) -> None:
    nodes = nodes_of(crowd(count))
    one, other = run(nodes, held_by(nodes)), run(nodes, held_by(nodes, OTHERS, 1))
    assert opened(one) != opened(other)
    assert one.sent[:FIGURES] == other.sent[:FIGURES]
    for number in nodes[0].among.points:
        assert one.sent[FIGURES][number] != other.sent[FIGURES][number]


def test_a_node_that_starts_again_repeats_what_it_sent() -> None:
    nodes = nodes_of(crowd(3))
    assert run(nodes, held_by(nodes)).sent == run(nodes, held_by(nodes)).sent


def test_another_list_has_other_keys_coins_and_figures() -> None:
    nodes = nodes_of(crowd(3))
    held = held_by(nodes)
    one, other = run(nodes, held), run(nodes, [own[:3] for own in held])
    sent = {part for turn in one.sent for parts in turn.values() for part in parts if part}
    assert not sent & {part for turn in other.sent for parts in turn.values() for part in parts}


def changed_list(kind: str, own: list[Held]) -> list[Held]:
    return {
        "one fewer": own[:3],
        "another order": [own[1], own[0], *own[2:]],
        "another root": [dataclasses.replace(own[0], root=b"x" * 32), *own[1:]],
        "another name": [dataclasses.replace(own[0], client="d0"), *own[1:]],
    }[kind]


@pytest.mark.parametrize("kind", ["one fewer", "another order", "another root", "another name"])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_another_list_at_one_node_ends_it(kind: str, at: int) -> None:
    nodes = nodes_of(crowd(3))
    held = held_by(nodes)
    held[at] = changed_list(kind, held[at])
    record = run(nodes, held)
    aborted(record, AbortedError, "the same list of submissions")
    assert set(record.errors) == {1, 2, 3}
    assert not any(record.sent[COINS:])


@pytest.mark.parametrize("change", [{"run": "1" * 32}, {"number": 1}, {"request": b"s" * 32}])
def test_another_step_at_one_node_ends_it(change: dict[str, Any]) -> None:
    nodes, step = nodes_of(crowd(3)), step_of(BOUND, 3)
    steps = [step, step, dataclasses.replace(step, **change)]
    programs = [prepared(*all_of) for all_of in zip(nodes, steps, held_by(nodes), strict=True)]
    aborted(observed(programs), AbortedError, "the same list of submissions")


@pytest.mark.parametrize("content", [b"x" * 32, b"", b"x" * 33])
def test_a_coin_that_was_not_committed_to_ends_it(content: bytes) -> None:
    nodes = nodes_of(crowd(5))

    def tamper(turn: int, sender: int, receiver: int, sent: bytes) -> bytes:
        return content if turn == COINS and sender == 4 else sent

    record = run(nodes, held_by(nodes), tamper)
    aborted(record, AbortedError, "node 4 shows another coin")
    assert not any(record.sent[SIGNATURES:])


def test_another_commitment_or_a_short_one_ends_it() -> None:
    nodes = nodes_of(crowd(3))

    def broken(turn: int, sender: int, receiver: int, sent: bytes) -> bytes:
        return sent[:32] + bytes(32) if turn == COMMITMENTS and sender == 2 else sent

    def short(turn: int, sender: int, receiver: int, sent: bytes) -> bytes:
        return sent[:-1] if turn == COMMITMENTS and sender == 2 else sent

    aborted(run(nodes, held_by(nodes), broken), AbortedError, "node 2 shows another coin")
    aborted(run(nodes, held_by(nodes), short), AbortedError, "the same list of submissions")


def test_a_part_of_the_coin_cannot_be_copied_from_another_node() -> None:
    nodes = nodes_of(crowd(3))
    first: dict[int, bytes] = {}

    def tamper(turn: int, sender: int, receiver: int, sent: bytes) -> bytes:
        if turn in (COMMITMENTS, COINS):
            first[turn] = sent if sender == 1 else first[turn]
            return first[turn] if sender == 3 else sent
        return sent

    aborted(run(nodes, held_by(nodes), tamper), AbortedError, "node 3 shows another coin")


@pytest.mark.parametrize("count", NODES)
def test_two_coins_told_to_two_nodes_end_it(count: int) -> None:
    """The last node commits to, and shows, one part to node 1 and another to all others: signatures do not fit."""
    nodes = nodes_of(crowd(count))
    held, another = held_by(nodes), b"x" * 32
    about = step_of(BOUND, 3).about(held[0])

    def tamper(turn: int, sender: int, receiver: int, sent: bytes) -> bytes:
        if sender == count and receiver == 1 and turn == COMMITMENTS:
            return about + _committed(count, about, another)
        return another if sender == count and receiver == 1 and turn == COINS else sent

    record = run(nodes, held, tamper)
    aborted(record, AbortedError, "has not signed the same list and coin")
    assert set(record.errors) == set(nodes[0].among.points)
    assert len(record.sent) == FIGURES + 1


@pytest.mark.parametrize("content", [b"", bytes(64), b"x" * 63])
def test_a_wrong_signature_ends_it(content: bytes) -> None:
    nodes = nodes_of(crowd(3))

    def tamper(turn: int, sender: int, receiver: int, sent: bytes) -> bytes:
        return content if turn == SIGNATURES and sender == 2 else sent

    aborted(run(nodes, held_by(nodes), tamper), AbortedError, "node 2 has not signed")


def test_a_signature_by_another_key_or_of_another_node_ends_it() -> None:
    nodes = nodes_of(crowd(3))
    strangers = [nodes[0], nodes[1], dataclasses.replace(nodes[2], identity=Identity.new())]
    aborted(run(strangers, held_by(nodes)), AbortedError, "node 3 has not signed")
    copied = [nodes[0], nodes[1], dataclasses.replace(nodes[2], identity=nodes[0].identity)]
    aborted(run(copied, held_by(nodes)), AbortedError, "node 3 has not signed")


@pytest.mark.parametrize("count", NODES)
def test_missing_keys_of_groups_end_it(count: int) -> None:
    nodes = nodes_of(crowd(count))

    def tamper(turn: int, sender: int, receiver: int, sent: bytes) -> bytes:
        return sent[32:] if turn == KEYS and sender == 1 else sent

    record = run(nodes, held_by(nodes), tamper)
    aborted(record, WireError, "node 1 must send")
    assert not any(record.sent[COMMITMENTS:])


@pytest.mark.parametrize("count", NODES)
def test_every_key_reaches_its_group_and_nobody_else(count: int) -> None:
    nodes = nodes_of(crowd(count))
    among, sent = nodes[0].among, run(nodes, held_by(nodes)).sent[KEYS]
    for sender in among.points:
        for receiver in among.points:
            groups = [group for group in among.groups if group[0] == sender and receiver in group]
            assert len(sent[sender][receiver - 1]) == 32 * len(groups)


def test_different_keys_told_to_members_of_a_group_open_nothing() -> None:
    nodes = nodes_of(crowd(3))

    def tamper(turn: int, sender: int, receiver: int, sent: bytes) -> bytes:
        return bytes(len(sent)) if turn == KEYS and sender == 1 and receiver == 2 else sent

    record = run(nodes, held_by(nodes), tamper)
    assert not record.results
    assert all("nothing is opened" in str(error) for error in record.errors.values())


@pytest.mark.parametrize("count", NODES)
def test_a_bad_ballot_is_left_out_and_named(count: int) -> None:
    nodes = nodes_of(crowd(count))
    ballots = written(BOUND, VECTORS)
    ballots[1] = [SMALL.elements([2, 0, 0, 0, 0, 0])]
    record = run(nodes, submitted(nodes[0].among, ballots))
    assert opened(record) == np.sum([VECTORS[0], VECTORS[2], VECTORS[3]], axis=0).tolist()
    for sums in record.results.values():
        assert sums.clients == ("c0", "c2", "c3")
        assert sums.bad == ("c1",)


@pytest.mark.parametrize("needed", [4, 5])
def test_too_few_valid_ballots_open_nothing(needed: int) -> None:
    nodes = nodes_of(crowd(3))
    ballots = written(BOUND, VECTORS)
    ballots[0] = [SMALL.elements([1, 1, 1, 0, 0, 0])]
    record = run(nodes, submitted(nodes[0].among, ballots), needed=needed)
    assert set(record.errors) == {1, 2, 3}
    for error in record.errors.values():
        assert type(error) is AbortedError
        assert str(error).startswith(f"ballots of {needed} clients must be valid, but got 3")


def test_no_submissions_open_nothing() -> None:
    nodes = nodes_of(crowd(3))
    record = run(nodes, [[], [], []], needed=1)
    assert all("but got 0" in str(error) for error in record.errors.values())
    assert len(record.errors) == 3


def test_one_bad_ballot_of_several_leaves_the_whole_client_out() -> None:
    nodes, bits = nodes_of(crowd(3)), [one for (one,) in written(BOUND, [*VECTORS, *OTHERS])]
    bad = SMALL.elements([0, 0, 0, 0, 0, 1])
    ballots = [[bits[0]], [bits[1], bad, bits[2]], [bits[3], bits[4]], [bits[5], bits[6]]]
    record = run(nodes, submitted(nodes[0].among, ballots))
    vectors = [*VECTORS, *OTHERS]
    assert opened(record) == np.sum([vectors[at] for at in (0, 3, 4, 5, 6)], axis=0).tolist()
    assert {sums.bad for sums in record.results.values()} == {("c1",)}
    assert {sums.clients for sums in record.results.values()} == {("c0", "c2", "c3")}
    record = run(nodes, submitted(nodes[0].among, ballots), needed=4)
    assert all(type(error) is AbortedError for error in record.errors.values())
    assert len(record.errors) == 3


def test_a_node_does_not_show_its_secret() -> None:
    node = nodes_of(crowd(3))[0]
    assert "secret" not in repr(node)
    assert node.drawn("a", b"bc").bytes(16) == node.drawn("a", b"bc").bytes(16)
    draws = [node.drawn("a", b"bc"), node.drawn("ab", b"c"), node.drawn("a", b"b", b"c"), node.drawn("abc")]
    assert len({drawn.bytes(16) for drawn in draws}) == 4


def test_figures_of_many_ballots_are_shown_in_several_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceremony, "_SHOWN", 3)
    nodes = nodes_of(crowd(3))
    ballots = [np.array(vector, np.uint64) for vector in VECTORS * 2]
    ballots[4] = np.array([2, 0, 0, 0, 0, 0], np.uint64)
    held = submitted(nodes[0].among, [[ballot] for ballot in ballots])
    record = run(nodes, held)
    assert not record.errors
    assert record.results[1].bad == ("c4",)
    shown = [len(sent[1][0]) for sent in record.sent[FIGURES:] if 1 in sent]
    assert shown == [16, 48, 48, 32]  # all together, then three, three and two
    assert opened(record) == np.delete(np.array(VECTORS * 2), 4, axis=0).sum(axis=0).tolist()
