from __future__ import annotations

from pathlib import Path

import numpy as np
import optuna
import pytest
from tests.observed import Observed

import hushtune as ht
from hushtune.client.party import Party
from hushtune.client.trials import TrialStore
from hushtune.core.randomness import SystemRandomness
from hushtune.core.secret import Secret

CONFIGS = [{"x": 0.0}, {"x": 0.5}, {"x": 1.0}]


class Counting:
    """Counts what it scores."""

    def __init__(self) -> None:
        self.scored = Observed()

    def fingerprint(self) -> str:
        return "counting"

    def losses(self, configs: list[ht.Config], data: ht.Rows, seed: int) -> np.ndarray:
        self.scored.extend(configs)
        return np.array([config["x"] + seed for config in configs])


def party(tmp_path: Path, client: ht.Client) -> Party:
    return Party(
        "client-0",
        client,
        TrialStore(tmp_path / "trials.db"),
        tmp_path,
        SystemRandomness(),
        secret=Secret.simulated(0, "a"),
    )


def test_trials_are_scored_once_per_data_objective_config_and_seed(tmp_path: Path) -> None:
    counting, rows = Counting(), (np.zeros((3, 1)), np.arange(3.0))
    client = ht.Client(rows, counting)
    np.testing.assert_allclose(party(tmp_path, client).losses(CONFIGS[:2], 0), [0, 0.5])
    np.testing.assert_allclose(party(tmp_path, client).losses(CONFIGS, 0), [0, 0.5, 1])
    assert counting.scored == CONFIGS
    party(tmp_path, client).losses(CONFIGS[:1], 7)
    assert counting.scored == [*CONFIGS, CONFIGS[0]]
    other = ht.Client((np.zeros((3, 1)), np.arange(3.0) + 1), counting)
    party(tmp_path, other).losses(CONFIGS[:1], 0)
    assert len(counting.scored) == 5


def test_a_failed_config_is_remembered_as_nan(tmp_path: Path) -> None:
    @ht.objective
    def sometimes(config: ht.Config, data: ht.Rows) -> float:
        return float("nan") if config["x"] == 0.5 else config["x"]

    client = ht.Client((np.zeros((3, 1)), np.arange(3.0)), sometimes)
    for _ in range(2):
        np.testing.assert_allclose(party(tmp_path, client).losses(CONFIGS, 0), [0, np.nan, 1])


@pytest.mark.parametrize(("direction", "sign"), [("minimize", 1), ("maximize", -1)])
def test_an_optuna_study_is_taken_as_trials(tmp_path: Path, direction: str, sign: float) -> None:
    study = optuna.create_study(direction=direction)
    space = {"x": optuna.distributions.FloatDistribution(0, 1)}
    for x in (0.0, 0.5):
        study.add_trial(optuna.trial.create_trial(params={"x": x}, distributions=space, value=x + 1))
    study.add_trial(
        optuna.trial.create_trial(params={"x": 1.0}, distributions=space, state=optuna.trial.TrialState.FAIL)
    )
    alone = party(tmp_path, ht.Client(trials=study))
    np.testing.assert_allclose(alone.losses(CONFIGS, 0), [sign * 1, sign * 1.5, np.nan])
    counting = Counting()
    helped = party(tmp_path, ht.Client((np.zeros((2, 1)), np.zeros(2)), counting, trials=study))
    helped.losses(CONFIGS, 0)
    assert counting.scored == [CONFIGS[2]]


def test_rows_take_arrays_and_lists() -> None:
    rows = ht.Rows([[1], [2], [3]], [1, 2, 3]).take([2, 0])
    assert len(rows) == 2
    np.testing.assert_array_equal(rows.X, [[3], [1]])


def test_a_party_shows_nothing_but_its_id(tmp_path: Path) -> None:
    client = ht.Client((np.full((3, 1), 123456.0), np.full(3, 654321.0)), Counting())
    shown = repr(party(tmp_path, client))
    assert "client-0" in shown
    assert "123456" not in shown
    assert "654321" not in shown


def test_a_damaged_trial_cache_is_named(tmp_path: Path) -> None:
    (tmp_path / "trials.db").write_bytes(b"not a database" * 100)
    with pytest.raises(ht.SettingError, match=r"trials\.db must be a trial cache"):
        TrialStore(tmp_path / "trials.db").check()
