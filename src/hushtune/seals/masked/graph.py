"""Who masks with whom: a random regular graph, and the numbers that make it safe.

Clients stand on a ring in a random order; each is joined to the k/2 next ones on both sides (a Harary graph with random
labels, Bell et al. 2020, section 3). Small federations are complete graphs; if no client is corrupt either (fewer than
10 clients, by default), each holds a share of its own seed as well, as in Bonawitz et al. 2017: then the first and the
last condition below read 2 t > n and n - lost >= t, and almost half of the clients may drop out at any stage.

Degree k, threshold t, and a committee with its quorum come from four conditions. The first three are about secrecy:
each may fail with probability 2^-40 over ALL clients together. The last may fail with probability 2^-20: a round that
stalls opens nothing, and everybody sees it.

- one kind: 2 t > k + corrupt peers, so that a server that tells different stories never collects both kinds of
  shares of a client;
- one piece: no list that the committee signs cuts the ring. It would take two stretches of k/2 places where everybody
  is declared dropped or corrupt; members sign no list with more than `gap` dropped in a stretch, and two stretches with
  k/2 - gap corrupt clients each do not exist (or dropped + corrupt < k anyway);
- one list: 2 quorum > committee + its corrupt members, so that only one list of who answered finds a quorum;
- correctness: k - lost peers >= t, committee - its lost members >= quorum, and no stretch has more than `gap` lost.
  Lost are those who drop out and those who send wrong shares or signatures, or none: all corrupt clients. If none is
  taken to be corrupt, one is still counted here, unless more than (n - 2) / 2 may drop out.

docs/threat-model.md has the proof that then nothing but one sum, over at least n - dropped clients, can be unmasked.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from hushtune.core.errors import SettingError

FAILURE = 2.0**-40
STALL = 2.0**-20
_SMALL = 30  # up to here a complete graph costs little


@dataclass(frozen=True)
class Shape:
    """How many peers each client has, how many shares give a secret back, and who signs what all are told.

    Args:
        needed: the fewest clients that complete a sum.
        committee: how many clients sign the list of those who answered.
        quorum: how many signatures a client wants to see.
        gap: how many of k/2 clients in a row may be dropped for a list to be signed.
        own: whether a client is among those who hold shares of its own seed.
        wrong: how many may send wrong shares or signatures, or none, beside those who drop out, and stall nothing.
    """

    clients: int
    degree: int
    threshold: int
    needed: int
    committee: int
    quorum: int
    gap: int
    own: bool = False
    wrong: int = 0

    @property
    def complete(self) -> bool:
        """Whether everybody is everybody's peer."""
        return self.degree == self.clients - 1


@lru_cache(maxsize=64)
def shape(clients: int, dropped: int, corrupt: int) -> Shape:
    """The smallest safe degree and its threshold for so many dropped and corrupt clients, at most.

    Raises SettingError if not even the complete graph is safe; the message says what would be.
    """
    if clients < 2:
        raise SettingError(f"seal 'masked' needs at least 2 clients, but got {clients}")
    wrong = _wrong(clients, dropped, corrupt)
    lost = dropped + wrong
    degree = _degree(clients, lost, corrupt)
    if degree is not None:
        threshold = _threshold(clients, degree, lost, corrupt)
        assert threshold is not None
        size, quorum = _signers(clients, lost, corrupt)
        gap, own = _gap(clients, degree, lost), _own(clients, degree, corrupt)
        return Shape(clients, degree, threshold, clients - dropped, size, quorum, gap, own, wrong)
    raise SettingError(
        f"dropouts and corrupt leave no safe threshold: of {clients} clients, {dropped} dropped and {corrupt} corrupt "
        f"need 2 dropped + 3 corrupt < peers; {_instead(clients, dropped, corrupt)} would do"
    )


def _degree(clients: int, lost: int, corrupt: int) -> int | None:
    """A safe degree of which the next smaller one is not safe; None if not even the complete graph is.

    By doubling and halving: a server that asks for impossible numbers must not keep a client busy.
    """
    complete = clients - 1
    if _threshold(clients, complete, lost, corrupt) is None:
        return None
    if clients <= _SMALL:
        return complete
    low, high = 2, 4
    while high < complete and _threshold(clients, high, lost, corrupt) is None:
        low, high = high, 2 * high
    if high >= complete:
        high = complete - complete % 2  # the largest even degree below the complete graph
        if high == complete or _threshold(clients, high, lost, corrupt) is None:
            return complete
    while high - low > 2:
        middle = (low + high) // 4 * 2
        if _threshold(clients, middle, lost, corrupt) is None:
            low = middle
        else:
            high = middle
    return high


def _wrong(clients: int, dropped: int, corrupt: int) -> int:
    """How many clients may send wrong shares, or none, beside those who drop out."""
    return corrupt or int(2 * (clients - dropped - 1) > clients)


def _instead(clients: int, dropped: int, corrupt: int) -> str:
    """The most clients that may drop out and be corrupt on the complete graph, neither more than was asked for."""
    possible = [(min(dropped, (clients - 1) // 2), 0)]
    possible += [(min(dropped, (clients - 2 - 3 * c) // 2), c) for c in range(1, corrupt + 1) if 3 * c <= clients - 2]
    fewer, some = max(possible, key=lambda pair: (sum(pair), -abs(pair[0] - pair[1])))
    return f"{fewer} dropped and {some} corrupt"


def _own(clients: int, degree: int, corrupt: int) -> bool:
    """Whether clients hold shares of their own seeds."""
    return corrupt == 0 and degree == clients - 1


def _threshold(clients: int, degree: int, lost: int, corrupt: int) -> int | None:
    """The largest threshold for this degree that lost clients allow; None if it is not safe."""
    if _own(clients, degree, corrupt):
        return clients - lost if 2 * (clients - lost) > clients else None
    bad = _at_most(clients - 1, corrupt, degree, FAILURE / clients)
    gone = _at_most(clients - 1, min(lost, clients - 1), degree, STALL / clients)
    threshold = degree - gone  # the largest that they allow: the more holders must agree, the better
    if 2 * threshold <= degree + bad or not _in_one_piece(clients, degree, lost, corrupt):
        return None
    return threshold


def _gap(clients: int, degree: int, lost: int) -> int:
    """How many of k/2 clients in a row may be dropped: lost clients exceed it nowhere on the ring."""
    return _at_most(clients, min(lost, clients), degree // 2, STALL / clients)


def _in_one_piece(clients: int, degree: int, lost: int, corrupt: int) -> bool:
    """Whether no list with `gap` dropped clients in a stretch, at most, cuts honest clients off from each other.

    A cut takes two disjoint stretches of k/2 places, both full of dropped and corrupt clients. The numbers of corrupt
    clients in them are negatively associated (Joag-Dev & Proschan 1983), so the odds multiply; there are fewer than n^2
    pairs of stretches.
    """
    if degree == clients - 1 or lost < degree:
        return True
    most = _at_most(clients, corrupt, degree // 2, math.sqrt(FAILURE) / clients)
    return _gap(clients, degree, lost) + most < degree // 2


@lru_cache(maxsize=64)
def _signers(clients: int, lost: int, corrupt: int) -> tuple[int, int]:
    """A committee that lost members do not stall and corrupt ones do not split, one smaller would not do, and its
    quorum.
    """
    low, high = 0, 1
    while (quorum := _quorum(clients, lost, corrupt, high)) is None:
        if high == clients:
            raise SettingError(f"2 lost + corrupt < clients must hold, but got {lost}, {corrupt} and {clients}")
        low, high = high, min(2 * high, clients)
    while high - low > 1:
        middle = (low + high) // 2
        if (found := _quorum(clients, lost, corrupt, middle)) is None:
            low = middle
        else:
            high, quorum = middle, found
    return high, quorum


def _quorum(clients: int, lost: int, corrupt: int, size: int) -> int | None:
    """The largest quorum of a committee of that size that lost members allow; None if it is not safe."""
    quorum = size - _at_most(clients, lost, size, STALL)
    return quorum if 2 * quorum > size + _at_most(clients, corrupt, size, FAILURE) else None


def _at_most(population: int, marked: int, drawn: int, failure: float) -> int:
    """The smallest m with P[more than m of `drawn` clients are marked] <= failure (hypergeometric), in integers."""
    most = min(marked, drawn)
    if drawn == population:
        return most
    share, of = failure.as_integer_ratio()
    allowed, tail = share * math.comb(population, drawn) // of, 0
    ways = math.comb(marked, most) * math.comb(population - marked, drawn - most)  # to draw m marked clients
    for m in range(most, 0, -1):
        tail += ways
        if tail > allowed:
            return m
        ways = ways * m * (population - marked - drawn + m) // ((marked - m + 1) * (drawn - m + 1))
    return 0


@lru_cache(maxsize=8)
def _order(seed: bytes, clients: int) -> tuple[int, ...]:
    """All clients in a random order: sorted by SHA-256 of seed and number."""
    return tuple(sorted(range(clients), key=lambda n: hashlib.sha256(seed + n.to_bytes(8, "big")).digest()))


@lru_cache(maxsize=8)
def _places(seed: bytes, clients: int) -> tuple[int, ...]:
    """Each client's place on the ring."""
    places = [0] * clients
    for place, number in enumerate(_order(seed, clients)):
        places[number] = place
    return tuple(places)


def committee(seed: bytes, graph: Shape) -> Sequence[int]:
    """The clients who sign the list of those who answered; drawn apart from the ring."""
    return _order(seed + b"committee", graph.clients)[: graph.committee]


def widest_gap(absent: Sequence[int], seed: bytes, graph: Shape) -> int:
    """The most absent clients among any k/2 in a row on the ring; 0 on a complete graph, which has no ring."""
    half = graph.degree // 2
    if graph.complete or not absent or not half:
        return 0
    on_ring = np.zeros(graph.clients + half, dtype=np.int64)
    on_ring[np.array(_places(seed, graph.clients))[list(absent)]] = 1
    on_ring[graph.clients :] = on_ring[:half]
    sums = np.concatenate([[0], np.cumsum(on_ring)])
    return int((sums[half:] - sums[:-half]).max())


def peers(client: int, seed: bytes, graph: Shape) -> Sequence[int]:
    """The numbers of a client's peers, in increasing order. The relation is symmetric."""
    if graph.complete:
        return [number for number in range(graph.clients) if number != client]
    order, place, size = _order(seed, graph.clients), _places(seed, graph.clients)[client], graph.clients
    steps = [sign * step for step in range(1, graph.degree // 2 + 1) for sign in (1, -1)]
    steps += [size // 2] * (graph.degree % 2)  # an odd degree adds the opposite place
    return sorted({order[(place + step) % size] for step in steps})
