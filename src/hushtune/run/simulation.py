"""The explicit mark of a simulation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from hushtune.bounds import Scores
from hushtune.checks import integer, kind
from hushtune.client import Client, Party
from hushtune.curated import Choose, CuratedScores
from hushtune.errors import HushtuneError
from hushtune.method import Note
from hushtune.privacy import skellam
from hushtune.privacy.noise import Noise
from hushtune.privacy.release import contribution
from hushtune.privacy.skellam import IntArray
from hushtune.progress import unseen
from hushtune.query import Query, in_blocks
from hushtune.randomness import Randomness, SimulatedRandomness, SystemRandomness
from hushtune.roster import Id
from hushtune.rows import Parts
from hushtune.sealed import Sealed
from hushtune.search import Search
from hushtune.space import Candidates, Domain

MOST_DRAWS = 1_000_000


@dataclass(frozen=True)
class Simulation:
    """Makes seeds and reference figures legal. Never charges a ledger; flagged in result.json.

    Args:
        seed: of noise, ballots and tie-breaks. Real privacy has no seed.
        reference: a stand-in for the whole federation, whose losses tell how good a candidate really is:
            usually everybody's data pooled for training and a test set for scoring (`Client(Split(...), ...)`).
            It gives the reference arms: `opt`, the best candidate, and `random_guess`, the mean candidate.
        draws: over how many draws of the noise each way of decoding is averaged for the reference figures.
    """

    seed: int
    reference: Client | None = None
    draws: int = 100

    def __post_init__(self) -> None:
        integer("seed", self.seed, 0)
        integer("draws", self.draws, 1, MOST_DRAWS)
        kind("reference", self.reference, Client)


def drawn_from(seed: int | None, label: str) -> Randomness:
    """The system's randomness, or, in a marked simulation, a stream of its seed."""
    return SystemRandomness() if seed is None else SimulatedRandomness(seed, label)


_WORDS = {
    "chosen": "the chosen config",
    "opt": "OPT, the best known config",
    "random_guess": "RandomGuess, the mean candidate",
}


def figure_rows(figures: Mapping[str, Any]) -> list[tuple[str, float]]:
    """A simulation's figures in words, for whoever shows them."""
    means = figures.get("means", {})
    decoded = [(f"decode={name}, mean of {figures['draws']} noise draws", value) for name, value in means.items()]
    others = [(name, figures[name]) for name in figures if name not in (*_WORDS, "means", "draws")]
    return [*((words, figures[name]) for name, words in _WORDS.items() if name in figures), *decoded, *others]


class Shortcut:
    """A whole run as one sum and one draw, for a marked simulation only.

    Because Skellam shares add up exactly, the noise of all clients together is a single Skellam draw. The clients'
    contributions are the same that `release` would send; they are computed once and kept for further draws. A method
    whose clients keep trials under the run's id needs another `run` for every draw.
    """

    def __init__(
        self,
        parties: Sequence[Party],
        parts: Parts,
        candidates: Candidates,
        search: Search,
        variance: Fraction,
        noise_seed: int,
        sums: dict[Query, IntArray] | None = None,
        run: str = "0" * 32,
    ) -> None:
        self.id = run
        self.candidates = candidates
        self.search = search
        self.asked = len(parties)
        self._parties = list(parties)
        self._parts = parts
        self._variance = variance
        self._randomness = SimulatedRandomness(noise_seed, "shortcut")
        self._sums = sums if sums is not None else {}  # given, they are kept for other noise as well
        self._scored: tuple[Search, Domain] | None = None

    def sum(self, query: Query) -> Mapping[str, IntArray]:
        """The exact sum, kept, plus fresh noise."""
        exact = self._exact(query)
        return in_blocks(query, exact + skellam.sample(self._variance, len(exact), self._randomness))

    def _exact(self, query: Query) -> IntArray:
        if query not in self._sums:
            self._score(query)
            rows = [contribution(query, party, self._parts, private=True) for party in self._parties]
            self._sums[query] = np.sum(rows, axis=0, dtype=np.int64)
        return self._sums[query]

    def _score(self, query: Query) -> None:
        """Fills the trials that an answer looks up for all parties at once, as a run does."""
        if query.scored != self._scored:
            search, domain = query.scored
            units = [unit for party in self._parties for unit in party.parts(self._parts)]
            search.fill(units, domain, 1, unseen, private=True)
            self._scored = query.scored

    def sealed(self, query: Query) -> Sealed:
        """Computed from the exact sum: the same values as under encryption."""
        return Sealed(query, lambda query, form: form.of(self.sum(query)))

    def curate(self, query: Query, choose: Choose) -> int:
        """From the exact sum, with fresh noise."""
        assert isinstance(query.bound, Scores)
        sums = self._exact(query)
        units = len(self._parties) * self._parts.voters
        noise = Noise(float(self._variance) ** 0.5, "curator")
        return choose(CuratedScores(sums, query.bound, units, noise, self._randomness))

    def gather(self, query: Query) -> Mapping[Id, Mapping[str, IntArray]]:
        """Every client's own answer; without noise only, as in a real run."""
        if self._variance:
            raise HushtuneError("every client's own answer is opened without epsilon only")
        each = {party.id: contribution(query, party, self._parts, private=True) for party in self._parties}
        return {client: in_blocks(query, vector) for client, vector in each.items()}

    def leave_out(self, client: Id, reason: str) -> None:
        """Nobody is told."""

    def note(self, name: str, value: Note) -> None:
        """Nobody is told."""

    def noise_variance(self) -> float:
        """Of all clients together."""
        return float(self._variance)

    def answered(self) -> int:
        """Everybody."""
        return len(self._parties)
