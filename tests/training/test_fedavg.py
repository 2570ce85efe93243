"""Federated averaging of scikit-learn estimators, against a plain loop; what is kept, refused and resumed."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC

import hushtune as ht
from hushtune.data import load
from hushtune.data.splits import shares
from hushtune.training import FedAvg, fedavg

DATA = load("digits")
PARTS = shares("dirichlet:1", DATA.train, 6, seed=0)
SGD = ht.SklearnObjective(SGDClassifier(loss="log_loss", learning_rate="constant"))
CONFIGS = [{"eta0": 0.1, "alpha": 1e-4}, {"eta0": 0.001, "alpha": 1e-2}]


def clients(objective: Any = SGD) -> list[ht.Client]:
    return [ht.Client(rows, objective) for rows in PARTS]


def test_it_learns_what_no_client_could_alone() -> None:
    trained = FedAvg(10, epochs=2).train(clients(), CONFIGS, jobs=1, observer=ht.Silent())
    losses = trained.losses(DATA.test)
    assert losses[0] < 0.1
    assert losses[0] < min(SGD.losses(CONFIGS[:1], ht.Split(rows, DATA.test), 0)[0] for rows in PARTS)
    model = trained.model(0)
    assert 1 - model.score(DATA.test.X, DATA.test.y) == pytest.approx(losses[0])


def test_plain_averaging_is_weighted_by_rows_and_step_by_step() -> None:
    """The same by hand: clone, set coefficients, partial_fit, weighted mean."""
    averaging = FedAvg(3, epochs=2, seed=5)
    trained = averaging.train(clients(), CONFIGS[:1], jobs=1, observer=ht.Silent())
    coef, intercept = np.zeros((10, 64)), np.zeros(10)
    total = sum(map(len, PARTS))
    for number in range(3):
        seed = int(np.random.SeedSequence([5, number]).generate_state(1)[0]) >> 7
        sums = [np.zeros_like(coef), np.zeros_like(intercept)]
        for rows in PARTS:
            model = SGDClassifier(loss="log_loss", learning_rate="constant", random_state=seed, **CONFIGS[0])
            model.partial_fit(DATA.train.X[:1] * 0, DATA.train.y[:1], classes=np.arange(10))
            model.coef_[...], model.intercept_[...], model.t_ = coef, intercept, 1.0
            for _ in range(2):
                model.partial_fit(rows.X, rows.y)
            sums[0] += model.coef_ * (len(rows) / total)
            sums[1] += model.intercept_ * (len(rows) / total)
        coef, intercept = sums
    np.testing.assert_allclose(trained.model(0).coef_, coef, atol=1e-9)
    np.testing.assert_allclose(trained.model(0).intercept_, intercept, atol=1e-9)


def test_many_configs_at_once_are_each_trained_as_if_alone() -> None:
    together = FedAvg(2).train(clients(), CONFIGS, jobs=1, observer=ht.Silent())
    for place, config in enumerate(CONFIGS):
        alone = FedAvg(2).train(clients(), [config], jobs=1, observer=ht.Silent())
        np.testing.assert_array_equal(together.model(place).coef_, alone.model(0).coef_)


def test_the_servers_knobs_can_be_tuned() -> None:
    averaging = FedAvg(3, server_lr=0.5, server_momentum=0.9)
    given = averaging.train(clients(), CONFIGS[:1], jobs=1, observer=ht.Silent())
    tuned = FedAvg(3).train(
        clients(),
        [{**CONFIGS[0], "server_lr": 0.5, "server_momentum": 0.9}, CONFIGS[0]],
        jobs=1,
        observer=ht.Silent(),
    )
    plain = FedAvg(3).train(clients(), CONFIGS[:1], jobs=1, observer=ht.Silent())
    np.testing.assert_allclose(tuned.model(0).coef_, given.model(0).coef_, atol=1e-12)
    np.testing.assert_allclose(tuned.model(1).coef_, plain.model(0).coef_, atol=1e-12)
    assert not np.allclose(given.model(0).coef_, plain.model(0).coef_)


def test_server_momentum_by_its_formula() -> None:
    """Two rounds: x1 = lr g1, x2 = x1 + lr (m g1 + g2), with g2 the mean of training from x1, less x1."""
    lr, momentum = 0.5, 0.9
    learner_runs: list[Any] = []
    original = fedavg._State._move

    def spy(self: Any, group: Any, mean: Any) -> None:
        learner_runs.append((group.weights["coef_"].copy(), mean["coef_"].copy()))
        original(self, group, mean)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fedavg._State, "_move", spy)
        averaging = FedAvg(2, server_lr=lr, server_momentum=momentum)
        trained = averaging.train(clients(), CONFIGS[:1], jobs=1, observer=ht.Silent())
    (x0, mean1), (x1, mean2) = learner_runs
    np.testing.assert_allclose(x1, x0 + lr * (mean1 - x0))
    expected = x1 + lr * (momentum * (mean1 - x0) + (mean2 - x1))
    np.testing.assert_allclose(trained.model(0).coef_, expected[0])


def test_results_do_not_depend_on_the_number_of_processes() -> None:
    one, two = (FedAvg(2).train(clients(), CONFIGS, jobs=jobs, observer=ht.Silent()) for jobs in (1, 2))
    np.testing.assert_array_equal(one.model(1).coef_, two.model(1).coef_)


def test_networks_and_regressors() -> None:
    objective = ht.SklearnObjective(MLPClassifier((16,), solver="sgd", learning_rate_init=0.1))
    configs = [{"momentum": 0.9}, {"momentum": 0.0}, {"hidden_layer_sizes": 8}]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trained = FedAvg(8, epochs=3).train(clients(objective), configs, jobs=1, observer=ht.Silent())
        assert trained.losses(DATA.test)[0] < 0.35
    assert len(trained.groups) == 2
    regression = ht.SklearnObjective(SGDRegressor(), metric="neg_mean_squared_error")
    found = FedAvg(3).train(clients(regression), [{"alpha": 0.01}], jobs=1, observer=ht.Silent())
    assert 0 < found.losses(DATA.test)[0] < 8


def test_a_network_starts_from_its_seed_alone_with_a_fresh_optimiser() -> None:
    objective = ht.SklearnObjective(MLPClassifier((8,), solver="sgd"))
    wild, mild = {"learning_rate_init": 1e200}, {"learning_rate_init": 0.1}
    both = [
        FedAvg(2).train(clients(objective), list(cs), jobs=1, observer=ht.Silent())
        for cs in ((wild, mild), (mild, wild))
    ]
    losses = [trained.losses(DATA.test) for trained in both]
    assert np.isnan([losses[0][0], losses[1][1]]).all()
    assert losses[0][1] == losses[1][0]
    learner = both[0].learner
    for config in (mild, {"learning_rate_init": 5.0}):
        np.testing.assert_array_equal(learner.start(config, 0)["coefs_.0"], learner.start({}, 0)["coefs_.0"])


def changed(**fields: Any) -> list[ht.Client]:
    rows = PARTS[1]
    return [*clients(), ht.Client(ht.Rows(fields.get("X", rows.X), fields.get("y", rows.y)), SGD)]


def test_a_client_without_rows_has_no_weight() -> None:
    empty = ht.Client(PARTS[0].take([]), SGD)
    plain = FedAvg(2).train(clients(), CONFIGS[:1], jobs=1, observer=ht.Silent())
    for some in ([empty, *clients()], [*clients(), empty]):
        trained = FedAvg(2).train(some, CONFIGS[:1], jobs=1, observer=ht.Silent())
        np.testing.assert_array_equal(trained.model(0).coef_, plain.model(0).coef_)
    with pytest.raises(ht.SettingError, match="no client has any"):
        FedAvg(2).train([empty], CONFIGS[:1], observer=ht.Silent())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"X": np.zeros((len(PARTS[1]), 5))}, "client 6 has float64 of shape"),
        ({"X": np.full((len(PARTS[1]), 64), np.nan)}, "client 6"),
        ({"y": np.array(["a"] * len(PARTS[1]))}, "client 6 has <U1"),
    ],
)
def test_rows_that_do_not_fit_are_named_and_not_taken_for_divergence(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ht.SettingError, match=message):
        FedAvg(1).train(changed(**fields), CONFIGS[:1], jobs=1, observer=ht.Silent())


def test_a_config_that_diverges_is_nan_and_harms_no_other() -> None:
    objective = ht.SklearnObjective(SGDRegressor(learning_rate="constant"), metric="neg_mean_squared_error")
    configs = [{"eta0": 1e-3}, {"eta0": 1e150}]
    trained = FedAvg(3).train(clients(objective), configs, jobs=1, observer=ht.Silent())
    alone = FedAvg(3).train(clients(objective), configs[:1], jobs=1, observer=ht.Silent())
    losses = trained.losses(DATA.test)
    assert np.isnan(losses[1])
    assert losses[0] == alone.losses(DATA.test)[0]


def test_an_interrupted_training_resumes_and_gives_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    averaging = FedAvg(4, server_momentum=0.5)
    whole = averaging.train(clients(), CONFIGS, jobs=1, observer=ht.Silent())
    rounds: list[int] = []
    original = fedavg._State.round

    def stop(self: Any, number: int, *rest: Any) -> None:
        if number == 2 and 2 not in rounds:
            rounds.append(2)
            raise KeyboardInterrupt
        rounds.append(number)
        original(self, number, *rest)

    monkeypatch.setattr(fedavg._State, "round", stop)
    with pytest.raises(KeyboardInterrupt):
        averaging.train(clients(), CONFIGS, folder=tmp_path, jobs=1, observer=ht.Silent())
    resumed = averaging.train(clients(), CONFIGS, folder=tmp_path, jobs=1, observer=ht.Silent())
    assert rounds == [0, 1, 2, 2, 3]
    np.testing.assert_array_equal(resumed.model(1).coef_, whole.model(1).coef_)
    with pytest.raises(ht.SettingError, match="belongs to another training"):
        FedAvg(5).train(clients(), CONFIGS, folder=tmp_path, jobs=1, observer=ht.Silent())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FedAvg(0), "rounds=0"),
        (lambda: FedAvg(server_momentum=1.0), "server_momentum"),
        (lambda: FedAvg(server_lr=0.0), "server_lr"),
        (lambda: FedAvg().train(clients(), [{**CONFIGS[0], "server_momentum": 5.0}], jobs=1), "server_momentum=5"),
        (lambda: FedAvg().train(clients(), [{"nonsense": 5.0}], jobs=1), "nonsense"),
        (lambda: FedAvg().train([], CONFIGS), "needs clients and configs"),
        (lambda: FedAvg().train(clients(), []), "needs clients and configs"),
        (lambda: FedAvg().train(clients(ht.SklearnObjective(SVC())), [{"C": 1.0}]), "partial_fit"),
        (
            lambda: FedAvg().train(clients(ht.SklearnObjective(SGDClassifier(average=True))), [{"alpha": 1.0}], jobs=1),
            "average=False",
        ),
        (lambda: FedAvg().train(clients(ht.objective(lambda c, d: 0.0)), CONFIGS), "TorchObjective or a Sklearn"),
        (
            lambda: FedAvg().train([*clients(), ht.Client(PARTS[0], ht.SklearnObjective(SVC()))], CONFIGS),
            "the same objective",
        ),
    ],
)
def test_bad_settings(make: Any, message: str) -> None:
    with pytest.raises(ht.SettingError, match=message):
        make()


def test_a_damaged_state_is_named(tmp_path: Path) -> None:
    (tmp_path / "training.npz").write_bytes(b"PK broken")
    with pytest.raises(ht.SettingError, match="training.npz must be whole"):
        FedAvg(1).train(clients(), CONFIGS[:1], folder=tmp_path, jobs=1, observer=ht.Silent())


def test_an_unknown_model_is_refused() -> None:
    trained = FedAvg(1).train(clients(), CONFIGS[:1], jobs=1, observer=ht.Silent())
    with pytest.raises(ht.SettingError, match="place"):
        trained.model(3)


def test_configs_lie_inside_the_spaces_that_owners_named() -> None:
    """The server's own knobs are not the clients' business."""
    own = ht.Space(eta0=ht.Float(0.01, 1.0), alpha=ht.Float(1e-5, 1e-1))
    named = [ht.Client(rows, SGD, space=own if at == 3 else None) for at, rows in enumerate(PARTS)]
    FedAvg(1).train(named, [{**CONFIGS[0], "server_lr": 0.5}], jobs=1, observer=ht.Silent())
    with pytest.raises(ht.RefusedError, match="knob 'eta0' must be a number from 0.01 to 1.0, but got 0.001"):
        FedAvg(1).train(named, CONFIGS, jobs=1, observer=ht.Silent())
