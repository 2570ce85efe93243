"""Arithmetic on shares in rounds: nodes add on their own, and multiply, compare and open by sending each other one
message a round.

A node's program is a generator: it yields what it sends to each node, and gets what each has sent. It knows no
transport, no client and no ballot. All nodes run the same program in step.

Secure against t nodes that follow the protocol and pool what they saw (Ben-Or, Goldwasser, Wigderson 1988). What nodes
send each other is of two kinds: fresh sharings, of which t nodes see t uniform shares; and openings (`open`), of what
was asked for, or of a number behind a mask that is 2^MARGIN times as large (`at_least_zero`; Catrina and de Hoogh
2010). A product is never opened: its polynomial, of degree 2 t, could be factored into its operands. Nodes share their
values of it out anew instead (Gennaro, Rabin, Rabin 1998).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, TypeVar

import numpy as np

from hushtune.core.errors import WireError
from hushtune.core.randomness import Randomness, words
from hushtune.seals.quorum.field import LARGE, Elements, Field, integers
from hushtune.seals.quorum.sharing import Crowd, deal, factors, joined, received

T = TypeVar("T")
Steps = Generator[list[bytes], list[bytes], T]
"""Yields one message for each node, in order, its own included; gets one from each."""

MARGIN = 128
"""Bits by which the mask of a comparison is larger than what it hides: 2^-128 is left to be seen of each."""

LONGEST = 96
"""The most bits of a number that is compared: with the margin and all dealers' masks it stays below the prime."""


class Engine:
    """One node's part of a computation.

    Args:
        among: the nodes.
        number: this node's, from 1.
        randomness: this node's own source.
    """

    def __init__(self, among: Crowd, number: int, randomness: Randomness) -> None:
        self.among, self.number, self._randomness = among, number, randomness

    # ---- in and out ----------------------------------------------------------------------------------

    def input(
        self, dealers: Sequence[int], own: Elements | None, count: int, field: Field = LARGE
    ) -> Steps[dict[int, Elements]]:
        """Shares of what each dealer puts in; `own` if this node is one of them. One round."""
        sent = [b""] * self.among.nodes
        if self.number in dealers:
            if own is None or len(own) != count:
                raise ValueError(f"a dealer must put in {count} numbers")
            sent = deal(field, self.among, own, self._randomness)
        got = yield sent
        return {dealer: received(field, self.among, self.number, got[dealer - 1], count) for dealer in dealers}

    def open(self, shares: Elements, field: Field = LARGE) -> Steps[Elements]:
        """The numbers behind shares of degree t, as everybody sees them. One round.

        No mask is needed: the number and any t shares give the whole polynomial, so that the others' shares tell
        those who hold t nothing but the number.
        """
        got = yield [field.to_bytes(shares)] * self.among.nodes
        values = {at: field.from_bytes(content, len(shares)) for at, content in enumerate(got, 1)}
        return joined(field, self.among, values, self.among.degree)

    # ---- arithmetic ----------------------------------------------------------------------------------

    def mul(self, one: Elements, other: Elements) -> Steps[Elements]:
        """Shares of the products, of degree t again. One round.

        The product of two shares is the value of a polynomial of degree 2 t = m - 1, and the secret a fixed combination
        of all m values. Every node shares its value out; the same combination of those shares is a share of the secret.
        """
        points = self.among.points
        dealt = yield from self.input(points, LARGE.mul(one, other), len(one))
        total = sum(dealt[at] * factor for at, factor in zip(points, factors(LARGE.prime, points), strict=True))
        return LARGE.elements(total)

    def bits(self, count: int) -> Steps[Elements]:
        """Shares of uniform bits: t + 1 nodes put one in each, and what they are modulo 2 is uniform to any t."""
        dealers, own = self._dealers, None
        if self.number in dealers:
            own = (words(self._randomness, count) & np.uint64(1)).astype(object)
        dealt = yield from self.input(self._dealers, own, count)
        found = dealt[dealers[0]]
        for dealer in dealers[1:]:
            both = yield from self.mul(found, dealt[dealer])
            found = LARGE.sub(LARGE.add(found, dealt[dealer]), LARGE.mul(both, LARGE.elements(2)))
        return found

    def at_least_zero(self, numbers: Elements, bits: int) -> Steps[Elements]:
        """Shares of 1 where a number is 0 or more, else of 0; for numbers from -2^bits up to 2^bits - 1.

        a + 2^bits lies from 0 to 2^(bits + 1) - 1, and its highest bit is what is asked. It is what is left of the
        number without its lower bits, and those follow from a masked opening c = a + 2^bits + low + 2^bits high: they
        are c - low modulo 2^bits, where 2^bits is to be added back if the lower bits of c are below `low`.
        """
        if not 1 <= bits <= LONGEST:
            raise ValueError(f"numbers of 1 to {LONGEST} bits are compared, but got {bits}")
        count, power = len(numbers), 1 << bits
        shifted = LARGE.add(numbers, LARGE.elements(power))
        each = (yield from self.bits(count * bits)).reshape(count, bits)  # the highest first
        low = LARGE.elements(each @ _powers(bits))
        high = yield from self._mask(count)
        opened = yield from self.open(LARGE.add(shifted, LARGE.add(low, LARGE.mul(high, LARGE.elements(power)))))
        seen = opened % power
        borrowed = yield from self._below(seen, each)
        lower = LARGE.add(LARGE.sub(seen, low), LARGE.mul(borrowed, LARGE.elements(power)))
        return LARGE.mul(LARGE.sub(shifted, lower), LARGE.elements(LARGE.inverse(power)))

    def _below(self, public: Elements, bits: Elements) -> Steps[Elements]:
        """Shares of 1 where a public number is below one given by its shared bits, the highest first.

        Each bit says less (0 against 1), equal or more. Two in a row, a and b, give less = less_a + equal_a less_b and
        equal = equal_a equal_b; in a tree, all at once.
        """
        count, width = bits.shape
        seen = np.array([[(int(value) >> at) & 1 for at in range(width - 1, -1, -1)] for value in public], dtype=object)
        seen = seen.reshape(count, width)
        less = LARGE.mul(bits, 1 - seen)
        equal = LARGE.add(LARGE.mul(bits, LARGE.elements(2 * seen - 1)), 1 - seen)  # bit if seen is 1, else 1 - bit
        while less.shape[1] > 1:
            pairs = less.shape[1] // 2
            a, b = slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)
            left = np.concatenate([equal[:, a].ravel(), equal[:, a].ravel()])
            right = np.concatenate([less[:, b].ravel(), equal[:, b].ravel()])
            products = (yield from self.mul(left, right)).reshape(2, count, pairs)
            rest = slice(2 * pairs, None)
            less = np.concatenate([LARGE.add(less[:, a], products[0]), less[:, rest]], axis=1)
            equal = np.concatenate([products[1], equal[:, rest]], axis=1)
        return less[:, 0]

    def _mask(self, count: int) -> Steps[Elements]:
        """Shares of large random integers: t + 1 nodes put in one of MARGIN + 8 bits each, of which any t know t."""
        own = None
        if self.number in self._dealers:
            own = integers(self._randomness.bytes(32), count, MARGIN + 8)
        dealt = yield from self.input(self._dealers, own, count)
        return LARGE.total(np.stack(list(dealt.values())))

    @property
    def _dealers(self) -> tuple[int, ...]:
        """Nodes of whom at least one is not among any t."""
        return self.among.points[: self.among.degree + 1]


def _powers(bits: int) -> Elements:
    return np.array([1 << at for at in range(bits - 1, -1, -1)], dtype=object)


def together(programs: Sequence[Steps[T]]) -> list[T]:
    """Runs all nodes' programs in step, in this process; for tests, and for nodes of one owner.

    Args:
        programs: one for each node, in order.
    """
    incoming: list[Any] = [None] * len(programs)
    ended: list[T] = []
    while programs and not ended:
        outgoing: list[list[bytes]] = []
        for program, got in zip(programs, incoming, strict=True):
            try:
                outgoing.append(program.send(got))
            except StopIteration as end:
                ended.append(end.value)
        incoming = [[sent[at] for sent in outgoing] for at in range(len(programs))]
    if len(ended) < len(programs):
        raise WireError("nodes are out of step")
    return ended
