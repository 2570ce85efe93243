"""What may be asked of a step's sums: it follows from the request that clients bound into their envelopes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from hushtune.core.arrays import IntArray
from hushtune.core.errors import HushtuneError, RefusedError, SettingError
from hushtune.core.randomness import Randomness
from hushtune.privacy.bounds import Bound
from hushtune.privacy.noise import geometric
from hushtune.privacy.noise.base import Noise
from hushtune.seals.ends import check_added
from hushtune.seals.forms import Form
from hushtune.seals.oracle import NONE, Mechanism
from hushtune.seals.quorum.layout import layout_of
from hushtune.seals.quorum.questions import Above, Question, Quotient, Reaching, Total, Winner
from hushtune.seals.quorum.sharing import NODES, Crowd, crowd

_ROOM = 2**56  # of a sum: far below the small field's prime, and noise on it as well
_MOST = 2**40  # of a level's denominator
_REPLY = 2**26  # bytes that a node may say at once
_COMPARED = 32 * 64  # bytes of the shares of an entry's bits, for one node and each multiple of the prime
_BEYOND = 16  # how far outside the range of a mean score a level may be


@dataclass(frozen=True)
class Agenda:
    """What a request lets be asked. The coordinator chooses a level and an order, and nothing that privacy rests on.

    Args:
        bound: on each unit's vector.
        form: which form of the sum is opened; None: the sum.
        blocks: names and lengths of the vector's parts.
        noise: what the opening gets.
        units: how many there are, those included that did not answer.
        added: public scores that are added before a winner is found; empty: none.
    """

    bound: Bound
    form: Form | None
    blocks: Mapping[str, int]
    noise: Noise
    units: int
    added: tuple[int, ...] = ()

    @property
    def among(self) -> Crowd:
        """Who computes: all nodes."""
        return crowd(self.noise.nodes)

    def check(self) -> None:
        """Refuses vectors that cannot be checked on shares, sums without room, and forms that cannot be computed."""
        layout_of(self.bound)
        if self._top > _ROOM:
            raise SettingError(f"a sum that nodes hold must be at most 2^56, but can be {self._top}: use fewer steps")
        if self.bound.tests or self.form is not None:
            most = _REPLY // (_COMPARED * self.among.enough * self.among.degree)
            if self.bound.length > most:
                raise SettingError(
                    f"{self.among.nodes} nodes compute with at most {most} entries, but got {self.bound.length}: "
                    "use fewer candidates" + (" or fewer nodes" if self.among.nodes > NODES[0] else "")
                )
        check_added(self.added, self.bound)
        if self.form is not None and self.bound.limits.lowest < 0:
            raise SettingError("nodes compare and divide sums of numbers from 0 on, but these may be negative")

    def question(self, raw: Mapping[str, Any]) -> Question:
        """A question, from its public parts; what was not announced is refused.

        Args:
            raw: its name, and for a threshold the level and the order.
        """
        match raw:
            case {"name": "sum", **rest} if not rest and not self.bound.tests:
                return self._opening()
            case {"name": "winner", **rest} if not rest and self.bound.tests:
                return Winner(self._rate(self.noise.scale), self._top, self.added)
            case {"name": "above", "level": level, "order": order, **rest} if not rest and self._thresholds:
                return self._above(level, order)
        raise RefusedError("that is not what the request lets be asked of these sums")

    @property
    def _thresholds(self) -> bool:
        return bool(self.bound.tests) and not self.bound.only_max

    @property
    def _top(self) -> int:
        """What no sum exceeds."""
        return self.units * self.bound.largest

    def _rate(self, scale: float) -> Fraction | None:
        return geometric.rate_of(scale) if scale else None

    def _above(self, level: Any, order: Any) -> Above:
        """Noise of the given scale on the level, and of twice that on every sum."""
        rates = self._rate(self.noise.scale), self._rate(2 * self.noise.scale)
        if rates[0] is None or rates[1] is None:
            raise RefusedError("tests against a level need noise")
        if not _whole(level, 2) or not 1 <= level[1] <= _MOST or abs(level[0]) > _BEYOND * level[1]:
            raise RefusedError(f"a level must be two whole numbers, whose quotient is at most {_BEYOND}")
        if not _whole(order, self.bound.length) or sorted(order) != list(range(self.bound.length)):
            raise RefusedError("an order must name every place once")
        threshold = round(Fraction(*level) * self.units * self.bound.largest)
        return Above(rates[0], rates[1], self._top, threshold, tuple(order))

    def _opening(self) -> Question:
        """The sum, or the form of it that was announced."""
        variance = self.noise.node_variance() * self.noise.honest_nodes
        if self.form is None:
            return Total(0, self.bound.length, variance)
        start, stop = self._place(self.form.block)
        if self.form.at_least is not None:
            return Reaching(start, stop, self.form.at_least, self._top)
        if self.form.over is not None:
            return Quotient((start, stop), self._place(self.form.over), self._top)
        return Total(start, stop, variance)

    def _place(self, block: str) -> tuple[int, int]:
        """Where a block begins and ends."""
        names = list(self.blocks)
        start = sum(self.blocks[name] for name in names[: names.index(block)])
        return start, start + self.blocks[block]


def _whole(value: Any, length: int) -> bool:
    return isinstance(value, list) and len(value) == length and all(type(one) is int for one in value)


class KnownSums:
    """What nodes would answer, from sums that are known: the same questions, computed in the clear.

    Args:
        sums: of all units' scores, shape (candidates,).
        agenda: what may be asked.
        randomness: for the noise of all nodes.
    """

    def __init__(self, sums: IntArray, agenda: Agenda, randomness: Randomness) -> None:
        self.answers: list[int] = []
        self._sums, self._agenda, self._randomness = sums, agenda, randomness

    def above_threshold(self, level: Fraction, order: Sequence[int]) -> int | None:
        """The first place whose noisy score reaches the noisy level; None if none does."""
        places = [int(place) for place in order]
        found = self._answer({"name": "above", "level": [level.numerator, level.denominator], "order": places})
        self.answers.append(NONE if found == 0 else places[found - 1])
        return None if found == 0 else places[found - 1]

    def noisy_max(self, mechanism: Mechanism | None = None) -> int:
        """The place of the largest score, under geometric noise."""
        self.answers.append(self._answer({"name": "winner"}))
        return self.answers[-1]

    def _answer(self, raw: Mapping[str, Any]) -> int:
        if len(self.answers) >= self._agenda.bound.tests:
            raise HushtuneError(f"a method asked nodes more than the {self._agenda.bound.tests} tests it announced")
        nodes = [self._randomness] * self._agenda.among.nodes
        (found,) = self._agenda.question(raw).known(self._sums, self._agenda.among, nodes)
        return found
