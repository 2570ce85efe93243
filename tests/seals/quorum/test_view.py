"""All that reaches t nodes in a step, decrypted: whatever ballots the others sent, it looks the same, but for what is
opened. Each rule by which it does is broken once, and noticed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2
from tests.seals.quorum import ceremonies
from tests.seals.quorum.ceremonies import FIGURES, Record, asked, nodes_of, observed, step_of, written

from hushtune.core.randomness import SimulatedRandomness
from hushtune.privacy.bounds import KHot
from hushtune.seals.quorum import engine, envelopes
from hushtune.seals.quorum.checks import Figures
from hushtune.seals.quorum.engine import MARGIN, Engine, Steps
from hushtune.seals.quorum.envelopes import NodeKey, Submission, about, submitted
from hushtune.seals.quorum.field import LARGE, SMALL, Elements, Large
from hushtune.seals.quorum.layout import layout_of
from hushtune.seals.quorum.questions import Question, Total, Winner
from hushtune.seals.quorum.sharing import Common, Crowd, crowd, deal, joined, value_at

pytestmark = pytest.mark.statistical
FALSE_ALARM = 1e-8
BOUND = KHot(2, 4)
CONCERNING = about("0" * 32, b"r" * 32, "client")
QUIET = Fraction(200)  # a rate at which all noise is 0: the outcome is the same each time
WINNER = Winner(QUIET, 3)
ONE = [[1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 0, 1]]
OTHER = [[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 0, 0]]
"""Two sets of ballots with one winner, the first place."""


def run_of(
    among: Crowd, vectors: Any, seed: int = 0, questions: Sequence[Question] = (WINNER,), bad: bool = False
) -> Record:
    """A whole step of all nodes; one more ballot breaks the rules, if it is told so."""
    nodes, ballots = nodes_of(among, seed), written(BOUND, vectors)
    if bad:
        ballots.append([np.full(layout_of(BOUND).size, 2, np.uint64)])
    held, step = ceremonies.submitted(among, ballots, seed), step_of(BOUND, 1)
    each = zip(nodes, held, strict=True)
    record = observed([asked(node, step, own, questions, len(questions)) for node, own in each])
    assert not record.errors
    return record


def received_by(record: Record, pooling: Sequence[int]) -> Iterator[tuple[int, int, int, bytes]]:
    """What the others sent to nodes that pool it: round, sender, receiver, content."""
    for turn, sent in enumerate(record.sent):
        for sender, messages in sent.items():
            if sender not in pooling:
                yield from ((turn, sender, to, messages[to - 1]) for to in pooling)


def told_to_all(record: Record, turn: int) -> bool:
    """Whether every node has told all others the same, and something."""
    return all(len(set(messages)) == 1 and messages[0] for messages in record.sent[turn].values())


POOLING = [(3, (1,)), (3, (2,)), (3, (3,)), (5, (1, 2)), (5, (2, 5)), (5, (4, 5))]


# ---- its shape -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("m", "pooling"), POOLING, ids=str)
def test_how_much_is_sent_when_and_to_whom_does_not_depend_on_ballots(m: int, pooling: tuple[int, ...]) -> None:
    shapes = []
    for vectors in (ONE, OTHER):
        record = run_of(crowd(m), vectors)
        assert record.results[1][1] == [[0]]
        shapes.append([(*where, len(content)) for *where, content in received_by(record, pooling)])
    assert shapes[0] == shapes[1]


# ---- what is sent to one node alone --------------------------------------------------------------------


def uneven(contents: Sequence[bytes]) -> bool:
    """Whether bytes are not uniform, by a chi-square test; each eighth one may be the highest of an element."""
    words = np.frombuffer(b"".join(contents), np.uint8).reshape(-1, 8)[:, :7]
    counts = np.bincount(words.ravel() >> 4, minlength=16)
    statistic = ((counts - counts.mean()) ** 2 / counts.mean()).sum()
    return bool(statistic > chi2.isf(FALSE_ALARM, 15))


def alone(record: Record, pooling: Sequence[int]) -> list[bytes]:
    """Shares of numbers that other nodes put in, and keys of which such shares are made."""
    found = [
        content
        for turn, _, _, content in received_by(record, pooling)
        if turn > FIGURES and not told_to_all(record, turn) and content
    ]
    assert sum(map(len, found)) > 1_000
    return found


def repeated(contents: Sequence[bytes]) -> bool:
    return len(set(contents)) < len(contents)


@pytest.mark.parametrize(("m", "pooling"), POOLING, ids=str)
def test_what_is_sent_to_them_alone_is_uniform_and_new(m: int, pooling: tuple[int, ...]) -> None:
    for vectors in (ONE, OTHER):
        found = alone(run_of(crowd(m), vectors), pooling)
        assert not uneven(found)
        assert not repeated(found)


def test_shares_without_randomness_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Nothing:
        def bytes(self, size: int) -> bytes:
            return bytes(size)

    with monkeypatch.context() as patch:
        patch.setattr(engine, "deal", lambda field, among, secrets, source: deal(field, among, secrets, Nothing()))
        assert repeated(alone(run_of(crowd(3), ONE), (1,)))
    with monkeypatch.context() as patch:
        patch.setattr(Large, "uniform", lambda self, key, count: self.elements(np.zeros(count, dtype=object)))
        assert uneven(alone(run_of(crowd(3), ONE), (3,)))


# ---- what clients send ---------------------------------------------------------------------------------


def named_by_digests() -> int:
    """How many ballots node 1 of three reads by guessing: its own share and a guess give what the others got, but for
    salts, and it sees digests of that. It tries the salt that it got itself."""
    among, size, found = crowd(3), layout_of(BOUND).size, 0
    keys = [NodeKey(bytes([at]) * 96) for at in among.points]
    for client, vector in enumerate(ONE):
        source = SimulatedRandomness(client, "client")
        contents = deal(SMALL, among, SMALL.elements(vector), source)
        parcel = submitted(contents, [key.public for key in keys], CONCERNING, source).delivery(1)
        salted = keys[0].opened(parcel.envelope, envelopes._purpose(CONCERNING, 1, parcel.root))
        salt, own = salted[: -len(contents[0])], SMALL.uniform(contents[0], size)
        for guess in itertools.product((0, 1), repeat=size):
            other = value_at(SMALL, {0: SMALL.elements(guess), 1: own}, 3)
            found += envelopes._content_digest(3, salt + SMALL.to_bytes(other)) == parcel.digests[2]
    return found


def test_no_ballot_is_named_by_the_digests_that_all_nodes_see() -> None:
    assert named_by_digests() == 0


def test_with_one_salt_for_all_nodes_every_ballot_would_be(monkeypatch: pytest.MonkeyPatch) -> None:
    class Once:
        def bytes(self, size: int) -> bytes:
            return bytes(size)

    def plain(contents: Sequence[bytes], publics: Sequence[bytes], concerning: bytes, source: Any) -> Submission:
        return sealed_with(contents, publics, concerning, Once())

    sealed_with = envelopes.submitted
    monkeypatch.setitem(globals(), "submitted", plain)
    assert named_by_digests() == len(ONE)


# ---- what is opened of ballots -------------------------------------------------------------------------


def figures(record: Record, turn: int = FIGURES) -> dict[int, Elements]:
    found = {at: SMALL.from_bytes(messages[0], len(messages[0]) // 8) for at, messages in record.sent[turn].items()}
    return {at: values.reshape(2, -1) for at, values in found.items()}


def ballots_named(among: Crowd, seed: int) -> int:
    """How many ballots the opened figures of single ballots name: the coin is public, and there are few ballots."""
    record = run_of(among, ONE, seed, bad=True)
    digest = record.results[1][0]
    spread = {at: values[0] for at, values in figures(record, FIGURES + 1).items()}
    opened = joined(SMALL, among, spread, among.degree)
    coin = Figures(layout_of(BOUND), digest)._spread
    combined = {
        int(SMALL.total(SMALL.mul(coin, SMALL.elements(ballot))))
        for ballot in itertools.product((0, 1), repeat=BOUND.length)
    }
    return sum(int(value) in combined for value in opened[: len(ONE)])


@pytest.mark.parametrize("m", [3, 5])
def test_no_ballot_is_named_by_the_secret_behind_its_degree_test(m: int) -> None:
    assert ballots_named(crowd(m), 1) == 0


@pytest.mark.parametrize("m", [3, 5])
def test_without_masks_all_of_them_are(monkeypatch: pytest.MonkeyPatch, m: int) -> None:
    monkeypatch.setattr(Common, "random", lambda self, label, count: np.zeros(count, np.uint64))
    assert ballots_named(crowd(m), 1) == len(ONE)


def lopsided(values: Sequence[int], top: int, cells: int = 4) -> bool:
    """Whether numbers from 0 up to `top` - 1 are not uniform."""
    counts = np.bincount([value * cells // top for value in values], minlength=cells)
    expected = len(values) / cells
    assert expected > 20
    return bool(((counts - expected) ** 2 / expected).sum() > chi2.isf(FALSE_ALARM, cells - 1))


def shown(vectors: Any, seeds: range) -> list[int]:
    """All check values that one node of three sees, in so many steps: of the batch, and of each ballot."""
    found = []
    for seed in seeds:
        record = run_of(crowd(3), vectors, seed, questions=(), bad=True)
        for turn in (FIGURES, FIGURES + 1):
            opened = figures(record, turn)
            found += [int(value) for at in (2, 3) for value in opened[at][:, : len(vectors)].ravel()]
            spread = {at: values[0, : len(vectors)] for at, values in opened.items()}
            found += [int(value) for value in joined(SMALL, crowd(3), spread, 1)]
    return found


def test_check_values_are_uniform_whatever_the_ballots() -> None:
    for vectors in (ONE, OTHER):
        assert not lopsided(shown(vectors, range(10)), SMALL.prime)


# ---- what is opened of sums ----------------------------------------------------------------------------


def comparisons(vectors: Any, seeds: range) -> list[tuple[int, int]]:
    """Every number that is opened to be compared, and how many bits it hides."""
    found, among = [], crowd(3)
    carried = (among.degree * SMALL.prime).bit_length() + 1
    winner = WINNER._most(among, BOUND.length).bit_length()
    for seed in seeds:
        record = run_of(among, vectors, seed)
        turns = [
            turn for turn, sent in enumerate(record.sent) if turn > FIGURES + 1 and sent and told_to_all(record, turn)
        ]
        for turn, bits in zip(turns, (carried, winner, winner), strict=False):
            shares = {at: messages[0] for at, messages in record.sent[turn].items()}
            values = {at: LARGE.from_bytes(content, len(content) // 32) for at, content in shares.items()}
            found += [(int(value), bits) for value in joined(LARGE, among, values, among.degree)]
    return found


def low(opened: Sequence[tuple[int, int]]) -> list[int]:
    """What is left of each modulo 2^bits, from 0 up to 2^20 - 1."""
    return [(value % 2**bits) * 2**20 >> bits for value, bits in opened]


def unmasked(opened: Sequence[tuple[int, int]]) -> bool:
    """Whether one of them is not far larger than what it hides."""
    return any(value >> (bits + MARGIN - 20) == 0 for value, bits in opened)


def test_numbers_that_are_compared_are_hidden_below_and_above() -> None:
    for vectors in (ONE, OTHER):
        opened = comparisons(vectors, range(14))
        assert not lopsided(low(opened), 2**20)
        assert not unmasked(opened)


def test_comparisons_without_bits_or_masks_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(self: Engine, count: int) -> Steps[Elements]:
        yield [b""] * self.among.nodes
        return LARGE.elements(np.zeros(count, dtype=object))

    with monkeypatch.context() as patch:
        patch.setattr(Engine, "bits", nothing)
        assert lopsided(low(comparisons(ONE, range(14))), 2**20)
    with monkeypatch.context() as patch:
        patch.setattr(Engine, "_mask", nothing)
        assert unmasked(comparisons(ONE, range(1)))


# ---- what is opened at the end -------------------------------------------------------------------------


@pytest.mark.parametrize("m", [3, 5])
def test_the_polynomial_that_is_opened_follows_from_the_outcome_and_their_own_shares(m: int) -> None:
    """So the others' shares of the winner's place, or of a sum, tell t nodes nothing beyond it."""
    among = crowd(m)
    record = run_of(among, ONE, questions=(WINNER, Total(0, 4)))
    last = max(turn for turn, sent in enumerate(record.sent) if len(sent) == m)
    opened = {at: SMALL.from_bytes(messages[0], 4) for at, messages in record.sent[last].items()}
    assert joined(SMALL, among, opened, among.degree).tolist() == np.sum(ONE, axis=0).tolist()
