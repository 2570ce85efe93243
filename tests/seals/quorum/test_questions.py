from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.seals.quorum.ceremonies import FIGURES, asked, nodes_of, observed, step_of, submitted, written

from hushtune.core.errors import AbortedError
from hushtune.privacy.bounds import Ball, Box, KHot, Tally
from hushtune.privacy.noise import geometric, skellam
from hushtune.seals.quorum import questions
from hushtune.seals.quorum.ceremony import Node, prepared
from hushtune.seals.quorum.engine import Engine
from hushtune.seals.quorum.field import SMALL
from hushtune.seals.quorum.questions import GRID, Above, Question, Quotient, Reaching, Total, Winner
from hushtune.seals.quorum.selection import carried
from hushtune.seals.quorum.sharing import crowd, joined

RATE = Fraction(1, 3)
BOX = Box(9, 5)
QUIET = Fraction(200)  # a rate at which all noise is 0
VECTORS = [[3, 9, 0, 9, 1], [0, 2, 0, 2, 5], [4, 0, 0, 0, 3]]
SUMS = [7, 11, 0, 11, 9]


def answers(
    nodes: list[Node], questions: Sequence[Question], vectors: Any = VECTORS, bound: Any = BOX
) -> tuple[bytes, list[list[int]]]:
    """What answers are based on, and what is opened: the same at all nodes."""
    held, step = submitted(nodes[0].among, written(bound, vectors)), step_of(bound, 1)
    each = zip(nodes, held, strict=True)
    record = observed([asked(node, step, own, questions, len(questions)) for node, own in each])
    assert not record.errors
    assert all(result == record.results[1] for result in record.results.values())
    _, found, basis = record.results[1]
    return basis, found


def sources(nodes: list[Node], digest: bytes, number: int, question: Question) -> list[Any]:
    return [node.drawn("noise", digest, f"{number} {question!r}".encode()) for node in nodes]


def known(nodes: list[Node], digest: bytes, number: int, question: Question, sums: Any = SUMS) -> list[int]:
    """The same question of sums that are known, with the noise that these nodes draw for it."""
    return question.known(np.array(sums), nodes[0].among, sources(nodes, digest, number, question))


@pytest.mark.parametrize(("count", "seed"), [(3, 0), (3, 1), (3, 2), (5, 3), (7, 4)])
def test_the_winner_is_that_of_plain_sums_with_the_same_noise(count: int, seed: int) -> None:
    nodes = nodes_of(crowd(count), seed)
    questions = [Winner(RATE, 27), Winner(RATE, 27, (4, 0, 9, 1, 2)), Winner(None, 27)]
    digest, found = answers(nodes, questions)
    assert found == [known(nodes, digest, number, one) for number, one in enumerate(questions, 1)]
    parts = nodes[0].among.nodes - nodes[0].among.degree
    own = [geometric.share(RATE, parts, 5, one) for one in sources(nodes, digest, 1, questions[0])]
    assert found[0] == [geometric.noisy_max(np.array(SUMS), np.sum(own, axis=0))]
    assert found[2] == [1]


def test_ties_go_to_the_first_and_added_scores_count() -> None:
    nodes = nodes_of(crowd(3))
    far = (0, -(2**40), 0, -(2**40), -(2**40))
    questions = [Winner(QUIET, 27), Winner(QUIET, 27, (0, 0, 0, 1, 0)), Winner(QUIET, 27, (4, 0, 11, 0, 0))]
    questions += [Winner(QUIET, 27, far), Winner(QUIET, 27, (-9, -9, -9, -9, -1))]
    assert answers(nodes, questions)[1] == [[1], [3], [0], [0], [4]]


def test_a_single_candidate_wins() -> None:
    nodes = nodes_of(crowd(3))
    assert answers(nodes, [Winner(RATE, 3)], [[1], [1], [1]], KHot(1, 1))[1] == [[0]]


@pytest.mark.parametrize(("count", "seed"), [(3, 0), (3, 1), (5, 2)])
def test_the_first_above_is_that_of_plain_sums_with_the_same_noise(count: int, seed: int) -> None:
    nodes, question = nodes_of(crowd(count), seed), Above(Fraction(1), Fraction(1, 2), 27, 10, (4, 2, 0, 1, 3))
    digest, (found,) = answers(nodes, [question])
    assert found == known(nodes, digest, 1, question)
    parts, noise = count - nodes[0].among.degree, np.zeros(6, dtype=np.int64)
    for source in sources(nodes, digest, 1, question):
        for at, rate in ((slice(1), question.rate), (slice(1, 6), question.half)):
            size = len(noise[at])
            noise[at] += geometric.share(rate, parts, size, source) - geometric.share(rate, parts, size, source)
    reached = np.array(SUMS)[list(question.order)] + noise[1:] >= 10 + noise[0]
    assert found == [int(np.argmax(reached)) + 1 if reached.any() else 0]


def test_above_without_noise() -> None:
    nodes, order = nodes_of(crowd(3)), (2, 4, 3, 1, 0)
    questions = [Above(QUIET, QUIET, 27, level, order) for level in (11, 9, 0, -5, 12)]
    assert answers(nodes, questions)[1] == [[3], [2], [1], [1], [0]]


@pytest.mark.parametrize("count", [3, 5, 7])
def test_totals_with_and_without_noise(count: int) -> None:
    nodes, noisy = nodes_of(crowd(count)), Total(0, 5, Fraction(50))
    digest, found = answers(nodes, [Total(0, 5), noisy, Total(1, 3)])
    share = noisy.variance / (count - nodes[0].among.degree)
    noise = np.sum([skellam.sample(share, 5, one) for one in sources(nodes, digest, 2, noisy)], axis=0)
    assert found == [SUMS, (np.array(SUMS) + noise).tolist(), SUMS[1:3]]
    assert found[1] == known(nodes, digest, 2, noisy)
    assert noise.any()


def test_totals_of_either_sign() -> None:
    nodes, noisy = nodes_of(crowd(3)), Total(0, 4, Fraction(50))
    vectors = [[-9, 0, 1, -1], [-3, 2, -1, 1], [0, -7, 0, 0]]
    digest, found = answers(nodes, [Total(0, 4), noisy], vectors, Ball(10, 4))
    assert found == [[-12, -5, 0, 0], known(nodes, digest, 2, noisy, [-12, -5, 0, 0])]


def test_which_sums_reach_a_number() -> None:
    nodes, levels = nodes_of(crowd(3)), (0, 1, 9, 11, 12, 100)
    found = answers(nodes, [*(Reaching(0, 5, least, 27) for least in levels), Reaching(1, 3, 9, 27)])[1]
    assert found == [*([int(value >= least) for value in SUMS] for least in levels), [1, 0]]


def test_quotients_are_rounded_down_and_nothing_divides_by_zero() -> None:
    nodes, bound = nodes_of(crowd(3)), Tally(9, 2, 2)
    vectors = [[5, 0, 4, 0, 1, 0], [2, 0, 2, 0, 0, 0]]  # counts of two groups, and two sums of each
    question = Quotient((2, 6), (0, 2), 18)
    digest, (found,) = answers(nodes, [question], vectors, bound)
    assert found == [6 * GRID // 7, 0, GRID // 7, 0]
    assert found == known(nodes, digest, 1, question, np.sum(vectors, axis=0))
    whole = answers(nodes, [question], [[5, 3, 5, 3, 0, 2], [2, 1, 2, 1, 2, 0]], bound)[1]
    assert whole == [[GRID, GRID, 2 * GRID // 7, GRID // 2]]


def test_no_more_questions_than_were_announced() -> None:
    nodes = nodes_of(crowd(3))
    held, step, questions = submitted(nodes[0].among, written(BOX, VECTORS)), step_of(BOX, 1), [Total(0, 5)] * 2
    record = observed([asked(node, step, own, questions, 1) for node, own in zip(nodes, held, strict=True)])
    assert len(record.errors) == 3
    for error in record.errors.values():
        assert type(error) is AbortedError
        assert str(error).startswith("at most 1 questions")


OTHER: list[Any] = [Total(0, 5), Winner(RATE, 28), Winner(RATE, 27, (1, 0, 0, 0, 0)), Winner(RATE * 2, 27)]


@pytest.mark.parametrize("other", OTHER, ids=repr)
def test_nodes_that_are_asked_different_questions_open_nothing(other: Question) -> None:
    nodes, step = nodes_of(crowd(3)), step_of(BOX, 1)
    held = submitted(nodes[0].among, written(BOX, VECTORS))
    questions = [Winner(RATE, 27), Winner(RATE, 27), other]
    each = zip(nodes, held, questions, strict=True)
    record = observed([asked(node, step, own, [question], 1) for node, own, question in each])
    assert len(record.errors) == 3
    for error in record.errors.values():
        assert type(error) is AbortedError
        assert "not asked the same question" in str(error)
    assert len(record.sent) == FIGURES + 3  # figures, the question, and nothing
    assert not record.sent[-1]


def noise_of(nodes: list[Node], questions: int = 1, vectors: Any = VECTORS) -> list[list[int]]:
    found = answers(nodes, [Total(0, 5, Fraction(10**6))] * questions, vectors)[1]
    return [(np.array(one) - np.sum(vectors, axis=0)).tolist() for one in found]


def test_noise_is_drawn_once_for_a_digest_and_a_question() -> None:
    nodes = nodes_of(crowd(3))
    first, second = noise_of(nodes, 2)
    assert first != second
    assert noise_of(nodes) == [first]
    assert noise_of(nodes, 2) == [first, second]
    assert noise_of(nodes, vectors=VECTORS[:2])[0] not in (first, second)  # another list, and so another digest
    for at in range(3):
        others = [*nodes[:at], dataclasses.replace(nodes[at], secret=bytes(32)), *nodes[at + 1 :]]
        assert noise_of(others)[0] not in (first, second)


@pytest.mark.parametrize("question", [Winner(RATE, 27), Above(RATE, RATE / 2, 27, 10, (4, 2, 0, 1, 3))], ids=repr)
def test_what_is_computed_with_is_noisy_from_the_first(question: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that does not follow the protocol can open what is carried over: let that be noisy sums."""
    nodes, seen = nodes_of(crowd(3)), {}

    def spied(engine: Engine, sums: Any) -> Any:
        seen[engine.number] = sums
        return (yield from carried(engine, sums))

    monkeypatch.setattr(questions, "carried", spied)
    digest, _ = answers(nodes, [question])
    opened = joined(SMALL, nodes[0].among, seen, nodes[0].among.degree).astype(np.int64)
    drawn = [question._share(nodes[0].among, *part) for part in _parts(question, sources(nodes, digest, 1, question))]
    noise = np.sum(drawn, axis=0)
    if isinstance(question, Winner):
        assert opened.tolist() == (np.array(SUMS) + noise).tolist()
    else:
        lifted = question._far(nodes[0].among)
        assert (opened - lifted).tolist() == [noise[0], *(np.array(SUMS)[list(question.order)] + noise[1:])]
    assert noise.any()


def _parts(question: Question, drawn: list[Any]) -> list[tuple[Any, ...]]:
    return [(5, source) if isinstance(question, Winner) else (source,) for source in drawn]


def wrong(sent: bytes, at: int) -> bytes:
    """Figures of which one is another number."""
    figures = SMALL.from_bytes(sent, len(sent) // SMALL.width)
    figures[at] = (figures[at] + 1) % SMALL.prime
    return SMALL.to_bytes(figures)


@pytest.mark.parametrize("liar", [1, 2, 3])
@pytest.mark.parametrize("question", [Total(0, 5, Fraction(1600)), Winner(RATE, 27)], ids=repr)
def test_nodes_that_kept_different_ballots_answer_nothing(liar: int, question: Question) -> None:
    """One node tells two others different figures of one ballot: from both their answers it could read that ballot."""
    nodes, step = nodes_of(crowd(3)), step_of(BOX, 1)
    held = submitted(nodes[0].among, written(BOX, VECTORS))
    (victim, *_) = [at for at in (1, 2, 3) if at != liar]

    def tamper(turn: int, sender: int, receiver: int, sent: bytes) -> bytes:
        if sender == liar and turn == FIGURES:
            return wrong(sent, 1)  # all ballots together fail, so that each is looked at
        if sender == liar and turn == FIGURES + 1 and receiver == victim:
            return wrong(sent, len(VECTORS))  # the first ballot's faults
        return sent

    record = observed([asked(node, step, own, [question], 1) for node, own in zip(nodes, held, strict=True)], tamper)
    assert not record.results
    assert len(record.errors) == 3
    for error in record.errors.values():
        assert type(error) is AbortedError
        assert "of the same ballots: nothing is opened" in str(error)
    assert len(record.sent) == FIGURES + 4  # two rounds of figures, the question, and nothing


def test_noise_belongs_to_the_ballots_that_were_kept() -> None:
    nodes = nodes_of(crowd(3))
    held, step = submitted(nodes[0].among, written(BOX, VECTORS)), step_of(BOX, 1)
    found = []
    for bad in (False, True):

        def tamper(turn: int, sender: int, receiver: int, sent: bytes, bad: bool = bad) -> bytes:
            return wrong(sent, 1) if bad and sender == 1 and turn in (FIGURES, FIGURES + 1) else sent

        programs = [prepared(node, step, own) for node, own in zip(nodes, held, strict=True)]
        found.append(observed(programs, tamper).results[2])
    assert found[0].clients != found[1].clients
    assert found[0].digest == found[1].digest
    assert found[0].basis != found[1].basis  # which all noise is derived from
