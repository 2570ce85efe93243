"""Whether a trusted curator's tests can tell good candidates from bad ones, before any data is touched.

The candidates' mean scores are taken to be spread evenly. Tests see them under noise whose size is known, so whole runs
can be simulated.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from hushtune.client.rows import MOST_VOTERS
from hushtune.core.arrays import FloatArray, IntArray
from hushtune.core.errors import SettingError
from hushtune.methods.plan import Books, Setting
from hushtune.methods.propose_test.doubling import simulate
from hushtune.methods.propose_test.method import STEPS, NoisyMax, ProposeTest
from hushtune.privacy.calibration import calibrate, plan_of
from hushtune.privacy.events.steps import PureTests
from hushtune.privacy.guarantee import Privacy

SPREAD = 0.5
_BEST = 0.95  # the best candidate's mean score
_WORKS, _HOPELESS = 0.8, 0.4  # how much of the way from a random candidate to the best one


@dataclass(frozen=True)
class Chance:
    """One setting.

    Args:
        what: the setting.
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
class ChoicePlan:
    """What to expect of `ProposeTest` or `NoisyMax`.

    Args:
        units: that are scored.
        candidates: how many.
        method: its settings, all of them filled in.
        privacy: the guarantee.
        spread: how far apart the best and the worst candidate's mean scores are; assumed.
        tests: T, how many tests are paid for.
        made: how many are made on average.
        nothing: how often no test is passed, so that the default is chosen.
        chance: of this setting.
        instead: other settings.
        charge: what the run alone costs, and the rule that it is stated under.
        ledger: the ledger before and after the run, if one was given.
        verdict: all this in a sentence.
    """

    units: int
    candidates: int
    method: dict[str, Any]
    privacy: Privacy
    spread: float
    tests: int
    made: float
    nothing: float
    chance: Chance
    instead: tuple[Chance, ...]
    charge: dict[str, Any]
    ledger: dict[str, Any] | None
    verdict: str

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


@dataclass(frozen=True)
class Choice(Setting[ProposeTest | NoisyMax]):
    """A trusted curator's tests to look at: how far scores are apart, and how often they are simulated."""

    spread: float
    runs: int
    seed: int

    def events(self) -> tuple[PureTests, ...]:
        """What it costs."""
        bounds = self.settled().bounds(self.candidates)
        noise = calibrate(bounds, self.privacy, self.rule, self.seal.noise_at)
        (event,) = plan_of(bounds, self.privacy, noise)
        assert isinstance(event, PureTests)
        return (event,)

    def scores(self) -> FloatArray:
        """The candidates' mean scores, spread evenly."""
        return np.linspace(_BEST - self.spread, _BEST, len(self.candidates))

    def simulated(self) -> tuple[IntArray, IntArray]:
        """What simulated runs choose (-1: nothing), and how many tests they make, both of shape (runs,)."""
        method, (event,), scores = self.settled(), self.events(), self.scores()
        units = _effective(method)
        if isinstance(method, ProposeTest):
            assert method.tests is not None
            return simulate(
                scores, units, event.epsilon, method.granularity, method.start, method.tests, self.runs, self.seed
            )
        rng = np.random.default_rng(self.seed)
        scale = 2 / (units * event.epsilon)
        # Permute-and-flip is a noisy maximum with exponential noise (Ding et al. 2021), the other with Gumbel noise.
        draw = rng.exponential if method.mechanism == "permute-and-flip" else rng.gumbel
        noise = draw(scale=scale, size=(self.runs, len(scores)))
        return (scores + noise).argmax(axis=1), np.ones(self.runs, dtype=np.int64)

    def chance(self, what: str) -> Chance:
        """This setting in short."""
        chosen, _ = self.simulated()
        method, scores = self.settled(), self.scores()
        default = method.default if isinstance(method, ProposeTest) else 0
        found = scores[np.where(chosen < 0, default, chosen)]
        gap = float(_BEST - found.mean())
        (event,) = self.events()
        noise = 2 / (_effective(method) * event.epsilon)
        return Chance(what, event.epsilon, noise, gap, 1 - gap / float(_BEST - scores.mean()))


def _effective(method: ProposeTest | NoisyMax) -> int:
    """Units that the noise is measured by: fewer than there are, if rows to score on are protected and few."""
    assert method.units is not None
    return max(1, method.units * STEPS // method.sensitivity(method.units))


def expect_choice(choice: Choice, books: Books) -> ChoicePlan:
    """What `plan` says about `ProposeTest` and `NoisyMax`; `books` looks the events up in a ledger."""
    method, events = choice.settled(), choice.events()
    choice.seal.check(choice.clients)
    chosen, made = choice.simulated()
    chance = choice.chance("as planned")
    assert method.units is not None
    return ChoicePlan(
        units=method.units,
        candidates=len(choice.candidates),
        method=method.to_json(),
        privacy=choice.privacy,
        spread=choice.spread,
        tests=events[0].times,
        made=float(made.mean()),
        nothing=float((chosen < 0).mean()),
        chance=chance,
        instead=tuple(_instead(choice)),
        charge=choice.charge(events),
        ledger=books(events),
        verdict=_verdict(chance),
    )


def _instead(choice: Choice) -> list[Chance]:
    """What else one could do."""
    method, privacy, found = choice.method, choice.privacy, []

    def other(what: str, **changes: Any) -> None:
        with suppress(SettingError):  # an alternative that is not possible is not one
            found.append(replace(choice, **changes).chance(what))

    for times in (5, 25):
        if privacy.unit == "record" and method.voters * times <= MOST_VOTERS:
            other(f"{method.voters * times} voters per client", method=replace(method, voters=method.voters * times))
        elif privacy.unit == "client":
            other(f"{choice.clients * times} clients", clients=choice.clients * times)
    if isinstance(method, ProposeTest):
        for granularity in (0.02, 0.05, 0.1, 0.2):
            if granularity != method.granularity:
                other(f"granularity {granularity:g}", method=replace(method, granularity=granularity))
        other("NoisyMax instead", method=NoisyMax(method.voters, validation=method.validation, losses=method.losses))
    if (doubled := choice.doubled()) is not None:
        other(f"epsilon {doubled.epsilon:g}", privacy=doubled)
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
