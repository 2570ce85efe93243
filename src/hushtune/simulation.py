"""The explicit mark of a simulation."""

from __future__ import annotations

from dataclasses import dataclass

from hushtune.client import Client
from hushtune.errors import SettingError


@dataclass(frozen=True)
class Simulation:
    """Makes seeds and reference figures legal. Never charges a ledger; flagged in result.json.

    Args:
        seed: of noise, ballots and tie-breaks. Real privacy has no seed.
        reference: a stand-in for the whole federation, whose losses tell how good a candidate really is:
            usually everybody's data pooled for training and a test set for scoring (`Client(Split(...), ...)`).
            It gives the reference arms: `opt`, the best candidate, and `random_guess`, the mean candidate.
    """

    seed: int
    reference: Client | None = None

    def __post_init__(self) -> None:
        if not (isinstance(self.seed, int) and self.seed >= 0):
            raise SettingError(f"`seed >= 0` must hold for a simulation, but got seed={self.seed!r}")
