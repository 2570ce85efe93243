"""Whether tests of hidden sums can tell good candidates from bad ones, before any data is touched.

The candidates' mean scores are taken to be spread evenly. Tests see them under noise whose size is known, so whole runs
can be simulated.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from hushtune.client.rows import MOST_VOTERS
from hushtune.core.arrays import FloatArray, IntArray
from hushtune.core.checks import number
from hushtune.core.errors import SettingError
from hushtune.core.words import as_set, up
from hushtune.methods.loudness import drawn_noise, shape_of
from hushtune.methods.plan import Plan, Prospect
from hushtune.methods.propose_test.doubling import simulate
from hushtune.methods.propose_test.method import STEPS, NoisyMax, ProposeTest
from hushtune.privacy.events.answers import PureTests

SPREAD = 0.5
_BEST = 0.95  # the best candidate's mean score
_WORKS, _HOPELESS = 0.8, 0.4  # how much of the way from a random candidate to the best one


@dataclass(frozen=True)
class Chance:
    """One case.

    Args:
        what: the case.
        epsilon0: of one test.
        noise: Laplace scale on a threshold, in units of a mean score.
        gap: by how much the chosen candidate's score is below the best, on average.
        gain: 1 - gap / (the gap of a random candidate).
    """

    what: str
    epsilon0: float
    noise: float
    gap: float
    gain: float


@dataclass(frozen=True)
class SelectionPlan(Plan):
    """What to expect of `ProposeTest` or `NoisyMax`.

    Args:
        units: that are scored.
        spread: how far apart the best and the worst candidate's mean scores are; assumed.
        tests: T, how many tests are paid for.
        made: how many are made on average.
        nothing: how often no test is passed, so that the default is chosen.
        chance: of this case.
        instead: other cases.
    """

    units: int
    spread: float
    tests: int
    made: float
    nothing: float
    chance: Chance
    instead: tuple[Chance, ...]

    def lines(self) -> Iterator[str]:
        """Noise, how many tests are made, and what else one could do."""
        method, chance, tests = self.method, self.chance, ""
        if isinstance(method, ProposeTest):
            tests = f", g = {method.granularity:g}, u0 = {method.start:g}, at most {self.tests} tests"
        yield self.terms(f"{method.name}, {self.units} units, {self.candidates} candidates{tests}")
        yield (
            f"One test has epsilon {up(chance.epsilon0)}: noise of scale {chance.noise:.3g} on mean scores from "
            f"{_BEST - self.spread:.2g} to {_BEST:g}"
        )
        if tests:
            yield f"Simulated runs make {self.made:.1f} tests on average; {self.nothing:.1%} choose nothing"
        yield "What else you could do:"
        for other in self.instead:
            below = f"below the best {other.gap:.3f}   gain {other.gain:4.0%}"
            yield f"  {other.what:28} noise {other.noise:8.3g}   {below}"


@dataclass(frozen=True)
class Selection:
    """Tests of hidden sums to look at.

    Args:
        prospect: the run.
        spread: how far apart the best and the worst candidate's mean scores are taken to be.
    """

    prospect: Prospect
    spread: float

    @property
    def method(self) -> ProposeTest | NoisyMax:
        """Settled: its units are known."""
        assert isinstance(self.prospect.study.method, ProposeTest | NoisyMax)
        return self.prospect.study.method

    @property
    def event(self) -> PureTests:
        """What all its tests cost together."""
        (event,) = self.prospect.events
        assert isinstance(event, PureTests)
        return event

    @property
    def scores(self) -> FloatArray:
        """The candidates' mean scores, spread evenly."""
        return np.linspace(_BEST - self.spread, _BEST, len(self.prospect.candidates))

    @property
    def units(self) -> int:
        """Units that the noise is measured by: fewer than there are, if rows to score on are protected and few."""
        assert self.method.units is not None
        return max(1, self.method.units * STEPS // self.method.sensitivity(self.method.units))

    @property
    def noise(self) -> float:
        """Its scale, in units of a mean score; 0, if nothing is to be told apart."""
        assert self.method.units is not None
        apart = self.event.epsilon * self.prospect.noise.scale / self.method.sensitivity(self.method.units)  # 2, or 1
        return apart / (self.units * self.event.epsilon) if apart else 0.0

    @cached_property
    def simulated(self) -> tuple[IntArray, IntArray]:
        """What simulated runs choose (-1: nothing), and how many tests they make, both of shape (runs,)."""
        method, scores, noise = self.method, self.scores, self.prospect.noise
        runs, seed = self.prospect.repetitions, self.prospect.seed
        if isinstance(method, ProposeTest):
            assert method.tests is not None
            shape, settings = float(shape_of(noise)), (method.granularity, method.start, method.tests, runs, seed)
            return simulate(scores, self.units, self.event.epsilon, *settings, shape=shape)
        assert method.mechanism is not None
        size, unit = (runs, len(scores)), self.noise / noise.scale if noise.scale else 0.0
        drawn = unit * drawn_noise(method.mechanism, noise, size, np.random.default_rng(seed))
        return (scores + drawn).argmax(axis=1), np.ones(runs, dtype=np.int64)

    def chance(self, what: str) -> Chance:
        """This case in short.

        Args:
            what: the case, in words.
        """
        (chosen, _), method, scores = self.simulated, self.method, self.scores
        default = method.default if isinstance(method, ProposeTest) else 0
        gap = float(_BEST - scores[np.where(chosen < 0, default, chosen)].mean())
        return Chance(what, self.event.epsilon, self.noise, gap, 1 - gap / float(_BEST - scores.mean()))


def expect_selection(prospect: Prospect) -> SelectionPlan:
    """What `plan` says about `ProposeTest` and `NoisyMax`."""
    spread = number("spread", prospect.assumed(spread=SPREAD)["spread"], 0, 0.95, "(]")
    selection = Selection(prospect, spread)
    chance, (chosen, made) = selection.chance("as planned"), selection.simulated
    assert selection.method.units is not None
    return SelectionPlan(
        _verdict(chance),
        **prospect.common(),
        units=selection.method.units,
        spread=spread,
        tests=selection.event.times,
        made=float(made.mean()),
        nothing=float((chosen < 0).mean()),
        chance=chance,
        instead=tuple(_instead(selection)),
    )


def _instead(selection: Selection) -> list[Chance]:
    """What else one could do."""
    prospect, found = selection.prospect, []
    method, privacy = prospect.study.given, prospect.privacy
    assert isinstance(method, ProposeTest | NoisyMax)

    def other(what: str, **changes: Any) -> None:
        with suppress(SettingError):  # an alternative that is not possible is not one
            found.append(replace(selection, prospect=prospect.changed(**changes)).chance(what))

    for times in (5, 25):
        if privacy.unit == "record" and method.voters * times <= MOST_VOTERS:
            other(f"{method.voters * times} voters per client", method=replace(method, voters=method.voters * times))
        elif privacy.unit == "client":
            other(f"{prospect.clients * times} clients", clients=prospect.clients * times)
    if isinstance(method, ProposeTest):
        for granularity in (0.02, 0.05, 0.1, 0.2):
            if granularity != method.granularity:
                other(f"granularity {granularity:g}", method=replace(method, granularity=granularity))
        other("NoisyMax instead", method=NoisyMax(method.voters, validation=method.validation, losses=method.losses))
    if (doubled := prospect.doubled()) is not None:
        other(f"epsilon {as_set(doubled.epsilon)}", privacy=doubled)
    return found


def _verdict(chance: Chance) -> str:
    said = (
        f"the choice is on average {chance.gap:.3f} below the best candidate, {chance.gain:.0%} of the way from a "
        "random one"
    )
    if chance.gain >= _WORKS:
        return f"Likely to work: {said}."
    if chance.gain > _HOPELESS:
        return f"May work: {said}."
    return f"HOPELESS: {said}. The noise drowns the scores: more units, a larger epsilon or a coarser granularity."
