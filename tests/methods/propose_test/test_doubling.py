"""How the threshold of propose-test moves: never more tests than the bound says, whatever the answers are."""

from __future__ import annotations

import uuid
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2, laplace

import hushtune as ht
from hushtune.client.query import Query
from hushtune.core.randomness import SimulatedRandomness
from hushtune.methods.propose_test.doubling import going, level, most_tests, moved, room, simulate
from hushtune.methods.propose_test.method import STEPS
from hushtune.privacy.bounds import Scores
from hushtune.privacy.noise.base import Noise
from hushtune.seals.curator import CuratorOracle
from hushtune.seals.oracle import Choose

NEVER = 10**6  # tests: no run is stopped
PUBLISHED: dict[str, Any] = {"partitions": 10, "epsilon0": 0.1, "granularity": 0.01, "start": 0.0, "tests": NEVER}


# ---- the bound ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", range(1, 61))
def test_no_sequence_of_answers_takes_more_tests_than_the_bound(most: int) -> None:
    """The longest of all sequences of passed and failed tests, over the states that they lead to; it is reached."""

    @cache
    def longest(units: int, step: int) -> int:
        if not going(units, step, most):
            return 0
        return 1 + max(longest(*(int(value) for value in moved(units, step, passed))) for passed in (True, False))

    assert longest(0, 1) == most_tests(most) == 2 * most - 1


def test_passed_and_failed_in_turn_is_the_longest_run() -> None:
    units, step, tests = 0, 1, 0
    while going(units, step, 10):
        units, step = moved(units, step, tests % 2 == 0)
        tests += 1
    assert tests == 19
    assert units == 10


def test_a_failed_first_test_ends_the_run() -> None:
    units, step = moved(0, 1, False)
    assert (int(units), int(step)) == (0, 0)
    assert not going(units, step, 10)


def test_many_runs_move_as_each_one_does() -> None:
    units, step, passed = np.array([0, 3, 5, 8]), np.array([1, 4, 2, 1]), np.array([True, False, True, False])
    together = moved(units, step, passed)
    for at in range(4):
        assert [int(value) for value in moved(int(units[at]), int(step[at]), bool(passed[at]))] == [
            int(values[at]) for values in together
        ]


@pytest.mark.parametrize(
    ("granularity", "start", "most"),
    [
        (0.1, 0.7, 3),  # by floats 4, because (1 - .7) / .1 is above 3
        (0.1, 0.0, 10),
        (0.01, 0.0, 100),
        (0.1, 0.9, 1),
        (0.05, 0.35, 13),
        (0.3, 0.0, 4),
        (0.07, 0.3, 10),
        (1e-4, 0.0, 10_000),
        (0.5, 0.999, 1),
        (0.1, 0, 10),
    ],
)
def test_settings_are_read_as_decimals(granularity: float, start: float, most: int) -> None:
    assert room(granularity, start) == most
    assert level(most, 0, granularity, start) >= 1
    assert level(most - 1, 0, granularity, start) < 1


def test_a_threshold_is_a_fraction() -> None:
    assert level(3, 4, 0.1, 0.2) == Fraction(9, 10)
    assert level(0, 1, 0.01, 0.0) == Fraction(1, 100)


# ---- simulated runs ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("granularity", "start", "epsilon0", "partitions", "utilities"),
    [
        (0.1, 0.7, 1.0, 100, np.full(100, 0.9)),  # always near a threshold
        (0.1, 0.0, 50.0, 10**6, np.linspace(0.0, 1.0, 100)),  # hardly any noise
        (0.01, 0.0, 0.1, 10, np.linspace(0.3, 0.7, 100)),  # hardly anything but noise
    ],
)
def test_no_simulated_run_takes_more_tests_than_the_bound(
    granularity: float, start: float, epsilon0: float, partitions: int, utilities: NDArray[np.float64]
) -> None:
    _, made = simulate(utilities, partitions, epsilon0, granularity, start, NEVER, 100_000, seed=1)
    assert made.min() >= 1
    assert made.max() <= most_tests(room(granularity, start))


@pytest.mark.parametrize("utility", [0.05, 0.5, 0.999, 1.0])
@pytest.mark.parametrize(("granularity", "start"), [(0.3, 0.0), (0.1, 0.5), (0.02, 0.9)])
def test_utilities_on_the_edge_do_not_break_the_bound(utility: float, granularity: float, start: float) -> None:
    """All candidates alike, with noise of every size."""
    for partitions in (1, 30, 1000):
        _, made = simulate(np.full(3, utility), partitions, 1.0, granularity, start, NEVER, 5_000, seed=2)
        assert made.max() <= most_tests(room(granularity, start))


def test_a_run_stops_after_its_tests_and_units_never_fall() -> None:
    seen: dict[int, list[tuple[int, int]]] = {}

    def watch(at: NDArray[np.int64], units: NDArray[np.int64], step: NDArray[np.int64]) -> None:
        for run, *state in zip(at.tolist(), units.tolist(), step.tolist(), strict=True):
            seen.setdefault(run, []).append((state[0], state[1]))

    _, made = simulate(np.full(3, 0.8), 10, 1.0, 0.01, 0.0, 4, 5_000, 3, watch)
    assert made.max() == 4
    assert set(seen) == set(range(5_000))
    for run, states in seen.items():
        assert len(states) == made[run]
        assert [units for units, _ in states] == sorted(units for units, _ in states)


def test_one_row_of_utilities_per_run() -> None:
    """Each run sees its own: the only good candidate is another one in each."""
    utilities = np.eye(5)[np.arange(40) % 5]
    chosen, _ = simulate(utilities, 10**6, 10.0, 0.1, 0.0, NEVER, 40, 4)
    assert chosen.tolist() == [run % 5 for run in range(40)]


def test_by_index_the_first_that_passes_is_chosen() -> None:
    """Without noise to speak of, and two candidates that are level."""
    utilities = np.array([0.2, 0.85, 0.85])
    settings = {"partitions": 10**6, "epsilon0": 10.0, "granularity": 0.1, "start": 0.0, "tests": NEVER, "seed": 8}
    ordered, made = simulate(utilities, runs=200, by_index=True, **settings)  # type: ignore[arg-type]
    anyhow, as_many = simulate(utilities, runs=200, **settings)  # type: ignore[arg-type]
    assert set(ordered.tolist()) == {1}
    assert set(anyhow.tolist()) == {1, 2}
    assert made.tolist() == as_many.tolist()


@pytest.mark.statistical
def test_the_published_setting_is_hardly_better_than_guessing() -> None:
    """10 partitions, epsilon0 = 0.1, g = 0.01, 100 uniform utilities: about .525 is chosen, where the best is .99.

    False alarms: the mean of 50,000 has a standard deviation of .0013, so .02 is far beyond 6 of them.
    """
    runs = 50_000
    utilities = np.random.default_rng(5).random((runs, 100))
    chosen, made = simulate(utilities, runs=runs, seed=5, **PUBLISHED)
    some = chosen >= 0
    assert utilities[some, chosen[some]].mean() == pytest.approx(0.525, abs=0.02)
    assert made.mean() == pytest.approx(7.0, abs=0.1)
    assert made.max() < 20  # of 199 that it pays for


@pytest.mark.statistical
@pytest.mark.parametrize(("candidates", "stated"), [(1, 0.46), (10, 0.027)])
def test_how_often_nothing_is_chosen_in_the_published_setting(candidates: int, stated: float) -> None:
    """When the first test fails: an integral over the threshold's noise. False alarms: 6 standard deviations, 2e-9."""
    runs = 100_000
    noise, step = np.linspace(-80.0, 80.0, 40_001, retstep=True)
    uniform = (np.arange(200) + 0.5) / 200
    below = np.mean([laplace.cdf(0.01 + noise - utility, scale=4) for utility in uniform], axis=0)
    exact = float((laplace.pdf(noise, scale=2) * below**candidates).sum() * step)
    assert exact == pytest.approx(stated, abs=0.005)
    utilities = np.random.default_rng(6).random((runs, candidates))
    chosen, _ = simulate(utilities, runs=runs, seed=6, **PUBLISHED)
    assert (chosen < 0).mean() == pytest.approx(exact, abs=6 * (exact * (1 - exact) / runs) ** 0.5)


@pytest.mark.statistical
def test_shares_beyond_those_counted_on_are_more_noise() -> None:
    """One test of two equal scores, against a sample of the same noise drawn here: 20,000 runs, within 6 errors."""
    runs, gap, shape = 20_000, 2.0, 1.5
    rng = np.random.default_rng(11)
    level = gap + rng.gamma(shape, 1, runs) - rng.gamma(shape, 1, runs)
    scores = 2 * (rng.gamma(shape, 1, (runs, 2)) - rng.gamma(shape, 1, (runs, 2)))
    reached = float((scores >= level[:, None]).any(axis=1).mean())
    # Scale 1 in units of a score of 1/10: a threshold of .2 above two scores of 0.
    settings = {
        "partitions": 20,
        "epsilon0": 1.0,
        "granularity": 0.2,
        "start": 0.0,
        "tests": 1,
        "runs": runs,
        "seed": 12,
    }
    chances = [float((simulate(np.zeros(2), shape=s, **settings)[0] >= 0).mean()) for s in (shape, 1.0)]  # type: ignore[arg-type]
    assert chances[0] == pytest.approx(reached, abs=6 * (2 * 0.25 / runs) ** 0.5)
    assert chances[1] < chances[0] - 0.02


class Given:
    """What a method sees of a run whose scores are known."""

    def __init__(self, sums: list[int], units: int, scale: float, number: int) -> None:
        self.id = uuid.UUID(int=number).hex
        self.candidates = ht.Space(x=ht.Float(0.0, 1.0)).grid(x=len(sums))
        self.search = ht.Search()
        self.answers: list[int] = []
        self._sums, self._units, self._noise = np.array(sums), units, Noise(scale, "curator")
        self._randomness = SimulatedRandomness(8, f"given {number}")

    def consult(self, query: Query, choose: Choose) -> int:
        assert isinstance(query.bound, Scores)
        oracle = CuratorOracle(self._sums, query.bound, self._units, self._noise, self._randomness)
        place = choose(oracle)
        self.answers = oracle.answers
        return place

    def note(self, name: str, value: Any) -> None:
        pass


@pytest.mark.long
@pytest.mark.statistical
def test_the_method_chooses_as_often_as_the_simulation_does() -> None:
    """Three candidates: which one, or none, after how many tests. Chi-square of two samples at 1e-7."""
    units, epsilon0, utilities = 10, 1.0, [0.25, 0.5, 0.875]
    method = ht.ProposeTest(granularity=0.25, default=0, tests=7, units=units)
    runs, many = 600, 100_000
    real = []
    for number in range(runs):
        run = Given([int(u * units * STEPS) for u in utilities], units, 2 * STEPS / epsilon0, number)
        config = method.run(run)  # type: ignore[arg-type]
        passed = [place for place in run.answers if place >= 0]
        assert config == run.candidates[passed[-1] if passed else 0]
        real.append((passed[-1] if passed else -1, min(len(run.answers), 4)))
    chosen, made = simulate(np.array(utilities), units, epsilon0, 0.25, 0.0, 7, many, seed=7)
    simulated = list(zip(chosen.tolist(), np.minimum(made, 4).tolist(), strict=True))
    kinds = [kind for kind in sorted(set(simulated)) if simulated.count(kind) > many / 40]
    table = np.array([[kept.count(kind) for kind in kinds] for kept in (real, simulated)], dtype=float)
    table = np.column_stack([table, np.array([runs, many]) - table.sum(axis=1)])
    table = table[:, table.sum(axis=0) > 50]
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
    assert len(kinds) >= 5
    assert ((table - expected) ** 2 / expected).sum() < chi2.isf(1e-7, table.shape[1] - 1)


@pytest.mark.parametrize(
    "utilities", [[], [0.5, 1.1], [-0.1, 0.5], [np.nan, 0.5], [np.inf], [[0.5, 2.0]], np.zeros((3, 0))]
)
def test_utilities_that_are_none_are_refused(utilities: Any) -> None:
    with pytest.raises(ht.SettingError, match=r"in \[0, 1\]"):
        simulate(np.array(utilities), 10, 0.1, 0.1, 0.0, NEVER, 3, 1)
