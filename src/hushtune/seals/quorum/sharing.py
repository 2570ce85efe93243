"""Shamir's sharing among m nodes, any t of which learn nothing, and sharings of random numbers that cost no message.

Node i holds the value at i of a polynomial of degree t, whose value at 0 is the secret (Shamir 1979). m = 2 t + 1, so
that products, which have degree 2 t, can still be opened by all nodes together.

Random sharings are pseudo-random (Cramer, Damgård, Ishai 2005): for every set of m - t nodes there is a key that all of
them hold, and the t others do not. Whatever t nodes pool, at least one key is missing to them.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

import numpy as np

from hushtune.core.errors import AbortedError, SettingError, WireError
from hushtune.core.randomness import Randomness
from hushtune.seals.quorum.field import Elements, Field

NODES = (3, 5, 7)
KEY_BYTES = 32
Group = tuple[int, ...]
"""Numbers of nodes, from 1, in order."""


class Crowd(NamedTuple):
    """How many nodes there are, and which sets of them hold keys together.

    Args:
        nodes: m, odd.
    """

    nodes: int

    @property
    def degree(self) -> int:
        """t: how many may pool what they saw."""
        return (self.nodes - 1) // 2

    @property
    def enough(self) -> int:
        """m - t: so many nodes' noise is what the guarantee counts on."""
        return self.nodes - self.degree

    @property
    def points(self) -> Group:
        """Where nodes hold their values."""
        return tuple(range(1, self.nodes + 1))

    @property
    def groups(self) -> tuple[Group, ...]:
        """All sets of m - t nodes, in order."""
        return tuple(combinations(self.points, self.nodes - self.degree))


def crowd(nodes: int) -> Crowd:
    """So many nodes; other numbers than 3, 5 and 7 are refused."""
    if type(nodes) is not int or nodes not in NODES:
        raise SettingError(f"nodes must be one of {list(NODES)}, but got {nodes!r}")
    return Crowd(nodes)


@lru_cache(maxsize=256)
def factors(prime: int, points: Group, at: int = 0) -> tuple[int, ...]:
    """Lagrange's factors: what the values at some points are multiplied by to give the value at another."""
    found = []
    for point in points:
        above, below = 1, 1
        for other in points:
            if other != point:
                above, below = above * (at - other) % prime, below * (point - other) % prime
        found.append(above * pow(below, -1, prime) % prime)
    return tuple(found)


def value_at(field: Field, values: Mapping[int, Elements], at: int = 0) -> Elements:
    """The value at a point of the polynomials through the given ones."""
    found: Elements = _values_at(field, values, (at,))[0]
    return found


def _values_at(field: Field, values: Mapping[int, Elements], points: Group) -> Elements:
    """The values at some points, one row for each."""
    held = np.stack(list(values.values()))
    weights = field.elements([factors(field.prime, tuple(values), at) for at in points])
    return field.total(field.mul(held, weights.reshape(*weights.shape, *[1] * (held.ndim - 1))), axis=1)


def deal(field: Field, among: Crowd, secrets: Elements, randomness: Randomness) -> list[bytes]:
    """One share for each node, as it is sent: for the first t nodes a key whose stream is the share, for the others the
    share itself, which follows from the secrets and those streams.

    Any t shares are independent of the secrets: the first t are uniform, and Lagrange's map from the values at t points
    to those at t others is one to one whatever the value at 0 is.

    Args:
        field: in which.
        among: the nodes.
        secrets: shape (count,).
        randomness: the dealer's own source.
    """
    keys = [randomness.bytes(KEY_BYTES) for _ in range(among.degree)]
    known = {0: secrets}
    for point, key in enumerate(keys, 1):
        known[point] = field.uniform(key, len(secrets))
    rest = among.points[among.degree :]
    return keys + [field.to_bytes(share) for share in _values_at(field, known, rest)]


def received(field: Field, among: Crowd, number: int, content: bytes, count: int) -> Elements:
    """The share in what `deal` made for a node; a WireError if it is anything else."""
    if number > among.degree:
        return field.from_bytes(content, count)
    if len(content) != KEY_BYTES:
        raise WireError(f"a share must be a key of {KEY_BYTES} bytes, but got {len(content)}")
    return field.uniform(content, count)


def joined(field: Field, among: Crowd, values: Mapping[int, Elements], degree: int) -> Elements:
    """The secrets, from the shares of ALL nodes; refused if they do not lie on polynomials of that degree."""
    first = {point: values[point] for point in among.points[: degree + 1]}
    for point in among.points[degree + 1 :]:
        if not np.array_equal(value_at(field, first, point), values[point]):
            raise AbortedError("what nodes sent does not fit together: one of them does not follow the protocol")
    return value_at(field, first)


class Common:
    """The keys that one node holds together with others, and the random sharings that come from them.

    A label is used once: the same label gives the same numbers again.

    Args:
        field: of the sharings.
        among: the nodes.
        number: this node's, from 1.
        keys: 32 bytes for each group that this node belongs to.
    """

    def __init__(self, field: Field, among: Crowd, number: int, keys: Mapping[Group, bytes]) -> None:
        wanted = [group for group in among.groups if number in group]
        if sorted(keys) != wanted or any(len(key) != 32 for key in keys.values()):
            raise SettingError("a node must hold one key of 32 bytes for each group that it belongs to")
        self._field, self._among, self._number = field, among, number
        self._keys = {group: keys[group] for group in wanted}

    def __repr__(self) -> str:
        return f"Common(node {self._number} of {self._among.nodes})"

    def random(self, label: bytes, count: int) -> Elements:
        """This node's shares of uniform numbers that nobody knows, of degree t."""
        shares = [self._scaled(group, self._field.uniform(self._key(group, label), count), 1) for group in self._keys]
        return self._field.total(np.stack(shares))

    def zero(self, label: bytes, count: int) -> Elements:
        """This node's shares of zeros, on polynomials of degree 2 t that are uniform otherwise."""
        shares = []
        for group in self._keys:
            drawn = self._field.uniform(self._key(group, label), count * self._among.degree)
            for power, part in enumerate(np.split(drawn, self._among.degree), 1):
                shares.append(self._scaled(group, part, self._number**power))
        return self._field.total(np.stack(shares))

    def _key(self, group: Group, label: bytes) -> bytes:
        return hmac.new(self._keys[group], label, hashlib.sha256).digest()

    def _scaled(self, group: Group, drawn: Elements, factor: int) -> Elements:
        """Times the polynomial that is 1 at 0 and 0 at all nodes outside the group, at this node."""
        here = _shape(self._field.prime, self._among, group)[self._number]
        return self._field.mul(drawn, self._field.elements(factor * here))


@lru_cache(maxsize=256)
def _shape(prime: int, among: Crowd, group: Group) -> dict[int, int]:
    """The polynomial of degree t that is 1 at 0 and 0 at the nodes outside a group, at the points of the group."""
    outside = [point for point in among.points if point not in group]
    found = {}
    for at in group:
        above, below = 1, 1
        for point in outside:
            above, below = above * (point - at) % prime, below * point % prime
        found[at] = above * pow(below, -1, prime) % prime
    return found
