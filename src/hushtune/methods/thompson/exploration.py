"""How agents of DP-FTS-DE look for good configs, each on its own data: their trials, and where they try next."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushtune.client import failures
from hushtune.client.failures import Failure
from hushtune.client.party import Party, Trial
from hushtune.client.search.base import LARGEST_SEED, Search
from hushtune.core.arrays import FloatArray
from hushtune.core.checks import integer, number
from hushtune.core.errors import NoLossError, SettingError
from hushtune.core.fingerprint import fingerprint
from hushtune.core.observer import Advance, Even, unseen
from hushtune.core.randomness import Randomness, words
from hushtune.core.space import Candidates, Choice, Config, Domain, Space, config_key, space_of
from hushtune.methods.contributions import loss_range
from hushtune.methods.thompson.agents import Draws, Features, Fit, best_untried, fit_of, own_scores
from hushtune.methods.thompson.regions import MOST_REGIONS, regions_of

REFIT = 5  # observations between fits of an agent's own model
OWN_FEATURES = 100  # of an agent's own model
MOST_FEATURES = 1_000
MOST_ITERATIONS = 1_000
_AROUND = (0.05, 0.01)  # where the best point is refined: deviations, as shares of a knob's range
_NEARBY = 64


@dataclass(frozen=True)
class Explorers:
    """What everybody knows of how agents explore.

    Args:
        candidates: the public points among which an agent looks for its next one.
        seed: public: of the features, and given to objectives.
        run: the run's id: an agent keeps its trials of a run under this name.
        number: the iterations that an agent has done when it answers.
        shared: the vectors that the server sent last, one of length `features` for each sub-region; or none yet.
        initial: points of its own sub-region that an agent begins with.
        regions: P, the number of sub-regions.
        features: M, of the model that is shared.
        lengthscale: of that model.
        decay: 1 - p_t = t^-decay: the chance that iteration t follows the vectors.
        losses: the smallest and the largest loss; others are clipped.
        refine: whether the best candidate's surroundings in the space are searched too.
    """

    candidates: Candidates
    seed: int
    run: str
    number: int
    shared: tuple[float, ...]
    initial: int
    regions: int
    features: int
    lengthscale: float
    decay: float
    losses: tuple[float, float]
    refine: bool

    def __post_init__(self) -> None:
        integer("seed", self.seed, 0, LARGEST_SEED)
        if not isinstance(self.run, str) or not isinstance(self.refine, bool):
            raise SettingError(f"run must be a text and refine a bool, but got {self.run!r}, {self.refine!r}")
        integer("number", self.number, 0, MOST_ITERATIONS)
        integer("initial", self.initial, 1, MOST_ITERATIONS)
        integer("regions", self.regions, 1, MOST_REGIONS)
        integer("features", self.features, 1, MOST_FEATURES)
        number("lengthscale", self.lengthscale, 1e-3, 1e3)
        number("decay", self.decay, 0, 10)
        object.__setattr__(self, "losses", loss_range(self.losses))
        object.__setattr__(self, "shared", tuple(float(value) for value in self.shared))
        if len(self.shared) not in (0, self.regions * self.features) or not np.isfinite(self.shared).all():
            raise SettingError(f"shared must be {self.regions * self.features} finite numbers, or none")

    @property
    def own_run(self) -> str:
        """Under whose id an agent keeps its trials."""
        return self.run

    @property
    def scored(self) -> tuple[Exploration, Candidates]:
        """An agent's trials up to this iteration."""
        return Exploration(self.seed, query=self), self.candidates

    @cached_property
    def key(self) -> str:
        """What an agent's trials go by: the run, and all that must be the same in its iterations."""
        same = [getattr(self, one.name) for one in fields(Explorers) if one.name not in ("number", "shared")]
        return fingerprint(["thompson", self.candidates.text, *same[1:]])

    def phi(self, points: FloatArray) -> FloatArray:
        """The shared features at points of the unit cube."""
        return _shared_features(self.features, points.shape[-1], self.seed).at(points, self.lengthscale)

    def trials(self, party: Party) -> list[Trial]:
        """What an agent has tried: the trials that it brought, and those of this run."""
        failures.check(party)
        done = Exploration(self.seed, query=self)
        if done.missing(party):
            done.fill([party], self.candidates, 1, unseen, private=False)
            failures.check(party)
        found = done.found(party)
        if not any(np.isfinite(loss) for _, loss in found):
            raise NoLossError
        return found

    def observed(self, trials: Sequence[Trial]) -> tuple[FloatArray, FloatArray]:
        """Trials as points (trials, width) and values (trials,): 1 is the smallest loss, 0 the largest, NaN none."""
        low, high = self.losses
        losses = np.array([loss for _, loss in trials], dtype=np.float64)
        points = self.candidates.space.encode([config for config, _ in trials])
        return points, np.where(np.isfinite(losses), 1 - (np.clip(losses, low, high) - low) / (high - low), np.nan)


@lru_cache(maxsize=8)
def _shared_features(size: int, width: int, seed: int) -> Features:
    return Features.drawn(size, width, seed)


@lru_cache(maxsize=4)
def _places(candidates: Candidates) -> dict[str, int]:
    return {config_key(config): at for at, config in enumerate(candidates.configs)}


@lru_cache(maxsize=4)
def _regions(candidates: Candidates, regions: int) -> NDArray[np.int64]:
    return regions_of(candidates.space, candidates.encoded, regions)


def own_model(points: FloatArray, values: FloatArray) -> Fit:
    """Agents' own models, fitted anew after every few observations."""
    upto = max(1, points.shape[1] - points.shape[1] % REFIT)
    return fit_of(points[:, :upto], values[:, :upto])


@dataclass(frozen=True)
class Exploration(Search):
    """Brings agents' trials of a run up to an iteration; an agent that missed some makes up for them.

    Args:
        query: how far, and how.
    """

    query: Explorers = field(kw_only=True)

    def work(self, parties: int, domain: Domain) -> int:
        """Initial points, and one for each iteration."""
        return parties * (self.query.initial + self.query.number)

    def reach(self, domain: Domain) -> tuple[Space, ...]:
        """The candidates; and what lies around them in their space, if agents refine."""
        return (*super().reach(domain), *((space_of(domain),) if self.query.refine else ()))

    def found(self, party: Party) -> list[Trial]:
        """An agent's trials so far."""
        brought = party.brought(self.query.candidates.space)
        return [*brought, *party.searched(self.query.key)]

    def missing(self, party: Party) -> int:
        """How many trials an agent still has to make."""
        if party.client.objective is None:
            return 0
        return max(0, self.work(1, self.query.candidates) - len(party.searched(self.query.key)))

    def fill(
        self,
        parties: Sequence[Party],
        domain: Domain,
        jobs: int,
        advance: Advance,
        private: bool,
        apart: bool = False,
    ) -> None:
        """Has every agent try what is missing."""
        usual = 1 if self.query.number else self.work(1, domain)  # what an agent that missed nothing has to try now
        bar, able = Even(advance), []
        advance((self.work(1, domain) - usual) * len(parties))
        for party in parties:
            if failures.work_of(party, self.seed, self.query.key, private, partial(self.missing, party), "explore"):
                able.append(party)
            else:
                bar.owe([usual], len(able))
        left = usual * len(able)
        while waiting := [party for party in able if party.failure is None and self.missing(party)]:
            for count in self._try(self._next(waiting), jobs, apart):
                counted = min(left, count)
                left -= counted
                bar.count(counted)
        bar.end()
        advance(left)

    def _try(self, chosen: Sequence[tuple[Party, list[Config]]], jobs: int, apart: bool) -> Iterator[int]:
        """Has agents score what they have not scored before, in this run or in another one; each is kept at once.

        Yields:
            how many configs are done.
        """
        tasks, whole = [], {}
        for party, configs in chosen:
            if todo := party.missing(configs, self.seed):
                tasks.append((party, todo))
                whole[id(party)] = configs
            else:
                self._keep(party, configs)
                yield len(configs)
        for party, todo, outcome in self._score(tasks, jobs, apart):
            configs = whole[id(party)]
            if isinstance(outcome, Failure):
                failures.fail(party, self.seed, self.query.key, outcome)
            else:
                party.keep(todo, self.seed, outcome)
                self._keep(party, configs)
            yield len(configs)

    def _keep(self, party: Party, configs: Sequence[Config]) -> None:
        losses = party.losses(configs, self.seed)
        found, key = failures.finite_or_nan(losses), self.query.key
        if failed := int(np.isnan(found).sum()):
            party.log(f"{failed} of {len(configs)} new configs have no finite loss; they do not count")
        party.keep_search(key, len(party.searched(key)), list(zip(configs, found.tolist(), strict=True)))

    def _next(self, parties: Sequence[Party]) -> list[tuple[Party, list[Config]]]:
        """What each agent tries next: all of its initial points, or one point."""
        found: list[tuple[Party, list[Config]]] = []
        alike: dict[tuple[int, int], list[Party]] = defaultdict(list)
        for party in parties:
            own = len(party.searched(self.query.key))
            if own < self.query.initial:
                found.append((party, _first(self.query, party, self.query.initial - own)))
            else:
                alike[own - self.query.initial + 1, len(self.found(party))].append(party)
        for (iteration, _), group in alike.items():
            trials = [self.found(party) for party in group]
            configs = _step(self.query, iteration, trials, [_generator(self.query, party) for party in group])
            found += [(party, [config]) for party, config in zip(group, configs, strict=True)]
        return found


def generator(source: Randomness) -> np.random.Generator:
    """For an agent's own draws, none of which any guarantee counts on; seeded from the client's own source."""
    return np.random.default_rng(words(source, 4).tolist())


def _generator(query: Explorers, party: Party) -> np.random.Generator:
    """For what an agent tries next: the same draws whenever it is at the same place of the same run."""
    tried = len(party.searched(query.key))
    return generator(party.drawn_for("exploration", query.key.encode(), str(tried).encode()))


def _first(query: Explorers, party: Party, count: int) -> list[Config]:
    """Random points of the agent's own sub-region; of the whole space, where that has too few."""
    inside = _regions(query.candidates, query.regions) == party.place[0] % query.regions
    tried = {config_key(config) for config, _ in Exploration(query.seed, query=query).found(party)}
    order = _generator(query, party).permutation(len(query.candidates))
    configs = [query.candidates[int(at)] for at in order[np.argsort(~inside[order], kind="stable")]]
    return [config for config in configs if config_key(config) not in tried][:count] or configs[:count]


def _step(
    query: Explorers, iteration: int, trials: Sequence[Sequence[Trial]], generators: Sequence[np.random.Generator]
) -> list[Config]:
    """Each agent's next config: by a sample of its own posterior, or by the vectors that the server sent."""
    domain, places = query.candidates.encoded, _places(query.candidates)
    observed = [query.observed(own) for own in trials]
    points, values = np.array([at for at, _ in observed]), np.array([seen for _, seen in observed])
    count = points.shape[1]
    tried = np.zeros((len(trials), len(domain)), dtype=bool)
    for row, own in zip(tried, trials, strict=True):
        row[[places[key] for config, _ in own if (key := config_key(config)) in places]] = True
    draws = Draws(
        np.array([rng.normal(size=OWN_FEATURES) for rng in generators]),
        np.array([rng.normal(size=count) for rng in generators]),
    )
    fresh = Features.drawn(OWN_FEATURES, domain.shape[1], query.seed, iteration)
    fit = own_model(points, values)
    sample, scores = own_scores(fresh, domain, points, values, fit, draws)
    follow = np.array([rng.random() for rng in generators]) < iteration**-query.decay
    if query.shared:
        scores[follow] = surface(query, domain)
    chosen = best_untried(scores, tried)
    configs = [query.candidates[int(at)] for at in chosen]
    if not query.refine:
        return configs
    refined: list[Config] = []
    for at, own in enumerate(trials):

        def score(near: FloatArray, at: int = at) -> FloatArray:
            if query.shared and follow[at]:
                return surface(query, near)
            found: FloatArray = fresh.at(near, float(fit.lengthscale[at])) @ sample[at]
            return found

        near = _refined(query.candidates, domain[chosen[at]], score, generators[at])
        known = {config_key(config) for config, _ in own}
        refined.append(configs[at] if config_key(near) in known else near)
    return refined


def surface(query: Explorers, points: FloatArray) -> FloatArray:
    """The function that the server's vectors stand for, each in its own sub-region: points (n, width), values (n,)."""
    vectors = np.reshape(query.shared, (query.regions, query.features))
    found: FloatArray = (query.phi(points) * vectors[regions_of(query.candidates.space, points, query.regions)]).sum(
        axis=1
    )
    return found


def _refined(candidates: Candidates, best: FloatArray, score: Any, rng: np.random.Generator) -> Config:
    """The best of some points around a point; choices stay as they are."""
    space = candidates.space
    movable = np.ones(space.width)
    for name, knob in space.knobs.items():
        if isinstance(knob, Choice):
            movable[space.columns[name]] = 0.0
    for deviation in _AROUND:
        around = best + rng.normal(size=(_NEARBY, len(best))) * (deviation * movable)
        near = np.vstack([best, np.clip(around, 0, 1)])
        best = near[int(np.argmax(score(near)))]
    return space.decode(best)[0]
