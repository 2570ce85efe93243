"""Whether agents that share by `Thompson` can hear each other through the noise, before any data is touched.

What is opened is signal plus noise. The signal is the weighted mean of the agents' clipped vectors: `agreement` times
as long as a single one may be. The noise's length is known. What tells how much of the signal is left is the cosine
between the vectors that agents follow and the same vectors without noise.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

from hushtune.methods.plan import Books, Setting
from hushtune.methods.thompson.method import STEPS, Thompson
from hushtune.methods.thompson.regions import Weights, attention
from hushtune.privacy.accounting import renyi_epsilon
from hushtune.privacy.calibration import calibrate, plan_of
from hushtune.privacy.guarantee import Privacy

AGREEMENT = 0.6
HEARD, LOST = 0.65, 0.3  # cosines: from here on sharing helped, and below it did not, in `hushtune bench fts`
_MOST = 10_000_000  # clients


@dataclass(frozen=True)
class Hearing:
    """One setting.

    Args:
        what: the setting.
        multiplier: standard deviation of the noise, in units of one agent's largest contribution.
        cosine: between the vectors that agents follow in the last round and the same without noise.
    """

    what: str
    multiplier: float
    cosine: float


@dataclass(frozen=True)
class SharingPlan:
    """What to expect of a run of `Thompson`.

    Args:
        clients: asked.
        candidates: of the final vote.
        method: its settings, all of them filled in.
        privacy: the guarantee.
        seal: name and numbers.
        agreement: how long the mean of the agents' vectors is, where a single one may be 1; assumed. Posterior means
            of nearly equal objectives had .8, of very different ones .3, samples of the posterior .3.
        multiplier: standard deviation of the noise, in units of one agent's largest contribution.
        first: cosine between the first opened vectors and the same without noise.
        last: the same for the vectors that agents follow in the last round.
        enough: from how many clients on agents hear each other at the same epsilon and delta; None beyond 10 million.
        instead: other settings.
        charge: what the run alone costs, and the rule that it is stated under; `renyi` is the figure beside it.
        ledger: the ledger before and after the run, if one was given.
        verdict: all this in a sentence.
    """

    clients: int
    candidates: int
    method: dict[str, Any]
    privacy: Privacy
    seal: dict[str, Any]
    agreement: float
    multiplier: float
    first: float
    last: float
    enough: int | None
    instead: tuple[Hearing, ...]
    charge: dict[str, Any]
    ledger: dict[str, Any] | None
    verdict: str

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


@dataclass(frozen=True)
class Sharing(Setting[Thompson]):
    """Agents who would share, and how far they agree."""

    agreement: float

    def multiplier(self) -> float:
        """Standard deviation of the noise, in units of one agent's largest contribution."""
        bounds = self.settled().bounds(self.candidates)
        return calibrate(bounds, self.privacy, self.rule, self.seal.noise_at).scale / STEPS

    def cosine(self, multiplier: float, iteration: int) -> float:
        """Of what agents follow in an iteration: the mean of all vectors so far, or the last ones."""
        method = self.settled()
        assert method.regions is not None
        weights = Weights(self.clients, method.regions, attention(iteration))
        more = math.sqrt(self.clients / self.seal.honest(self.clients)) if self.seal.noise_at == "parties" else 1.0
        noise = multiplier * more * weights.largest * math.sqrt(method.regions * method.features) / method.rate
        noise /= math.sqrt(iteration) if method.uses == "mean" else 1.0
        signal = self.agreement * math.sqrt(method.regions)
        return signal / math.hypot(signal, noise)

    def last(self, multiplier: float) -> float:
        """In the last round; 0 if nothing is shared."""
        rounds = self.settled().rounds
        return self.cosine(multiplier, rounds) if rounds else 0.0

    def enough(self, multiplier: float) -> int | None:
        """The fewest clients that hear each other with the same noise multiplier."""
        low = high = max(4, self.settled().regions or 1)
        while replace(self, clients=high).last(multiplier) < HEARD:
            low, high = high, 2 * high
            if high > _MOST:
                return None
        while high - low > max(1, low // 50):
            middle = (low + high) // 2
            low, high = (middle, high) if replace(self, clients=middle).last(multiplier) < HEARD else (low, middle)
        return high

    def heard(self, what: str) -> Hearing:
        """This setting in short."""
        multiplier = self.multiplier()
        return Hearing(what, multiplier, self.last(multiplier))


def expect_sharing(sharing: Sharing, books: Books) -> SharingPlan:
    """What `plan` says about `Thompson`; `books` looks the events up in a ledger."""
    method, privacy = sharing.settled(), sharing.privacy
    sharing.seal.check(sharing.clients)
    multiplier = sharing.multiplier()
    noise = sharing.seal.noise(multiplier * STEPS)
    events = plan_of(method.bounds(sharing.candidates), privacy, noise)
    last = sharing.last(multiplier)
    return SharingPlan(
        clients=sharing.clients,
        candidates=len(sharing.candidates),
        method=method.to_json(),
        privacy=privacy,
        seal=sharing.seal.to_json(),
        agreement=sharing.agreement,
        multiplier=multiplier,
        first=sharing.cosine(multiplier, 1) if method.rounds else 0.0,
        last=last,
        enough=replace(sharing, method=method).enough(multiplier) if method.rounds else None,
        instead=tuple(_instead(sharing)),
        charge={**sharing.charge(events), "renyi": renyi_epsilon(events, privacy.delta)},
        ledger=books(events),
        verdict=_verdict(sharing, last),
    )


def _instead(sharing: Sharing) -> list[Hearing]:
    """What else one could do."""
    method, privacy = sharing.method, sharing.privacy
    found = [replace(sharing, clients=5 * sharing.clients).heard(f"{5 * sharing.clients} clients")]
    if (doubled := sharing.doubled()) is not None:
        found.append(replace(sharing, privacy=doubled).heard(f"epsilon {doubled.epsilon:g}"))
    if method.rate < 1:
        found.append(replace(sharing, method=replace(method, rate=1.0)).heard("rate 1: nobody is left out"))
    elif privacy.neighbours == "zero-out":
        found.append(replace(sharing, method=replace(method, rate=0.25)).heard("rate 0.25"))
    if method.features > 20:
        found.append(replace(sharing, method=replace(method, features=20)).heard("20 features"))
    if (sharing.settled().rounds or 0) > 5:
        found.append(replace(sharing, method=replace(method, rounds=5)).heard("5 rounds"))
    return found


def _verdict(sharing: Sharing, cosine: float) -> str:
    if not sharing.settled().rounds:
        return "Nothing is shared: agents tune alone, and only the final vote costs privacy."
    said = f"of what agents follow in the end, a share of {cosine:.2f} (cosine) is signal"
    if cosine >= HEARD:
        return f"Likely to help, if agents' objectives are alike: {said}."
    if cosine > LOST:
        return f"May help a little: {said}."
    return f"HOPELESS: {said}, the rest is noise. Agents do as well alone (rounds=0), for less epsilon."
