"""All that nodes send in a step, from the first key to the answer: what one of them could factor is masked, and what
would give ballots away is noticed here."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.seals.quorum.attacks import ballots_of_one_bit, square_root
from tests.seals.quorum.ceremonies import (
    FIGURES,
    KEYS,
    SIGNATURES,
    Record,
    asked,
    nodes_of,
    observed,
    step_of,
    submitted,
    written,
)
from tests.seals.quorum.crowds import low_degree

from hushtune.core.errors import AbortedError
from hushtune.privacy.bounds import Box, KHot
from hushtune.seals.quorum import ceremony
from hushtune.seals.quorum.ceremony import Node
from hushtune.seals.quorum.checks import Figures, masked
from hushtune.seals.quorum.engine import Engine, Steps
from hushtune.seals.quorum.field import LARGE, SMALL, Elements
from hushtune.seals.quorum.layout import layout_of
from hushtune.seals.quorum.questions import Question, Winner
from hushtune.seals.quorum.sharing import Common, crowd, joined

P = SMALL.prime
BIT = Box(1, 1)
BITS = [0, 1, 1, 0, 1, 0, 0, 1]
NODES = pytest.mark.parametrize("count", [3, 5, 7])


def record_of(
    nodes: list[Node], bound: Any, vectors: Any, questions: list[Question], bad: bool = False, seed: int = 0
) -> tuple[Record, list[list[Any]]]:
    """A whole step, and what each node held of it; one more ballot breaks the rules, if it is told so."""
    ballots = written(bound, vectors)
    if bad:
        ballots.append([np.full(layout_of(bound).size, 2, np.uint64)])
    held, step = submitted(nodes[0].among, ballots, seed), step_of(bound, 1)
    each = zip(nodes, held, strict=True)
    return observed([asked(node, step, own, questions, len(questions)) for node, own in each]), held


def figures_of(record: Record, turn: int) -> dict[int, Elements]:
    """What all nodes showed of ballots in one round, shape (2, ballots)."""
    shown = {at: set(messages) for at, messages in record.sent[turn].items()}
    assert all(len(messages) == 1 for messages in shown.values())
    read = {at: SMALL.from_bytes(content, len(content) // 8) for at, (content,) in shown.items()}
    return {at: values.reshape(2, -1) for at, values in read.items()}


# ---- what is opened --------------------------------------------------------------------------------------


@NODES
@pytest.mark.parametrize("bad", [False, True])
def test_all_that_is_opened_in_a_step_is_of_degree_t_or_masked(count: int, bad: bool) -> None:
    """Keys and coins are no numbers of a ballot; figures are looked at below; the rest opens degree t only."""
    nodes = nodes_of(crowd(count))
    record, _ = record_of(nodes, KHot(1, 3), [[1, 0, 0], [0, 1, 0], [0, 1, 0]], [Winner(Fraction(1), 3)], bad)
    assert not record.errors
    rounds = [[messages for _, messages in sorted(sent.items())] for sent in record.sent if len(sent) == count]
    checks = 2 if bad else 1
    for turn in range(FIGURES, FIGURES + checks):
        spread = {at: values[0] for at, values in figures_of(record, turn).items()}
        joined(SMALL, nodes[0].among, spread, nodes[0].among.degree)
    asked_for = rounds[FIGURES + checks]
    assert len({message for messages in asked_for for message in messages}) == 1  # the question, in words
    # one comparison of each sum when it is carried over, two of the tournament, and the winner's place
    assert low_degree(nodes[0].among, rounds[FIGURES + checks + 1 :]) == 4


def test_an_opened_product_in_any_round_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(self: Engine, one: Elements, other: Elements) -> Steps[Elements]:
        got = yield [LARGE.to_bytes(LARGE.mul(one, other))] * self.among.nodes
        values = {at: LARGE.from_bytes(content, len(one)) for at, content in enumerate(got, 1)}
        return joined(LARGE, self.among, values, 2 * self.among.degree)

    monkeypatch.setattr(Engine, "mul", opened)
    with pytest.raises(AbortedError):
        test_all_that_is_opened_in_a_step_is_of_degree_t_or_masked(3, False)


# ---- factoring what is opened of products ----------------------------------------------------------------


def ballots_read(node: int, seed: int = 0) -> int:
    """How many ballots one node of three reads by factoring: each is one bit, and all are opened one by one."""
    nodes = nodes_of(crowd(3), seed)
    record, held = record_of(nodes, BIT, [[bit] for bit in BITS], [], bad=True, seed=seed)
    digest = record.results[1][0]
    coin = int(Figures(layout_of(BIT), digest)._bits[0])
    shown = figures_of(record, FIGURES + 1)
    found = 0
    for at, bit in enumerate(BITS):
        faults = {point: int(values[1, at]) for point, values in shown.items()}
        share = int(held[node - 1][at].ballots[0, 0])
        candidates = ballots_of_one_bit(faults, coin, node, share, P)
        assert candidates in ([], [bit])
        found += candidates == [bit]
    return found


@pytest.mark.parametrize("node", [1, 2, 3])
def test_no_ballot_can_be_factored_out_of_its_check(node: int) -> None:
    assert ballots_read(node) == 0


@pytest.mark.parametrize("node", [1, 2, 3])
def test_without_a_sharing_of_zero_every_ballot_could_be(monkeypatch: pytest.MonkeyPatch, node: int) -> None:
    monkeypatch.setattr(Common, "zero", lambda self, label, count: np.zeros(count, np.uint64))
    assert ballots_read(node) == len(BITS)


# ---- two coins under the same masks ----------------------------------------------------------------------


def shares_read(seed: int = 0) -> int:
    """How many of node 1's shares node 3 reads: nodes 1 and 2 are rolled back, and hear another coin of node 3."""
    nodes = nodes_of(crowd(3), seed)
    others = [*nodes[:2], dataclasses.replace(nodes[2], secret=b"another" * 5)]
    seen, coins, held = [], [], []
    for crew in (nodes, others):
        record, held = record_of(crew, BIT, [[bit] for bit in BITS], [], bad=True)
        seen.append(figures_of(record, FIGURES + 1)[1][1])
        coins.append(int(Figures(layout_of(BIT), record.results[1][0])._bits[0]))
    assert coins[0] != coins[1]
    found = 0
    for at in range(len(BITS)):
        apart = int(seen[0][at]) - int(seen[1][at])
        product = apart * pow(coins[0] - coins[1], -1, P) % P  # b (b - 1), if masks are equal
        root = square_root((1 + 4 * product) % P, P)
        share = int(held[0][at].ballots[0, 0])
        found += root is not None and share in [(1 + sign * root) * pow(2, -1, P) % P for sign in (1, -1)]
    return found


def test_machines_that_are_rolled_back_give_no_share_away() -> None:
    assert shares_read() == 0


def test_masks_that_do_not_belong_to_the_coin_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceremony, "masked", lambda figures, common, label: masked(figures, common, b"always the same"))
    assert shares_read() == len(BITS)


@pytest.mark.parametrize("bad", [False, True])
def test_every_mask_belongs_to_the_signed_digest(monkeypatch: pytest.MonkeyPatch, bad: bool) -> None:
    """Also that of all ballots together: under one mask each further coin would give one more equation in them."""
    labels = []

    def noted(figures: Elements, common: Common, label: bytes) -> Elements:
        labels.append(label)
        return masked(figures, common, label)

    monkeypatch.setattr(ceremony, "masked", noted)
    nodes = nodes_of(crowd(3))
    record, _ = record_of(nodes, BIT, [[bit] for bit in BITS], [], bad=bad)
    digest = record.results[1][0]
    assert len(labels) == 3 * (1 + bad)
    assert len(set(labels)) == 1 + bad  # the same at all nodes, and one for each round
    assert all(label.startswith(digest) for label in labels)


# ---- what leaves before all have signed ------------------------------------------------------------------


def test_no_message_before_the_signatures_holds_a_number_of_a_ballot() -> None:
    nodes = nodes_of(crowd(3))
    record, held = record_of(nodes, BIT, [[bit] for bit in BITS], [])
    shares = {int(one.ballots[0, 0]).to_bytes(8, "little") for own in held for one in own}
    for turn in range(KEYS, SIGNATURES + 1):
        content = b"".join(message for messages in record.sent[turn].values() for message in messages)
        assert not any(share in content for share in shares)
