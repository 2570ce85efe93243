"""What FLoRA's experiments are about (Zhou et al. 2023, Appendix D): data sets, models, spaces, and everybody's search.

Searches are kept, so that all that varies only the surface, the pairs sent or the noise costs nothing more.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from hushtune.client.client import Client
from hushtune.client.objectives.sklearn import SklearnObjective
from hushtune.client.party import Party, Trial
from hushtune.client.query import Query
from hushtune.client.rows import Rows, Split
from hushtune.client.search.adaptive import Adaptive
from hushtune.client.search.base import LARGEST_SEED, Search
from hushtune.core.checks import integer
from hushtune.core.errors import SettingError
from hushtune.core.observer import Observer
from hushtune.core.space import Candidates, Config, Float, Int, Space, config_key
from hushtune.data import load
from hushtune.data.splits import shares
from hushtune.federation.local import LocalFederation

TABLES = ("eeg", "electricity", "heart", "oil_spill", "pollen", "sonar")
INSTALLED = ("digits",)  # for a first look: comes with scikit-learn
SKEWED = ("mnist:imb1", "mnist:imb2")
_SKIPPED = (("electricity", "svm"), ("mnist:imb2", "hgb"))  # as in the paper
PICTURES = (500, 2_500)  # to train on and to score on, for each party


def _hgb() -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(early_stopping=False)


def _svm() -> Any:
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import MinMaxScaler
    from sklearn.svm import SVC

    return Pipeline([("scale", MinMaxScaler()), ("svm", SVC(class_weight="balanced"))])


def _mlp() -> Any:
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import MinMaxScaler

    return Pipeline([("scale", MinMaxScaler()), ("mlp", MLPClassifier(early_stopping=True))])


@dataclass(frozen=True)
class Model:
    """A model, what is tuned about it, and the config that everybody starts from."""

    estimator: Callable[[], Any]
    space: Space
    default: Config


MODELS = {
    "hgb": Model(
        _hgb,
        Space(
            max_iter=Int(10, 200),
            learning_rate=Float(1e-3, 1.0, log=True),
            min_samples_leaf=Int(1, 40),
            l2_regularization=Float(1e-4, 1.0, log=True),
        ),
        {"max_iter": 100, "learning_rate": 0.1, "min_samples_leaf": 20, "l2_regularization": 0.0},  # outside the space
    ),
    "svm": Model(
        _svm,
        Space(
            svm__C=Float(0.01, 1_000.0, log=True),
            svm__gamma=Float(1e-5, 10.0, log=True),
            svm__tol=Float(1e-5, 1e-1, log=True),
        ),
        {"svm__C": 1.0, "svm__gamma": 0.1, "svm__tol": 1e-3},
    ),
    "mlp": Model(
        _mlp,
        Space(
            mlp__hidden_layer_sizes=Int(50, 200),
            mlp__alpha=Float(1e-5, 10.0, log=True),
            mlp__learning_rate_init=Float(1e-5, 1e-1, log=True),
        ),
        {"mlp__hidden_layer_sizes": 100, "mlp__alpha": 1e-4, "mlp__learning_rate_init": 1e-3},
    ),
}


@dataclass(frozen=True)
class Cell:
    """One federation and one model.

    Args:
        data: one of `TABLES`, `INSTALLED` or `SKEWED`; a skewed one has four parties.
        model: one of `MODELS`.
        parties: how many.
        rows: pooled, at most; None for all there are.
        folds: of the cross-validation that every score is a mean of.
        trials: of every party's search, and of the centralised one.
        seed: of data, split, folds and searches.
    """

    data: str
    model: str
    parties: int
    rows: int | None
    folds: int
    trials: int
    seed: int = 0

    def __post_init__(self) -> None:
        for name, value, known in (
            ("data", self.data, (*TABLES, *INSTALLED, *SKEWED)),
            ("models", self.model, tuple(MODELS)),
        ):
            if value not in known:
                raise SettingError(f"{name} must be among {list(known)}, but got '{value}'")
        integer("parties", self.parties, 2)
        integer("folds", self.folds, 2)
        integer("seed", self.seed, 0, LARGEST_SEED)

    @property
    def name(self) -> str:
        """For tables and progress."""
        return f"{self.data} {self.model}, {self.parties} parties"

    @property
    def search(self) -> Adaptive:
        """The search that every party makes on its own data."""
        return Adaptive(self.seed, self.trials)

    def shares(self) -> tuple[Rows | Split, list[Any]]:
        """The pooled data, and each party's."""
        if self.data in SKEWED:
            return _pictures(self.data.partition(":")[2], self.seed)
        together = load(self.data, test=0, rows=_fewer(self.rows, self.data), seed=self.seed).train
        return together, list(shares("iid", together, self.parties, self.seed))


@cache
def size(data: str) -> int:
    """Rows of a table."""
    return len(load(data, test=0).train)


def cells(
    data: Sequence[str],
    models: Sequence[str],
    parties: Sequence[int],
    rows: int | None,
    folds: int,
    trials: int,
    seeds: int,
    fewest: int,
) -> list[Cell]:
    """All combinations, but for those without enough rows for a party, and SVM on Electricity, as in the paper.

    Args:
        seeds: for the smallest number of parties; others have one.
        fewest: rows of a party.
    """
    found = []
    for name, model in itertools.product(data, models):
        counts = [4] if name in SKEWED else sorted(set(parties))
        for count, seed in itertools.product(counts, range(seeds)):
            cell = Cell(name, model, count, rows, folds, trials, seed)
            enough = name in SKEWED or min(rows or size(name), size(name)) >= fewest * count
            if enough and (name, model) not in _SKIPPED and (seed == 0 or count == counts[0]):
                found.append(cell)
    return sorted(found, key=lambda cell: (cell.parties, cell.seed))


def _fewer(rows: int | None, data: str) -> int | None:
    return None if rows is None or rows >= size(data) else rows


def _pictures(how: str, seed: int) -> tuple[Split, list[Any]]:
    """FLoRA's skewed MNIST (Appendix D.8): four parties with as many pictures each."""
    train, _ = PICTURES
    rows = load("mnist").train
    flat = Rows(rows.X.reshape(len(rows), -1), rows.y)
    parts = [part.take(np.arange(sum(PICTURES))) for part in shares(how, flat, 4, seed)]
    split = [Split(part.take(np.arange(train)), part.take(np.arange(train, len(part)))) for part in parts]
    return Split(_joined([part.train for part in split]), _joined([part.test for part in split])), split


def _joined(parts: list[Rows]) -> Rows:
    return Rows(np.concatenate([part.X for part in parts]), np.concatenate([part.y for part in parts]))


@dataclass
class Searched:
    """A cell after everybody's search.

    Args:
        cell: which one.
        parties: with their searches.
        pooled: a stand-in for federated training, as in the paper: cross-validation on everybody's data.
        central: the trials of a search on the pooled data.
    """

    cell: Cell
    parties: list[Party]
    pooled: LocalFederation
    central: list[Trial]
    scores: dict[str, float] = field(default_factory=dict)  # by config key
    sums: dict[Query, Any] = field(default_factory=dict)  # of the parties' contributions, without noise

    def score(self, configs: Sequence[Config], observer: Observer) -> None:
        """Scores configs as federated training would, into `scores`; what fails scores 0."""
        distinct = tuple({config_key(config): dict(config) for config in configs}.values())
        candidates, search = Candidates(MODELS[self.cell.model].space, distinct), Search(self.cell.seed)
        self.pooled.score(search, candidates, observer, False, name=f"{self.cell.name}: scores of what was chosen")
        (everybody,) = self.pooled.parties.values()
        losses = everybody.losses(distinct, self.cell.seed)
        for config, loss in zip(distinct, losses, strict=True):
            self.scores[config_key(config)] = 1 - float(loss) if np.isfinite(loss) else 0.0


def searched(cell: Cell, folder: Path, jobs: int | None, observer: Observer) -> Searched:
    """Has all parties search, and one that holds all data, unless the folder has their searches already."""
    model = MODELS[cell.model]
    objective = SklearnObjective(model.estimator(), metric="balanced_accuracy", cv=cell.folds)
    together, parts = cell.shares()
    pooled = LocalFederation([Client(together, objective, name="pooled")], folder, None, cell.seed, jobs)
    federation = LocalFederation([Client(part, objective) for part in parts], folder, None, cell.seed, jobs)
    (everybody,) = pooled.parties.values()
    parties = list(federation.parties.values())
    with observer.phase(f"{cell.name}: searches", cell.trials * (1 + len(parties))) as advance:
        cell.search.fill([everybody, *parties], model.space, federation.jobs, advance, private=False)
    central = cell.search.found(everybody, model.space)
    return Searched(cell, parties, pooled, central)
