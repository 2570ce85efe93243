"""Federated averaging (McMahan et al. 2017), with a server's learning rate and momentum, for many configs at once.

What this reveals: the server sees every client's model in every round. No guarantee of a tuning run covers it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hushtune.client.asked import check_configs
from hushtune.client.client import Client
from hushtune.core.arrays import FloatArray
from hushtune.core.checks import integer, number
from hushtune.core.errors import SettingError
from hushtune.core.files import archive, own, replace, unarchive
from hushtune.core.fingerprint import fingerprint
from hushtune.core.observer import Bars, Observer
from hushtune.core.processes.pool import default_jobs, in_order
from hushtune.core.space import Config
from hushtune.training.learners.base import Learner, Weights, learner_of, usable

_SERVER = ("server_lr", "server_momentum")
_BLOCK = 4  # clients per task; sums are added block by block, so that results do not depend on `jobs`


@dataclass(frozen=True)
class FedAvg:
    """Rounds of local training and averaging, weighted by the clients' numbers of rows.

    In every round, with g the mean of the clients' models less the server's model x: v = momentum v + g, then
    x = x + lr v. A config that has the knob `server_lr` or `server_momentum` is trained with its own value.

    NOT private: the server sees every client's model in every round, and no guarantee of a tuning run covers that.
    Federated averaging is McMahan et al. 2017.

    Args:
        rounds: how often everybody trains and the models are averaged.
        epochs: local passes over a client's rows in each round. Default: the objective's own; 1 for scikit-learn.
        server_lr: 1 with no momentum is plain averaging.
        server_momentum: of the server's steps.
        seed: of initial weights, mini-batches and dropout.
    """

    rounds: int = 5
    epochs: int | None = None
    server_lr: float = 1.0
    server_momentum: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        integer("rounds", self.rounds, 1)
        if self.epochs is not None:
            integer("epochs", self.epochs, 1)
        for name in _SERVER:
            _server_knob(name, getattr(self, name))
        integer("seed", self.seed, 0, 2**31 - 1)

    def train(
        self,
        clients: Sequence[Client],
        configs: Sequence[Config],
        *,
        folder: str | Path | None = None,
        jobs: int | None = None,
        observer: Observer = Bars(),
    ) -> Trained:
        """Trains one model per config over all clients.

        Args:
            clients: their rows; the first one's objective says what is trained, all must have the same.
            configs: what to train with, e.g. `[result.config]`; inside the spaces that the clients' owners named.
            folder: where to keep the models after every round; the same call with the same folder resumes.
            jobs: worker processes. Default: one per core.
            observer: who watches; `Silent()` for no bar.
        """
        if not clients or not configs:
            raise SettingError(f"training needs clients and configs, but got {len(clients)} and {len(configs)}")
        objectives = {fingerprint(client.objective) for client in clients}
        if len(objectives) != 1:
            raise SettingError(f"all clients must have the same objective, but got {len(objectives)} different ones")
        own = [{name: value for name, value in config.items() if name not in _SERVER} for config in configs]
        for client in clients:
            check_configs(client, own)
        shares = usable([client.data for client in clients])
        learner = learner_of(clients[0].objective, shares, self.epochs)
        state = _State(self, learner, [dict(config) for config in configs])
        kept = _Kept(folder, fingerprint([self, clients[0].objective, list(configs), shares]) if folder else "")
        done = kept.read(state)
        with observer.phase("federated training", self.rounds * len(shares)) as advance:
            advance(done * len(shares))
            for number_ in range(done, self.rounds):
                state.round(number_, shares, jobs or default_jobs(), advance)
                kept.write(state, number_ + 1)
        return Trained(tuple(dict(config) for config in configs), learner, state.groups)


@dataclass
class Group:
    """Configs whose models have the same shape.

    Args:
        places: where they stand in the list of all configs.
        configs: without the server's knobs.
        weights: one model per config, or one for all before the first round.
        velocity: the server's momentum; empty before the first round.
    """

    places: list[int]
    configs: list[Config]
    weights: Weights
    velocity: Weights


@dataclass(frozen=True)
class Trained:
    """Models after federated training.

    Args:
        configs: in the order given.
        learner: how its models are trained and scored.
        groups: the models, grouped by their shape.
    """

    configs: tuple[Config, ...]
    learner: Learner
    groups: list[Group]

    def losses(self, rows: Any) -> FloatArray:
        """One loss per config on the given rows, shape (configs,); NaN if its training diverged.

        Args:
            rows: to score on, with X and y.
        """
        found = np.full(len(self.configs), np.nan)
        for group in self.groups:
            found[group.places] = self.learner.losses(group.configs, group.weights, rows)
        return found

    def model(self, place: int = 0) -> Any:
        """A config's model: an `nn.Module` in evaluation mode, or a fitted estimator.

        Args:
            place: of the config, in the order given.
        """
        for group in self.groups:
            if place in group.places:
                row = group.places.index(place)
                own = {name: value[row : row + 1] for name, value in group.weights.items()}
                return self.learner.model(group.configs[row], own)
        raise SettingError(f"`0 <= place < {len(self.configs)}` must hold, but got {place}")


class _State:
    """The server's models between two rounds, in groups that are trained together."""

    def __init__(self, averaging: FedAvg, learner: Learner, configs: Sequence[Config]) -> None:
        self._averaging, self._learner, self._all = averaging, learner, configs
        own = [{name: value for name, value in config.items() if name not in _SERVER} for config in configs]
        self.groups = [
            Group(places, [own[at] for at in places], learner.start(own[places[0]], averaging.seed), {})
            for places in learner.groups(own)
        ]

    def round(self, number: int, shares: Sequence[Any], jobs: int, advance: Any) -> None:
        """Everybody trains; the server moves."""
        total = sum(len(rows) for rows in shares)
        seed = int(np.random.SeedSequence([self._averaging.seed, number]).generate_state(1)[0]) >> 7
        blocks = [shares[first : first + _BLOCK] for first in range(0, len(shares), _BLOCK)]
        means: list[Weights] = [{} for _ in self.groups]
        calls = ((self._learner, self.groups, rows, total, seed) for rows in blocks)
        for rows, found in zip(blocks, in_order(_block, calls, min(jobs, len(blocks))), strict=True):
            for mean, part in zip(means, found, strict=True):
                for name, value in part.items():
                    mean[name] = mean[name] + value if name in mean else value
            advance(len(rows))
        for group, mean in zip(self.groups, means, strict=True):
            self._move(group, mean)

    def _move(self, group: Group, mean: Weights) -> None:
        rate, momentum = (self._knob(group, name) for name in _SERVER)
        for name, value in mean.items():
            wide = (-1, *[1] * (value.ndim - 1))
            step = value - group.weights[name]
            if momentum.any():
                step = momentum.reshape(wide) * group.velocity.get(name, np.zeros_like(step)) + step
                group.velocity[name] = step
            plain = (rate == 1).all() and not momentum.any()
            group.weights[name] = value if plain else group.weights[name] + rate.reshape(wide) * step

    def _knob(self, group: Group, name: str) -> Any:
        found = [self._all[place].get(name, getattr(self._averaging, name)) for place in group.places]
        values = [_server_knob(name, value) for value in found]
        return np.array(values, dtype=next(iter(group.weights.values())).dtype)


def _server_knob(name: str, value: Any) -> float:
    return number(name, value, 0, 1e6, "(]") if name == "server_lr" else number(name, value, 0, 1, "[)")


def _block(learner: Learner, groups: Sequence[Group], shares: Sequence[Any], total: int, seed: int) -> list[Weights]:
    """Some clients' part of the weighted mean, for each group."""
    sums: list[Weights] = []
    for group in groups:
        alive = _alive(group)
        configs = [group.configs[row] for row in alive]
        first_round = _models(group) == 1
        found = {
            name: np.full((len(group.configs), *value.shape[1:]), np.nan, dtype=value.dtype)
            for name, value in group.weights.items()
        }
        for number_, rows in enumerate(shares if alive else []):
            at = [0] * len(alive) if first_round else alive
            trained = learner.local(configs, group.weights, at, rows, seed)
            for name, value in trained.items():
                part = value * value.dtype.type(len(rows) / total)
                found[name][alive] = part if number_ == 0 else found[name][alive] + part
        sums.append(found)
    return sums


def _models(group: Group) -> int:
    return len(next(iter(group.weights.values())))


def _alive(group: Group) -> list[int]:
    """The configs whose models have not diverged."""
    finite = [np.isfinite(value).reshape(len(value), -1).all(1) for value in group.weights.values()]
    good = np.broadcast_to(np.all(finite, axis=0), len(group.configs))
    return np.flatnonzero(good).tolist()


class _Kept:
    """The models after the last finished round, in a file."""

    def __init__(self, folder: str | Path | None, key: str) -> None:
        self._path = Path(folder) / "training.npz" if folder is not None else None
        self._key = key

    def read(self, state: _State) -> int:
        """Puts the kept models into the state; the number of rounds that are done."""
        if self._path is None or not self._path.exists():
            return 0
        own(self._path)
        kept = unarchive(self._path)
        if str(kept.get("key")) != self._key:
            raise SettingError(
                f"{self._path} belongs to another training: other clients, configs or settings; "
                "remove it or choose another folder"
            )
        for number_, group in enumerate(state.groups):
            group.weights = _read(kept, f"{number_} weights ")
            group.velocity = _read(kept, f"{number_} velocity ")
        return int(kept["rounds"])

    def write(self, state: _State, rounds: int) -> None:
        """Keeps the models, in one step."""
        if self._path is None:
            return
        content: dict[str, Any] = {"key": np.array(self._key), "rounds": np.array(rounds)}
        for number_, group in enumerate(state.groups):
            content |= {f"{number_} weights {name}": value for name, value in group.weights.items()}
            content |= {f"{number_} velocity {name}": value for name, value in group.velocity.items()}
        replace(self._path, archive(content), private=True)


def _read(file: Mapping[str, Any], prefix: str) -> Weights:
    return {name.removeprefix(prefix): file[name] for name in file if name.startswith(prefix)}
