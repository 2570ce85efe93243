"""Propose-test and noisy maximum as methods: what units send, what is charged, and whole runs."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.observed import Observed

import hushtune as ht
from hushtune.calibration import calibrate, plan_of
from hushtune.client import Party
from hushtune.errors import AbortedError, HushtuneError
from hushtune.federation.local import LocalFederation
from hushtune.method import Facts
from hushtune.methods import method_from_json
from hushtune.methods.propose import STEPS, CandidateScores, affordable, public_order
from hushtune.privacy.accounting import Sums, epsilon_of
from hushtune.privacy.noise import Noise
from hushtune.privacy.release import contribution, respond
from hushtune.privacy.request import Request
from hushtune.privacy.steps import PureTests
from hushtune.query import query_from_json, query_to_json
from hushtune.randomness import SystemRandomness
from hushtune.roster import Roster
from hushtune.rows import WHOLE, Parts
from hushtune.runfolder import RunFolder
from hushtune.trials import TrialStore
from hushtune.tuning import method_to_json
from hushtune.wire import pack, unpack

SPACE = ht.Space(x=ht.Float(0.0, 1.0))
CANDIDATES = SPACE.grid(x=5)
RECORD = ht.Privacy(5.0, unit="record")
CURATOR = ht.Curator()
METHODS: list[Any] = [ht.ProposeTest(), ht.NoisyMax(), ht.NoisyMax(mechanism="exponential")]


class Loss:
    """Losses that were written down, or an error."""

    def __init__(self, outcome: Any, calls: Any = None) -> None:
        self.outcome, self.calls = outcome, calls

    def fingerprint(self) -> str:
        return repr(self.outcome)

    def losses(self, configs: Sequence[ht.Config], data: Any, seed: int) -> Any:
        if self.calls is not None:
            self.calls.append(len(configs))
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return np.asarray(self.outcome, dtype=float)


class Centre:
    """The loss is the distance from the mean of the part's rows, at most 1."""

    def fingerprint(self) -> str:
        return "centre"

    def losses(self, configs: Sequence[ht.Config], data: Any, seed: int) -> Any:
        return np.minimum(1.0, [abs(config["x"] - float(np.mean(data.y))) for config in configs])


BEST_IS_THIRD = [0.7, 0.6, 0.05, 0.6, 0.7]


def clients(count: int = 4, outcome: Any = None, rows: int = 6, calls: Any = None) -> list[ht.Client]:
    losses = BEST_IS_THIRD if outcome is None else outcome
    return [ht.Client((np.zeros((rows, 1)), np.zeros(rows)), Loss(losses, calls)) for _ in range(count)]


def tune(those: list[ht.Client] | None = None, **changes: Any) -> ht.Result:
    settings: dict[str, Any] = {"method": ht.ProposeTest(), "privacy": ht.Privacy(5.0), "seal": CURATOR}
    return ht.tune(those or clients(), CANDIDATES, quiet=True, jobs=1, **{**settings, **changes})


def facts(privacy: ht.Privacy | None = RECORD, clients: int = 4, seal: Any = CURATOR) -> Facts:
    return Facts(CANDIDATES, clients, privacy, seal, ht.Search())


def query(**changes: Any) -> CandidateScores:
    asked = CandidateScores(CANDIDATES, 0, (0.0, 1.0), 19, STEPS)
    return replace(asked, **changes)


def party(folder: Path, objective: Any, data: Any = None) -> Party:
    given = (np.zeros((1, 1)), np.zeros(1)) if data is None else data
    folder.mkdir(exist_ok=True)
    ledger = ht.Ledger(folder / "ledger.db")
    client = ht.Client(given, objective)
    return Party("a", client, TrialStore(folder / "trials.db"), folder, SystemRandomness(), ledger)


# ---- what a unit sends -------------------------------------------------------------------------------


def test_scores_are_losses_turned_round_on_a_grid(tmp_path: Path) -> None:
    one = party(tmp_path, Loss([0.0, 0.25, 0.5, 1.0, np.nan]))
    assert contribution(query(), one, WHOLE, private=True).tolist() == [1024, 768, 512, 0, 0]
    other = party(tmp_path, Loss([-1.0, 0.0, 1.0, 3.0, 3.0]))
    assert contribution(query(losses=(-1.0, 3.0)), other, WHOLE, private=True).tolist() == [1024, 768, 512, 0, 0]


@pytest.mark.parametrize(
    "outcome",
    [
        RuntimeError("secret"),
        SystemExit(1),
        [np.nan] * 5,
        [0.1, 0.2, 1.0001, 0.3, 0.4],
        [0.1, 0.2, -0.0001, 0.3, 0.4],
        [0.1, 0.2, np.inf, 77.0, 0.4],
        [0.1],
        [[0.1] * 5],
    ],
)
def test_a_unit_that_fails_sends_zeros_and_the_reason_stays_there(tmp_path: Path, outcome: Any) -> None:
    one = party(tmp_path, Loss(outcome))
    assert contribution(query(), one, WHOLE, private=True).tolist() == [0] * 5


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=5, max_size=5))
@settings(max_examples=60)
def test_whatever_losses_are_scores_are_within_the_bound_or_refused(losses: list[float]) -> None:
    asked = query()
    try:
        found = asked.answer(SimpleNamespace(losses=lambda configs, seed: np.array(losses)))  # type: ignore[arg-type]
    except HushtuneError:
        return
    asked.bound.check(found)


def test_queries_and_methods_survive_being_written_down() -> None:
    asked = query(losses=(-1.0, 2.0), sensitivity=5000)
    assert query_from_json(json.loads(json.dumps(query_to_json(asked)))) == asked
    for method in (
        ht.ProposeTest(2, 0.05, 0.5, "filter", 0.2, default=3, validation=100, losses=(0.0, 2.0)),
        ht.NoisyMax(3, "exponential", "public"),
    ):
        assert method_from_json(json.loads(json.dumps(method_to_json(method)))) == method
        final = method.settled(facts())
        assert method_from_json(json.loads(json.dumps(method_to_json(final)))) == final


# ---- sensitivity -------------------------------------------------------------------------------------


def _changed(before: Any, after: Any) -> int:
    return int(np.abs(before - after).max())


@pytest.mark.parametrize("voters", [1, 3])
def test_a_record_moves_every_sum_by_one_units_scores_at_the_most(tmp_path: Path, voters: int) -> None:
    """Replaced in its place, or added and removed: whatever the record becomes, one part changes."""
    rng = np.random.default_rng(1)
    X, y = rng.random((5, 1)), rng.random(5)

    def sent(X: Any, y: Any, relation: Any) -> Any:
        return contribution(query(), party(tmp_path, Centre(), (X, y)), Parts(voters, relation), private=True)

    largest = 0
    for at, value in itertools.product(range(5), (-1e9, 1.0, math.nan)):
        other = y.copy()
        other[at] = value
        largest = max(largest, _changed(sent(X, y, "replace-one"), sent(X, other, "replace-one")))
        fewer, more = np.delete(np.arange(5), at), (np.vstack([X, [[value]]]), np.append(y, value))
        largest = max(largest, _changed(sent(X, y, "add-remove"), sent(X[fewer], y[fewer], "add-remove")))
        largest = max(largest, _changed(sent(X, y, "add-remove"), sent(*more, "add-remove")))
    assert 0 < largest <= ht.ProposeTest(voters).sensitivity(voters) == STEPS


def _score(rows: Any, asked: CandidateScores) -> Any:
    """One unit's scores, where a candidate's loss is the mean over shared rows, shape (rows, candidates)."""
    low, high = asked.losses
    losses = low + (high - low) * np.mean(rows, axis=0)
    return asked.answer(SimpleNamespace(losses=lambda configs, seed: losses))  # type: ignore[arg-type]


@settings(max_examples=80)
@given(
    st.data(),
    st.integers(1, 9) | st.sampled_from([16, 100, 1000, 2048]),
    st.sampled_from([(0.0, 1.0), (-1.0, 2.0), (0.0, 10.0)]),
)
def test_a_protected_row_moves_every_units_scores_a_little(
    data: st.DataObject, rows: int, losses: tuple[float, float]
) -> None:
    """Units of four kinds, each with its own loss on each row; one of the rows they share changes."""
    asked, kinds, each_kind = query(losses=losses), 4, 1000
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    before = rng.choice([0.0, 0.5, 1.0, rng.random()], (kinds, rows, 5))
    after = before.copy()
    after[:, data.draw(st.integers(0, rows - 1))] = rng.choice([0.0, 1.0], (kinds, 5))
    one, other = (each_kind * sum(_score(kind, asked) for kind in them) for them in (before, after))
    assert _changed(one, other) <= ht.NoisyMax(validation=rows).sensitivity(kinds * each_kind)


def test_a_protected_row_does_not_move_a_score_by_two_steps_if_it_is_worth_one() -> None:
    """1,024 rows on a grid of 1,024 steps: from half a step to one and a half, ties are rounded apart."""
    before = np.zeros((1024, 5))
    before[0] = 0.5
    after = before.copy()
    after[1] = 1.0
    units, asked = 2000, query()
    moved = _changed(units * _score(before, asked), units * _score(after, asked))
    assert moved <= ht.NoisyMax(validation=1024).sensitivity(units)


def test_protected_rows_that_come_or_go_are_within_the_sensitivity_too() -> None:
    rng = np.random.default_rng(2)
    for rows in (2, 7, 100):
        each = rng.choice([0.0, 1.0], (8, rows, 5))
        before = sum(_score(unit, query()) for unit in each)
        after = sum(_score(unit[1:], query()) for unit in each)
        assert _changed(before, after) <= ht.NoisyMax(validation=rows).sensitivity(8)


def test_the_sensitivity_of_many_units_is_stated_and_paid_for() -> None:
    """Few protected rows, many units: all of them move, and noise grows with it."""
    method = ht.ProposeTest(voters=25, validation=10).settled(facts())
    assert method.sensitivity(100) >= 100 * STEPS / 10
    assert ht.ProposeTest(voters=25).settled(facts()).sensitivity(100) == STEPS
    (bound,) = method.bounds(CANDIDATES)
    assert bound.sensitivity == method.sensitivity(100)
    noise = calibrate((bound,), RECORD, Sums(), "curator")
    (event,) = plan_of((bound,), RECORD, noise)
    assert event == PureTests(2 * bound.sensitivity / noise.scale, 19)
    assert epsilon_of((event,), RECORD.delta) <= RECORD.epsilon


# ---- what is settled and refused beforehand ----------------------------------------------------------


def test_tests_and_units_follow_from_settings() -> None:
    assert ht.ProposeTest().settled(facts()).tests == 19
    assert ht.ProposeTest(granularity=0.01).settled(facts()).tests == 199
    assert ht.ProposeTest(start=0.7).settled(facts()).tests == 5
    assert ht.ProposeTest(voters=3).settled(facts()).units == 12
    assert ht.NoisyMax(voters=3).settled(facts()).units == 12
    settled = ht.ProposeTest(voters=3).settled(facts())
    assert settled.settled(facts()) == settled
    for method in (ht.ProposeTest(), ht.NoisyMax()):
        with pytest.raises(ht.SettingError, match="not settled"):
            method.bounds(CANDIDATES)


@pytest.mark.parametrize(("epsilon", "tests"), [(0.1, 1), (0.2, 2), (1.0, 10), (1.59, 19), (1.58, 18), (50.0, 19)])
def test_a_filter_makes_as_many_tests_as_epsilon_pays_for(epsilon: float, tests: int) -> None:
    privacy = ht.Privacy(epsilon, 1e-5)
    found = affordable(0.1, privacy, 19)
    assert found == ht.ProposeTest(stop="filter", epsilon0=0.1).settled(facts(privacy)).tests
    assert abs(found - tests) <= 1
    assert epsilon_of((PureTests(0.1, found),), 1e-5) <= epsilon
    assert found == 19 or epsilon_of((PureTests(0.1, found + 1),), 1e-5) > epsilon


@pytest.mark.parametrize("epsilon0", [0.5, 1.1, 0.279, 16.1, 30.7])
def test_a_filter_that_cannot_begin_says_what_would_be_enough(epsilon0: float) -> None:
    with pytest.raises(ht.SettingError, match="does not pay for one test") as caught:
        affordable(epsilon0, ht.Privacy(0.9 * epsilon0), 19)
    enough = float(str(caught.value).split("at least epsilon=")[1].split(" ")[0])
    assert affordable(epsilon0, ht.Privacy(enough), 19) >= 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ht.ProposeTest(voters=0), "voters"),
        (lambda: ht.ProposeTest(voters=10**6), "voters"),
        (lambda: ht.ProposeTest(granularity=0.0), "granularity"),
        (lambda: ht.ProposeTest(granularity=1.0), "granularity"),
        (lambda: ht.ProposeTest(granularity=math.nan), "granularity"),
        (lambda: ht.ProposeTest(granularity="0.1"), "granularity"),  # type: ignore[arg-type]
        (lambda: ht.ProposeTest(start=1.0), "start"),
        (lambda: ht.ProposeTest(start=-0.1), "start"),
        (lambda: ht.ProposeTest(stop="never"), "stop must be"),  # type: ignore[arg-type]
        (lambda: ht.ProposeTest(stop="filter"), "epsilon0 is for stop='filter'"),
        (lambda: ht.ProposeTest(epsilon0=0.1), "epsilon0 is for stop='filter'"),
        (lambda: ht.ProposeTest(stop="filter", epsilon0=0.0), "epsilon0"),
        (lambda: ht.ProposeTest(stop="filter", epsilon0=51.0), "epsilon0"),
        (lambda: ht.ProposeTest(default=-1), "default"),
        (lambda: ht.ProposeTest(validation=0), "validation"),
        (lambda: ht.ProposeTest(validation=True), "validation"),
        (lambda: ht.ProposeTest(validation="others"), "validation"),  # type: ignore[arg-type]
        (lambda: ht.ProposeTest(losses=(1.0, 0.0)), "losses"),
        (lambda: ht.ProposeTest(losses=(0.0, math.inf)), "losses"),
        (lambda: ht.NoisyMax(mechanism="laplace"), "mechanism"),  # type: ignore[arg-type]
        (lambda: ht.NoisyMax(voters=-1), "voters"),
        (lambda: ht.NoisyMax(validation=-5), "validation"),
        (lambda: ht.ProposeTest(default=5).settled(facts()), "default < 5"),
        (lambda: ht.ProposeTest(stop="filter", epsilon0=6.0).settled(facts()), "does not pay for one test"),
        (lambda: SPACE.candidates([]), "candidate"),
    ],
)
def test_impossible_settings_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ht.SettingError, match=message):
        make()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"privacy": None}, "curator"),
        ({"privacy": None, "seal": ht.Clear()}, "needs privacy"),
        ({"seal": ht.Clear()}, r"give seal=Curator\(\)"),
        ({"seal": ht.Masked()}, r"give seal=Curator\(\)"),
        ({"seal": None}, r"give seal=Curator\(\)"),
    ],
)
def test_a_guarantee_and_a_trusted_server_are_needed(
    method: Any, changes: dict[str, Any], message: str, home: Path
) -> None:
    with pytest.raises(ht.SettingError, match=message):
        tune(method=method, **changes)
    assert not list(home.rglob("*.db"))


@pytest.mark.parametrize("method", METHODS)
def test_settings_that_do_not_go_with_the_unit_are_refused(method: Any) -> None:
    with pytest.raises(ht.SettingError, match="unit='record'"):
        tune(method=replace(method, voters=2))
    with pytest.raises(ht.SettingError, match="unit='record'"):
        tune(method=replace(method, validation=10))
    with pytest.raises(ht.SettingError, match="finite public list"):
        ht.tune(clients(), SPACE, method=method, privacy=RECORD, seal=CURATOR)


@pytest.mark.parametrize("name", ["granularity", "start", "epsilon0", "voters", "default"])
def test_numbers_of_numpy_are_numbers(name: str, tmp_path: Path) -> None:
    values: dict[str, Any] = {
        "granularity": np.float64(0.1),
        "start": np.float64(0.5),
        "epsilon0": np.float64(0.5),
        "voters": np.int64(1),
        "default": np.int64(1),
    }
    stop = {"stop": "filter"} if name == "epsilon0" else {}
    result = tune(method=ht.ProposeTest(**{name: values[name], **stop}), folder=tmp_path / "run")  # type: ignore[arg-type]
    assert ht.Result.load(tmp_path / "run").method == json.loads(json.dumps(result.method))


@pytest.mark.parametrize("sensitivity", [1024, 20_000, 30_000, 10**6])
def test_noise_is_found_for_every_sensitivity(sensitivity: int) -> None:
    bound = query(times=19, sensitivity=sensitivity).bound
    noise = calibrate((bound,), RECORD, Sums(), "curator")
    assert 0.99 * RECORD.epsilon < epsilon_of(plan_of((bound,), RECORD, noise), RECORD.delta) <= RECORD.epsilon


# ---- whole runs --------------------------------------------------------------------------------------

RELATIONS = [
    ht.Privacy(50.0),
    ht.Privacy(50.0, neighbours="zero-out"),
    ht.Privacy(50.0, unit="record"),
    ht.Privacy(50.0, unit="record", neighbours="add-remove"),
]


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("method", "privacy"),
    [
        (ht.ProposeTest(12, start=0.5), RELATIONS[3]),
        (ht.NoisyMax(12), RELATIONS[2]),
        (ht.NoisyMax(12, "exponential"), RELATIONS[2]),
    ],
)
def test_with_a_large_budget_the_best_is_chosen(method: Any, privacy: ht.Privacy, tmp_path: Path) -> None:
    """48 units: noise of a scale of .03 on mean scores, and the others are .5 below the first threshold.

    False alarms: below 40 e^-20.
    """
    rng = np.random.default_rng(3)
    losses = [0.98, 0.98, 0.02, 0.98, 0.98]
    those = [ht.Client((rng.random((200, 1)), rng.random(200)), Loss(losses)) for _ in range(4)]
    result = tune(those, method=method, privacy=privacy, folder=tmp_path / "run")
    assert result.config == {"x": 0.5}
    assert result.index == 2
    assert result.privacy == privacy
    assert result.spent.epsilon <= 50
    assert all(check.holds for check in ht.verify(tmp_path / "run"))
    if isinstance(method, ht.ProposeTest):
        assert 2 * result.noise["scale"] < 0.03 * 48 * STEPS


@pytest.mark.parametrize("method", METHODS[:2])
@pytest.mark.parametrize("privacy", RELATIONS)
def test_every_unit_and_relation_is_charged_and_verified(method: Any, privacy: ht.Privacy, tmp_path: Path) -> None:
    privacy = replace(privacy, epsilon=2.0)
    result = tune(method=method, privacy=privacy, folder=tmp_path / "run")
    (event,) = result.plan
    assert isinstance(event, PureTests)
    assert event.times == (19 if isinstance(method, ht.ProposeTest) else 1)
    assert event.epsilon == 2 * STEPS / result.noise["scale"]
    assert 1.97 < epsilon_of(result.plan, privacy.delta) <= 2.0
    assert result.ledger is not None
    assert result.ledger.spent.epsilon == pytest.approx(result.spent.epsilon)
    answers = result.opened[0].blocks["answers"]
    assert len(answers) <= event.times
    if isinstance(method, ht.ProposeTest):
        assert result.notes["tests made"] == len(answers)
        passed = [place for place in answers if place >= 0]
        assert result.index == (passed[-1] if passed else 0)
    assert "trusted" in result.statement.lower()
    assert all(check.holds for check in ht.verify(tmp_path / "run"))


@pytest.mark.statistical
def test_nothing_chosen_gives_the_default() -> None:
    """All scores 0 and thresholds from .95 on, 40 units: a test is passed with a chance under e^-50."""
    those = clients(4, [1.0] * 5, rows=100)
    method = ht.ProposeTest(voters=10, start=0.9, granularity=0.05, default=3)
    result = tune(those, method=method, privacy=ht.Privacy(50.0, unit="record"))
    assert result.opened[0].blocks == {"answers": [-1]}
    assert result.index == 3
    assert result.notes == {"tests made": 1.0, "threshold reached, which is no estimate of a score": 0.9}


def test_a_filter_run_stops_after_its_tests(tmp_path: Path) -> None:
    method = ht.ProposeTest(stop="filter", epsilon0=0.5, granularity=0.01)
    result = tune(method=method, privacy=ht.Privacy(1.2), folder=tmp_path / "run")
    assert result.method["tests"] == 2
    assert len(result.opened[0].blocks["answers"]) <= 2
    assert all(check.holds for check in ht.verify(tmp_path / "run"))


def test_more_voters_than_rows_leave_parts_that_send_zeros(tmp_path: Path) -> None:
    """Two rows, five voters: three parts are empty, and nobody can tell."""
    privacy = ht.Privacy(5.0, unit="record")
    one = party(tmp_path / "a", Loss(BEST_IS_THIRD), (np.zeros((2, 1)), np.zeros(2)))
    sent = contribution(query(), one, Parts(5, "replace-one"), private=True)
    assert sent.tolist() == (2 * contribution(query(), one, WHOLE, private=True)).tolist()
    result = tune(clients(3, rows=2), method=ht.ProposeTest(voters=5), privacy=privacy, folder=tmp_path / "run")
    assert result.answered == 3
    assert result.method["units"] == 15
    assert all(check.holds for check in ht.verify(tmp_path / "run"))


@pytest.mark.parametrize("outcome", [RuntimeError("secret"), [np.nan] * 5, [77.7] * 5, [-0.5] * 5])
def test_failing_clients_look_like_any_other(outcome: Any, tmp_path: Path) -> None:
    those = [*clients(3), *clients(1, outcome)]
    result = tune(those, method=ht.NoisyMax(), folder=tmp_path / "run")
    assert result.answered == 4
    assert not result.dropped
    shown = "".join(path.read_text() for path in (tmp_path / "run").glob("*.json")) + result.statement
    assert "secret" not in shown
    assert "77.7" not in shown


def test_if_all_fail_something_is_chosen_all_the_same() -> None:
    assert tune(clients(3, RuntimeError("secret")), method=ht.NoisyMax()).answered == 3


@pytest.mark.parametrize("method", METHODS)
def test_a_simulation_repeats_and_charges_nothing(method: Any, home: Path) -> None:
    found = {json.dumps(tune(method=method, simulation=ht.Simulation(5)).opened[0].blocks) for _ in range(3)}
    assert len(found) == 1
    assert not list(home.rglob("ledger*.db"))


def test_orders_are_public_and_differ_from_test_to_test() -> None:
    orders = [public_order("0" * 32, test, 20) for test in range(50)]
    assert all(sorted(order) == list(range(20)) for order in orders)
    assert len({tuple(order) for order in orders}) == 50
    assert orders[7] == public_order("0" * 32, 7, 20)
    assert orders[0] != public_order("1" * 32, 0, 20)


def test_the_statement_says_which_rows_scores_are_of() -> None:
    said = {
        validation: tune(
            method=ht.NoisyMax(validation=validation),
            privacy=RECORD,
            simulation=ht.Simulation(1),
        ).statement
        for validation in ("own", "public", 500)
    }
    assert "PUBLIC" in said["public"]
    assert "500 protected rows" in said[500]
    assert "unit's own" in said["own"]


# ---- interruptions and ledgers -----------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_an_interrupted_run_is_resumed_and_opens_nothing_twice(
    method: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(ht.Result, "save", lambda *a: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            tune(method=method, folder=folder)
    kept = json.loads((folder / "run.json").read_text())["opened"][0]["opened"]["blocks"]
    with monkeypatch.context() as patch:
        patch.setattr(LocalFederation, "exchange", None)  # nobody is asked again
        patch.setattr("hushtune.run.CuratedScores", None)  # and nothing is drawn
        result = tune(method=method, folder=folder)
    assert result.opened[0].blocks == kept
    assert all(check.holds for check in ht.verify(folder))


def test_a_run_that_was_interrupted_before_its_answers_were_kept_is_charged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    """Clients send the same bytes again, nobody saw the first answers, and the plan is the same."""
    folder, sent = tmp_path / "run", []
    real = LocalFederation.exchange

    def exchange(self: LocalFederation, *args: Any) -> Any:
        replies = real(self, *args)
        sent.append(dict(replies))
        return replies

    monkeypatch.setattr(LocalFederation, "exchange", exchange)
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "keep", lambda *a: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            tune(folder=folder)
    assert json.loads((folder / "run.json").read_text())["opened"] == []
    result = tune(folder=folder)
    assert sent[0] == sent[1]
    for path in home.rglob("ledger*.db"):
        (entry,) = ht.Ledger(path).entries()
        assert entry.charge.events == result.plan
    assert all(check.holds for check in ht.verify(folder))


def test_a_run_that_is_taken_up_again_is_settled_as_it_began(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though the ledger has nothing left by then, and its limit was lowered."""
    folder, ledger = tmp_path / "run", ht.Ledger.new(tmp_path / "ledger.db", 6.0, 1e-4)
    method = ht.ProposeTest(stop="filter", epsilon0=0.5)
    with monkeypatch.context() as patch:
        patch.setattr(ht.Result, "save", lambda *a: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            tune(method=method, folder=folder, ledger=ledger)
    (before,) = ledger.entries()
    ledger.set_limit(0.1, 1e-5)
    result = tune(method=method, folder=folder, ledger=ledger)
    assert result.plan == before.charge.events
    assert len(ledger.entries()) == 1


@pytest.mark.parametrize("method", [*METHODS, ht.ProposeTest(stop="filter", epsilon0=0.5)])
def test_a_ledger_with_less_left_refuses_before_anybody_scores(method: Any, tmp_path: Path) -> None:
    calls = Observed()
    ledger = ht.Ledger.new(tmp_path / "ledger.db", 6.0, 1e-4)
    tune(method=method, ledger=ledger)
    with pytest.raises(ht.BudgetError, match="would bring it to"):
        tune(clients(calls=calls), method=method, ledger=ledger, home=tmp_path / "other")
    assert not calls
    assert len(ledger.entries()) == 1


def test_clients_with_less_left_refuse_too(tmp_path: Path) -> None:
    tune()
    with pytest.raises(AbortedError, match="the ledgers of 4 refuse"):
        tune(ledger=ht.Ledger.new(tmp_path / "fresh.db", 50.0, 1e-4))


def test_a_run_is_calibrated_under_its_ledgers_rule(tmp_path: Path) -> None:
    ledger = ht.Ledger.new(tmp_path / "ledger.db", 5.0, 1e-5, rule="renyi")
    louder, tight = tune(ledger=ledger), tune(home=tmp_path / "other")
    assert louder.noise["scale"] > tight.noise["scale"]
    assert ledger.spent().epsilon <= 5.0


# ---- saved results -----------------------------------------------------------------------------------

Change = Callable[[dict[str, Any]], Any]


def _answers(raw: dict[str, Any]) -> list[int]:
    return list(raw["opened"][0]["blocks"]["answers"])


def _set(*path: Any, to: Any) -> Change:
    def change(raw: dict[str, Any]) -> None:
        for key in path[:-1]:
            raw = raw[key]
        raw[path[-1]] = to(raw[path[-1]]) if callable(to) else to

    return change


TAMPERINGS: dict[str, Change] = {
    "another last answer": _set("opened", 0, "blocks", "answers", to=lambda a: [*a[:-1], (a[-1] + 2) % 5 - 1]),
    "one more answer": _set("opened", 0, "blocks", "answers", to=lambda a: [*a, 1]),
    "one answer less": _set("opened", 0, "blocks", "answers", to=lambda a: a[:-1]),
    "no answers": _set("opened", 0, "blocks", to={}),
    "an answer outside": _set("opened", 0, "blocks", "answers", to=lambda a: [*a[:-1], 5]),
    "an answer that is no integer": _set("opened", 0, "blocks", "answers", to=lambda a: [float(p) for p in a]),
    "more was opened": _set("opened", 0, "blocks", to=lambda b: {**b, "scores": [1, 2, 3, 4, 5]}),
    "opened twice": _set("opened", to=lambda opened: opened * 2),
    "noise on an answer": _set("opened", 0, "noise_variance", to=1.0),
    "other config": _set("config", to={"x": 0.123}),
    "other index": _set("index", to=lambda index: (index + 1) % 5),
    "fewer tests noted": _set("notes", "tests made", to=0.5),
    "a note left out": _set("notes", to={}),
    "a note added": _set("notes", to=lambda notes: {**notes, "mean score": 0.93}),
    "fewer tests in the plan": _set("plan", 0, "times", to=1),
    "smaller tests in the plan": _set("plan", 0, "epsilon", to=1e-3),
    "fewer tests in the method": _set("method", "tests", to=1),
    "other granularity": _set("method", "granularity", to=0.2),
    "other units": _set("method", "units", to=40),
    "other voters": _set("method", "voters", to=2),
    "protected rows": _set("method", "validation", to=10),
    "public rows": _set("method", "validation", to="public"),
    "another scale": _set("noise", "scale", to=1e5),
    "smaller epsilon": _set("spent", "epsilon", to=0.1),
    "less asked for": _set("privacy", "epsilon", to=1.0),
    "another unit": _set("privacy", "unit", to="record"),
    "clear seal": _set("seal", "name", to="clear"),
    "candidates in another order": _set("candidates", "configs", to=lambda configs: [*configs[1:], configs[0]]),
    "no scores disclosed": _set("disclosures", to=lambda them: them[1:]),
    "answers for free": _set("disclosures", 1, "epsilon", to=0.0),
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A result whose answers are not all the same."""
    folder = tmp_path_factory.mktemp("finished")
    for number in range(100):
        result = tune(folder=folder / f"{number}", home=folder / f"home {number}")
        if result.opened[0].blocks["answers"][-1] >= 0 and result.index not in (0, 4):
            return (folder / f"{number}" / "result.json").read_text()
    raise AssertionError("no test was ever passed")


def _failed(raw: dict[str, Any], folder: Path) -> list[str]:
    (folder / "result.json").write_text(json.dumps(raw))
    return [check.claim for check in ht.verify(folder) if not check.holds]


@pytest.mark.parametrize("name", list(TAMPERINGS))
def test_tampering_is_found(finished: str, tmp_path: Path, name: str) -> None:
    raw = json.loads(finished)
    assert not _failed(raw, tmp_path)
    TAMPERINGS[name](raw)
    try:
        failed = _failed(raw, tmp_path)
    except ht.SettingError:
        return  # it cannot even be loaded
    assert failed


def test_a_noisy_maximum_on_record_is_a_candidate(tmp_path: Path) -> None:
    """-1 stands for no candidate, and not for the last one."""
    tune(method=ht.NoisyMax(), folder=tmp_path / "run")
    raw = json.loads((tmp_path / "run" / "result.json").read_text())
    raw["opened"][0]["blocks"]["answers"], raw["index"], raw["config"] = [-1], 4, {"x": 1.0}
    assert _failed(raw, tmp_path)


# ---- what a client accepts ---------------------------------------------------------------------------

ROSTER = Roster(("a", "b"))
ASKED = query(times=19)
PRIVACY = ht.Privacy(2.0)
NOISE = calibrate((ASKED.bound,), PRIVACY, Sums(), "curator")
PLAN = plan_of((ASKED.bound,), PRIVACY, NOISE)


def request(**changes: Any) -> Request:
    return replace(Request("0" * 32, 0, ROSTER.digest(), ASKED, None, CURATOR, NOISE, PRIVACY, 1, PLAN), **changes)


def test_a_client_answers_an_honest_request_and_is_charged_for_all_tests(tmp_path: Path) -> None:
    one = party(tmp_path, Loss(BEST_IS_THIRD))
    header, _ = unpack(respond(request().to_bytes(), one, ROSTER))
    assert header["kind"] == "vector"
    assert one.ledger is not None
    (entry,) = one.ledger.entries()
    assert entry.charge.events == (PureTests(2 * STEPS / NOISE.scale, 19),)


@pytest.mark.parametrize(
    "changes",
    [
        {"plan": (replace(PLAN[0], times=1),)},  # type: ignore[type-var]
        {"query": query(times=20)},
        {"query": query(times=19, sensitivity=2 * STEPS)},
        {"plan": (replace(PLAN[0], epsilon=0.01),)},  # type: ignore[type-var]
        {"noise": Noise(NOISE.scale / 2, "curator")},
        {"noise": Noise(NOISE.scale / 2, "curator"), "plan": (PureTests(4 * STEPS / NOISE.scale, 19),)},
        {"query": query(times=50), "plan": (replace(PLAN[0], times=50),)},  # type: ignore[type-var]
        {"noise": Noise(1.0, "curator"), "plan": (PureTests(2.0 * STEPS, 19),)},
        {"plan": ()},
        {"plan": (*PLAN, *PLAN)},
        {"step": 1},
        {"seal": ht.Clear(), "noise": Noise(NOISE.scale)},
        {"voters": 2},
        {"privacy": ht.Privacy(1.0)},
        {"privacy": None},
    ],
)
def test_requests_that_would_weaken_the_guarantee_are_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    """Fewer tests announced than asked for, another sensitivity, less noise: nothing is scored, charged or sent."""
    calls = Observed()
    one = party(tmp_path, Loss(BEST_IS_THIRD, calls))
    header, parts = unpack(respond(request(**changes).to_bytes(), one, ROSTER))
    assert header["kind"] == "refused"
    assert not parts
    assert not calls
    assert one.ledger is not None
    assert not one.ledger.exists or not one.ledger.entries()


@pytest.mark.parametrize(
    "fields",
    [
        {"sensitivity": STEPS - 1},
        {"sensitivity": 1},
        {"sensitivity": 1024.0},
        {"times": 0},
        {"times": -1},
        {"times": True},
        {"times": 2**30},
        {"losses": [1.0, 0.0]},
        {"losses": [0.0, "1"]},
        {"losses": 1.0},
        {"seed": -1},
        {"steps": 1},
    ],
)
def test_queries_that_make_no_sense_are_refused(tmp_path: Path, fields: dict[str, Any]) -> None:
    header, _ = unpack(request().to_bytes())
    header["query"].update(fields)
    one = party(tmp_path, Loss(BEST_IS_THIRD))
    reply, parts = unpack(respond(pack(header), one, ROSTER))
    assert reply["kind"] == "refused"
    assert "Loss" not in reply["reason"]
    assert not parts


def test_a_step_is_answered_for_one_request_only(tmp_path: Path) -> None:
    one = party(tmp_path, Loss(BEST_IS_THIRD))
    first = respond(request().to_bytes(), one, ROSTER)
    assert respond(request().to_bytes(), one, ROSTER) == first
    other = request(query=replace(ASKED, losses=(0.0, 2.0)))
    header, _ = unpack(respond(other.to_bytes(), one, ROSTER))
    assert header["kind"] == "refused"
