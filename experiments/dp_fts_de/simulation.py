"""DP-FTS-DE on tabulated objectives: all agents of a federation at once, by the functions that real agents use.

The server's sum is the exact one plus Gaussian noise of the size that the arm's guarantee takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hushtune.core.arrays import FloatArray
from hushtune.core.space import Space
from hushtune.methods.thompson.agents import Draws, Features, best_untried, centred, own_scores, shortened, weights
from hushtune.methods.thompson.exploration import OWN_FEATURES, REFIT, own_model
from hushtune.methods.thompson.regions import Emphasis, attention, regions_of


@dataclass(frozen=True)
class Task:
    """A federation whose agents' objectives are known at every point of a domain.

    Args:
        name: what it is.
        space: that the points are of.
        points: in the unit cube, shape (points, width).
        values: what agents maximise, shape (agents, points), from 0 to 1.
    """

    name: str
    space: Space
    points: FloatArray
    values: FloatArray


@dataclass(frozen=True)
class Arm:
    """How agents share what they find.

    Args:
        name: what it is called.
        shares: whether they do at all.
        regions: P.
        norm: S; vectors are clipped to S / sqrt(P). None: they are scaled to length 1 / sqrt(P).
        rate: q.
        multiplier: z; 0: no noise.
        features: M.
        lengthscale: of the shared features.
        variance: lambda of the shared model.
        decay: 1 - p_t = t^-decay.
        sends: a sample of the posterior, or its mean.
        uses: the last opened vectors, or the mean of all so far.
        signal: False: the aggregate is replaced by noise of the same size.
        centre: whether values count relative to the agent's own mean.
        tight: noise for the norm of what an agent counts as; False: for the paper's bound on it.
        rounds: iterations in which something is opened. None: all.
    """

    name: str
    shares: bool = True
    regions: int = 1
    norm: float | None = 22.0
    rate: float = 1.0
    multiplier: float = 0.0
    features: int = 100
    lengthscale: float = 0.2
    variance: float = 1e-3
    decay: float = 1.0
    sends: Literal["sample", "mean"] = "sample"
    uses: Literal["last", "mean"] = "last"
    signal: bool = True
    centre: bool = False
    tight: bool = False
    rounds: int | None = None


class Simulated:
    """One federation under one arm, from one seed.

    Agents' own draws are the same whatever the arm, and so are initial points if the sub-regions are.
    """

    def __init__(self, task: Task, arm: Arm, initial: int, seed: int) -> None:
        self.task, self.arm = task, arm
        self.agents = len(task.values)
        self._rng = np.random.default_rng([seed, 1])
        self._noise = np.random.default_rng([seed, 2])  # of the server, and of what agents send
        self._seed = seed
        self._shared = Features.drawn(arm.features, task.points.shape[1], seed)
        self._phi = self._shared.at(task.points, arm.lengthscale)
        self._regions = regions_of(task.space, task.points, arm.regions)
        self._assigned = np.arange(self.agents) % arm.regions
        self.tried = np.zeros(task.values.shape, dtype=bool)
        self.places = np.zeros((self.agents, 0), dtype=np.int64)
        self._server = self._clean = np.zeros((arm.regions, arm.features))  # what agents follow, and without noise
        self._opened = 0
        self.facts: dict[str, list[float]] = {"clipped": [], "agreement": [], "cosine": []}
        self._begin(initial)

    def _begin(self, initial: int) -> None:
        order = np.random.default_rng([self._seed, 0]).random(self.task.values.shape)
        for _ in range(initial):
            inside = self._regions[None] == self._assigned[:, None]
            some = (inside & ~self.tried).any(axis=1, keepdims=True)
            self._try(best_untried(order, self.tried | (some & ~inside)))

    def _try(self, places: NDArray[np.int64]) -> None:
        self.tried[np.arange(self.agents), places] = True
        self.places = np.append(self.places, places[:, None], axis=1)

    def _observed(self) -> tuple[FloatArray, FloatArray]:
        rows = np.arange(self.agents)[:, None]
        return self.task.points[self.places], self.task.values[rows, self.places]

    def best(self) -> FloatArray:
        """The best value that each agent has found."""
        found: FloatArray = self._observed()[1].max(axis=1)
        return found

    def _draws(self, features: int, rng: np.random.Generator) -> Draws:
        shape = self.places.shape
        return Draws(rng.normal(size=(self.agents, features)), rng.normal(size=shape))

    def open(self, iteration: int) -> None:
        """Everybody's vector, and the server's noisy weighted sums of them; shape (regions, features)."""
        arm = self.arm
        _, values = self._observed()
        draws = self._draws(arm.features, self._noise)
        sent = weights(
            self._phi[self.places],
            centred(values) if arm.centre else values,
            np.full(self.agents, arm.variance),
            draws if arm.sends == "sample" else None,
        )
        norm = 1.0 if arm.norm is None else arm.norm
        within = norm / arm.regions**0.5
        self.facts["clipped"].append(float((np.linalg.norm(sent, axis=1) > within).mean()))
        sent = shortened(sent, arm.norm, arm.regions)
        self.facts["agreement"].append(float(np.linalg.norm(sent.mean(axis=0)) / within))
        table = Emphasis(self.agents, arm.regions, attention(iteration))
        phi = table.table()[self._assigned]
        sampled = self._noise.random(self.agents) < arm.rate
        largest = table.largest * within if arm.tight else float(table.table().max()) * norm
        noise = self._noise.normal(size=(arm.regions, arm.features)) * (arm.multiplier * largest / arm.rate)
        found = (phi * sampled[:, None]).T @ sent / arm.rate * arm.signal + noise
        keeps = 0 if arm.uses == "last" else self._opened
        self._server = (self._server * keeps + found) / (keeps + 1)
        self._clean = (self._clean * keeps + phi.T @ sent) / (keeps + 1)
        self._opened += 1
        size = float(np.linalg.norm(self._server) * np.linalg.norm(self._clean))
        self.facts["cosine"].append(float((self._server * self._clean).sum()) / size if size else 0.0)

    def fit(self) -> None:
        """Fits every agent's own model to what it has observed."""
        self._fit = own_model(*self._observed())

    def step(self, iteration: int, refit: bool = True) -> None:
        """Everybody's next point: from its own model, or from what the server sent."""
        arm = self.arm
        points, values = self._observed()
        if refit and (iteration == 1 or points.shape[1] % REFIT == 0):
            self.fit()
        fresh = Features.drawn(OWN_FEATURES, points.shape[2], self._seed, iteration)
        _, scores = own_scores(fresh, self.task.points, points, values, self._fit, self._draws(OWN_FEATURES, self._rng))
        coin = self._rng.random(self.agents)
        if arm.shares and self._opened:
            follow = coin < iteration**-arm.decay
            scores[follow] = (self._phi * self._server[self._regions]).sum(axis=1)
        self._try(best_untried(scores, self.tried))


def run(task: Task, arm: Arm, iterations: int, initial: int, seed: int) -> tuple[FloatArray, Mapping[str, float]]:
    """What is missing to 1 after the initial points and after each iteration, mean over agents; and some facts."""
    federation = Simulated(task, arm, initial, seed)
    curve = [federation.best().mean()]
    for iteration in range(1, iterations + 1):
        if arm.shares and (arm.rounds is None or iteration <= arm.rounds):
            federation.open(iteration)
        federation.step(iteration)
        curve.append(federation.best().mean())
    facts: dict[str, Any] = {name: float(np.mean(values)) for name, values in federation.facts.items() if values}
    return 1 - np.array(curve), facts
