from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hushtune as ht
from experiments.dp_fts_de import experiment as fts
from experiments.dp_fts_de import figures as fts_figures
from experiments.dp_fts_de.simulation import Arm, Simulated, run
from experiments.dp_fts_de.tasks import repeated, synthetic, tabulated
from hushtune.core.observer import Silent

QUIET = Silent()


def experiment(tmp_path: Path, **changes: Any) -> fts.Experiment:
    settings: dict[str, Any] = {"task": "synthetic", "agents": [8], "seeds": 2, "folder": tmp_path, "jobs": 1}
    return fts.Experiment(**{**settings, "quick": True, "epsilons": (7.0,), **changes})


def test_synthetic_agents_are_alike_or_not() -> None:
    alike, different = synthetic(5, 0.02, 0), synthetic(5, 1.0, 0)
    assert alike.values.shape == (5, 1_000)
    assert alike.values.min() == 0
    assert alike.values.max() == 1
    assert np.corrcoef(alike.values)[0, 1] > 0.99
    assert np.corrcoef(different.values)[0, 1] < 0.9


def test_curves_never_rise_and_repeat() -> None:
    task = synthetic(6, 0.02, 1)
    arm = Arm("dp-fts-de", regions=2, multiplier=1.0, rate=0.5, features=20, norm=10.0)
    first, facts = run(task, arm, 6, 3, 0)
    again, _ = run(task, arm, 6, 3, 0)
    assert (np.diff(first) <= 0).all()
    assert (first == again).all()
    assert set(facts) == {"clipped", "agreement", "cosine"}


def test_agents_begin_in_their_sub_regions_and_never_repeat() -> None:
    task = synthetic(6, 0.02, 1)
    federation = Simulated(task, Arm("fts-de", regions=2, features=20), 5, 0)
    for iteration in range(1, 6):
        federation.open(iteration)
        federation.step(iteration)
    halves = task.points[federation.places[:, :5], 0] >= 0.5
    assert (halves == (np.arange(6) % 2 == 1)[:, None]).all()
    assert all(len(set(own)) == 10 for own in federation.places.tolist())


def test_noise_only_arms_hear_nothing() -> None:
    task = synthetic(200, 0.02, 0)
    arm = Arm("dp", regions=2, multiplier=1.0, features=20, norm=10.0)
    found = [run(task, each, 3, 5, 0)[1]["cosine"] for each in (arm, fts.noise_only(arm))]
    assert found[0] > 0.5
    assert abs(found[1]) < 0.3


@pytest.mark.long
def test_without_noise_sharing_is_ahead_of_tuning_alone() -> None:
    """FTS-DE ahead of FTS ahead of TS, over iterations, on functions that are nearly the same."""
    arms = {arm.name: arm for arm in fts.published("synthetic")}
    course = {
        name: np.mean([run(synthetic(40, 0.02, seed), arms[name], 8, 10, seed)[0][1:].mean() for seed in range(4)])
        for name in ("ts", "fts", "fts-de P=4")
    }
    assert course["fts-de P=4"] < course["fts"] < course["ts"]


@pytest.mark.long
def test_rows_compare_in_pairs_and_an_interrupted_experiment_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(fts._ITERATIONS, "synthetic", 4)
    found = list(fts.rows(experiment(tmp_path), QUIET))
    by_arm = {(row["task"], row["arm"]): row for row in found}
    private = by_arm["synthetic", "ours epsilon=7"]
    assert private["epsilon"] == pytest.approx(7.0, abs=0.01)
    assert {"ahead of ts, course", "ahead of noise, end", "ahead of noise, end, error"} <= set(private)
    assert "epsilon" not in by_arm["synthetic", "ts"]
    lines = (tmp_path / "curves.jsonl").read_text().splitlines()
    (tmp_path / "curves.jsonl").write_text("\n".join(lines[:-3]) + '\n{"key": "cut o')
    monkeypatch.setattr(fts, "_one", _counted := _Counted(fts._one))
    assert list(fts.rows(experiment(tmp_path), QUIET)) == found
    assert _counted.times == 3
    paths = fts_figures.write(found, tmp_path)
    assert any(path.suffix == ".svg" for path in paths)
    assert "| ours epsilon=7 | 7.00 |" in (tmp_path / "fts-synthetic-8.md").read_text()


class _Counted:
    def __init__(self, function: Any) -> None:
        self.function, self.times = function, 0

    def __call__(self, *arguments: Any) -> Any:
        self.times += 1
        return self.function(*arguments)


def test_a_real_task_is_tabulated_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from experiments.dp_fts_de import tasks as fts_tasks

    monkeypatch.setattr(fts_tasks, "POINTS", 6)
    monkeypatch.setattr(fts_tasks, "_DIGITS", 4)
    task = tabulated("digits", tmp_path, 1, QUIET)
    assert task.values.shape == (4, 6)
    assert task.values.max() > 0.5
    assert repeated(task, 10).values.shape == (10, 6)
    assert (repeated(task, 10).values[4] == task.values[0]).all()


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUSHTUNE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(ht.SettingError, match=r"har\.npz is not in .* set HUSHTUNE_DATA to it"):
        tabulated("har", tmp_path, 1, QUIET)


def test_subjects_of_a_file_become_agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from experiments.dp_fts_de import tasks as fts_tasks

    rng = np.random.default_rng(0)
    y = np.tile([0, 1], 30)
    x = rng.normal(size=(60, 3)) + y[:, None]
    np.savez(tmp_path / "har.npz", X=x, y=y, subject=np.repeat([3, 5, 9], 20))
    monkeypatch.setenv("HUSHTUNE_DATA", str(tmp_path))
    monkeypatch.setattr(fts_tasks, "POINTS", 4)
    task = tabulated("har", tmp_path / "out", 1, QUIET)
    assert task.values.shape == (3, 4)


@pytest.mark.long
def test_one_thing_is_changed_at_a_time_at_the_same_epsilon(tmp_path: Path) -> None:
    arms = fts._arms(experiment(tmp_path, ablate=True), "synthetic", 50)
    default = next(arm for arm in arms if arm.name == "ours epsilon=7")
    delta = 50**-1.1
    for arm in arms:
        if arm.name.startswith("ours epsilon=7:"):
            rounds = arm.rounds or 40
            assert fts.pld_epsilon(arm.multiplier, arm.rate, rounds, delta) == pytest.approx(7.0, abs=0.01)
            same = {name for name in Arm.__dataclass_fields__ if getattr(arm, name) == getattr(default, name)}
            assert len(set(Arm.__dataclass_fields__) - same) <= 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"task": "chess"}, "task must be one of"), ({"seeds": 1}, "seeds"), ({"agents": [3]}, "agents")],
)
def test_impossible_experiments_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ht.SettingError, match=message):
        experiment(tmp_path, **changes)
