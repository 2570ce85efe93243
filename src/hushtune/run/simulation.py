"""What only a marked simulation can do: repeat a whole run as one sum and one draw, and know reference figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from hushtune.client.party import Party
from hushtune.client.query import Query
from hushtune.client.release import contribution
from hushtune.client.rows import Parts
from hushtune.client.search.base import Search
from hushtune.core.arrays import IntArray
from hushtune.core.errors import HushtuneError
from hushtune.core.observer import unseen
from hushtune.core.randomness import SimulatedRandomness
from hushtune.core.roster import Id
from hushtune.core.space import Candidates, Domain
from hushtune.methods.base import Note
from hushtune.methods.unopened import Unopened
from hushtune.privacy.noise import skellam
from hushtune.privacy.noise.base import Noise
from hushtune.seals.base import Seal
from hushtune.seals.ends import with_added
from hushtune.seals.forms import in_blocks
from hushtune.seals.oracle import Choose

_WORDS = {
    "chosen": "the chosen config",
    "opt": "OPT, the best known config",
    "random_guess": "RandomGuess, the mean candidate",
}


def figure_rows(figures: Mapping[str, Any]) -> list[tuple[str, float]]:
    """A simulation's figures in words, for whoever shows them."""
    means = figures.get("means", {})
    drawn = [(f"{name}, mean of {figures['draws']} noise draws", value) for name, value in means.items()]
    others = [(name, figures[name]) for name in figures if name not in (*_WORDS, "means", "draws")]
    return [*((words, figures[name]) for name, words in _WORDS.items() if name in figures), *drawn, *others]


class Shortcut:
    """A whole run as one sum and one draw, for a marked simulation only.

    Because Skellam shares add up exactly, the noise of all clients together is a single Skellam draw. The clients'
    contributions are the same that `release` would send; they are computed once and kept for further draws. Questions
    about sums that stay hidden are answered by what the seal has for sums that are known. A method whose clients keep
    trials under the run's id needs another `run` for every draw.

    Args:
        parties: the simulation's clients.
        parts: how each is split into units.
        candidates: the public list.
        search: how their trials are filled.
        seal: the run's.
        noise: what the run's openings get.
        honest: how many clients the noise counts on.
        noise_seed: of all draws.
        sums: exact sums, kept for other noise as well.
        run: the run's id.
    """

    def __init__(
        self,
        parties: Sequence[Party],
        parts: Parts,
        candidates: Candidates,
        search: Search,
        seal: Seal,
        noise: Noise,
        honest: int,
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
        self._seal, self._noise = seal, noise
        self._variance = Fraction(noise.opened_variance(honest, len(parties)))
        self._randomness = SimulatedRandomness(noise_seed, "shortcut")
        self._sums = sums if sums is not None else {}
        self._scored: tuple[Search, Domain] | None = None

    def sum(self, query: Query) -> Mapping[str, IntArray]:
        """The exact sum, kept, plus fresh noise."""
        exact = self._exact(query)
        return in_blocks(query.blocks, exact + skellam.sample(self._variance, len(exact), self._randomness))

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

    def unopened(self, query: Query) -> Unopened:
        """Computed from the exact sum: the same values as under encryption."""
        return Unopened(query, lambda query, form: form.of(self.sum(query)))

    def consult(self, query: Query, choose: Choose) -> int:
        """From the exact sum, with fresh noise."""
        assert query.bound.tests
        units = len(self._parties) * self._parts.voters
        sums = with_added(self._exact(query), query.added)
        return choose(self._seal.oracle(sums, query.bound, units, self._noise, self._randomness))

    def gather(self, query: Query) -> Mapping[Id, Mapping[str, IntArray]]:
        """Every client's own answer; without noise only, as in a real run."""
        if self._variance:
            raise HushtuneError("every client's own answer is opened without epsilon only")
        each = {party.id: contribution(query, party, self._parts, private=True) for party in self._parties}
        return {client: in_blocks(query.blocks, vector) for client, vector in each.items()}

    def leave_out(self, client: Id, reason: str) -> None:
        """Does nothing: there is no run that would tell anybody."""

    def note(self, name: str, value: Note) -> None:
        """Does nothing: there is no result that would hold the note."""

    def noise_variance(self) -> float:
        """Of all clients together."""
        return float(self._variance)

    def answered(self) -> int:
        """All clients: nobody drops out of a shortcut."""
        return len(self._parties)
