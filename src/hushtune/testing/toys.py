"""A made-up federation that costs next to nothing, for the suites."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hushtune.client.client import Client
from hushtune.client.rows import Rows
from hushtune.core.arrays import FloatArray
from hushtune.core.space import Config, Domain, Float, Space, space_of

_ROWS = 6  # of each client
SPACE = Space(x=Float(0.0, 1.0))


@dataclass(frozen=True)
class Distance:
    """How far a config is from the mean of a client's labels, as a share of each knob's range. Fails without labels."""

    space: Space

    def fingerprint(self) -> str:
        """For the trial cache."""
        return f"hushtune.testing distance {self.space.text}"

    def losses(self, configs: Sequence[Config], data: Any, seed: int) -> FloatArray:
        """Between 0 and 1, shape (configs,)."""
        if np.isnan(data.y).any():
            raise RuntimeError("labels are missing")
        away: FloatArray = np.abs(self.space.encode(configs) - np.clip(data.y.mean(), 0, 1)).mean(axis=1)
        return away


def toy_clients(count: int, domain: Domain, failing: int | None = None) -> list[Client]:
    """Clients of equal size whose best points differ a little; the labels of one of them may be missing."""
    rng = np.random.default_rng(count)
    labels = rng.normal(0.35, 0.1, (count, _ROWS))
    if failing is not None:
        labels[failing] = np.nan
    objective = Distance(space_of(domain))
    return [Client(Rows(np.arange(_ROWS, dtype=float)[:, None], own), objective) for own in labels]
