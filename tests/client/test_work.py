"""What a client has done for servers, and what its owner still lets it do."""

from __future__ import annotations

import math
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import hushtune as ht
from hushtune.client import failures
from hushtune.client.party import Party
from hushtune.client.search.adaptive import Adaptive
from hushtune.client.search.base import Search
from hushtune.client.trials import TrialStore
from hushtune.client.work import Allowance, Work
from hushtune.core.errors import CacheError
from hushtune.core.observer import unseen
from hushtune.core.randomness import SystemRandomness
from hushtune.core.secret import Secret

CANDIDATES = ht.Space(x=ht.Float(0.0, 1.0)).grid(x=5)
POLICY = ht.Policy(work=10, unpaid=2)


def test_an_allowance_is_what_a_policy_says() -> None:
    assert not Allowance.of(None).bounded
    assert Allowance.of(None).ends("a", 5.0, 1) == math.inf
    assert Allowance.of(ht.Policy()).bounded
    assert Allowance.of(ht.Policy(trial_seconds=3.0, seconds=None)).ends("a", 5.0, 2) == 11.0


def test_what_is_left_is_shared_by_all_tasks_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """In all they take as long as the policy says, however many there are at once."""
    now = [100.0]
    monkeypatch.setattr("hushtune.client.work.time", SimpleNamespace(monotonic=lambda: now[0]))
    both = Allowance.of(ht.Policy(seconds=10.0, trial_seconds=8.0), {"": 2.0})
    assert both.ends("a", 100.0, 1) == 108.0
    both.ends("b", 100.0, 1)
    assert both.ends("a", 100.0, 1) == 104.0  # two at once have half of the time
    now[0] = 103.0
    both.over_for("b", 2.5)
    assert both.ends("a", 100.0, 1) == 105.5
    assert not both.over
    now[0] = 105.5
    assert both.over
    both.over_for("a", None)
    assert both.used == 10.0


def test_steps_add_up_and_the_same_step_counts_once(tmp_path: Path) -> None:
    work = Work(tmp_path / "work.db")
    assert work.begin("a", 0, b"q", 6, POLICY, set) == {}
    work.add("a", {"": 1.5, "0 of 2": 1.0})
    work.add("a", {"0 of 2": 0.5})
    assert work.begin("a", 0, b"q", 6, POLICY, set) == {"": 1.5, "0 of 2": 1.5}
    assert work.begin("a", 1, b"r", 4, POLICY, set) == {"": 1.5, "0 of 2": 1.5}
    with pytest.raises(ht.RefusedError, match="at most 10 configs are scored for a run, but got 11"):
        work.begin("a", 2, b"s", 1, POLICY, set)


def test_a_step_is_begun_for_one_request_only(tmp_path: Path) -> None:
    """Else a message that is refused in the end, after scoring, could come again with other candidates."""
    work = Work(tmp_path / "work.db")
    work.begin("a", 0, b"q", 1, POLICY, set)
    with pytest.raises(ht.RefusedError, match="step 0 of this run was begun for another request"):
        work.begin("a", 0, b"other", 1, POLICY, set)


def test_runs_that_were_charged_do_not_count(tmp_path: Path) -> None:
    work = Work(tmp_path / "work.db")
    for run in "ab":
        work.begin(run, 0, b"q", 1, POLICY, set)
    with pytest.raises(ht.RefusedError, match="at most 2 runs may be begun"):
        work.begin("c", 0, b"q", 1, POLICY, set)
    work.begin("a", 1, b"q", 1, POLICY, set)  # one that was begun goes on
    work.begin("c", 0, b"q", 1, POLICY, lambda: {"b"})


def test_each_part_has_a_share_that_the_others_cannot_use(tmp_path: Path) -> None:
    whole = Allowance.of(ht.Policy(seconds=10.0, trial_seconds=3.0), {"1 of 2": 4.0})
    first, second = whole.part("0 of 2", 2), whole.part("1 of 2", 2)
    assert (first.seconds, first.trial, first.used) == (5.0, 3.0, 0.0)
    assert (second.seconds, second.used) == (5.0, 4.0)
    second.used = 9.0
    assert second.over
    assert not first.over
    assert whole.taken() == {"": 0.0, "0 of 2": 0.0, "1 of 2": 5.0}


def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "work.db").write_bytes(b"no database" * 100)
    with pytest.raises(CacheError, match="must be a record of work"):
        Work(tmp_path / "work.db").begin("a", 0, b"q", 1, POLICY, set)


# ---- what takes too long -----------------------------------------------------------------------------


class Stuck:
    """Never comes back from one of the candidates."""

    def fingerprint(self) -> str:
        return "stuck"

    def losses(self, configs: Any, data: Any, seed: int) -> Any:
        while any(config["x"] == 0.5 for config in configs):
            time.sleep(1)
        return np.array([config["x"] for config in configs])


class TooLong(Exception):
    pass


class Slow(Stuck):
    """Takes too long for one of the candidates; the tests below need not wait for it."""

    def losses(self, configs: Any, data: Any, seed: int) -> Any:
        if any(config["x"] == 0.5 for config in configs):
            raise TooLong
        return super().losses(configs, data, seed)


def at_once(function: Any, tasks: Any, jobs: int, apart: bool, allowed: Any) -> Any:
    """Stands for `failures.attempts`: knows what takes too long without waiting for it."""
    while tasks:
        key, task = tasks.popleft()
        allowance, count = allowed(key)
        assert allowance.ends(key, 0.0, count) == allowance.trial * count
        allowance.over_for(key, 0.0)
        try:
            yield key, function(*task)
        except TooLong:
            yield key, failures.LATE


def party(tmp_path: Path, name: str, allowance: Allowance, objective: Any = None) -> Party:
    client = ht.Client((np.zeros((1, 1)), np.zeros(1)), objective or Stuck())
    store = TrialStore(tmp_path / "trials.db")
    secret = Secret.simulated(0, name)
    return Party(name, client, store, tmp_path / name, SystemRandomness(), secret=secret, allowance=allowance)


def test_a_trial_that_takes_too_long_is_one_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though several were handed over at once, only the slow one has no loss."""
    monkeypatch.setattr(failures, "attempts", at_once)
    slow = party(tmp_path, "a", Allowance(trial=2.0), Slow())
    Search().fill([slow], CANDIDATES, 1, unseen, private=True, apart=True)
    assert slow.failure is None
    assert np.isnan(slow.losses(CANDIDATES.configs, 0)).tolist() == [False, False, True, False, False]


def test_an_adaptive_search_goes_on_after_a_trial_that_takes_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "attempts", at_once)
    space, search = ht.Space(x=ht.Choice((0.5, 0.25))), Adaptive(trials=30, sampler="random")
    slow = party(tmp_path, "a", Allowance(trial=2.0), Slow())
    search.fill([slow], space, 1, unseen, private=True, apart=True)
    found = search.found(slow, space)
    assert len(found) == 30
    assert {config["x"] for config, _ in found} == {0.5, 0.25}
    assert all(np.isnan(loss) == (config["x"] == 0.5) for config, loss in found)


def test_a_run_that_takes_too_long_is_over_for_one_client_only(tmp_path: Path) -> None:
    slow, quick = party(tmp_path, "a", Allowance(seconds=2.0)), party(tmp_path, "b", Allowance(), Distance())
    Search().fill([slow, quick], CANDIDATES, 2, unseen, private=True, apart=True)
    assert slow.failure is not None
    assert "longer than the client's policy allows" in slow.failure
    assert slow.allowance.over
    assert quick.failure is None
    assert np.isfinite(quick.losses(CANDIDATES.configs, 0)).all()


def test_one_slow_part_costs_no_other_part_its_ballot(tmp_path: Path) -> None:
    """With time shared by all, one record in a slow part changed the ballots of the parts behind it."""
    slow, quick = Allowance(seconds=4.0).part("0 of 2", 2), Allowance(seconds=4000.0).part("1 of 2", 2)
    units = [party(tmp_path, "a", slow), party(tmp_path, "b", quick, Distance())]
    Search().fill(units, CANDIDATES, 1, unseen, private=True, apart=True)
    assert [unit.failure is None for unit in units] == [False, True]


class Distance:
    """A quick objective."""

    def fingerprint(self) -> str:
        return "distance"

    def losses(self, configs: Any, data: Any, seed: int) -> Any:
        return np.array([config["x"] for config in configs])


def test_copies_of_a_message_wait_for_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each of them would have all of the time."""
    monkeypatch.setattr("hushtune.client.work._PATIENCE", 0.0)
    one, other = Work(tmp_path / "work.db"), Work(tmp_path / "work.db")
    with one.alone():
        with pytest.raises(ht.RefusedError, match="at work for another request"), other.alone():
            pytest.fail("two at once")
        assert (tmp_path / "work.lock").stat().st_mode & 0o077 == 0
    with other.alone():
        pass
