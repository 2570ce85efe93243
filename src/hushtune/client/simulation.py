"""The explicit mark of a simulation."""

from __future__ import annotations

from dataclasses import dataclass

from hushtune.client.client import Client
from hushtune.core.checks import integer, kind

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
