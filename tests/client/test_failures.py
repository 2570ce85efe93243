"""The rules of failure, one by one; the tests of searches, releases and federations see them at work."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.client.search.test_base import Plain, parties

from hushtune.client import failures
from hushtune.client.failures import BEFORE, DIED, Failure
from hushtune.client.party import Party
from hushtune.core.errors import NoLossError, ObjectiveError, RefusedError

SECRET = "row 17 is 0.25"


def _does(what: str) -> float:
    if what == "raises":
        raise RuntimeError(SECRET)
    if what == "exits":
        sys.exit(SECRET)
    if what == "dies":
        os._exit(1)
    if what == "is killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "is interrupted":
        raise KeyboardInterrupt
    warnings.warn(SECRET, stacklevel=1)
    return 0.5


@pytest.fixture
def unit(tmp_path: Path) -> Party:
    (found,) = parties(tmp_path, Plain())
    return found


def log(unit: Party) -> str:
    path = unit.folder / "client.log"
    return path.read_text() if path.exists() else ""


# ---- what counts as a failure ------------------------------------------------------------------------


def test_a_config_without_a_finite_loss_is_a_trial_that_failed() -> None:
    found = failures.finite_or_nan(np.array([1.0, np.nan, np.inf, -np.inf]))
    np.testing.assert_array_equal(found, [1.0, np.nan, np.nan, np.nan])
    assert failures.loss_or_nan(float, "0.5") == 0.5
    assert np.isnan(failures.loss_or_nan(_does, "raises"))
    with pytest.raises(KeyboardInterrupt):
        failures.loss_or_nan(_does, "is interrupted")


@pytest.mark.parametrize("jobs", [1, 2])
def test_only_the_task_that_fails_fails(jobs: int) -> None:
    tasks = ["works", "raises", "dies", "works", "exits", "is killed", "works"]
    found = dict(failures.attempts(_does, deque((at, (task,)) for at, task in enumerate(tasks)), jobs, apart=True))
    assert [found[at] for at in (0, 3, 6)] == [0.5] * 3
    assert [found[at] for at in (2, 5)] == [DIED] * 2
    for at, last in ((1, f"RuntimeError: {SECRET}"), (4, f"SystemExit: {SECRET}")):
        outcome = found[at]
        assert isinstance(outcome, Failure)
        assert outcome.splitlines()[-1] == last


def test_a_warning_is_not_shown_because_it_may_quote_data(recwarn: pytest.WarningsRecorder) -> None:
    assert failures.attempt(_does, "works") == 0.5
    assert not recwarn.list


def test_an_interrupt_is_no_failure() -> None:
    with pytest.raises(KeyboardInterrupt):
        list(failures.attempts(_does, deque([(0, ("is interrupted",))]), 1, apart=False))


def test_an_interrupt_in_a_worker_is_the_objectives_own() -> None:
    """Ctrl-C does not reach workers: an objective that raises it must not end a private run."""
    ((_, outcome),) = failures.attempts(_does, deque([(0, ("is interrupted",))]), 1, apart=True)
    assert isinstance(outcome, failures.Failure)


def test_a_loader_ends_no_process() -> None:
    with pytest.raises(ObjectiveError, match=SECRET):
        failures.loaded_by(lambda: _does("exits"))
    with pytest.raises(RuntimeError, match=SECRET):
        failures.loaded_by(lambda: _does("raises"))
    with pytest.raises(KeyboardInterrupt):
        failures.loaded_by(lambda: _does("is interrupted"))


# ---- what is kept of it ------------------------------------------------------------------------------


def test_the_reason_is_in_the_clients_log_and_its_last_line_stays_for_the_run(unit: Party) -> None:
    failures.check(unit)
    failures.fail(unit, 3, "a", Failure(f"Traceback: in file x\nRuntimeError: {SECRET}\n"))
    assert unit.failure == f"RuntimeError: {SECRET}"
    assert "Traceback: in file x" in log(unit)
    with pytest.raises(ObjectiveError, match=SECRET):
        failures.check(unit)


def test_with_epsilon_who_failed_before_is_not_tried_again(unit: Party) -> None:
    failures.fail(unit, 3, "a", DIED)
    assert failures.work_of(unit, 3, "a", True, lambda: [1], "score") is None
    assert unit.failure == BEFORE
    assert failures.work_of(unit, 3, "a", False, lambda: [1], "score") == [1]  # without epsilon it is
    assert unit.failure is None
    assert failures.work_of(unit, 4, "a", True, lambda: [1], "score") == [1]  # and so it is with another seed
    assert failures.work_of(unit, 3, "b", True, lambda: [1], "score") == [1]  # and with other configs
    assert failures.work_of(unit, 3, "a", True, list, "score") == []  # who has nothing left to do, has not failed
    assert unit.failure is None


def test_who_cannot_tell_what_is_left_has_failed(unit: Party) -> None:
    assert failures.work_of(unit, 0, "a", False, lambda: _does("raises"), "score") is None
    assert unit.failure == f"RuntimeError: {SECRET}"
    assert f"cannot score: RuntimeError: {SECRET}" in log(unit)


# ---- who may learn of it -----------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["raises", "exits"])
def test_with_epsilon_an_answer_stands_in_and_without_it_the_client_refuses(unit: Party, what: str) -> None:
    def answer(private: bool) -> float:
        return failures.answer_of(unit, "votes", lambda: _does(what), lambda: 9.0, private)

    assert answer(private=True) == 9.0
    assert SECRET in log(unit)
    with pytest.raises(RefusedError) as refused:
        answer(private=False)
    assert str(refused.value) == "objective failed; see the client's own log"
    assert refused.value.__cause__ is None
    assert failures.answer_of(unit, "votes", lambda: _does("works"), lambda: 9.0, True) == 0.5


def test_that_no_loss_is_finite_is_said_only_without_epsilon(unit: Party) -> None:
    def none() -> Any:
        raise NoLossError

    with pytest.raises(RefusedError, match="no config has a finite loss here"):
        failures.answer_of(unit, "votes", none, lambda: 9.0, False)
    assert failures.answer_of(unit, "votes", none, lambda: 9.0, True) == 9.0


@pytest.mark.parametrize("private", [True, False])
def test_an_interrupt_is_no_answer(unit: Party, private: bool) -> None:
    with pytest.raises(KeyboardInterrupt):
        failures.answer_of(unit, "votes", lambda: _does("is interrupted"), lambda: 9.0, private)


def test_what_fails_while_a_client_prepares_is_kept_inside_with_epsilon_only(tmp_path: Path) -> None:
    party, *units = parties(tmp_path, Plain(), Plain(), Plain())
    with failures.kept_inside(party, units, private=True):
        _does("raises")
    assert [unit.failure for unit in units] == [f"RuntimeError: {SECRET}"] * 2
    assert SECRET in log(party)
    with pytest.raises(RuntimeError), failures.kept_inside(party, units, private=False):
        _does("raises")
