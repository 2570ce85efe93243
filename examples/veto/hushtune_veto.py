"""Clients veto candidates, and what the fewest object to is chosen: a method of one's own, outside hushtune."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

import hushtune as ht
from hushtune.client.party import Party
from hushtune.client.query import Query, register
from hushtune.client.search.base import Search
from hushtune.methods.base import Method, Openings
from hushtune.privacy.bounds import AtMost, Bound


@register  # clients find it by name and version
@dataclass(frozen=True)
class Vetoes(Query):
    """One veto for each of a client's k worst candidates."""

    k: int
    candidates: ht.Candidates
    seed: int
    name: ClassVar[str] = "vetoes"
    version: ClassVar[int] = 1
    meaning: ClassVar[str] = "vetoes, one entry per candidate"  # for disclosures and statement

    @property
    def blocks(self) -> Mapping[str, int]:  # named parts of the vector, and their lengths
        return {"vetoes": len(self.candidates)}

    @property
    def bound(self) -> AtMost:  # on ONE privacy unit's vector: enforced by the runtime, and what the cost follows from
        return AtMost(self.k, len(self.candidates))

    @property
    def scored(self) -> tuple[Search, ht.Candidates]:  # what a client may do before it answers
        return Search(self.seed), self.candidates

    def answer(self, party: Party) -> Any:
        losses = np.nan_to_num(party.losses(self.candidates.configs, self.seed), nan=np.inf)
        vector = np.zeros(len(losses), dtype=np.int64)
        vector[np.argsort(losses)[-self.k :]] = 1
        return vector


@dataclass(frozen=True)
class Veto(Method):
    """Chooses what the fewest object to."""

    k: int = 2
    voters: int = 1  # parts of a client's rows that answer for themselves, with Privacy(unit="record")
    name: ClassVar[str] = "veto"

    def bounds(self, candidates: ht.Candidates) -> tuple[Bound, ...]:  # announced, so that noise is calibrated before
        return (Vetoes(self.k, candidates, 0).bound,)

    def run(self, run: Openings) -> ht.Config:
        vetoes = run.sum(Vetoes(self.k, run.candidates, run.search.seed))["vetoes"]
        return run.candidates[int(np.argmin(vetoes))]
