"""The epsilons that arms of an experiment have; infinity stands for no noise."""

from __future__ import annotations

import math

from experiments.options import read_numbers
from hushtune.privacy.guarantee import Privacy

DELTA = 1e-5


def privacy_of(epsilon: float) -> Privacy | None:
    """The guarantee of an arm; infinity stands for none."""
    return None if epsilon == math.inf else Privacy(epsilon, DELTA)


def read_epsilons(text: str) -> list[float]:
    """Numbers with commas between them. What no guarantee can have is refused before anything is measured."""
    found = read_numbers("epsilon", text)
    for epsilon in found:
        privacy_of(epsilon)
    return found
