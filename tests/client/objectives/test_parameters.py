"""Which parameters of estimators are knobs: all of scikit-learn's are gone through, by what it declares of them."""

from __future__ import annotations

import inspect
import warnings
from functools import cache
from numbers import Integral, Number
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.ensemble import (
    BaggingClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.impute import SimpleImputer
from sklearn.linear_model import ElasticNet, LogisticRegression, SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC
from sklearn.utils import all_estimators
from sklearn.utils._param_validation import HasMethods, Interval, Options, StrOptions, make_constraint

import hushtune as ht
from hushtune.client.objectives.parameters import check_parameter

HOSTILE = ["/tmp/stolen", "(a+)+$", "os.system", "filename", ""]
NEVER = {  # though their values are plain
    *("n_jobs", "pre_dispatch", "verbose", "verbose_interval", "verbose_feature_names_out", "memory", "cache_size"),
    *("copy", "copy_X", "copy_x", "copy_X_train", "input"),
}


@cache
def estimators() -> tuple[Any, ...]:
    """One of each class that scikit-learn has."""
    needed = {
        "estimator": LogisticRegression(),
        "estimators": [("a", LogisticRegression())],
        "transformers": [("a", StandardScaler(), [0])],
        "transformer_list": [("a", StandardScaler())],
        "steps": [("a", StandardScaler())],
        "param_grid": {"C": [1.0]},
        "param_distributions": {"C": [1.0]},
        "dictionary": np.eye(2),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tuple(
            kind(**{name: value for name, value in needed.items() if name in _required(kind)})
            for _, kind in all_estimators()
        )


def _required(kind: Any) -> set[str]:
    parameters = inspect.signature(kind).parameters.values()
    return {one.name for one in parameters if one.default is one.empty}


def accepts(estimator: Any, name: str, *values: Any, knob: Any = None, options: Any = None) -> bool:
    try:
        check_parameter(estimator, name, knob or ht.Choice(list(values)), options or {})
    except ht.SettingError as error:
        assert str(error).startswith(f"knob '{name}' ")
        return False
    return True


def declared(estimator: Any, name: str) -> list[Any]:
    found = getattr(estimator, "_parameter_constraints", {}).get(name, "no_validation")
    return [] if isinstance(found, str) else [make_constraint(one) for one in found]


def parameters() -> list[tuple[Any, str]]:
    return [(estimator, name) for estimator in estimators() for name in estimator.get_params(deep=False)]


def test_there_are_all_of_them() -> None:
    assert len(estimators()) == len(all_estimators()) > 190
    assert len(parameters()) > 1_500


def test_no_parameter_of_any_estimator_takes_a_text_that_is_not_listed() -> None:
    for estimator, name in parameters():
        listed = {text for one in declared(estimator, name) if isinstance(one, StrOptions) for text in one.options}
        for text in HOSTILE:
            assert text in listed - {"filename"} or not accepts(estimator, name, text), (estimator, name, text)
            assert not accepts(estimator, name, *sorted(listed), text), (estimator, name, text)


def test_what_is_about_the_machine_is_never_a_knob_whatever_its_value() -> None:
    seen = set()
    for estimator, name in parameters():
        if name in NEVER:
            seen.add(name)
            for value in (1, 0.5, True, None, "auto", "content"):
                assert not accepts(estimator, name, value), (estimator, name, value)
    assert seen == NEVER


def test_what_takes_only_objects_functions_lists_or_any_text_is_never_a_knob() -> None:
    """Not even None, which would take away what an owner has set."""
    seen = set()
    for estimator, name in parameters():
        constraints = declared(estimator, name)
        plain = [one for one in constraints if isinstance(one, Interval | Options)]
        kinds = {type(one).__name__ for one in constraints}
        others = kinds - {"_NoneConstraint", "_InstancesOf", "_Callables", "_ArrayLikes", "HasMethods"}
        numeric = any(issubclass(getattr(one, "type", object), Number) for one in constraints)
        if constraints and not plain and not others and not numeric:
            seen.add(name)
            for value in (1, 0.5, True, None, "auto"):
                assert not accepts(estimator, name, value), (estimator, name, value)
    assert seen >= {"token_pattern", "tokenizer", "preprocessor", "encoding", "steps", "estimators", "func", "kw_args"}


def test_what_may_be_a_whole_estimator_is_never_a_knob() -> None:
    seen = set()
    for estimator, name in parameters():
        if any(isinstance(one, HasMethods) for one in declared(estimator, name)):
            seen.add(name)
            for value in (1, None, "drop", "passthrough", "zero"):
                assert not accepts(estimator, name, value), (estimator, name, value)
    assert seen >= {"estimator", "final_estimator", "remainder", "regressor", "init"}


def test_every_other_plain_value_is_a_knobs_if_scikit_learn_declares_it() -> None:
    """Each range by a number of its type, each listed text, each flag, None: as its constraints say, and no others."""
    accepted = 0
    for estimator, name in parameters():
        constraints = [one for one in declared(estimator, name) if not one.hidden]
        if name in NEVER or not constraints or any(isinstance(one, HasMethods) for one in constraints):
            continue
        value = estimator.get_params(deep=False)[name]
        if not (value is None or isinstance(value, str | Number | tuple)):
            continue  # an object that stays
        for one in constraints:
            if isinstance(one, Interval):
                whole = issubclass(one.type, Integral)
                assert accepts(estimator, name, knob=ht.Int(1, 9) if whole else ht.Float(0.1, 0.9)), (estimator, name)
                accepted += 1
            if isinstance(one, StrOptions):
                assert accepts(estimator, name, *sorted(one.options)), (estimator, name)
                accepted += len(one.options)
            if type(one).__name__ == "_Booleans":
                assert accepts(estimator, name, True, False), (estimator, name)
                accepted += 1
        numbers = any(issubclass(getattr(one, "type", object), Number) for one in constraints)
        mixed = {"_Booleans", "_RandomStates", "_CVObjects", "MissingValues", "Options"}
        if not numbers and not mixed & {type(one).__name__ for one in constraints}:
            assert not accepts(estimator, name, 0.5), (estimator, name)
            assert not accepts(estimator, name, True), (estimator, name)
    assert accepted > 1_500


PIPELINE = Pipeline([("text", TfidfVectorizer()), ("clf", SVC())])


@pytest.mark.parametrize(
    ("estimator", "name", "knob"),
    [
        (SVC(), "C", ht.Float(1e-3, 1e3, log=True)),
        (SVC(), "gamma", ht.Choice(["scale", "auto", 0.1, 1])),
        (SVC(), "gamma", ht.Float(1e-4, 1.0, log=True)),
        (SVC(), "kernel", ht.Choice(["linear", "poly", "rbf", "sigmoid"])),
        (SVC(), "class_weight", ht.Choice(["balanced", None])),
        (SVC(), "random_state", ht.Int(0, 9)),
        (LogisticRegression(), "solver", ht.Choice(["lbfgs", "saga"])),
        (LogisticRegression(), "max_iter", ht.Int(10, 1_000)),
        (LogisticRegression(C=np.float64(2.0), max_iter=np.int64(7)), "max_iter", ht.Int(10, 1_000)),
        (LogisticRegression(), "fit_intercept", ht.Choice([True, False])),
        (ElasticNet(), "l1_ratio", ht.Float(0.0, 1.0)),
        (SGDClassifier(), "penalty", ht.Choice(["l1", "l2", "elasticnet", None])),
        (SGDClassifier(), "learning_rate", ht.Choice(["constant", "invscaling"])),
        (RandomForestClassifier(), "max_features", ht.Choice(["sqrt", "log2", 0.5, 3, None])),
        (RandomForestClassifier(), "max_depth", ht.Choice([None, 2, 8])),
        (RandomForestClassifier(), "n_estimators", ht.Int(10, 200)),
        (RandomForestClassifier(), "criterion", ht.Choice(["gini", "entropy"])),
        (RandomForestClassifier(), "min_samples_leaf", ht.Int(1, 8)),
        (HistGradientBoostingClassifier(), "l2_regularization", ht.Float(0.0, 1.0)),
        (HistGradientBoostingClassifier(), "early_stopping", ht.Choice(["auto", True])),
        (MLPClassifier(), "hidden_layer_sizes", ht.Int(8, 64)),
        (MLPClassifier(), "activation", ht.Choice(["relu", "tanh"])),
        (KNeighborsClassifier(), "weights", ht.Choice(["uniform", "distance"])),
        (SimpleImputer(), "fill_value", ht.Float(0.0, 1.0)),
        (PIPELINE, "text__min_df", ht.Choice([1, 2, 0.1])),
        (PIPELINE, "text__norm", ht.Choice(["l1", "l2", None])),
        (PIPELINE, "text__sublinear_tf", ht.Choice([True])),
        (PIPELINE, "text__stop_words", ht.Choice(["english", None])),
        (Pipeline([("inner", PIPELINE)]), "inner__clf__C", ht.Float(0.1, 1.0)),
        (BaggingClassifier(SVC()), "estimator__C", ht.Float(0.1, 1.0)),
        (GridSearchCV(SVC(), {}, cv=3), "cv", ht.Int(2, 5)),
        (make_column_transformer((StandardScaler(), [0])), "standardscaler__with_mean", ht.Choice([False])),
        (FeatureUnion([("a", StandardScaler())]), "a__with_std", ht.Choice([False])),
        (GaussianProcessClassifier(ConstantKernel() * RBF()), "kernel__k2__length_scale", ht.Float(0.1, 1.0)),
    ],
)
def test_ordinary_knobs_stay_knobs(estimator: Any, name: str, knob: Any) -> None:
    assert accepts(estimator, name, knob=knob)
    estimator.set_params(**{name: estimator.get_params()[name]})


def shout(text: str) -> str:
    return text.upper()


@pytest.mark.parametrize(
    ("estimator", "name", "values"),
    [
        (PIPELINE, "memory", ["/tmp/stolen"]),
        (PIPELINE, "memory", [None]),
        (PIPELINE, "clf", [None]),
        (PIPELINE, "clf", ["passthrough"]),
        (PIPELINE, "steps", [None]),
        (PIPELINE, "text__token_pattern", ["(a+)+$"]),
        (PIPELINE, "text__input", ["content"]),
        (PIPELINE, "text__dtype", [1]),
        (PIPELINE, "clf__cache_size", [1e9]),
        (Pipeline([("inner", PIPELINE)]), "inner__memory", ["/tmp/stolen"]),
        (Pipeline([("inner", PIPELINE)]), "inner__text__token_pattern", ["(a+)+$"]),
        (Pipeline([("inner", PIPELINE)]), "inner__clf", ["passthrough"]),
        (ColumnTransformer([("a", StandardScaler(), [0])]), "a", ["drop"]),
        (ColumnTransformer([("a", StandardScaler(), [0])]), "remainder", ["passthrough"]),
        (FeatureUnion([("a", StandardScaler())]), "a", ["drop"]),
        (FeatureUnion([("a", StandardScaler())]), "n_jobs", [2]),
        (VotingClassifier([("a", SVC())]), "a", ["drop"]),
        (BaggingClassifier(SVC()), "estimator", [None]),
        (GradientBoostingClassifier(), "init", ["zero"]),
        (TfidfVectorizer(preprocessor=shout), "preprocessor", [None]),
        (TfidfVectorizer(analyzer=shout), "analyzer", ["word"]),
        (HashingVectorizer(), "analyzer", ["(a+)+$"]),
        (FunctionTransformer(), "func", ["os.system"]),
        (GaussianProcessClassifier(RBF()), "kernel", [None]),
        (SVC(kernel=np.dot), "kernel", ["rbf"]),
        (SVC(class_weight={0: 1.0, 1: 2.0}), "class_weight", [None]),
        (SVC(), "kernel", ["rbf", "(a+)+$"]),
        (SVC(), "C", [True]),
        (SVC(), "C", ["1.0"]),
        (SVC(), "C", [None]),
        (LogisticRegression(), "max_iter", [10.0]),
        (RandomForestClassifier(), "warm_start", [1]),
        (RandomForestClassifier(), "random_state", [-1]),
        (SVC(), "learning_rate", [0.1]),
    ],
)
def test_what_reaches_outside_the_fit_is_refused(estimator: Any, name: str, values: list[Any]) -> None:
    assert not accepts(estimator, name, *values)


class Own(BaseEstimator):
    """As other libraries' estimators are: nobody declares what its parameters may be."""

    def __init__(
        self,
        rate: float = 0.1,
        depth: int | None = None,
        booster: str = "tree",
        log_file: str | None = None,
        nthread: int = 1,
        num_workers: int = 0,
        n_cores: int = 1,
        num_cpus: int = 1,
        gpu_id: int = 0,
        n_processes: int = 1,
        save_snapshot: bool = False,
        verbosity: int = 0,
        device: str | None = None,
        tokens_pattern: str = "a",
        callbacks: Any = None,
        loss: Any = shout,
    ) -> None:
        self.rate, self.depth, self.booster, self.log_file, self.nthread = rate, depth, booster, log_file, nthread
        self.num_workers, self.verbosity, self.device, self.tokens_pattern = (
            num_workers,
            verbosity,
            device,
            tokens_pattern,
        )
        self.n_cores, self.num_cpus, self.gpu_id = n_cores, num_cpus, gpu_id
        self.n_processes, self.save_snapshot = n_processes, save_snapshot
        self.callbacks, self.loss = callbacks, loss

    def fit(self, x: Any, y: Any) -> Own:
        return self


@pytest.mark.parametrize("outer", ["", "own__"])
def test_of_undeclared_parameters_numbers_pass_and_texts_that_the_owner_lists(outer: str) -> None:
    estimator: Any = make_pipeline(Own()) if outer else Own()
    for name, value in (("rate", 0.5), ("depth", 3), ("depth", None), ("booster", None), ("rate", True)):
        assert accepts(estimator, outer + name, value)
    machine = ("n_cores", "num_cpus", "gpu_id", "n_processes", "save_snapshot", "nthread", "num_workers", "device")
    for name in (*machine, "log_file", "verbosity", "tokens_pattern", "callbacks", "loss"):
        for value in (1, None, "a"):
            assert not accepts(estimator, outer + name, value)
            assert not accepts(estimator, outer + name, value, options={outer + name: ["a"]})
    listed = {outer + "booster": ["tree", "dart"]}
    assert not accepts(estimator, outer + "booster", "tree")
    assert accepts(estimator, outer + "booster", "tree", "dart", options=listed)
    assert not accepts(estimator, outer + "booster", "tree", "/tmp/x", options=listed)
    objective = ht.SklearnObjective(estimator, options=listed)
    objective.check(ht.Space(**{outer + "booster": ht.Choice(["dart"])}))
    assert objective.fingerprint() == ht.SklearnObjective(estimator).fingerprint()


class Loose(Own):
    """Names parameters of something that is no estimator, as wrappers of networks do."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {**super().get_params(deep), "optimiser": dict, "optimiser__momentum": 0.5, "callbacks__sink": None}


def test_parameters_of_what_is_no_estimator_are_undeclared() -> None:
    assert accepts(Loose(), "optimiser__momentum", 0.9)
    assert not accepts(Loose(), "optimiser__momentum", "a")
    assert not accepts(Loose(), "optimiser", None)
    assert not accepts(Loose(), "callbacks__sink", 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": ["mine"]}, "scikit-learn does not declare, but it does declare 'kernel'"),
        ({"colour": ["red"]}, "options are for parameters, which are .* but got 'colour'"),
        ({"kernel": "rbf"}, "options must list texts"),
        ({"kernel": [1]}, "options must list texts"),
        (["kernel"], "options must be a Mapping"),
    ],
)
def test_options_that_make_no_sense(options: Any, message: str) -> None:
    with pytest.raises(ht.SettingError, match=message):
        ht.SklearnObjective(SVC(), options=options)
    with pytest.raises(ht.SettingError, match="does declare 'text__token_pattern'"):
        ht.SklearnObjective(PIPELINE, options={"text__token_pattern": ["a"]})
