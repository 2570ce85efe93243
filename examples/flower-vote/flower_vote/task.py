"""The data, the model and what is tuned. Nothing here is about privacy."""

from __future__ import annotations

import numpy as np
from flwr.app import ArrayRecord, Context
from sklearn.linear_model import SGDClassifier

import hushtune as ht
from hushtune.data import load
from hushtune.data.splits import shares

SPACE = ht.Space(eta0=ht.Float(1e-4, 1.0, log=True), alpha=ht.Float(1e-6, 1e-1, log=True))
CANDIDATES = SPACE.grid(eta0=5, alpha=6)  # public, fixed before the run
MIDDLE = {"eta0": 1e-2, "alpha": 1e-4}  # what one might have taken without tuning
CLASSES = np.arange(10)


def model(**config: float) -> SGDClassifier:
    """A linear classifier, trained by stochastic gradient descent."""
    return SGDClassifier(loss="log_loss", learning_rate="constant", max_iter=50, tol=None, random_state=0, **config)


def local_data(context: Context) -> ht.Rows:
    """This node's images. A real app reads its own files here; this one takes its share of scikit-learn's digits."""
    number, count = int(context.node_config["partition-id"]), int(context.node_config["num-partitions"])
    mine = shares("dirichlet:5", load("digits").train, clients=count, seed=0)[number]
    return ht.Rows(mine.X / 16, mine.y)


def test_data() -> ht.Rows:
    """Images that no node has; the server's, to judge the trained model."""
    rows = load("digits").test
    return ht.Rows(rows.X / 16, rows.y)


def weights(trained: SGDClassifier) -> ArrayRecord:
    """What travels in federated training."""
    return ArrayRecord([trained.coef_, trained.intercept_])


def with_weights(arrays: ArrayRecord, config: dict[str, float]) -> SGDClassifier:
    """A model that goes on from given weights."""
    made = model(**config)
    made.partial_fit(np.zeros((10, 64)), CLASSES, classes=CLASSES)
    made.coef_, made.intercept_ = (np.array(array, order="C") for array in arrays.to_numpy_ndarrays())
    return made
