"""Random steps from ballots to answers, against plain integers: the right answer with the noise that nodes drew, over
the clients on the list, and exactly the bad ballots left out."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.seals.quorum.ceremonies import nodes_of, observed, step_of, submitted

from hushtune.core.errors import AbortedError
from hushtune.core.randomness import SimulatedRandomness
from hushtune.privacy.bounds import AtMost, Ball, Box, KHot, Scores, Tally
from hushtune.privacy.noise import geometric
from hushtune.seals.quorum.ceremony import Held, Node, Step, prepared
from hushtune.seals.quorum.engine import Steps
from hushtune.seals.quorum.field import SMALL, Elements
from hushtune.seals.quorum.layout import layout_of
from hushtune.seals.quorum.questions import GRID, Above, Answerer, Question, Quotient, Reaching, Total, Winner
from hushtune.seals.quorum.sharing import crowd

BLOCK = 500
LARGE = 250  # every so many cases one has about a hundred clients and a hundred candidates
RATE, HALF = Fraction(1, 3), Fraction(1, 6)


def bounds(source: random.Random) -> list[Any]:
    p, k = source.randint(1, 7), source.randint(1, 7)
    return [
        KHot(min(k, p), p),
        AtMost(min(k, p), p),
        Scores(p, 1, k, k),
        Box(k, p + 1, caps=(source.randint(0, k),)),
        Tally(source.randint(1, 3), source.randint(1, 3), values=source.randint(0, 2), unit=source.randint(1, 2)),
        Ball(source.randint(1, 9), p),
    ]


@dataclass
class Case:
    """Who is on the list, and what each sends: a client's vectors, or None if its ballots break a rule."""

    nodes: list[Node]
    bound: Any
    vectors: dict[str, list[Any] | None]
    held: list[list[Held]]
    needed: int

    @property
    def sums(self) -> Any:
        """Of the vectors that keep to the rules."""
        good = [vector for own in self.vectors.values() if own is not None for vector in own]
        return np.sum([np.zeros(self.bound.length, np.int64), *good], axis=0)

    @property
    def top(self) -> int:
        """What no sum exceeds: a client has three ballots at most."""
        return 3 * len(self.vectors) * self.bound.largest


def spoilt(ballot: Elements, source: random.Random) -> Elements:
    """A ballot with one entry, or all, that are no bits."""
    found = ballot.copy()
    if source.random() < 0.3:
        return SMALL.uniform(source.randbytes(32), len(found))
    found[source.randrange(len(found))] = source.choice(
        [2, 3, SMALL.prime - 1, 2**60, source.randrange(2, SMALL.prime)]
    )
    return found


def too_many(bound: Any, layout: Any, source: random.Random) -> Elements:
    """A ballot with one vote more than may be, all in bits."""
    return layout.bits(np.array(source.sample([1] * (bound.k + 1) + [0] * (bound.length - bound.k - 1), bound.length)))


def case_of(seed: int) -> Case:
    source, large = random.Random(seed), seed % LARGE == LARGE - 1
    bound = KHot(10, 100, 1) if large else source.choice(bounds(source))
    nodes, layout = nodes_of(crowd(source.choices((3, 5, 7), (18, 2, 1))[0]), seed), layout_of(bound)
    among, ballots, vectors = nodes[0].among, [], []
    for client in range(source.randint(80, 120) if large else source.randint(1, 9)):
        own = [
            bound.default(SimulatedRandomness(seed, f"{client} {at}")) for at in range(source.choice((1, 1, 1, 2, 3)))
        ]
        bits = [layout.bits(vector) for vector in own]
        bad = source.random() < 0.15
        if bad:
            at = source.randrange(len(bits))
            votes = isinstance(bound, KHot) and bound.k < bound.length and source.random() < 0.5
            bits[at] = too_many(bound, layout, source) if votes else spoilt(bits[at], source)
        ballots.append(bits)
        vectors.append(None if bad else own)
    held = submitted(among, ballots, seed)
    for client in range(len(ballots)):
        if source.random() < 0.05:  # a share at one node that is on no polynomial of degree t
            node, entry = source.randrange(among.nodes), source.randrange(ballots[client][0].size)
            share = held[node][client].ballots[0]
            share[entry] = SMALL.add(share[entry : entry + 1], SMALL.elements([source.randrange(1, SMALL.prime)]))[0]
            vectors[client] = None
    absent = [client for client in range(1, len(ballots)) if source.random() < 0.1]
    here = {f"c{client}": own for client, own in enumerate(vectors) if client not in absent}
    listed = [[one for one in own if one.client in here] for own in held]
    valid = sum(own is not None for own in here.values())
    needed = source.randint(1, len(here)) if source.random() < 0.1 else max(1, valid)
    return Case(nodes, bound, here, listed, needed)


def questions(case: Case, source: random.Random) -> list[Question]:
    length, top = case.bound.length, case.top
    found: list[Question] = [Total(0, length)]
    if isinstance(case.bound, Ball):  # its sums may be negative: they are opened, and not computed with
        return found
    order = tuple(source.sample(range(length), length))
    least = source.randint(0, max(1, int(case.sums.max())))
    asks: list[Question] = [Winner(RATE, top), Above(RATE, HALF, top, least, order), Reaching(0, length, least, top)]
    if isinstance(case.bound, Tally):
        groups = case.bound.groups
        if length > groups:
            asks.append(Quotient((groups, length), (0, groups), top))
    return [*found, source.choice(asks)] if source.random() < 0.6 else found


def plain(case: Case, question: Question, number: int, digest: bytes) -> list[int]:
    """What the question asks, of plain integers, with the noise that these nodes draw for it."""
    sums = [int(value) for value in case.sums]
    sources = [node.drawn("noise", digest, f"{number} {question!r}".encode()) for node in case.nodes]
    parts = len(sources) - case.nodes[0].among.degree
    match question:
        case Total(start, stop):
            return [value % SMALL.prime - SMALL.prime * (value < 0) for value in sums[start:stop]]
        case Reaching(start, stop, least):
            return [int(value >= least) for value in sums[start:stop]]
        case Winner():
            noise = np.sum([geometric.share(RATE, parts, len(sums), one) for one in sources], axis=0)
            noisy = [value + int(more) for value, more in zip(sums, noise, strict=True)]
            return [noisy.index(max(noisy))]
        case Quotient(above, below):
            under = sums[slice(*below)]
            return [GRID * value // max(1, under[at % len(under)]) for at, value in enumerate(sums[slice(*above)])]
        case Above(_, _, _, level, order):
            least, added = level, np.zeros(len(order), np.int64)
            for one in sources:
                draw = lambda rate, size, one=one: geometric.share(rate, parts, size, one)  # noqa: E731
                least += int((draw(RATE, 1) - draw(RATE, 1))[0])
                added += draw(HALF, len(order)) - draw(HALF, len(order))
            reached = [sums[place] + int(more) >= least for place, more in zip(order, added, strict=True)]
            return [reached.index(True) + 1 if any(reached) else 0]


def stepped(node: Node, step: Step, held: Sequence[Held], asks: Sequence[Question]) -> Steps[Any]:
    """One node's whole step: whose ballots are bad, the digest, and all answers."""
    sums = yield from prepared(node, step, held)
    answerer, answers = Answerer(node, sums, len(asks)), []
    for question in asks:
        answers.append((yield from answerer.compute(question)))
    return sums.bad, sums.basis, answers


def check(seed: int) -> str:
    """One case; says what it was about."""
    case = case_of(seed)
    asks = questions(case, random.Random(f"questions {seed}"))
    bad = tuple(client for client, own in case.vectors.items() if own is None)
    step = step_of(case.bound, case.needed)
    each = zip(case.nodes, case.held, strict=True)
    record = observed([stepped(node, step, own, asks) for node, own in each])
    if len(case.vectors) - len(bad) < case.needed:
        assert not record.results
        assert len(record.errors) == len(case.nodes)
        assert all(
            isinstance(error, AbortedError) and "must be valid" in str(error) for error in record.errors.values()
        )
        return "too few"
    assert not record.errors
    assert all(result == record.results[1] for result in record.results.values())
    left_out, digest, found = record.results[1]
    assert left_out == bad
    assert found == [plain(case, ask, number, digest) for number, ask in enumerate(asks, 1)]
    return f"{type(case.bound).__name__} {type(asks[-1]).__name__} {'some' if bad else 'none'}"


def checked(seeds: Sequence[int]) -> set[str]:
    return {check(seed) for seed in seeds}


def test_random_steps() -> None:
    """The long form below has the other 9,900 cases."""
    found = checked([*range(99), LARGE - 1])
    assert "too few" in found
    for word in ("KHot", "AtMost", "Scores", "Box", "Tally", "Ball", "Winner", "Above", "Total", "Reaching", "some"):
        assert any(word in told for told in found), word


@pytest.mark.long
@pytest.mark.parametrize("start", range(100, 10_000, BLOCK))
def test_many_random_steps(start: int) -> None:
    assert len(checked([99 if seed == LARGE - 1 else seed for seed in range(start, min(start + BLOCK, 10_000))])) > 20
