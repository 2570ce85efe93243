"""What a curator's tests of scores must be: as noisy as their cost was computed from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import numpy as np
from scipy.special import bdtr, bdtrc

from hushtune.client.client import Client
from hushtune.client.query import register
from hushtune.client.search.base import Search
from hushtune.client.simulation import Simulation
from hushtune.core.observer import Silent
from hushtune.core.space import Candidates, Config
from hushtune.federation.local import LocalFederation
from hushtune.methods.base import Method, Openings
from hushtune.privacy.accounting import Unit
from hushtune.privacy.bounds import Bound, Scores
from hushtune.privacy.events.answers import PureTests
from hushtune.privacy.guarantee import Privacy
from hushtune.run.tuning import tune
from hushtune.seals.base import Seal
from hushtune.seals.oracle import ANSWERS, Oracle
from hushtune.testing.numbers import CANDIDATES, FromHeld, holder
from hushtune.testing.values import expect

_STEPS = 2**16  # so that noise in whole steps is as good as in fractions
_TIMES = 100  # that each question is asked in a run
_RUNS = 4
_PRIVACY = 50.0, 1e-3  # little noise is told from less by fewer answers
_FALSE_ALARMS = 1e-8  # of each of the three comparisons


@register
@dataclass(frozen=True)
class Marks(FromHeld):
    """The two scores that a client of these suites holds."""

    name: ClassVar[str] = "hushtune-testing-marks"
    version: ClassVar[int] = 1
    meaning: ClassVar[str] = "scores"

    @property
    def blocks(self) -> Mapping[str, int]:
        """One block: a score for each candidate."""
        return {"scores": len(CANDIDATES)}

    @property
    def bound(self) -> Scores:
        """For all three questions."""
        return Scores(len(CANDIDATES), 3 * _TIMES, _STEPS, _STEPS)


@dataclass(frozen=True)
class Asks(Method):
    """Asks a curator all it can be asked, time and again, and decides nothing.

    Args:
        voters: parts of a client's rows that answer for themselves.
    """

    voters: int = 1
    name: ClassVar[str] = "hushtune-testing-asks"

    def bounds(self, candidates: Candidates) -> tuple[Bound, ...]:
        """One bound that covers all questions."""
        return (Marks().bound,)

    def run(self, run: Openings) -> Config:
        """The three questions in turn."""
        return run.candidates[run.consult(Marks(), self._ask)]

    def _ask(self, oracle: Oracle) -> int:
        for _ in range(_TIMES):
            oracle.noisy_max("exponential")
            oracle.noisy_max("permute-and-flip")
            oracle.above_threshold(Fraction(1, self.voters), [1])
        return 0


def check_tests(seal: Seal, unit: Unit, clients: int, seed: int) -> None:
    """Compares how often a curator's answers come with the chances that the cost was computed from.

    One voter of each client gives the first candidate the best score; all else is the worst. So it is for a third of
    the clients, which fail, and for the last, whose answer breaks its bound.
    """
    voters, failing = 2 if unit == "record" else 1, max(1, clients // 3)
    answers, epsilons = [], set()
    for turn in range(_RUNS):
        with TemporaryDirectory(prefix="hushtune-") as place:
            wire = LocalFederation(_parties(clients, voters, failing), Path(place), seed=seed + turn, jobs=1)
            privacy, simulation = Privacy(*_PRIVACY, unit=unit), Simulation(seed + turn)
            options: dict[str, Any] = {"method": Asks(voters), "privacy": privacy, "seal": seal, "search": Search()}
            result = tune(wire, CANDIDATES, **options, simulation=simulation, observer=Silent())
        expect(
            not result.dropped, f"clients that fail must be in the sums like others, but {len(result.dropped)} are not"
        )
        answers.append(np.reshape(result.opened[0].blocks[ANSWERS], (_TIMES, 3)))
        epsilons |= {event.epsilon for event in result.events if isinstance(event, PureTests)}
    (epsilon,) = epsilons
    scale = 2 * _STEPS / epsilon
    ahead = _STEPS * (clients - failing - 1) / scale
    exponential, flipped, reached = np.concatenate(answers).T
    _check_count("the exponential mechanism", int((exponential == 1).sum()), 1 / (1 + math.exp(ahead)))
    _check_count("permute-and-flip", int((flipped == 1).sum()), math.exp(-ahead) / 2)
    _check_count("a noisy threshold", int((reached == 1).sum()), _reached(clients * _STEPS / scale))


def _parties(clients: int, voters: int, failing: int) -> list[Client]:
    """Each with two scores for every voter, shape (clients, voters, 1, 2) in all."""
    scores = np.zeros((clients, voters, 1, 2), dtype=np.int64)
    scores[:, 0, 0, 0] = _STEPS
    scores[-1] = 2**40, 0
    return [holder(f"client-{at}", own, at < failing) for at, own in enumerate(scores)]


def _reached(gap: float) -> float:
    """The chance that a sum reaches a threshold that lies higher by so many scales.

    Its Laplace noise must exceed that of the threshold, which is half as large, by the gap: a convolution.
    """
    return (4 * math.exp(-gap / 2) - math.exp(-gap)) / 6


def _check_count(what: str, count: int, chance: float) -> None:
    """How often something of that chance came."""
    total = _RUNS * _TIMES
    tail = min(float(bdtr(count, total, chance)), float(bdtrc(count - 1, total, chance)))
    expect(
        tail >= _FALSE_ALARMS / 2,
        f"{what} must go against the scores with chance {chance:.4g}, but did {count} times of {total}",
    )
