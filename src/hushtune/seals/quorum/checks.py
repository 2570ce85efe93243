"""What a node computes of its shares of ballots to check them, without seeing any.

All is linear in coins that nodes toss together once every ballot is fixed. A ballot's two figures:

- `spread`: a random combination of its entries. Masked by a sharing of degree t and opened, its m values lie on a
  polynomial of degree t if the ballot's do.
- `faults`: a random combination of b (b - 1) over its bits and of the bound's conditions, of degree 2 t. Masked by a
  sharing of zero and opened, it is zero if every bit is one and every condition holds.

A ballot that breaks a rule passes a batch with a chance of at most 2 / (2^61 - 1) (Schwartz and Zippel: a coin of the
entry times one of the ballot). Of a ballot that keeps to the rules nothing is opened but uniform numbers.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from hushtune.seals.quorum.field import SMALL, Elements
from hushtune.seals.quorum.layout import Layout
from hushtune.seals.quorum.sharing import Common, Crowd, value_at

_BLOCK = 2048  # ballots at a time: what is multiplied stays in the cache


class Figures:
    """One node's figures of all ballots.

    Args:
        layout: how ballots are written.
        coin: 32 bytes, tossed by all nodes.
    """

    def __init__(self, layout: Layout, coin: bytes) -> None:
        self._layout, self._coin = layout, coin
        self._spread = self._draws("spread", layout.size)
        self._bits = self._draws("bits", layout.size)
        self._conditions = self._draws("conditions", max(1, len(layout.conditions)))

    def of(self, ballots: Elements) -> Elements:
        """Spread and faults of each ballot, shape (2, ballots), from shares of bits, shape (ballots, size)."""
        blocks = [self._block(ballots[at : at + _BLOCK]) for at in range(0, len(ballots), _BLOCK)]
        return np.concatenate(blocks, axis=1) if blocks else np.zeros((2, 0), dtype=np.uint64)

    def _block(self, ballots: Elements) -> Elements:
        spread = SMALL.total(SMALL.mul(ballots, self._spread), axis=1)
        squares = SMALL.mul(ballots, SMALL.add(ballots, SMALL.elements(-1)))
        faults = SMALL.total(SMALL.mul(squares, self._bits), axis=1)
        for factor, condition in zip(self._conditions, self._layout.conditions, strict=False):
            faults = SMALL.add(faults, SMALL.mul(condition.shares(ballots), factor))
        return np.stack([spread, faults])

    def batched(self, figures: Elements) -> Elements:
        """One pair for all ballots together: each counts by a coin of its own."""
        coins = self._draws("ballots", figures.shape[1])
        return SMALL.total(SMALL.mul(figures, coins), axis=1)[:, np.newaxis]

    def _draws(self, what: str, count: int) -> Elements:
        return SMALL.uniform(hmac.new(self._coin, what.encode(), hashlib.sha256).digest(), count)


def masked(figures: Elements, common: Common, label: bytes) -> Elements:
    """What a node may send: no figure leaves without a mask, and a label is used once."""
    count = figures.shape[1]
    masks = [common.random(label + b" spread", count), common.zero(label + b" faults", count)]
    return SMALL.add(figures, np.stack(masks))


def passed(among: Crowd, opened: Mapping[int, Elements]) -> NDArray[np.bool_]:
    """Which ballots keep to the rules, from what all nodes sent (`masked`), shape (2, ballots) each."""
    points = among.points
    first = {point: opened[point][0] for point in points[: among.degree + 1]}
    fits = np.ones(opened[points[0]].shape[1], dtype=bool)
    for point in points[among.degree + 1 :]:
        fits &= value_at(SMALL, first, point) == opened[point][0]
    faults = value_at(SMALL, {point: opened[point][1] for point in points})
    found: NDArray[np.bool_] = fits & (faults == 0)
    return found
