"""scikit-learn estimators with `partial_fit` as a learner: what is averaged are their coefficients."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushtune.client.objectives.sklearn import SklearnObjective
from hushtune.core.arrays import FloatArray
from hushtune.core.errors import SettingError
from hushtune.core.space import Config
from hushtune.training.learners.base import Weights

_DIVERGED = ("overflow", "non-finite", "infinity", "NaN")  # in scikit-learn's messages; clients' rows are finite
_NO_STEP = 1e-300
_FITTED = ("coef_", "intercept_", "coefs_", "intercepts_")


class SklearnLearner:
    """Estimators that learn by `partial_fit` and keep what they learned in `coef_` or `coefs_`.

    `SGDClassifier`, `SGDRegressor`, `Perceptron`, `MLPClassifier`, `MLPRegressor` and their like. What an estimator
    keeps beside its coefficients (a step counter, momentum) starts anew in every round.

    Args:
        objective: its estimator and metric.
        width: number of features.
        labels: all labels there are; a client need not hold every one of them.
        epochs: local passes in each round.
    """

    def __init__(self, objective: SklearnObjective, width: int, labels: NDArray[Any], epochs: int) -> None:
        estimator = objective.estimator
        if not hasattr(estimator, "partial_fit"):
            raise SettingError(
                f"federated training needs an estimator with partial_fit, but got {type(estimator).__name__}"
            )
        self._objective, self._labels, self._epochs = objective, labels, epochs
        self._nothing = np.zeros((1, width))  # a row that allocates an estimator's arrays

    def groups(self, configs: Sequence[Config]) -> list[list[int]]:
        """Configs whose coefficients have the same shapes."""
        found: dict[Any, list[int]] = {}
        for at, config in enumerate(configs):
            shape = tuple((name, value.shape) for name, value in _parts(self._new(config, 0)))
            found.setdefault(shape, []).append(at)
        return list(found.values())

    def start(self, config: Config, seed: int) -> Weights:
        """Zeros, or for a network the weights that the seed gives."""
        return {name: value[None].copy() for name, value in _parts(self._new(config, seed))}

    def local(self, configs: Sequence[Config], start: Weights, at: Sequence[int], rows: Any, seed: int) -> Weights:
        """One config after another: `epochs` calls of `partial_fit`."""
        found = []
        for config, row in zip(configs, at, strict=True):
            model = self._with(self._new(config, seed), start, row)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    for _ in range(self._epochs):
                        self._fit(model, np.asarray(rows.X), np.asarray(rows.y))
                found.append({name: value.copy() for name, value in _parts(model)})
            except ValueError as error:
                if not any(word in str(error) for word in _DIVERGED):
                    raise SettingError(f"{type(model).__name__} cannot be trained so: {_line(error)}") from None
                found.append({name: np.full(value.shape[1:], np.nan) for name, value in start.items()})
        return {name: np.stack([one[name] for one in found]) for name in start}

    def losses(self, configs: Sequence[Config], weights: Weights, rows: Any) -> FloatArray:
        """As the objective scores: 1 - score."""
        return np.array([self._loss(config, weights, row, rows) for row, config in enumerate(configs)])

    def model(self, config: Config, weights: Weights) -> Any:
        """A scikit-learn estimator with the given weights, ready to predict."""
        return self._with(self._new(config, 0), weights, 0)

    def _loss(self, config: Config, weights: Weights, row: int, rows: Any) -> float:
        if not all(np.isfinite(value[row]).all() for value in weights.values()):
            return float("nan")
        with np.errstate(over="ignore"):
            loss = self._objective.loss_of(self._with(self._new(config, 0), weights, row), rows)
        return loss if np.isfinite(loss) else float("nan")

    def _new(self, config: Config, seed: int) -> Any:
        """An estimator with coefficients in place, as they are before training."""
        try:
            model = self._objective.made(config, seed)
            rate = model.get_params().get("learning_rate_init")
            if rate is not None:  # a network: it gets its first weights in a step that moves nothing
                model.set_params(learning_rate_init=_NO_STEP)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._fit(model, self._nothing, self._labels[:1])
        except (ValueError, TypeError) as error:
            kind = type(self._objective.estimator).__name__
            raise SettingError(f"{kind} cannot be trained so: {_line(error)}") from None
        if not _parts(model) or getattr(model, "average", False):
            raise SettingError(
                "federated training averages `coef_` or `coefs_`, which must be what the estimator learns by "
                f"(average=False), but got {type(model).__name__}"
            )
        if rate is not None:
            model.set_params(learning_rate_init=rate)
            del model._optimizer  # made anew by the first real step
            model.t_ = 0
            return model
        for _, value in _parts(model):
            value[...] = 0
        model.t_ = 1.0
        return model

    def _fit(self, model: Any, x: NDArray[Any], y: NDArray[Any]) -> None:
        from sklearn.base import is_classifier

        if is_classifier(model):
            model.partial_fit(x, y, classes=self._labels)
        else:
            model.partial_fit(x, y)

    def _with(self, model: Any, weights: Weights, row: int) -> Any:
        for name, value in _parts(model):
            value[...] = weights[name][row]
        return model


def _line(error: Exception) -> str:
    return " ".join(str(error).split())


def _parts(model: Any) -> list[tuple[str, NDArray[Any]]]:
    """The arrays that an estimator learned, themselves, not copies."""
    found = []
    for name in _FITTED:
        value = getattr(model, name, None)
        if isinstance(value, list):
            found += [(f"{name}.{number}", part) for number, part in enumerate(value)]
        elif isinstance(value, np.ndarray):
            found.append((name, value))
    return found
