"""The federations of DP-FTS-DE's experiments, tabulated once: every agent's objective at every point of a domain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.dp_fts_de.simulation import Task
from hushtune.client.client import Client
from hushtune.client.objectives.base import Objective
from hushtune.client.objectives.sklearn import SklearnObjective
from hushtune.client.rows import Rows
from hushtune.client.search.base import Search
from hushtune.core.observer import Observer
from hushtune.core.space import Candidates, Float, Int, Space
from hushtune.data import load
from hushtune.data.splits import shares
from hushtune.federation.local import LocalFederation

POINTS = 1_000
_LINE = Space(x=Float(0.0, 1.0))
_LENGTHSCALE = 0.05
_DIGITS, _EMNIST = 30, 50  # agents


def synthetic(agents: int, apart: float, seed: int) -> Task:
    """A function drawn from a Gaussian process on a line, and a smooth deviation from it for each agent.

    Args:
        agents: how many.
        apart: standard deviation of what an agent's function differs by, where the common one has 1.
        seed: of all functions.
    """
    points = np.linspace(0, 1, POINTS)[:, None]
    kernel = np.exp(-((points - points.T) ** 2) / (2 * _LENGTHSCALE**2)) + 1e-8 * np.eye(POINTS)
    drawn = np.random.default_rng([seed, 3]).normal(size=(agents + 1, POINTS)) @ np.linalg.cholesky(kernel).T
    values = drawn[0] + apart * drawn[1:]
    low, high = values.min(axis=1, keepdims=True), values.max(axis=1, keepdims=True)
    return Task("synthetic", _LINE, points, (values - low) / (high - low))


def _by_subject(name: str) -> list[Rows]:
    """What each subject holds."""
    data = load(name, test=0)
    rows = data.train
    return [rows.take(np.flatnonzero(rows.subjects == subject)) for subject in np.unique(rows.subjects)]


def _svm(metric: str) -> Objective:
    from sklearn.svm import SVC

    return SklearnObjective(SVC(), metric, validation=0.5)


def _landmine() -> tuple[Candidates, list[Rows], Objective]:
    """29 fields; the AUC of a support vector machine on half of a field's rows, by C and gamma on linear scales."""
    space = Space(C=Float(1e-4, 10.0), gamma=Float(1e-2, 10.0))
    return space.sample(POINTS), _by_subject("landmine"), _svm("roc_auc")


def _digits() -> tuple[Candidates, list[Rows], Objective]:
    """30 agents with skewed shares of the digits that come with scikit-learn; the same, on logarithmic scales."""
    space = Space(C=Float(1e-2, 100.0, log=True), gamma=Float(1e-4, 1.0, log=True))
    return space.sample(POINTS), shares("dirichlet:1", load("digits").train, _DIGITS, 0), _svm("accuracy")


def _har() -> tuple[Candidates, list[Rows], Objective]:
    """30 persons; logistic regression by gradient descent: step, weight decay and passes."""
    from sklearn.linear_model import SGDClassifier

    space = Space(eta0=Float(1e-4, 1.0, log=True), alpha=Float(1e-6, 1e-1, log=True), max_iter=Int(1, 20))
    model = SGDClassifier(loss="log_loss", learning_rate="constant", tol=None)
    return space.sample(POINTS), _by_subject("har"), SklearnObjective(model, validation=0.5)


def _emnist() -> tuple[Candidates, list[Rows], Objective]:
    """50 agents with 200 pictures each; a network with one hidden layer: step, momentum and weight decay."""
    import hushtune.client.objectives.neural  # noqa: F401 (says what to install, if PyTorch is missing)
    from experiments.privtuna.tasks import emnist
    from hushtune.client.objectives.neural import TorchObjective

    space = Space(lr=Float(1e-3, 1.0, log=True), momentum=Float(0.0, 0.95), weight_decay=Float(1e-6, 1e-1, log=True))
    rows = shares("dirichlet:1", load("emnist", rows=200 * _EMNIST).train, _EMNIST, 0)
    return space.sample(256), rows, TorchObjective(emnist, epochs=5, batch=32, validation=0.5)


REAL: dict[str, Callable[[], tuple[Candidates, list[Rows], Objective]]] = {
    "landmine": _landmine,
    "digits": _digits,
    "har": _har,
    "emnist": _emnist,
}


def tabulated(name: str, folder: Path, jobs: int | None, observer: Observer) -> Task:
    """A real task: every agent's objective at every point, kept in the folder; the same one goes on where it ended."""
    candidates, holdings, objective = REAL[name]()
    clients = [Client(rows, objective) for rows in holdings]
    federation = LocalFederation(clients, folder / name, seed=0, jobs=jobs)
    federation.score(Search(), candidates, observer, private=False, name=f"tabulating {name}")
    losses = [party.losses(candidates.configs, 0) for party in federation.parties.values()]
    return Task(name, candidates.space, candidates.encoded, _values(losses))


def _values(losses: Sequence[Any]) -> Any:
    """1 minus losses; what failed is as good as nothing."""
    return np.where(np.isfinite(losses), 1 - np.array(losses), 0.0)


def repeated(task: Task, agents: int) -> Task:
    """A larger federation: as many agents, each with the objective of one of the task's, in turn."""
    return Task(task.name, task.space, task.points, task.values[np.arange(agents) % len(task.values)])
