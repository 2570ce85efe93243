from __future__ import annotations

from collections import Counter
from itertools import combinations, product
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.seals.quorum.crowds import dealt, keys_of

from hushtune.core.errors import AbortedError, SettingError, WireError
from hushtune.core.randomness import SimulatedRandomness
from hushtune.seals.quorum.field import LARGE, SMALL, Elements, Field
from hushtune.seals.quorum.sharing import Common, Crowd, Group, crowd, deal, factors, joined, received, value_at

FIELDS = pytest.mark.parametrize("field", [SMALL, LARGE], ids=["small", "large"])
NODES = pytest.mark.parametrize("nodes", [3, 5, 7])
SECRETS = [0, 1, 2**31, 2**61 - 2, 12345]


class Tiny(Field):
    """GF(11), small enough to go through all random choices: a key's first bytes are the elements of its stream."""

    prime: ClassVar[int] = 11
    width: ClassVar[int] = 1
    material: ClassVar[int] = 1

    def elements(self, values: Any) -> Elements:
        return np.asarray(np.asarray(values, dtype=object) % self.prime, dtype=object)

    def add(self, one: Elements, other: Elements) -> Elements:
        return self.elements(one + other)

    def mul(self, one: Elements, other: Elements) -> Elements:
        return self.elements(one * other)

    def total(self, values: Elements, axis: int = 0) -> Elements:
        return self.elements(values.sum(axis=axis))

    def uniform(self, key: bytes, count: int) -> Elements:
        assert max(key[:count]) < self.prime
        return self.elements(list(key[:count]))

    def to_bytes(self, values: Elements) -> bytes:
        return bytes(int(value) for value in values)

    def from_bytes(self, content: bytes, count: int) -> Elements:
        assert len(content) == count
        return self.elements(list(content))


TINY = Tiny()
ALL = range(TINY.prime)


def key_of(*draws: int) -> bytes:
    return bytes(draws).ljust(32, b"\0")


class Scripted:
    """Gives what it was given, in order."""

    def __init__(self, *draws: int) -> None:
        self._keys = iter([key_of(draw) for draw in draws])

    def bytes(self, size: int) -> bytes:
        key = next(self._keys)
        assert len(key) == size
        return key


def polynomial(field: Field, coefficients: list[int], at: int) -> int:
    return sum(factor * at**power for power, factor in enumerate(coefficients)) % field.prime


# ---- crowds ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nodes", [-3, 0, 1, 2, 4, 6, 8, 9, 11, "3", None, 3.5])
def test_other_numbers_of_nodes_are_refused(nodes: Any) -> None:
    with pytest.raises(SettingError, match=r"nodes must be one of \[3, 5, 7\]"):
        crowd(nodes)


@NODES
def test_a_key_is_missing_to_any_t_nodes(nodes: int) -> None:
    among = crowd(nodes)
    assert nodes == 2 * among.degree + 1
    for pooled in combinations(among.points, among.degree):
        assert [group for group in among.groups if not set(group) & set(pooled)] == [
            tuple(point for point in among.points if point not in pooled)
        ]


@FIELDS
@given(st.lists(st.integers(0, 2**61 - 2), min_size=1, max_size=7), st.integers(0, 9))
def test_factors_give_any_value_of_a_polynomial(field: Field, coefficients: list[int], at: int) -> None:
    points = tuple(range(2, 2 + len(coefficients)))
    values = [polynomial(field, coefficients, point) for point in points]
    weighted = sum(a * b for a, b in zip(values, factors(field.prime, points, at), strict=True))
    assert weighted % field.prime == polynomial(field, coefficients, at)


# ---- dealing and joining ---------------------------------------------------------------------------------


@FIELDS
@NODES
def test_any_t_plus_one_shares_give_the_secrets(field: Field, nodes: int) -> None:
    among, secrets = crowd(nodes), field.elements(SECRETS)
    shares = dict(enumerate(dealt(field, among, SECRETS), 1))
    for chosen in combinations(among.points, among.degree + 1):
        assert np.array_equal(value_at(field, {point: shares[point] for point in chosen}), secrets)
    assert np.array_equal(joined(field, among, shares, among.degree), secrets)
    assert np.array_equal(joined(field, among, shares, 2 * among.degree), secrets)


@FIELDS
@NODES
def test_t_shares_do_not_give_the_secrets(field: Field, nodes: int) -> None:
    among, secrets = crowd(nodes), field.elements(SECRETS)
    shares = dict(enumerate(dealt(field, among, SECRETS), 1))
    for chosen in combinations(among.points, among.degree):
        assert not np.any(value_at(field, {point: shares[point] for point in chosen}) == secrets)


@FIELDS
@NODES
def test_one_wrong_share_is_refused_at_degree_t_and_cannot_be_at_2t(field: Field, nodes: int) -> None:
    """All m values always lie on a polynomial of degree m - 1 = 2 t: only its value at 0 changes."""
    among, secrets = crowd(nodes), field.elements(SECRETS)
    shares = dict(enumerate(dealt(field, among, SECRETS), 1))
    for point in among.points:
        for place, change in ((0, 1), (len(SECRETS) - 1, -1)):
            wrong = shares[point].copy()
            wrong[place] = field.add(wrong[place : place + 1], field.elements([change]))[0]
            values = {**shares, point: wrong}
            with pytest.raises(AbortedError, match="does not fit together"):
                joined(field, among, values, among.degree)
            found = joined(field, among, values, 2 * among.degree)
            assert np.flatnonzero(found != secrets).tolist() == [place]


@FIELDS
@NODES
def test_products_of_shares_have_degree_2t(field: Field, nodes: int) -> None:
    among = crowd(nodes)
    one, other = dealt(field, among, [3, -7], seed=1), dealt(field, among, [5, 11], seed=2)
    values = {point: field.mul(one[point - 1], other[point - 1]) for point in among.points}
    assert np.array_equal(joined(field, among, values, 2 * among.degree), field.elements([15, -77]))
    with pytest.raises(AbortedError):
        joined(field, among, values, among.degree)


@FIELDS
@NODES
def test_what_is_no_share_is_refused(field: Field, nodes: int) -> None:
    among = crowd(nodes)
    sent = deal(field, among, field.elements(SECRETS), SimulatedRandomness(0, "dealer"))
    for number, content in enumerate(sent, 1):
        top = b"\xff" * len(content)
        wrong = [b"", content[:-1], content + b"\0", content * 2] + ([top] if number > among.degree else [])
        for other in wrong:
            with pytest.raises(WireError):
                received(field, among, number, other, len(SECRETS))


@pytest.mark.parametrize("nodes", [3, 5, pytest.param(7, marks=pytest.mark.long)])
def test_t_shares_are_exactly_uniform_whatever_the_secret(nodes: int) -> None:
    """All choices of a dealer in GF(11): any t nodes see each combination of shares once, for every secret."""
    among = crowd(nodes)
    for secret in ALL:
        views: dict[Group, Counter[tuple[int, ...]]] = {
            pooled: Counter() for pooled in combinations(among.points, among.degree)
        }
        for draws in product(ALL, repeat=among.degree):
            sent = deal(TINY, among, TINY.elements([secret]), Scripted(*draws))
            shares = {at: received(TINY, among, at, content, 1) for at, content in enumerate(sent, 1)}
            assert joined(TINY, among, shares, among.degree).tolist() == [secret]
            for pooled, counts in views.items():
                counts[tuple(int(shares[point][0]) for point in pooled)] += 1
        for counts in views.values():
            assert counts == dict.fromkeys(product(ALL, repeat=among.degree), 1)


# ---- keys in common --------------------------------------------------------------------------------------


def commons(field: Field, among: Crowd, seed: int = 0) -> list[Common]:
    return [Common(field, among, at, keys) for at, keys in enumerate(keys_of(among, seed), 1)]


@FIELDS
@NODES
def test_random_numbers_in_common(field: Field, nodes: int) -> None:
    among = crowd(nodes)
    everyone = commons(field, among)
    found = []
    for label in (b"one", b"two", b"one"):
        shares = {at: common.random(label, 4) for at, common in enumerate(everyone, 1)}
        found.append([int(value) for value in joined(field, among, shares, among.degree)])
        if among.degree:  # not of a lower degree: nobody's share is the number itself
            with pytest.raises(AbortedError):
                joined(field, among, shares, among.degree - 1)
    assert found[0] == found[2]
    assert len(set(found[0] + found[1])) == 8
    other = {at: common.random(b"one", 4) for at, common in enumerate(commons(field, among, seed=1), 1)}
    assert not set(found[0]) & {int(value) for value in joined(field, among, other, among.degree)}


@FIELDS
@NODES
def test_zeros_in_common(field: Field, nodes: int) -> None:
    among = crowd(nodes)
    everyone = commons(field, among)
    seen = []
    for label in (b"one", b"two", b"one"):
        shares = {at: common.zero(label, 4) for at, common in enumerate(everyone, 1)}
        assert joined(field, among, shares, 2 * among.degree).tolist() == [0] * 4
        with pytest.raises(AbortedError):
            joined(field, among, shares, 2 * among.degree - 1)
        seen.append([int(value) for share in shares.values() for value in share])
    assert seen[0] == seen[2]
    assert len(set(seen[0] + seen[1])) == 8 * nodes


def everywhere(
    monkeypatch: pytest.MonkeyPatch, among: Crowd, kind: str, pooled: Group, amount: int
) -> dict[int, Elements]:
    """All nodes' shares of a random number or a zero in GF(11), for all draws of the one key that `pooled` miss, entry
    by entry; what comes from all other keys, which they know, is fixed."""
    rng = np.random.default_rng(sum(pooled))
    draws = list(product(ALL, repeat=amount))
    streams = {group: np.repeat(rng.integers(0, TINY.prime, amount), len(draws)) for group in among.groups}
    free = tuple(point for point in among.points if point not in pooled)
    streams[free] = np.array(draws).T.ravel()
    monkeypatch.setattr(Common, "_key", lambda self, group, label: bytes(streams[group].tolist()))
    return {at: getattr(common, kind)(b"", len(draws)) for at, common in enumerate(commons(TINY, among), 1)}


@NODES
def test_random_numbers_are_exactly_uniform_to_any_t_nodes(monkeypatch: pytest.MonkeyPatch, nodes: int) -> None:
    among = crowd(nodes)
    for pooled in combinations(among.points, among.degree):
        shares = everywhere(monkeypatch, among, "random", pooled, 1)
        assert sorted(joined(TINY, among, shares, among.degree)) == list(ALL)
        assert all(len(set(shares[point])) == 1 for point in pooled)


@NODES
def test_a_zero_hides_all_but_the_secret_of_what_is_opened_behind_it(
    monkeypatch: pytest.MonkeyPatch, nodes: int
) -> None:
    """Exactly, in GF(11): given all that t nodes know, zeros go through all polynomials of degree 2 t with the value 0
    at 0 and known values at the t nodes, each once. So whatever polynomial g is masked, g + zero goes through all with
    g's values at 0 and at the t nodes, and does not depend on its other coefficients."""
    among = crowd(nodes)
    for pooled in combinations(among.points, among.degree):
        shares = everywhere(monkeypatch, among, "zero", pooled, among.degree)
        assert not joined(TINY, among, shares, 2 * among.degree).any()
        assert all(len(set(shares[point])) == 1 for point in pooled)
        assert len(set(zip(*shares.values(), strict=True))) == TINY.prime**among.degree


def test_opened_products_of_three_nodes_do_not_depend_on_their_operands(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it in GF(11), with no argument between: what node 1 knows and the opened g + zero, over all draws of all
    three groups, for every g with the same value at 0 and at node 1."""
    among = crowd(3)
    everyone = commons(TINY, among)
    zeros = []
    for each in product(ALL, repeat=3):
        draws = dict(zip(among.groups, each, strict=True))
        monkeypatch.setattr(Common, "_key", lambda self, group, label, draws=draws: key_of(draws[group]))
        known = tuple(draws[group] for group in among.groups if 1 in group)
        zeros.append((known, [int(common.zero(b"", 1)[0]) for common in everyone]))
    views = []
    for square in (0, 1, 5):
        g = [4, (7 - square) % TINY.prime, square]  # 4 at 0, and 4 + 7 at node 1
        values = [polynomial(TINY, g, point) for point in among.points]
        views.append(
            Counter(
                (known, *((v + z) % TINY.prime for v, z in zip(values, zero, strict=True))) for known, zero in zeros
            )
        )
    assert views[0] == views[1] == views[2]


@NODES
def test_keys_that_are_missing_or_foreign_are_refused(nodes: int) -> None:
    among = crowd(nodes)
    held = keys_of(among)
    first = next(iter(held[0]))
    foreign = next(group for group in among.groups if 1 not in group)
    wrong: list[dict[Group, bytes]] = [
        {},
        {group: key for group, key in held[0].items() if group != first},
        {**held[0], foreign: b"f" * 32},
        held[1],
        {**held[0], first: b"short"},
        {**held[0], first: b"l" * 33},
        {tuple(reversed(group)): key for group, key in held[0].items()},
    ]
    for keys in wrong:
        with pytest.raises(SettingError, match="one key of 32 bytes for each group") as caught:
            Common(SMALL, among, 1, keys)
        assert not any(repr(key) in str(caught.value) for key in keys.values())


def test_no_key_is_shown() -> None:
    among = crowd(3)
    for common, keys in zip(commons(SMALL, among), keys_of(among), strict=True):
        for shown in (repr(common), str(common), f"{common}"):
            assert shown.startswith("Common(node ")
            assert not any(repr(key)[2:-1] in shown or key.hex() in shown for key in keys.values())
