"""Who masks with whom: a random regular graph, and the numbers that make it safe.

Clients stand on a ring in a random order; each is joined to the k/2 next ones on both sides (a Harary graph with random
labels, Bell et al. 2020, section 3). Small federations are complete graphs. Degree and threshold come from three
conditions, each of which may fail with probability 2^-40 over ALL clients together:

- privacy: 2 threshold > degree + corrupt neighbours, so that a server that tells different stories never collects both
  kinds of shares of a client;
- correctness: degree - dropped neighbours >= threshold, so that dropouts do not stall the round;
- connection: without the corrupt and the dropped, the graph of honest clients stays in one piece, so that only the sum
  over all of them can be unmasked. This covers a server that follows the protocol: see docs/threat-model.md.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from hushtune.errors import SettingError

FAILURE = 2.0**-40
_SMALL = 30  # up to here a complete graph costs little


@dataclass(frozen=True)
class Shape:
    """How many neighbours each client has, and how many shares give a secret back."""

    clients: int
    degree: int
    threshold: int

    @property
    def complete(self) -> bool:
        """Whether everybody is everybody's neighbour."""
        return self.degree == self.clients - 1


@lru_cache(maxsize=64)
def shape(clients: int, dropped: int, corrupt: int) -> Shape:
    """The smallest safe degree and its threshold for so many dropped and corrupt clients, at the most.

    Raises SettingError if not even the complete graph is safe; the message says what would be.
    """
    if clients < 2:
        raise SettingError(f"seal 'masked' needs at least 2 clients, but got {clients}")
    degrees = [clients - 1] if clients <= _SMALL else [*range(4, clients - 1, 2), clients - 1]
    for degree in degrees:
        threshold = _threshold(clients, degree, dropped, corrupt)
        if threshold is not None:
            return Shape(clients, degree, threshold)
    most = max(d for d in range(clients) if _threshold(clients, clients - 1, d, min(d, corrupt)) is not None)
    raise SettingError(
        f"dropouts and corrupt leave no safe threshold: of {clients} clients, {dropped} dropped and {corrupt} corrupt "
        f"need dropped + corrupt / 2 < neighbours / 2; {most} dropped and {min(most, corrupt)} corrupt would do"
    )


def _threshold(clients: int, degree: int, dropped: int, corrupt: int) -> int | None:
    """The largest threshold for this degree that dropouts allow; None if it is not safe."""
    bad = _at_most(clients - 1, corrupt, degree, FAILURE / clients)
    gone = _at_most(clients - 1, dropped, degree, FAILURE / clients)
    threshold = degree - gone  # the largest that dropouts allow: the more holders must agree, the better
    if 2 * threshold <= degree + bad or not _connected(clients, degree, dropped + corrupt):
        return None
    return threshold


def _at_most(population: int, marked: int, drawn: int, failure: float) -> int:
    """The smallest m with P[more than m of `drawn` neighbours are marked] <= failure (hypergeometric)."""
    from scipy.stats import hypergeom

    most = min(marked, drawn)
    if drawn == population:
        return most
    tails = hypergeom.sf(np.arange(most + 1), population, marked, drawn)
    return int(np.argmax(tails <= failure))


def _connected(clients: int, degree: int, removed: int) -> bool:
    """Whether the ring without `removed` random clients falls apart with probability below FAILURE.

    It falls apart only if two separate runs of degree/2 neighbours in a row are removed. The places of the removed are
    a random subset, so a given set of `degree` places is all removed with probability C(n-d, r-d) / C(n, r), and there
    are fewer than n^2 / 2 pairs of runs.
    """
    if degree == clients - 1 or removed < degree:
        return True
    log_chance = _log_binomial(clients - degree, removed - degree) - _log_binomial(clients, removed)
    return 2 * math.log(clients) - math.log(2) + log_chance <= math.log(FAILURE)


def _log_binomial(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


@lru_cache(maxsize=8)
def _ring(seed: bytes, clients: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The order on the ring, and each client's place in it: sorted by SHA-256 of seed and number."""
    keys = [hashlib.sha256(seed + number.to_bytes(8, "big")).digest() for number in range(clients)]
    order = sorted(range(clients), key=keys.__getitem__)
    places = [0] * clients
    for place, number in enumerate(order):
        places[number] = place
    return tuple(order), tuple(places)


def neighbours(client: int, seed: bytes, form: Shape) -> Sequence[int]:
    """The numbers of a client's neighbours, in increasing order. The relation is symmetric."""
    if form.complete:
        return [number for number in range(form.clients) if number != client]
    order, places = _ring(seed, form.clients)
    place, size = places[client], form.clients
    steps = [sign * step for step in range(1, form.degree // 2 + 1) for sign in (1, -1)]
    steps += [size // 2] * (form.degree % 2)  # an odd degree adds the opposite place
    return sorted({order[(place + step) % size] for step in steps})
