from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import hushtune as ht

X, Y = load_digits(return_X_y=True)
SMALL = ht.Rows(X[:120], Y[:120])


def test_loss_is_one_minus_score_and_repeats() -> None:
    objective = ht.SklearnObjective(SVC(), validation=0.25)
    good, bad = objective.losses([{"gamma": 0.001}, {"gamma": 10.0}], SMALL, seed=1)
    assert good < 0.2
    assert bad > 0.7
    np.testing.assert_array_equal(objective.losses([{"gamma": 0.001}], SMALL, seed=1), [good])


def test_cross_validation_and_pipelines() -> None:
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(max_iter=50))
    objective = ht.SklearnObjective(pipeline, metric="balanced_accuracy", cv=3)
    (loss,) = objective.losses([{"logisticregression__C": 1.0}], SMALL, seed=0)
    assert 0 <= loss < 0.5


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (LogisticRegression, r"but got the class LogisticRegression: write LogisticRegression\(\)$"),
        (5, r"must have fit, get_params and set_params, such as LogisticRegression\(\), but got 5$"),
        ([SVC()], "but got a list$"),
    ],
)
def test_what_is_no_estimator_is_refused_when_it_is_given(estimator: Any, message: str) -> None:
    with pytest.raises(ht.SettingError, match=message):
        ht.SklearnObjective(estimator)


def test_negated_metrics() -> None:
    objective = ht.SklearnObjective(LogisticRegression(max_iter=2_000), metric="neg_log_loss")
    data = ht.Rows(X[:200], (Y[:200] > 4).astype(int))
    (loss,) = objective.losses([{"C": 1.0}], data, seed=0)
    assert loss > 0


def test_given_train_and_test_rows_are_used_as_they_are() -> None:
    split = ht.Split(SMALL, ht.Rows(X[120:200], Y[120:200]))
    loss = ht.SklearnObjective(SVC()).losses([{"C": 10.0}], split, seed=0)[0]
    model = SVC(C=10.0, random_state=0).fit(SMALL.X, SMALL.y)
    assert loss == pytest.approx(1 - model.score(split.test.X, split.test.y))


def test_own_split_for_data_without_take() -> None:
    objective = ht.SklearnObjective(SVC(), split=lambda data, seed: [(data["a"], data["b"])])
    data = {"a": SMALL, "b": ht.Rows(X[120:200], Y[120:200])}
    assert objective.losses([{"C": 10.0}], data, seed=0)[0] < 0.5


def test_a_config_that_fails_is_nan_and_the_others_count() -> None:
    losses = ht.SklearnObjective(SVC()).losses([{"C": -1.0}, {"C": 1.0}], SMALL, seed=0)
    assert np.isnan(losses[0])
    assert np.isfinite(losses[1])


def test_one_class_and_few_rows() -> None:
    one_class = ht.Rows(X[:10], np.zeros(10))
    assert np.isnan(ht.SklearnObjective(SVC()).losses([{"C": 1.0}], one_class, seed=0)).all()
    few = ht.Rows(X[:12], Y[:12])
    assert np.isfinite(ht.SklearnObjective(SVC()).losses([{"C": 1.0}], few, seed=0)).all()


def test_fingerprint_follows_the_settings() -> None:
    one = ht.SklearnObjective(SVC(C=1.0))
    assert one.fingerprint() == ht.SklearnObjective(SVC(C=1.0)).fingerprint()
    for other in (
        ht.SklearnObjective(SVC(C=2.0)),
        ht.SklearnObjective(SVC(), cv=3),
        ht.SklearnObjective(LogisticRegression()),
    ):
        assert other.fingerprint() != one.fingerprint()


def test_a_knob_the_estimator_does_not_have_is_refused_before_anything_runs() -> None:
    with pytest.raises(ht.SettingError, match="knob 'learning_rate' must be a parameter of SVC"):
        ht.SklearnObjective(SVC()).check(ht.Space(learning_rate=ht.Float(0, 1)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"metric": "goodness"}, "scoring names"),
        ({"validation": 1.0}, "validation=1.0"),
        ({"cv": 1}, "cv=1"),
        ({"parts": 0}, "parts=0"),
    ],
)
def test_bad_settings(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ht.SettingError, match=message):
        ht.SklearnObjective(SVC(), **arguments)


def test_a_part_passes_over_its_rows_as_often_as_all_rows_take() -> None:
    whole = ht.SklearnObjective(make_pipeline(StandardScaler(), SGDClassifier(max_iter=7)), full_steps=True)
    part = whole.as_part(10)
    assert len({one.fingerprint() for one in (part, whole, replace(whole, full_steps=False))}) == 3
    made = part.made({"sgdclassifier__alpha": 0.1}, 3)[-1]
    assert (made.max_iter, made.n_iter_no_change, made.alpha, made.random_state) == (70, 50, 0.1, 3)
    assert part.made({"sgdclassifier__max_iter": 10**9}, 3)[-1].max_iter == 2**31 - 1
    assert whole.made({}, 3)[-1].max_iter == 7


def test_what_does_not_pass_over_its_rows_again_is_left_alone() -> None:
    fitted = ht.SklearnObjective(LogisticRegression(max_iter=50), full_steps=True)
    assert fitted.as_part(10).made({}, 0).max_iter == 50
    plain = ht.SklearnObjective(SGDClassifier())
    assert plain.as_part(10) is plain


def test_numbers_that_are_no_labels_are_held_out_at_random() -> None:
    rows = ht.Rows(np.zeros((100, 1)), np.concatenate([np.zeros(50), np.arange(50) + 0.5]))
    ((_, held_out),) = ht.SklearnObjective(Ridge(), "neg_mean_squared_error", 0.2)._splits(rows, 0)
    assert 3 < np.count_nonzero(rows.y[held_out]) < 17


def test_a_label_with_one_row_is_trained_on() -> None:
    rows = ht.Rows(X[:20], np.array([1] + [0] * 19))
    for seed in range(10):
        ((train, held_out),) = ht.SklearnObjective(SVC(), validation=0.2)._splits(rows, seed)
        assert 0 in train
        assert sorted([*train, *held_out]) == list(range(20))
        assert len(held_out) == 4
