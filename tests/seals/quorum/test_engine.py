from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare
from tests.seals.quorum.crowds import Rounds, computed, dealt, engines, low_degree, openings, recorded

from hushtune.core.errors import AbortedError, WireError
from hushtune.seals.quorum.engine import LONGEST, MARGIN, Engine, Steps, together
from hushtune.seals.quorum.field import LARGE, Elements
from hushtune.seals.quorum.sharing import Crowd, crowd, joined, received, value_at

NODES = pytest.mark.parametrize("nodes", [3, 5, 7])
P = LARGE.prime


@NODES
def test_products(nodes: int) -> None:
    among = crowd(nodes)
    edges = [0, 1, 2, -1, -2, 2**61 - 1, 2**128, P // 2, P - 1]
    pairs = list(product(edges, repeat=2))
    one, other = (dealt(LARGE, among, [pair[at] for pair in pairs], seed=at) for at in (0, 1))
    found = computed(among, lambda engine, at: engine.mul(one[at], other[at]))
    assert found == [a * b % P for a, b in pairs]


@NODES
def test_products_are_shared_anew(nodes: int) -> None:
    """The same product twice has the same secret and other shares, of degree t (`computed` opens them at degree t)."""
    among = crowd(nodes)
    one = dealt(LARGE, among, [6])

    def twice(engine: Engine, at: int) -> Steps[tuple[Elements, Elements]]:
        first = yield from engine.mul(one[at], one[at])
        return first, (yield from engine.mul(one[at], one[at]))

    found = together([twice(engine, at) for at, engine in enumerate(engines(among))])
    for first, second in found:
        assert first[0] != second[0]
    for place in (0, 1):
        values = {at: pair[place] for at, pair in enumerate(found, 1)}
        assert joined(LARGE, among, values, among.degree).tolist() == [36]


@NODES
@pytest.mark.statistical
def test_bits(nodes: int) -> None:
    """400 bits; a count further than 110 from 200 has a probability below 1e-26 (Hoeffding)."""
    found = computed(crowd(nodes), lambda engine, at: engine.bits(400))
    assert set(found) == {0, 1}
    assert abs(sum(found) - 200) < 110


@NODES
@pytest.mark.parametrize("bits", [1, 2, 3, 8, 63, LONGEST])
def test_signs(nodes: int, bits: int) -> None:
    top = 2**bits
    numbers = sorted({-top, 1 - top, -top // 2, -1, 0, min(1, top - 1), top // 2, top - 2, top - 1})
    among = crowd(nodes)
    shares = dealt(LARGE, among, numbers)
    found = computed(among, lambda engine, at: engine.at_least_zero(shares[at], bits), seed=bits)
    assert found == [int(number >= 0) for number in numbers]


@pytest.mark.parametrize("nodes", [3, 5])
def test_all_short_numbers_and_many_masks(nodes: int) -> None:
    among, numbers = crowd(nodes), list(range(-8, 8)) * 6
    shares = dealt(LARGE, among, numbers)
    found = computed(among, lambda engine, at: engine.at_least_zero(shares[at], 3), seed=5)
    assert found == [int(number >= 0) for number in numbers]


@pytest.mark.parametrize("bits", [-1, 0, LONGEST + 1, 1000])
def test_other_lengths_are_refused_before_anything_is_sent(bits: int) -> None:
    among = crowd(3)
    shares = dealt(LARGE, among, [1])
    with pytest.raises(ValueError, match=f"numbers of 1 to {LONGEST} bits are compared"):
        next(engines(among)[0].at_least_zero(shares[0], bits))


def test_the_longest_masked_number_is_below_the_prime() -> None:
    dealers = crowd(7).degree + 1
    largest = 2 ** (LONGEST + 1) + 2**LONGEST + 2**LONGEST * dealers * 2 ** (MARGIN + 8)
    assert largest < P


def test_a_dealer_must_put_in_its_numbers() -> None:
    engine = engines(crowd(3))[0]
    for own in (None, LARGE.elements([1])):
        with pytest.raises(ValueError, match="a dealer must put in 2 numbers"):
            next(engine.input((1, 2), own, 2))


# ---- what does not follow the protocol -------------------------------------------------------------------


def changed(program: Steps[Any], at: int, change: Callable[[list[bytes]], list[bytes]]) -> Steps[Any]:
    """A node that sends something else in one round."""
    got: Any = None
    turn = 0
    while True:
        try:
            out = program.send(got)
        except StopIteration as end:
            return end.value
        got = yield change(list(out)) if turn == at else out
        turn += 1


def plus_one(messages: list[bytes]) -> list[bytes]:
    values = LARGE.from_bytes(messages[0], len(messages[0]) // 32)
    return [LARGE.to_bytes(LARGE.add(values, LARGE.elements(1)))] * len(messages)


@NODES
def test_a_wrong_share_in_an_opening_aborts(nodes: int) -> None:
    among = crowd(nodes)
    shares = dealt(LARGE, among, [5, 6])
    for liar in range(nodes):
        programs = [engine.open(shares[at]) for at, engine in enumerate(engines(among))]
        programs[liar] = changed(programs[liar], 0, plus_one)
        with pytest.raises(AbortedError, match="does not fit together"):
            together(programs)


@pytest.mark.parametrize("nodes", [3, 5])
def test_a_wrong_share_in_a_masked_opening_aborts(nodes: int) -> None:
    among = crowd(nodes)
    shares = dealt(LARGE, among, [5])
    _, rounds = recorded([engine.at_least_zero(shares[at], 8) for at, engine in enumerate(engines(among))])
    turn = next(at for at, sent in enumerate(rounds) if openings(among, [sent]))
    for liar in range(nodes):
        programs = [engine.at_least_zero(shares[at], 8) for at, engine in enumerate(engines(among))]
        programs[liar] = changed(programs[liar], turn, plus_one)
        with pytest.raises(AbortedError, match="does not fit together"):
            together(programs)


@pytest.mark.parametrize(
    "change",
    [
        lambda messages: [b""] * len(messages),
        lambda messages: [message[:-1] for message in messages],
        lambda messages: [message + b"\0" for message in messages],
        lambda messages: [message * 2 for message in messages],
        lambda messages: [b"\xff" * len(message) for message in messages],  # not below the prime
        lambda messages: [b'{"kind": "hello"}'] * len(messages),
    ],
    ids=["nothing", "short", "long", "twice", "large", "foreign"],
)
def test_garbage_is_refused_in_every_round(change: Callable[[list[bytes]], list[bytes]]) -> None:
    """From dealers and in openings; what others than dealers send in a round of dealers is not looked at."""
    among = crowd(3)
    shares = dealt(LARGE, among, [5])

    def programs() -> list[Steps[Elements]]:
        return [engine.at_least_zero(shares[at], 2) for at, engine in enumerate(engines(among))]

    _, rounds = recorded(programs())
    for turn, sent in enumerate(rounds):
        for liar in range(3):
            if any(sent[liar]):
                wrong = programs()
                wrong[liar] = changed(wrong[liar], turn, change)
                with pytest.raises(WireError):
                    together(wrong)


def test_programs_out_of_step_raise() -> None:
    among = crowd(3)
    shares = dealt(LARGE, among, [5, 6])
    everyone = engines(among)

    def again(engine: Engine, at: int) -> Steps[Elements]:
        yield from engine.open(shares[at])
        return (yield from engine.open(shares[at]))

    def at_once() -> Steps[Elements]:
        return shares[0]
        yield []

    def opens(at: int) -> Steps[Elements]:
        return everyone[at].open(shares[at])

    for late in range(3):
        with pytest.raises(WireError, match="out of step"):
            together([again(everyone[at], at) if at == late else opens(at) for at in range(3)])
    with pytest.raises(WireError, match="out of step"):
        together([at_once(), opens(1), opens(2)])
    with pytest.raises(WireError):
        together([opens(0), opens(1), everyone[2].mul(shares[2], shares[2])])
    with pytest.raises(WireError):
        together([opens(0), opens(1), everyone[2].open(shares[2][:1])])


def test_programs_that_send_nothing_end_and_none_do_not_hang() -> None:
    def at_once(number: int) -> Steps[int]:
        return number
        yield []

    assert together([at_once(1), at_once(2), at_once(3)]) == [1, 2, 3]
    assert together([]) == []


# ---- what t nodes see ------------------------------------------------------------------------------------

COPIES, BITS, ALARM = 1600, 2, 1e-10
"""Comparisons of the same number; a p-value below ALARM is an alarm. Fewer than 1000 are looked at: 1e-7 in all."""


def even(cells: Any, count: int) -> bool:
    return bool(chisquare(np.bincount(np.asarray(cells, dtype=np.int64), minlength=count)).pvalue > ALARM)


def quarter(values: Elements, size: int = P) -> Any:
    return (4 * values // size).astype(np.int64)


def transcript(among: Crowd, pooled: tuple[int, ...], secret: int) -> Rounds:
    """Of comparisons of a number of which the pooled nodes' shares are the same whatever it is."""
    known = {0: LARGE.elements([secret]), **{point: LARGE.elements([1000 + point]) for point in pooled}}
    shares = [np.repeat(value_at(LARGE, known, point), COPIES) for point in among.points]
    programs = [engine.at_least_zero(shares[at], BITS) for at, engine in enumerate(engines(among, seed=9))]
    return recorded(programs)[1]


def looks_uniform(among: Crowd, pooled: tuple[int, ...], secret: int) -> bool:
    """Whether all that the pooled nodes get from others looks as it does whatever the secret is: their shares of what
    others deal are uniform and independent of each other, the lower bits of the opening are uniform, together with
    each share too, and its upper bits, less the pooled nodes' own masks, are uniform."""
    rounds = transcript(among, pooled, secret)
    at = next(turn for turn, sent in enumerate(rounds) if openings(among, [sent]))
    opened = joined(LARGE, among, openings(among, [rounds[at]])[0], among.degree)
    low = (opened % 2**BITS).astype(np.int64)
    found = [even(low, 2**BITS)]
    high = opened // 2**BITS
    for turn, sent in enumerate(rounds):
        for dealer, messages in enumerate(sent, 1):
            if turn == at or not any(messages):
                continue
            count = len(messages[-1]) // 32
            seen = {to: received(LARGE, among, to, messages[to - 1], count) for to in among.points}
            if dealer in pooled:
                if turn == at - 1:
                    high = high - joined(LARGE, among, seen, among.degree)
                continue
            cells = sum(quarter(seen[to]) * 4**place for place, to in enumerate(pooled))
            for part in cells.reshape(COPIES, -1).T if turn < at else cells.reshape(-1, COPIES):  # bits lie by copy
                found.append(even(part, 4 ** len(pooled)))
                found.append(even(part * 2**BITS + low, 4 ** len(pooled) * 2**BITS))
    honest = sum(dealer not in pooled for dealer in among.points[: among.degree + 1])
    assert honest == 1  # whose mask alone must do
    assert high.min() >= 0
    found.append(bool(high.max() < 2 ** (MARGIN + 8) + 2))
    found.append(even(np.minimum(quarter(high, 2 ** (MARGIN + 8)), 3), 4))
    assert len(found) < 200
    return all(found)


@pytest.mark.parametrize(("nodes", "pooled"), [(3, (1,)), (3, (2,)), (5, (2, 3))])
@pytest.mark.parametrize("secret", [-4, 3])
@pytest.mark.statistical
def test_what_t_nodes_see_does_not_depend_on_the_secret(nodes: int, pooled: tuple[int, ...], secret: int) -> None:
    """Their own shares and draws are the same for all secrets. False alarms: below 1e-7."""
    assert looks_uniform(crowd(nodes), pooled, secret)


@pytest.mark.parametrize("lost", ["bits", "_mask"])
def test_a_comparison_without_its_masks_is_noticed(monkeypatch: pytest.MonkeyPatch, lost: str) -> None:
    before = getattr(Engine, lost)

    def zeros(self: Engine, count: int) -> Steps[Elements]:
        return (yield from before(self, count)) * 0

    monkeypatch.setattr(Engine, lost, zeros)
    with pytest.raises(AssertionError):
        assert looks_uniform(crowd(3), (2,), 3)


# ---- what is opened --------------------------------------------------------------------------------------


def comparisons(among: Crowd) -> Rounds:
    shares = dealt(LARGE, among, [-3, 2])
    return recorded([engine.at_least_zero(shares[at], 4) for at, engine in enumerate(engines(among))])[1]


@NODES
def test_a_comparison_opens_one_masked_number_and_no_product(nodes: int) -> None:
    assert low_degree(crowd(nodes), comparisons(crowd(nodes))) == 1


@NODES
def test_an_opened_product_would_be_noticed(monkeypatch: pytest.MonkeyPatch, nodes: int) -> None:
    def opened(self: Engine, one: Elements, other: Elements) -> Steps[Elements]:
        got = yield [LARGE.to_bytes(LARGE.mul(one, other))] * self.among.nodes
        values = {at: LARGE.from_bytes(content, len(one)) for at, content in enumerate(got, 1)}
        return joined(LARGE, self.among, values, 2 * self.among.degree)

    monkeypatch.setattr(Engine, "mul", opened)
    with pytest.raises(AbortedError):
        low_degree(crowd(nodes), comparisons(crowd(nodes)))
