"""DP-FTS-DE: agents tune for themselves, and share in every iteration a noisy sum of what their models have learned."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from hushtune.client.party import Party
from hushtune.client.query import Query, register
from hushtune.core.arrays import FloatArray
from hushtune.core.checks import integer, kind, number
from hushtune.core.errors import SettingError
from hushtune.core.space import Candidates, Config, Space
from hushtune.methods.base import Facts, Method, Openings
from hushtune.methods.contributions import loss_range
from hushtune.methods.decode import argmax, smooth
from hushtune.methods.figures import Figure, Told
from hushtune.methods.thompson.agents import Draws, centred, own_mean, shortened, weights
from hushtune.methods.thompson.exploration import (
    MOST_FEATURES,
    MOST_ITERATIONS,
    Explorers,
    generator,
    own_model,
    surface,
)
from hushtune.methods.thompson.figures import figures_of
from hushtune.methods.thompson.regions import MOST_REGIONS, Emphasis, attention
from hushtune.privacy.accounting import Budget, Sums, epsilon_of
from hushtune.privacy.bounds import Ball, Bound
from hushtune.privacy.calibration import calibrate, events_of
from hushtune.privacy.guarantee import DELTA_RANGE, EPSILON_RANGE, Privacy
from hushtune.privacy.noise.base import Noise
from hushtune.seals.base import Seal

if TYPE_CHECKING:
    from hushtune.methods.plan import Plan, Prospect

SHORTEST = 1e-9  # norm
STEPS = 1_024  # of the integer grid: the norm of an agent's vector
_REGIONS = 4
_POINTS = 1_000  # of a space, if no candidates are given
_BALLOT_NORM = 2 * STEPS
_BALLOT_SHARE = 0.05  # of the candidates that an agent votes for
_SENDS = ("mean", "sample")
_USES = ("mean", "last")
_FINALS = ("vote", "surface")
_CENTRES = ("own", "none")


def _among(name: str, value: Any, known: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in known:
        raise SettingError(f"{name} must be one of {list(known)}, but got {value!r}")


@register
@dataclass(frozen=True)
class AgentVectors(Explorers, Query):
    """The weights of an agent's model, clipped, and weighted for every sub-region's vector.

    Args:
        variance: lambda, of the shared model.
        norm: S; weights are clipped to S / sqrt(P). None: they are scaled to length 1 / sqrt(P).
        rate: q, the chance that an agent's vector is in the sum.
        sends: a "sample" of the posterior over weights, or its "mean".
        centre: "own": values count relative to the agent's own mean; "none": as they are.
    """

    variance: float
    norm: float | None
    rate: float
    sends: Literal["mean", "sample"]
    centre: Literal["own", "none"]
    name: ClassVar[str] = "agent-vectors"
    version: ClassVar[int] = 1
    meaning: ClassVar[str] = "weights of the agents' models, one vector per sub-region"
    per_candidate: ClassVar[bool] = False
    broadcast: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        number("variance", self.variance, 1e-9, 1e9)
        if self.norm is not None:
            number("norm", self.norm, SHORTEST, 1e9)
        number("rate", self.rate, 0, 1, "(]")
        _among("sends", self.sends, _SENDS)
        _among("centre", self.centre, _CENTRES)

    @property
    def blocks(self) -> Mapping[str, int]:
        """One vector per sub-region."""
        return {"vectors": self.regions * self.features}

    @property
    def bound(self) -> Ball:
        """One norm for all agents and iterations: the largest that emphasis and clipping leave becomes that."""
        return Ball(STEPS, self.regions * self.features, self.rate)

    def step(self, agents: int) -> float:
        """What one step of the integer grid stands for, with so many agents in the roster."""
        within = (1.0 if self.norm is None else self.norm) / math.sqrt(self.regions)
        return self._emphasis(agents).largest * within / STEPS

    def _emphasis(self, agents: int) -> Emphasis:
        return Emphasis(agents, self.regions, attention(self.number + 1))

    def answer(self, party: Party) -> Any:
        """Rounded towards zero, which keeps the norm within its bound."""
        number, agents = party.place
        points, values = self.observed(self.trials(party))
        draws = None
        if self.sends == "sample":
            rng = generator(party.randomness)
            draws = Draws(rng.normal(size=(1, self.features)), rng.normal(size=(1, len(values))))
        seen = centred(values[None]) if self.centre == "own" else values[None]
        found = weights(self.phi(points)[None], seen, np.array([self.variance]), draws)
        within = shortened(found, self.norm, self.regions)[0]
        own = self._emphasis(agents).table()[number % self.regions]
        return np.trunc(np.outer(own, within).ravel() / self.step(agents) * (1 - 1e-12)).astype(np.int64)


@register
@dataclass(frozen=True)
class AgentVotes(Explorers, Query):
    """Equal votes for the candidates that an agent's own model expects the most of.

    Args:
        k: how many.
    """

    k: int
    name: ClassVar[str] = "agent-votes"
    version: ClassVar[int] = 1
    meaning: ClassVar[str] = "votes by the agents' own models, one entry per candidate"

    def __post_init__(self) -> None:
        super().__post_init__()
        integer("k", self.k, 1, len(self.candidates))

    @property
    def blocks(self) -> Mapping[str, int]:
        """One entry per candidate."""
        return {"votes": len(self.candidates)}

    @property
    def bound(self) -> Ball:
        """Whatever k, the same norm."""
        return Ball(_BALLOT_NORM, len(self.candidates))

    @property
    def vote(self) -> int:
        """Steps of the integer grid for one vote."""
        return int(_BALLOT_NORM / math.sqrt(self.k))

    def answer(self, party: Party) -> Any:
        """By the posterior mean of the agent's own model, at the public candidates; its own log gets its best trial."""
        trials = self.trials(party)
        points, values = self.observed(trials)
        config, loss = min((trial for trial in trials if np.isfinite(trial[1])), key=lambda trial: trial[1])
        party.log(f"the best of {len(trials)} trials of its own: {config}, loss {loss:g}")
        fit = own_model(points[None], values[None])
        expected = own_mean(self.candidates.encoded, points[None], values[None], fit)[0]
        ballot = np.zeros(len(self.candidates), dtype=np.int64)
        ballot[np.argsort(-expected, kind="stable")[: self.k]] = self.vote
        return ballot


@dataclass(frozen=True)
class Thompson(Method):
    """DP-FTS-DE (Dai, Low, Jaillet 2021), Algorithms 1 and 2; by default with posterior means, see below.

    Every agent tunes for itself. In iteration t it follows with chance t^-decay what all agents' models say together,
    and otherwise a sample of its own model. Its trials stay with it; a final vote over the public candidates agrees on
    one config.

    As published: `Thompson(iterations=60, regions=4, features=100, norm=22, rate=0.35, variance=1e-6, negligible=1/60,
    sends="sample", centre="none", final="surface")`. Without sub-regions, `regions=1`, it is DP-FTS; without privacy
    FTS and FTS-DE; with `rounds=0` agents share nothing, which is standard Thompson sampling.

    Privacy: unit "client". Neighbours "zero-out", as published: one agent's vectors become zeros while everybody knows
    the roster; with `rate=1` also "replace-one", at twice the sensitivity. Every opening is one noisy sum of vectors of
    one L2 norm, each agent's in it with chance `rate` by a secret coin of its own. Under `Curator` the loss is that of
    the Poisson-subsampled Gaussian mechanism, composed over all openings as a privacy loss distribution; otherwise by
    Rényi divergences of Skellam noise (Agarwal, Kairouz, Liu 2021), sampled (Mironov, Talwar, Zhang 2019, Theorem 5).
    The final vote is one more sum, with everybody in it. An agent's own trials, and what it does with its own best
    config, are not covered.

    Args:
        iterations: T, trials of each agent after its initial ones; with final="surface" those up to the last opening.
        rounds: iterations in which a sum is opened. Default: until t^-decay falls below `negligible`; with
            `multiplier`, also no more than epsilon allows; if the ledger has less left, no more than that allows at
            noise no louder. Afterwards agents go on alone, at no cost.
        regions: P, sub-regions that agents begin in. Default: 1 with epsilon, because every one has noise of its own;
            without 4, if there are so many agents.
        initial: points that each agent begins with.
        features: M, of the shared model.
        lengthscale: of the shared model, where a knob's range is 1.
        variance: lambda, the noise variance of the shared model, whose values are from 0 to 1.
        norm: S; an agent's weights are clipped to S / sqrt(P). Default: they are scaled to one length, the same for
            all, so that there is no S to choose.
        rate: q, in (0, 1], the chance that an agent's vector is in a sum. At equal epsilon 1 has the least noise.
        multiplier: limits the rounds to what epsilon allows if the noise's standard deviation is so many times an
            agent's largest contribution (z in the paper). The noise is then what epsilon takes for so many.
        decay: 1 - p_t = t^-decay, from 0 to 10.
        negligible: the chance, from 0 to 1, below which following the others is not worth an opening.
        sends: the "mean" of an agent's posterior over weights, or a "sample" of it, as published.
        uses: the "mean" of all vectors opened so far, or the "last", as published.
        centre: whether an agent's values count relative to its "own" mean in the shared model, or as they are: "none".
            Default: "own" with one sub-region; with several, "none", so that sub-regions can be compared.
        final: "vote", a private vote over the public candidates by the agents' own models; or "surface", the best
            candidate by the opened vectors, which costs nothing more.
        losses: the smallest and the largest loss; others are clipped.
        refine: whether agents look around the best candidate in the space too. Default: if a space is given.
    """

    iterations: int = 30
    rounds: int | None = None
    regions: int | None = None
    initial: int = 10
    features: int = 50
    lengthscale: float = 0.2
    variance: float = 0.1
    norm: float | None = None
    rate: float = 1.0
    multiplier: float | None = None
    decay: float = 1.0
    negligible: float = 0.1
    sends: Literal["mean", "sample"] = "mean"
    uses: Literal["mean", "last"] = "last"
    centre: Literal["own", "none"] | None = None
    final: Literal["vote", "surface"] = "vote"
    losses: tuple[float, float] = (0.0, 1.0)
    refine: bool | None = None
    name: ClassVar[str] = "thompson"

    def __post_init__(self) -> None:
        integer("iterations", self.iterations, 1, MOST_ITERATIONS)
        if self.rounds is not None:
            integer("rounds", self.rounds, 0, self.iterations)
        if self.regions is not None:
            integer("regions", self.regions, 1, MOST_REGIONS)
        integer("initial", self.initial, 1, MOST_ITERATIONS)
        integer("features", self.features, 1, MOST_FEATURES)
        number("lengthscale", self.lengthscale, 1e-3, 1e3)
        number("variance", self.variance, 1e-9, 1e9)
        if self.norm is not None:
            number("norm", self.norm, SHORTEST, 1e9)
        number("rate", self.rate, 0, 1, "(]")
        if self.multiplier is not None:
            number("multiplier", self.multiplier, 0, 1e6, "(]")
        number("decay", self.decay, 0, 10)
        number("negligible", self.negligible, 0, 1)
        kind("refine", self.refine, bool)
        object.__setattr__(self, "losses", loss_range(self.losses))
        for field, known in (("sends", _SENDS), ("uses", _USES), ("final", _FINALS)):
            _among(field, getattr(self, field), known)
        if self.centre is not None:
            _among("centre", self.centre, _CENTRES)

    def listed(self, given: Any, privacy: Privacy | None, seal: Seal) -> Candidates:
        """The candidates given, or some points of the space given."""
        return given.sample(_POINTS) if isinstance(given, Space) else super().listed(given, privacy, seal)

    def settled(self, facts: Facts) -> Thompson:
        """With its sub-regions and rounds, which follow from the number of agents and the guarantee."""
        if len(facts.candidates) < 2:
            raise SettingError("Thompson sampling needs a domain of at least 2 points, but got 1")
        if facts.privacy is not None and facts.privacy.unit == "record":
            raise SettingError("an agent shares what all its data taught it: use unit='client', but got unit='record'")
        if facts.privacy is not None and self.rate < 1 and facts.privacy.neighbours != "zero-out":
            raise SettingError(
                f"sampling agents (rate={self.rate:g}) needs privacy with neighbours='zero-out', but got "
                f"'{facts.privacy.neighbours}'; or use rate=1"
            )
        regions = self.regions or (1 if facts.privacy is not None or facts.clients < _REGIONS else _REGIONS)
        if facts.clients < regions:
            raise SettingError(f"every sub-region needs an agent, but got {facts.clients} clients, regions={regions}")
        if self.multiplier is not None and facts.privacy is None:
            raise SettingError(f"multiplier={self.multiplier:g} needs privacy: without, there is no noise")
        refine = self.refine if self.refine is not None else facts.whole
        centre = self.centre or ("own" if regions == 1 else "none")
        final = replace(self, regions=regions, refine=refine, centre=centre, rounds=self.rounds or 0)
        if self.rounds is None:
            rounds = self.worthwhile()
            if self.multiplier is not None:
                rounds = _affordable(final, facts, rounds, facts.seal.noise(self.multiplier * STEPS))
            final = replace(final, rounds=rounds)
        if final.rounds == 0 and self.final == "surface":
            raise SettingError(
                f"final='surface' needs at least one round, but got rounds={final.rounds}: choose final='vote', or a "
                "larger epsilon or multiplier"
            )
        return final

    def shortened(self, facts: Facts, left: Budget) -> tuple[Thompson, Privacy | None]:
        """As many rounds as the ledger has left for, at noise no louder than that of the whole; if any."""
        full, privacy = self.settled(facts), facts.privacy
        if self.rounds is not None or privacy is None or left.epsilon < EPSILON_RANGE[0] or left.delta < DELTA_RANGE[0]:
            return full, privacy
        less = replace(privacy, epsilon=min(privacy.epsilon, left.epsilon), delta=min(privacy.delta, left.delta))
        if less == privacy or not full.rounds:
            return full, privacy
        noise = calibrate(full.bounds(facts.candidates), privacy, Sums(), facts.seal.noise(0.0))
        rounds = _affordable(full, replace(facts, privacy=less), full.rounds, noise)
        return (replace(full, rounds=rounds), less) if rounds else (full, privacy)

    def worthwhile(self) -> int:
        """How many iterations follow the others with more than a negligible chance."""
        return sum(t**-self.decay >= self.negligible for t in range(1, self.iterations + 1))

    def _explorers(self, run: str, candidates: Candidates, seed: int, number: int, shared: Any) -> dict[str, Any]:
        own = {field.name: getattr(self, field.name) for field in fields(Explorers) if hasattr(self, field.name)}
        return {**own, "candidates": candidates, "seed": seed, "run": run, "number": number, "shared": tuple(shared)}

    def query(self, run: str, candidates: Candidates, seed: int, number: int, shared: Any) -> AgentVectors:
        """What agents are asked after so many iterations.

        Args:
            run: the run's id.
            candidates: the public list.
            seed: the public seed of the search.
            number: iterations done so far.
            shared: what was opened before, as agents follow it.
        """
        if self.regions is None or self.rounds is None or self.centre is None:
            raise SettingError("sub-regions and rounds are not settled; ask `settled` first")
        return AgentVectors(
            **self._explorers(run, candidates, seed, number, shared),
            variance=self.variance,
            norm=self.norm,
            rate=self.rate,
            sends=self.sends,
            centre=self.centre,
        )

    def votes(self, run: str, candidates: Candidates, seed: int, shared: Any) -> AgentVotes:
        """What agents are asked in the end.

        Args:
            run: the run's id.
            candidates: the public list.
            seed: the public seed of the search.
            shared: what was opened last, as agents follow it.
        """
        k = max(1, round(_BALLOT_SHARE * len(candidates)))
        return AgentVotes(**self._explorers(run, candidates, seed, self.iterations, shared), k=k)

    def bounds(self, candidates: Candidates) -> tuple[Bound, ...]:
        """One sum per round, and the vote."""
        assert self.rounds is not None
        each = self.query("", candidates, 0, 0, ()).bound
        last = (self.votes("", candidates, 0, ()).bound,) if self.final == "vote" else ()
        return (*(each for _ in range(self.rounds)), *last)

    def figures(self, told: Told) -> list[Figure]:
        """How loud what agents shared was."""
        return figures_of(told, AgentVectors.name)

    @property
    def not_covered(self) -> tuple[str, ...]:
        """Agents use what they find as they go."""
        return (
            "what agents do with what they find: their own trials and the configs that they use or publish depend on "
            "their data, and nothing hides that; the config chosen here is covered",
        )

    def total(self, candidates: Candidates, answered: int) -> float | None:
        """All votes of so many agents."""
        ballot = self.votes("", candidates, 0, ())
        return float(ballot.k * ballot.vote * answered) if self.final == "vote" else None

    def plan(self, prospect: Prospect) -> Plan:
        """Whether agents hear each other through the noise."""
        from hushtune.methods.thompson.plan import expect_sharing

        return expect_sharing(prospect)

    def run(self, run: Openings) -> Config:
        """Algorithm 1, and then the vote."""
        assert self.rounds is not None
        shared: FloatArray = np.zeros(0)
        found: list[FloatArray] = []
        louder = []
        for done in range(self.rounds):
            query = self.query(run.id, run.candidates, run.search.seed, done, shared)
            opened = run.sum(query)["vectors"]
            found.append(opened.astype(np.float64) * (query.step(run.asked) / self.rate))
            shared = found[-1] if self.uses == "last" else np.mean(found, axis=0)
            louder.append(float(opened @ opened) / max(1.0, len(opened) * run.noise_variance()))
        if louder and run.noise_variance():
            run.note("mean square of the opened vectors, in units of the noise's", float(np.mean(louder)))
        if self.final == "surface":
            query = self.query(run.id, run.candidates, run.search.seed, self.rounds, np.mean(found, axis=0))
            return run.candidates[argmax(surface(query, run.candidates.encoded))]
        last = self.votes(run.id, run.candidates, run.search.seed, shared)
        votes = run.sum(last)["votes"]
        total = self.total(run.candidates, run.answered())
        return run.candidates[smooth(votes, total, run.noise_variance(), run.candidates).best]


def _affordable(method: Thompson, facts: Facts, most: int, noise: Noise) -> int:
    """As many rounds as epsilon allows with such noise; none, if not even the vote."""
    privacy = facts.privacy
    assert privacy is not None

    def fits(rounds: int) -> bool:
        events = events_of(replace(method, rounds=rounds).bounds(facts.candidates), privacy, noise)
        return epsilon_of(events, privacy.delta) <= privacy.epsilon

    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
