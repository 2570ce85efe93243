"""Whether agents that share by `Thompson` can hear each other through the noise, before any data is touched.

What is opened is signal plus noise. The signal is the weighted mean of the agents' clipped vectors: `agreement` times
as long as a single one may be. The noise's length is known. What tells how much of the signal is left is the cosine
between the vectors that agents follow and the same vectors without noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from hushtune.core.checks import number
from hushtune.core.words import as_set, counted
from hushtune.methods.plan import Plan, Prospect
from hushtune.methods.thompson.method import STEPS, Thompson
from hushtune.methods.thompson.regions import Emphasis, attention
from hushtune.privacy.accounting import renyi_epsilon

AGREEMENT = 0.6
HEARD, LOST = 0.65, 0.3  # cosines: from here on sharing helped, and below it did not, in `python -m experiments fts`
_MOST = 10_000_000  # clients


@dataclass(frozen=True)
class Hearing:
    """One case.

    Args:
        what: the case.
        multiplier: standard deviation of the noise, in units of one agent's largest contribution.
        cosine: between the vectors that agents follow in the last round and the same without noise.
    """

    what: str
    multiplier: float
    cosine: float


@dataclass(frozen=True)
class ThompsonPlan(Plan):
    """What to expect of a run of `Thompson`; `charge` has the cost by Rényi divergences beside it.

    Args:
        agreement: how long the mean of the agents' vectors is, where a single one may be 1; assumed. Posterior means
            of nearly equal objectives had .8, of very different ones .3, samples of the posterior .3.
        multiplier: standard deviation of the noise, in units of one agent's largest contribution.
        first: cosine between the first opened vectors and the same without noise.
        last: the same for the vectors that agents follow in the last round.
        enough: from how many clients on agents hear each other at the same epsilon and delta; None beyond 10 million.
        instead: other cases.
    """

    agreement: float
    multiplier: float
    first: float
    last: float
    enough: int | None
    instead: tuple[Hearing, ...]

    def lines(self) -> Iterator[str]:
        """Noise, how much of the signal is left, and what else one could do."""
        method = self.method
        assert isinstance(method, Thompson)
        yield self.terms(
            f"{counted(self.clients, 'client')}, {method.rounds} openings in {method.iterations} iterations, "
            f"P = {method.regions}, {method.features} features, rate {method.rate:g}"
        )
        yield f"Noise: {self.multiplier:.2f} times the largest that one agent contributes, on every entry"
        yield (
            f"Signal left (cosine), if the mean of the agents' vectors is {self.agreement:g} as long as one may be:\n"
            f"  after the first opening {self.first:.3f}   in the end {self.last:.3f}"
        )
        if self.enough is not None:
            yield f"Agents hear each other (cosine {HEARD:g}) from about {self.enough:,} clients on, at the same noise"
        yield "What else you could do:"
        for other in self.instead:
            yield f"  {other.what:38} noise {other.multiplier:8.2f}   signal left {other.cosine:.3f}"


@dataclass(frozen=True)
class Sharing:
    """Agents who would share, and how far they agree.

    Args:
        prospect: the run.
        agreement: how long the mean of their vectors is, where a single one may be 1.
    """

    prospect: Prospect
    agreement: float

    @property
    def method(self) -> Thompson:
        """Settled: its rounds and regions are known."""
        assert isinstance(self.prospect.study.method, Thompson)
        return self.prospect.study.method

    @property
    def multiplier(self) -> float:
        """Standard deviation of the noise, in units of one agent's largest contribution."""
        return self.prospect.noise.scale / STEPS

    def cosine(self, multiplier: float, iteration: int) -> float:
        """Of what agents follow in an iteration: the mean of all vectors so far, or the last ones."""
        method, clients, seal = self.method, self.prospect.clients, self.prospect.seal
        assert method.regions is not None
        attended = Emphasis(clients, method.regions, attention(iteration))
        more = math.sqrt(seal.noise(1.0).opened_variance(seal.honest(clients), clients))
        noise = multiplier * more * attended.largest * math.sqrt(method.regions * method.features) / method.rate
        noise /= math.sqrt(iteration) if method.uses == "mean" else 1.0
        signal = self.agreement * math.sqrt(method.regions)
        return signal / math.hypot(signal, noise)

    def last(self, multiplier: float) -> float:
        """In the last round; 0 if nothing is shared."""
        rounds = self.method.rounds
        return self.cosine(multiplier, rounds) if rounds else 0.0

    def enough(self, multiplier: float) -> int | None:
        """The fewest clients that hear each other with the same noise multiplier, in as many rounds."""
        low = high = max(4, self.method.regions or 1)
        while self._with(high).last(multiplier) < HEARD:
            low, high = high, 2 * high
            if high > _MOST:
                return None
        while high - low > max(1, low // 50):
            middle = (low + high) // 2
            low, high = (middle, high) if self._with(middle).last(multiplier) < HEARD else (low, middle)
        return high

    def _with(self, clients: int) -> Sharing:
        return replace(self, prospect=self.prospect.changed(clients=clients, method=self.method))

    def heard(self, what: str, **changes: Any) -> Hearing:
        """Another case in short.

        Args:
            what: the case, in words.
            changes: what `Prospect.changed` takes.
        """
        other = replace(self, prospect=self.prospect.changed(**changes))
        return Hearing(what, other.multiplier, other.last(other.multiplier))


def expect_sharing(prospect: Prospect) -> ThompsonPlan:
    """What `plan` says about `Thompson`."""
    agreement = number("agreement", prospect.assumed(agreement=AGREEMENT)["agreement"], 0, 1, "(]")
    sharing = Sharing(prospect, agreement)
    multiplier, rounds = sharing.multiplier, sharing.method.rounds
    last = sharing.last(multiplier)
    common = prospect.common()
    common["charge"]["renyi"] = renyi_epsilon(prospect.events, prospect.privacy.delta)
    return ThompsonPlan(
        _verdict(sharing, last),
        **common,
        agreement=agreement,
        multiplier=multiplier,
        first=sharing.cosine(multiplier, 1) if rounds else 0.0,
        last=last,
        enough=sharing.enough(multiplier) if rounds else None,
        instead=tuple(_instead(sharing)),
    )


def _instead(sharing: Sharing) -> list[Hearing]:
    """What else one could do."""
    prospect = sharing.prospect
    method = prospect.study.given
    assert isinstance(method, Thompson)
    found = [sharing.heard(f"{5 * prospect.clients} clients", clients=5 * prospect.clients)]
    if (doubled := prospect.doubled()) is not None:
        found.append(sharing.heard(f"epsilon {as_set(doubled.epsilon)}", privacy=doubled))
    if method.rate < 1:
        found.append(sharing.heard("rate 1: nobody is left out", method=replace(method, rate=1.0)))
    elif prospect.privacy.neighbours == "zero-out":
        found.append(sharing.heard("rate 0.25", method=replace(method, rate=0.25)))
    if method.features > 20:
        found.append(sharing.heard("20 features", method=replace(method, features=20)))
    if (sharing.method.rounds or 0) > 5:
        found.append(sharing.heard("5 rounds", method=replace(method, rounds=5)))
    return found


def _verdict(sharing: Sharing, cosine: float) -> str:
    if not sharing.method.rounds:
        return "Nothing is shared: agents tune alone, and only the final vote costs privacy."
    said = f"of what agents follow in the end, a share of {cosine:.2f} (cosine) is signal"
    if cosine >= HEARD:
        return f"Likely to help, if agents' objectives are alike: {said}."
    if cosine > LOST:
        return f"May help a little: {said}."
    return f"HOPELESS: {said}, the rest is noise. Agents do as well alone (rounds=0), for less epsilon."
