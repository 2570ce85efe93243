"""Any scikit-learn estimator as an objective."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hushtune.client.failures import loss_or_nan
from hushtune.client.objectives.options import Options, check_options
from hushtune.client.objectives.parameters import check_parameter, declares
from hushtune.client.rows import Split, in_turn
from hushtune.core.arrays import FloatArray
from hushtune.core.checks import in_words, integer, number
from hushtune.core.errors import SettingError
from hushtune.core.fingerprint import fingerprint
from hushtune.core.space import Config, Space

_PASSES = ("max_iter", "n_iter_no_change")  # of an estimator that passes over its rows again and again
_MOST_PASSES = 2**31 - 1  # what its C code can count


@dataclass(frozen=True)
class SklearnObjective:
    """Trains a scikit-learn estimator with each config and scores it on held-out rows of the same client.

    The loss is `1 - score` (accuracy .9 is loss .1), or `-score` for scikit-learn's negated metrics ("neg_...").

    Args:
        estimator: any estimator or pipeline; the knobs' names are its parameters' names ("svc__C" in a pipeline).
            Put scaling and encoding into the pipeline, so that they are fitted inside the client.
        metric: a scikit-learn scoring name.
        validation: the share of rows held out for scoring; used unless `cv` is given.
        cv: number of folds for cross-validation instead.
        split: your own `split(data, seed)` that returns pairs (train, held out), each with X and y; for data
            that has no `take`.
        options: by parameter, the texts that it may be set to, if scikit-learn does not declare them itself: those of
            other libraries' estimators, and of your own.
        full_steps: whether one of several parts of a client's rows (unit "record") takes as many steps as all rows
            would, if the estimator passes over its rows again and again (`SGDClassifier`, `MLPClassifier` and others
            that have `partial_fit` and `max_iter`). It costs as many times more as there are parts; where it was
            measured, so many steps on few rows chose no better.
        parts: how many equal parts the rows are one of; the parts of a run are told so.
    """

    estimator: Any
    metric: str = "accuracy"
    validation: float = 0.2
    cv: int | None = None
    split: Callable[[Any, int], Sequence[tuple[Any, Any]]] | None = None
    options: Options = field(default_factory=dict)
    full_steps: bool = False
    parts: int = 1

    def __post_init__(self) -> None:
        from sklearn.metrics import get_scorer_names

        if isinstance(self.estimator, type):
            name = self.estimator.__name__
            raise SettingError(f"estimator must be an estimator, but got the class {name}: write {name}()")
        if not all(hasattr(self.estimator, needed) for needed in ("fit", "get_params", "set_params")):
            raise SettingError(
                "estimator must have fit, get_params and set_params, such as LogisticRegression(), "
                f"but got {in_words(self.estimator)}"
            )
        if self.metric not in get_scorer_names():
            raise SettingError(f"metric must be one of scikit-learn's scoring names, but got '{self.metric}'")
        number("validation", self.validation, 0, 1, "()")
        if self.cv is not None:
            integer("cv", self.cv, 2)
        integer("parts", self.parts, 1)
        if self.split is not None and not callable(self.split):
            raise SettingError(f"split must be a function of (data, seed), but got {self.split!r}")
        check_options(self.options)
        for name in self.options:
            if name not in (known := self.estimator.get_params()):
                raise SettingError(f"options are for parameters, which are {sorted(known)}, but got '{name}'")
            if declares(self.estimator, name):
                raise SettingError(f"options are for what scikit-learn does not declare, but it does declare '{name}'")

    def fingerprint(self) -> str:
        """Equal for equal estimators, metrics and splits under the same scikit-learn, whatever may be tuned."""
        import sklearn

        own = [self.estimator, self.metric, self.validation, self.cv, self.split, self.parts, self.full_steps]
        return fingerprint([*own, sklearn.__version__])

    def check(self, space: Space) -> None:
        """Refuses a knob that the estimator does not have, that is never tuned, or that may not have such values.

        Args:
            space: holds all that will be tried.
        """
        for name, knob in space.knobs.items():
            check_parameter(self.estimator, name, knob, self.options)

    def check_data(self, data: Any) -> None:
        """Refuses a kind of data it cannot use (which kind is public; what is in it is not looked at).

        Args:
            data: the client's own.
        """
        if self.split is None and not isinstance(data, Split) and not all(hasattr(data, a) for a in ("X", "y", "take")):
            raise SettingError(
                f"SklearnObjective needs data as (X, y) or with X, y and take(indices), but got {type(data).__name__}; "
                "or give it a split"
            )

    def losses(self, configs: Sequence[Config], data: Any, seed: int) -> FloatArray:
        """One loss per config. A config with which the estimator fails is NaN."""
        if isinstance(data, Split):
            parts: Sequence[tuple[Any, Any]] = [(data.train, data.test)]
        elif self.split is not None:
            parts = self.split(data, seed)
        else:
            parts = [(data.take(train), data.take(rest)) for train, rest in self._splits(data, seed)]
        return np.array([np.mean([self._loss(config, *part, seed) for part in parts]) for config in configs])

    @property
    def _best(self) -> float:
        return 0.0 if self.metric.startswith("neg_") else 1.0

    def made(self, config: Config, seed: int) -> Any:
        """An unfitted estimator with a config, seeded.

        Args:
            config: values of the estimator's parameters.
            seed: for every `random_state` that the config does not set.
        """
        from sklearn.base import clone

        model = clone(self.estimator).set_params(**config)
        chances = [name for name in model.get_params() if name.split("__")[-1] == "random_state" and name not in config]
        return model.set_params(**dict.fromkeys(chances, seed), **self._passes(model))

    def as_part(self, parts: int) -> SklearnObjective:
        """The objective of one of so many equal parts of a client's rows.

        Args:
            parts: how many there are.
        """
        return replace(self, parts=parts) if self.full_steps else self

    def _passes(self, model: Any) -> dict[str, int]:
        """How often a part's estimator passes over its rows, and after how many passes without gain it stops."""
        if self.parts == 1:
            return {}
        known, found = model.get_params(), {}
        for name, value in known.items():
            holder, _, own = name.rpartition("__")
            again = hasattr(known[holder] if holder else model, "partial_fit")
            if own in _PASSES and again and isinstance(value, int):
                found[name] = min(value * self.parts, _MOST_PASSES)
        return found

    def loss_of(self, model: Any, rows: Any) -> float:
        """A fitted estimator's loss on rows.

        Args:
            model: a fitted estimator.
            rows: with X and y.
        """
        from sklearn.metrics import get_scorer

        return self._best - float(get_scorer(self.metric)(model, rows.X, rows.y))

    def _loss(self, config: Config, train: Any, held_out: Any, seed: int) -> float:
        model = self.made(config, seed)
        return loss_or_nan(lambda: self.loss_of(model.fit(train.X, train.y), held_out))

    def _splits(self, data: Any, seed: int) -> list[tuple[Any, Any]]:
        from sklearn.model_selection import KFold, StratifiedKFold, StratifiedShuffleSplit
        from sklearn.utils.multiclass import type_of_target

        rows = np.arange(len(data))
        _, sizes = np.unique(np.asarray(data.y), return_counts=True)
        held_out = int(np.ceil(self.validation * len(rows)))
        if self.cv is not None:
            kind = StratifiedKFold if sizes.min() >= self.cv else KFold
            return list(kind(self.cv, shuffle=True, random_state=seed).split(rows, data.y))
        if sizes.min() >= 2 and held_out >= len(sizes) and len(rows) - held_out >= len(sizes):
            split = StratifiedShuffleSplit(1, test_size=self.validation, random_state=seed)
            return list(split.split(rows, data.y))
        order = np.random.default_rng(seed).permutation(len(rows))  # some label has too few rows for both
        if not type_of_target(data.y).startswith("continuous"):
            order = order[in_turn(np.asarray(data.y)[order])]
        return [(order[held_out:], order[:held_out])]
