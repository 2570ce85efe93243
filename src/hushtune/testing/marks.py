"""What answers about hidden sums must be: as noisy as their cost was computed from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import numpy as np
from scipy.special import bdtr, bdtrc, gammainc, roots_genlaguerre

from hushtune.client.client import Client
from hushtune.client.query import register
from hushtune.client.search.base import Search
from hushtune.client.simulation import Simulation
from hushtune.core.arrays import FloatArray, IntArray
from hushtune.core.observer import Silent
from hushtune.core.space import Candidates, Config
from hushtune.federation.local import LocalFederation
from hushtune.methods.base import Method, Openings
from hushtune.methods.loudness import shape_of
from hushtune.privacy.accounting import Sums, Unit
from hushtune.privacy.bounds import Bound, Scores
from hushtune.privacy.calibration import calibrate
from hushtune.privacy.guarantee import Privacy
from hushtune.run.tuning import tune
from hushtune.seals.base import Seal
from hushtune.seals.oracle import ANSWERS, NONE, Mechanism, Oracle
from hushtune.testing.numbers import FromHeld, holder
from hushtune.testing.toys import SPACE
from hushtune.testing.values import expect

_PLACES = SPACE.grid(x=64)  # so many that one answer tells much: who is chosen depends on the loudest noise of many
_STEPS = 2**10  # so that noise in whole steps is nearly as good as in fractions
_TIMES = 40  # that each question is asked
_PRIVACY = 50.0, 1e-3  # little noise is told from less by fewer answers
_AHEAD = 3.5  # scales by which the best candidate's sum is larger than the others'
_ABOVE = 5.75  # scales by which the threshold is larger than theirs
_NODES = 60  # of quadratures; with 40 answers nobody sees what they leave out
_FALSE_ALARMS = 1e-8  # of each comparison
_NAMES: dict[Mechanism, str] = {
    "permute-and-flip": "permute-and-flip",
    "exponential": "the exponential mechanism",
    "geometric": "a maximum under geometric noise",
}


@register
@dataclass(frozen=True)
class Marks(FromHeld):
    """The scores that a client of these suites holds."""

    name: ClassVar[str] = "hushtune-testing-marks"
    version: ClassVar[int] = 1
    meaning: ClassVar[str] = "scores"

    @property
    def blocks(self) -> Mapping[str, int]:
        """One block: a score for each candidate."""
        return {"scores": len(_PLACES)}

    @property
    def bound(self) -> Scores:
        """For one question, asked many times."""
        return Scores(len(_PLACES), _TIMES, _STEPS, _STEPS)


@dataclass(frozen=True)
class Asks(Method):
    """Asks one question about hidden sums time and again, and decides nothing.

    Args:
        mechanism: by which the largest sum is asked for; None: whether any sum is above a threshold.
        level: the threshold, in steps of all units' mean score.
        voters: parts of a client's rows that answer for themselves.
    """

    mechanism: Mechanism | None
    level: int
    voters: int = 1
    name: ClassVar[str] = "hushtune-testing-asks"

    def bounds(self, candidates: Candidates) -> tuple[Bound, ...]:
        """One bound that covers all answers."""
        return (Marks().bound,)

    def run(self, run: Openings) -> Config:
        """The question, time and again."""
        level = Fraction(self.level, _STEPS * self.voters * run.asked)
        return run.candidates[run.consult(Marks(), lambda oracle: self._ask(oracle, level))]

    def _ask(self, oracle: Oracle, level: Fraction) -> int:
        for _ in range(_TIMES):
            if self.mechanism is None:
                oracle.above_threshold(level, range(len(_PLACES)))
            else:
                oracle.noisy_max(self.mechanism)
        return 0


def check_tests(seal: Seal, unit: Unit, clients: int, seed: int) -> None:
    """Compares how often answers about hidden sums come with the chances that the cost was computed from.

    One voter of each client gives the first candidate a good score; all else is the worst. So it is for a third of the
    clients, which fail, and for the last, whose answer breaks its bound. Every mechanism that the seal has is asked for
    the best candidate, and whether any sum is above a threshold.

    Args:
        seal: one that answers such questions.
        unit: "client", or "record": each client then has two voters.
        clients: how many, at least 3.
        seed: of the first run.
    """
    voters, failing = 2 if unit == "record" else 1, max(1, clients // 3)
    counted, privacy = clients - failing - 1, Privacy(*_PRIVACY, unit=unit)
    noise = calibrate((Marks().bound,), privacy, Sums(), seal.noise(0.0))
    mark = min(_STEPS, round(_AHEAD * noise.scale / counted))
    level = min(_STEPS * clients, round(_ABOVE * noise.scale))
    shape = float(shape_of(noise))
    for turn, mechanism in enumerate((*seal.mechanisms, None)):
        parties = _parties(clients, voters, failing, mark)
        places = _answers(Asks(mechanism, level, voters), parties, seal, privacy, seed + turn)
        ahead, above = mark * counted / noise.scale, level / noise.scale
        if mechanism is None:
            _check_count("a noisy threshold", int((places == NONE).sum()), _unreached(above - ahead, above, shape))
        else:
            _check_count(_NAMES[mechanism], int((places == 0).sum()), _wins(mechanism, ahead, shape))


def _answers(asks: Asks, parties: list[Client], seal: Seal, privacy: Privacy, seed: int) -> IntArray:
    """What a marked simulation is answered."""
    with TemporaryDirectory(prefix="hushtune-") as place:
        wire = LocalFederation(parties, Path(place), seed=seed, jobs=1)
        options: dict[str, Any] = {"method": asks, "privacy": privacy, "seal": seal, "search": Search()}
        result = tune(wire, _PLACES, **options, simulation=Simulation(seed), observer=Silent())
    missing = len(result.dropped)
    expect(not missing, f"clients that fail must be in the sums like others, but {missing} are not")
    return np.array(result.opened[0].blocks[ANSWERS])


def _parties(clients: int, voters: int, failing: int, mark: int) -> list[Client]:
    """Each with a score of every candidate for every voter, shape (clients, voters, 1, candidates) in all."""
    scores = np.zeros((clients, voters, 1, len(_PLACES)), dtype=np.int64)
    scores[:, 0, 0, 0] = mark
    scores[-1, :, 0, 0] = 2**40
    return [holder(f"client-{at}", own, at < failing) for at, own in enumerate(scores)]


def _wins(mechanism: Mechanism, ahead: float, shape: float) -> float:
    """The chance that the best of all candidates is chosen.

    Args:
        mechanism: by its name.
        ahead: by how many scales its sum is larger than the others'.
        shape: of geometric noise, in units of what the guarantee counts on.
    """
    others = len(_PLACES) - 1
    if mechanism == "exponential":
        return 1 / (1 + others * math.exp(-ahead))
    # Permute-and-flip is a noisy maximum with exponential noise (Ding et al. 2021), as fine geometric noise nearly is.
    own, chances = _gamma(1.0 if mechanism == "permute-and-flip" else shape)
    return float(chances @ gammainc(1.0 if mechanism == "permute-and-flip" else shape, own + ahead) ** others)


def _unreached(best: float, others: float, shape: float) -> float:
    """The chance that no sum reaches a threshold.

    Args:
        best: by how many scales of its noise the threshold is larger than the best candidate's sum.
        others: the same for all other sums.
        shape: of geometric noise, of which each noise is a difference, in units of what the guarantee counts on.
    """
    own, chances = _gamma(shape)
    level = own[:, None] - own
    below = _below((best + level) / 2, shape) * _below((others + level) / 2, shape) ** (len(_PLACES) - 1)
    return float(chances @ below @ chances)


def _below(x: FloatArray, shape: float) -> FloatArray:
    """The chance that the difference of two gamma variables is at most x, for every x."""
    own, chances = _gamma(shape)
    beyond: FloatArray = gammainc(shape, np.abs(x)[..., None] + own) @ chances
    return np.where(x >= 0, beyond, 1 - beyond)


def _gamma(shape: float) -> tuple[FloatArray, FloatArray]:
    """Values of a gamma variable and their chances, for integrals over it."""
    values, chances = roots_genlaguerre(_NODES, shape - 1)
    return values, chances / chances.sum()


def _check_count(what: str, count: int, chance: float) -> None:
    """How often something of that chance came."""
    tail = min(float(bdtr(count, _TIMES, chance)), float(bdtrc(count - 1, _TIMES, chance)))
    expect(
        tail >= _FALSE_ALARMS / 2,
        f"{what} must tell good scores from bad ones with chance {chance:.4g}, but did {count} times of {_TIMES}",
    )
