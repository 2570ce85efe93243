"""Propose-test and noisy maximum as methods: what units send, and what is settled and charged."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hushtune as ht
from hushtune.client.party import Party
from hushtune.client.release import contribution
from hushtune.client.rows import WHOLE, Parts
from hushtune.client.trials import TrialStore
from hushtune.core.errors import HushtuneError
from hushtune.core.randomness import SystemRandomness
from hushtune.core.secret import Secret
from hushtune.methods.base import Facts
from hushtune.methods.propose_test.method import STEPS, CandidateScores, affordable
from hushtune.methods.registry import method_from_json
from hushtune.privacy.accounting import Sums, epsilon_of
from hushtune.privacy.calibration import calibrate, events_of
from hushtune.privacy.events.answers import PureTests
from hushtune.privacy.noise.base import Noise
from hushtune.privacy.noise.geometric import cost_of
from hushtune.testing import check_query

SPACE = ht.Space(x=ht.Float(0.0, 1.0))
CANDIDATES = SPACE.grid(x=5)
RECORD = ht.Privacy(5.0, unit="record")
CURATOR = ht.Curator()
METHODS: list[Any] = [ht.ProposeTest(), ht.NoisyMax(), ht.NoisyMax(mechanism="exponential")]
GEOMETRIC = ht.NoisyMax(mechanism="geometric")


class Geometric(ht.Curator):
    """A seal with one mechanism, as nodes have."""

    name: ClassVar[str] = "test-geometric"
    mechanisms: ClassVar[Any] = ("geometric",)


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
    return ht.tune(those or clients(), CANDIDATES, observer=ht.Silent(), jobs=1, **{**settings, **changes})


def facts(privacy: ht.Privacy | None = RECORD, clients: int = 4, seal: Any = CURATOR) -> Facts:
    return Facts(CANDIDATES, clients, privacy, seal, ht.Search())


def query(**changes: Any) -> CandidateScores:
    one = CandidateScores(CANDIDATES, 0, (0.0, 1.0), 19, STEPS)
    return replace(one, **changes)


def party(folder: Path, objective: Any, data: Any = None) -> Party:
    given = (np.zeros((1, 1)), np.zeros(1)) if data is None else data
    folder.mkdir(exist_ok=True)
    ledger = ht.Ledger(folder / "ledger.db")
    client = ht.Client(given, objective)
    return Party(
        "a",
        client,
        TrialStore(folder / "trials.db"),
        folder,
        SystemRandomness(),
        ledger,
        secret=Secret.simulated(0, "a"),
    )


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
    one = query()
    try:
        found = one.answer(SimpleNamespace(losses=lambda configs, seed: np.array(losses)))  # type: ignore[arg-type]
    except HushtuneError:
        return
    one.bound.check(found)


def test_queries_and_methods_survive_being_written_down() -> None:
    check_query(query(losses=(-1.0, 2.0), sensitivity=5000))
    for method in (
        ht.ProposeTest(2, 0.05, 0.5, "filter", 0.2, default=3, validation=100, losses=(0.0, 2.0)),
        ht.NoisyMax(3, "exponential", "public"),
    ):
        assert method_from_json(json.loads(json.dumps(method.to_json()))) == method
        final = method.settled(facts())
        assert method_from_json(json.loads(json.dumps(final.to_json()))) == final


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


def _score(rows: Any, one: CandidateScores) -> Any:
    """One unit's scores, where a candidate's loss is the mean over shared rows, shape (rows, candidates)."""
    low, high = one.losses
    losses = low + (high - low) * np.mean(rows, axis=0)
    return one.answer(SimpleNamespace(losses=lambda configs, seed: losses))  # type: ignore[arg-type]


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
    wanted, kinds, each_kind = query(losses=losses), 4, 1000
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    before = rng.choice([0.0, 0.5, 1.0, rng.random()], (kinds, rows, 5))
    after = before.copy()
    after[:, data.draw(st.integers(0, rows - 1))] = rng.choice([0.0, 1.0], (kinds, 5))
    one, other = (each_kind * sum(_score(kind, wanted) for kind in them) for them in (before, after))
    assert _changed(one, other) <= ht.NoisyMax(validation=rows).sensitivity(kinds * each_kind)


def test_a_protected_row_does_not_move_a_score_by_two_steps_if_it_is_worth_one() -> None:
    """1,024 rows on a grid of 1,024 steps: from half a step to one and a half, ties are rounded apart."""
    before = np.zeros((1024, 5))
    before[0] = 0.5
    after = before.copy()
    after[1] = 1.0
    units, one = 2000, query()
    moved = _changed(units * _score(before, one), units * _score(after, one))
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
    noise = calibrate((bound,), RECORD, Sums(), Noise(0.0, "curator"))
    (event,) = events_of((bound,), RECORD, noise)
    assert event == PureTests(cost_of(2 * bound.sensitivity, noise.scale), 19)
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
        (
            lambda: ht.NoisyMax(mechanism="exponential").settled(facts(seal=Geometric())),
            r"mechanism must be one of \['geometric'\] under seal 'test-geometric', but got 'exponential'",
        ),
        (  # more noise than geometric draws have: refused before anything is spent
            lambda: ht.NoisyMax(mechanism="geometric", validation=1_000).settled(
                facts(clients=10**6, privacy=ht.Privacy(0.001, unit="record"))
            ),
            "choose another epsilon or coarser scores",
        ),
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


def test_the_mechanism_is_the_seals_own_unless_one_is_named() -> None:
    for method, seal, mechanism in (
        (ht.NoisyMax(), CURATOR, "permute-and-flip"),
        (ht.NoisyMax(), Geometric(), "geometric"),
        (GEOMETRIC, CURATOR, "geometric"),
        (METHODS[2], CURATOR, "exponential"),
    ):
        known = facts(seal=seal)
        settled = method.settled(known)
        assert settled.mechanism == mechanism
        assert settled.settled(known) == settled
        assert method_from_json(json.loads(json.dumps(settled.to_json()))) == settled
        words = {
            "permute-and-flip": "coins of scale 8 on each candidate's score (permute-and-flip)",
            "exponential": "coins of scale 8 on each candidate's score (the exponential mechanism)",
            "geometric": "geometric noise of scale 8 on each candidate's score",
        }
        assert settled.drawn(seal, 8.0) == words[mechanism]


@pytest.mark.parametrize("seal", [CURATOR, Geometric()], ids=lambda seal: seal.name)
def test_a_geometric_maximum_is_run_and_verified(seal: ht.Seal, tmp_path: Path) -> None:
    result = tune(method=GEOMETRIC, seal=seal, privacy=ht.Privacy(5.0, 0), folder=tmp_path / "run")
    assert (result.spent.epsilon, result.spent.delta) == (5.0, 0.0)
    assert "Noise: exact geometric noise of scale 409.6 on each candidate's score" in result.statement
    assert all(check.holds for check in ht.verify(tmp_path / "run"))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"privacy": None}, "curator"),
        ({"privacy": None, "seal": ht.Clear()}, "needs privacy"),
        ({"seal": ht.Clear()}, r"somebody who keeps the sums secret: give seal=Curator\(\) or seal=Quorum\(\)"),
        ({"seal": ht.Masked()}, r"give seal=Curator\(\)"),
        ({"seal": None}, r"give seal=Curator\(\)"),
    ],
)
def test_a_guarantee_and_somebody_who_keeps_secrets_are_needed(
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
    assert ht.Result.load(tmp_path / "run").method == result.method


@pytest.mark.parametrize("sensitivity", [1024, 20_000, 30_000, 10**6])
def test_noise_is_found_for_every_sensitivity(sensitivity: int) -> None:
    bound = query(tests=19, sensitivity=sensitivity).bound
    noise = calibrate((bound,), RECORD, Sums(), Noise(0.0, "curator"))
    assert 0.99 * RECORD.epsilon < epsilon_of(events_of((bound,), RECORD, noise), RECORD.delta) <= RECORD.epsilon
