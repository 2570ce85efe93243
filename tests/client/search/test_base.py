from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hushtune as ht
from hushtune.client.party import Party
from hushtune.client.rows import Parts
from hushtune.client.trials import TrialStore
from hushtune.core.observer import unseen
from hushtune.core.randomness import SystemRandomness
from hushtune.core.secret import Secret

CONFIGS = [{"x": float(x)} for x in range(7)]
CANDIDATES = ht.Space(x=ht.Float(0.0, 100.0)).candidates(CONFIGS)


class Plain:
    def losses(self, configs: list[ht.Config], data: Any, seed: int) -> np.ndarray:
        return np.array([config["x"] + float(data.y[0]) for config in configs])


class Broken:
    def losses(self, configs: list[ht.Config], data: Any, seed: int) -> np.ndarray:
        raise RuntimeError(f"secret {data.y[0]}")


class Fatal:
    def losses(self, configs: list[ht.Config], data: Any, seed: int) -> np.ndarray:
        os.kill(os.getpid(), signal.SIGKILL)
        return np.zeros(0)


class Unsendable(Plain):
    def fingerprint(self) -> str:
        return "unsendable"

    def __deepcopy__(self, memo: object) -> Unsendable:
        return self

    def __reduce__(self) -> Any:
        raise TypeError("not picklable")


def parties(tmp_path: Path, *objectives: Any) -> list[Party]:
    store = TrialStore(tmp_path / "trials.db")
    return [
        Party(
            f"c{i}",
            ht.Client((np.zeros((1, 1)), np.array([float(i)])), objective),
            store,
            tmp_path / f"c{i}",
            SystemRandomness(),
            secret=Secret.simulated(0, f"c{i}"),
        )
        for i, objective in enumerate(objectives)
    ]


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("count", [1, 3, 12])
def test_fills_every_trial_and_reports_all_progress(tmp_path: Path, jobs: int, count: int) -> None:
    found = parties(tmp_path, *[Plain()] * count)
    done: list[int] = []
    ht.Search().fill(found, CANDIDATES, jobs, lambda count, who=None: done.append(count), private=True)
    assert sum(done) == count * len(CONFIGS)
    for at, party in enumerate(found):
        assert not party.missing(CONFIGS, 0)
        np.testing.assert_allclose(party.losses(CONFIGS, 0), np.arange(7) + at)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_failure_stays_with_its_client(tmp_path: Path, jobs: int) -> None:
    good, bad = found = parties(tmp_path, Plain(), Broken())
    ht.Search().fill(found, CANDIDATES, jobs, unseen, private=True)
    assert good.failure is None
    assert bad.failure == "RuntimeError: secret 1.0"
    assert "secret 1.0" in (tmp_path / "c1" / "client.log").read_text()
    assert not (tmp_path / "c0").exists()


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_objective_that_kills_its_process_fails_alone(tmp_path: Path, jobs: int) -> None:
    found = parties(tmp_path, Plain(), Fatal(), Plain(), Plain())
    ht.Search().fill(found, CANDIDATES, jobs, unseen, private=True, apart=True)
    assert [party.failure for party in found] == [None, "the process that scored this client died", None, None]
    for at in (0, 2, 3):
        np.testing.assert_allclose(found[at].losses(CONFIGS, 0), np.arange(7) + at)


def test_an_objective_that_cannot_be_sent_is_scored_here(tmp_path: Path) -> None:
    found = parties(tmp_path, Unsendable(), Unsendable())
    ht.Search().fill(found, CANDIDATES, 2, unseen, private=True)
    np.testing.assert_allclose(found[1].losses(CONFIGS, 0), np.arange(7) + 1)


class Leaky:
    """Keeps the first client's label, as a shared scaler would."""

    kept: float | None = None

    def losses(self, configs: list[ht.Config], data: Any, seed: int) -> np.ndarray:
        self.kept = float(data.y[0]) if self.kept is None else self.kept
        return np.full(len(configs), self.kept)


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_an_objective_keeps_does_not_pass_to_other_clients(tmp_path: Path, jobs: int) -> None:
    found = parties(tmp_path, *[Leaky()] * 3)
    shared = Leaky()
    for party in found:
        party.client.objective = shared
    ht.Search().fill(found, CANDIDATES, jobs, unseen, private=True)
    assert [party.losses(CONFIGS, 0)[0] for party in found] == [0.0, 1.0, 2.0]


class Writing:
    """Writes into the configs it is given."""

    def losses(self, configs: list[ht.Config], data: Any, seed: int) -> np.ndarray:
        for config in configs:
            config["x"] = 12345.0
        return np.zeros(len(configs))


def test_an_objective_cannot_write_into_the_public_candidates(tmp_path: Path) -> None:
    candidates = ht.Space(x=ht.Float(0.0, 9.0)).candidates([{"x": 1.0}, {"x": 2.0}])
    ht.Search().fill(parties(tmp_path, Writing()), candidates, 1, unseen, private=True)
    parties(tmp_path, Writing())[0].losses(candidates.configs, 5)
    assert list(candidates) == [{"x": 1.0}, {"x": 2.0}]


def shown(found: list[Party], candidates: ht.Candidates, private: bool = True) -> list[int]:
    """What a bar shows, but for steps of nothing."""
    done: list[int] = []
    ht.Search().fill(found, candidates, 1, lambda count, who=None: done.append(count), private)
    return [count for count in done if count]


def test_a_private_bar_shows_the_same_numbers_whoever_fails_or_failed_before(tmp_path: Path) -> None:
    fewer, first, second, third = CANDIDATES.space.candidates(CONFIGS[:5]), [], [], []
    for name, objectives in (("none", [Plain()] * 4), ("some", [Broken(), Plain(), Broken(), Plain()])):
        first.append(shown(parties(tmp_path / name, *objectives), fewer))
        second.append(shown(parties(tmp_path / name, *objectives), CANDIDATES))
        third.append(shown(parties(tmp_path / name, *objectives), CANDIDATES))
    assert first == [first[0]] * 2
    assert [sum(steps) for steps in second] == [28, 28]  # other candidates are tried; observers see even steps only
    assert third == [[7, 7, 7, 7]] * 2
    tried = shown(parties(tmp_path / "some", Broken(), Plain()), CANDIDATES, private=False)
    assert tried[0] == sum(tried[1:]) == 7  # without epsilon it is tried again


@pytest.mark.parametrize("voters", [2, 8])
def test_a_private_bar_shows_the_same_numbers_whatever_records_there_are(tmp_path: Path, voters: int) -> None:
    seen = []
    for records in (1, 6, 7):
        client = ht.Client((np.zeros((records, 1)), np.arange(records)), Plain())
        store = TrialStore(tmp_path / f"{records}.db")
        party = Party("c", client, store, tmp_path / str(records), SystemRandomness(), secret=Secret.simulated(0, "c"))
        seen.append(shown(party.parts(Parts(voters)), CANDIDATES))
    assert seen == [seen[0]] * 3


def test_data_that_cannot_be_read_is_a_failure_like_any_other(tmp_path: Path) -> None:
    class Unreadable:
        def fingerprint(self) -> str:
            raise ValueError("row 17 is unreadable")

    good, bad = found = parties(tmp_path, Plain(), Plain())
    bad.client.data = Unreadable()
    ht.Search().fill(found, CANDIDATES, 1, unseen, private=True)
    assert good.failure is None
    assert bad.failure == "ValueError: row 17 is unreadable"


def test_the_seed_is_checked() -> None:
    with pytest.raises(ht.SettingError, match="seed=-1"):
        ht.Search(seed=-1)
