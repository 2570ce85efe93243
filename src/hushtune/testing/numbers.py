"""Clients that hold integers, the query that asks for them, and the method that opens their sums."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from hushtune.client.client import Client
from hushtune.client.party import Party
from hushtune.client.query import Query, register
from hushtune.client.search.base import Search
from hushtune.core.arrays import FloatArray, IntArray
from hushtune.core.errors import RefusedError
from hushtune.core.space import Candidates, Config
from hushtune.methods.base import Method, Openings
from hushtune.privacy.bounds import Ball, Bound
from hushtune.privacy.policy import Policy
from hushtune.seals.base import Seal
from hushtune.testing.toys import SPACE, Distance

NORM = 200
CANDIDATES = SPACE.grid(x=2)
_ANY = Policy(corrupt=0.0, insecure=True, smudging=0.0)  # in one process, it accepts every seal


@dataclass(frozen=True, eq=False)
class Held:
    """What a client of these suites holds; nobody else's data is of this class.

    Args:
        numbers: the integers, shape (rows, sums, length); a privacy unit answers with the sum of its rows.
        y: what its objective looks at, shape (rows,).
    """

    numbers: IntArray
    y: FloatArray

    def __len__(self) -> int:
        return len(self.y)

    def take(self, indices: Any) -> Held:
        """Some of the rows."""
        return Held(self.numbers[indices], self.y[indices])


def holder(name: str, numbers: IntArray, fails: bool = False, seal: Seal | None = None) -> Client:
    """A client that holds these numbers, shape (rows, sums, length), and whose objective may fail.

    Args:
        name: its own.
        numbers: what it holds.
        fails: whether its objective does.
        seal: what its owner accepts wherever the client is, with exact values opened; None: all, in one process.
    """
    labels = np.full(len(numbers), np.nan if fails else 0.5)
    policy = _ANY if seal is None else replace(_ANY, seals=(seal.name,), exact=True)
    return Client(Held(numbers, labels), Distance(SPACE), name=name, policy=policy)


@dataclass(frozen=True)
class FromHeld(Query):
    """A query about what a client of these suites holds. Clients with any other data have no answer."""

    name: ClassVar[str]

    @property
    def scored(self) -> tuple[Search, Candidates]:
        """So that an objective can fail."""
        return Search(), CANDIDATES

    def answer(self, party: Party) -> Any:
        """The sum of the unit's rows; an error where its objective fails."""
        if not isinstance(party.data, Held):  # a process that imports the suites may have real clients as well
            raise RefusedError(f"query '{self.name}' is for clients of hushtune.testing only, but got other data")
        party.losses(CANDIDATES.configs, Search().seed)
        return party.data.numbers.sum(axis=0)[self.place]

    @property
    def place(self) -> int:
        """Which of the vectors that the client holds."""
        return 0


@register
@dataclass(frozen=True)
class Numbers(FromHeld):
    """The integers that a client of these suites holds.

    Args:
        step: which of them.
        length: how many.
    """

    step: int
    length: int
    name: ClassVar[str] = "hushtune-testing-numbers"
    version: ClassVar[int] = 1
    meaning: ClassVar[str] = "integers"

    @property
    def blocks(self) -> Mapping[str, int]:
        """One block with all numbers."""
        return {"numbers": self.length}

    @property
    def bound(self) -> Ball:
        """A ball: the numbers' norm is limited."""
        return Ball(NORM, self.length)

    @property
    def place(self) -> int:
        """Which opening of the run it is: the step."""
        return self.step


@dataclass(frozen=True)
class Totals(Method):
    """Opens sums of numbers one after the other.

    Args:
        sums: how many.
        length: of each.
        voters: parts of a client's rows that answer for themselves.
    """

    sums: int = 1
    length: int = 5
    voters: int = 1
    name: ClassVar[str] = "hushtune-testing-totals"

    def bounds(self, candidates: Candidates) -> tuple[Bound, ...]:
        """As many equal bounds as there are sums."""
        return (Numbers(0, self.length).bound,) * self.sums

    def run(self, run: Openings) -> Config:
        """Opens all sums, and takes the first candidate whatever they are."""
        for step in range(self.sums):
            run.sum(Numbers(step, self.length))
        return run.candidates[0]
