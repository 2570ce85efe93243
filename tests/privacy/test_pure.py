"""Delta 0: only what is pure is opened, it costs the exact sum, and everybody refuses the rest."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.client.harness import CANDIDATES, EVENTS, PRIVACY, ROSTER, Loss, party, refusal, request

import hushtune as ht
from hushtune.client.release import respond
from hushtune.privacy.accounting import Budget, Renyi, Sums, epsilon_of, gaussian_start, renyi_epsilon
from hushtune.privacy.bounds import AtMost, Ball, Bound, KHot, Tally
from hushtune.privacy.calibration import calibrate, noise_for
from hushtune.privacy.charges import charge_of
from hushtune.privacy.decimals import not_below
from hushtune.privacy.events.answers import PureTests
from hushtune.privacy.events.sums import Event, Exact, GaussianVector, SkellamShift, SkellamVector
from hushtune.privacy.events.training import SelectedRuns, TrainingSteps
from hushtune.privacy.noise import skellam
from hushtune.privacy.noise.base import Noise
from hushtune.privacy.pure import impurity, pure_cost, pure_scale

PURE = ht.Privacy(1.0, delta=0)
IMPURE: tuple[Event, ...] = (
    SkellamShift(1e9, 1),
    SkellamVector(1e9, 1.0, 1.0),
    GaussianVector(1e4, 1.0),
    GaussianVector(1e4, 1.0, 0.01),
    TrainingSteps(1e4, 0.01, 1),
    SelectedRuns(1e4, 0.01, 1, 1.0),
)
NOTHING = (SkellamShift(4.0, 0), SkellamVector(4.0, 0.0, 0.0), GaussianVector(4.0, 0.0), PureTests(0.0, 9))
TESTS = st.lists(st.builds(PureTests, st.floats(0.0, 3.0), st.integers(1, 9)), min_size=1, max_size=5).map(tuple)


# ---- what is pure, and what it costs -----------------------------------------------------------------


def test_three_answers_of_a_tenth_cost_three_tenths() -> None:
    assert epsilon_of((PureTests(0.1),) * 3, 0) == epsilon_of((PureTests(0.1, 3),), 0) == 0.3
    assert epsilon_of((PureTests(0.1), PureTests(0.2)), 0) == 0.3 != 0.1 + 0.2
    assert epsilon_of((), 0) == 0


@given(TESTS, st.randoms(use_true_random=False))
def test_costs_add_up_exactly_in_any_order_and_are_never_rounded_down(events: tuple[PureTests, ...], r: object) -> None:
    total = sum((one.times * Fraction(repr(one.epsilon)) for one in events), Fraction(0))
    shuffled = tuple(sorted(events, key=lambda _: r.random()))  # type: ignore[attr-defined]
    assert pure_cost(events) == pure_cost(shuffled) == total
    assert Fraction(repr(epsilon_of(events, 0))) >= total
    assert epsilon_of(events, 0) == not_below(total)


@settings(max_examples=60)
@given(TESTS, st.sampled_from([1e-12, 1e-9, 1e-5, 1e-2]))
def test_no_delta_makes_it_cost_more(events: tuple[PureTests, ...], delta: float) -> None:
    assert epsilon_of(events, 0) >= epsilon_of(events, delta)


@given(st.lists(st.floats(0.0, 5.0), min_size=1, max_size=6))
def test_it_is_the_largest_that_randomised_responses_lose(epsilons: list[float]) -> None:
    """Each outcome written out: what is claimed is met by one of them, and exceeded by none."""
    losses = [
        math.fsum(epsilon if said else -epsilon for epsilon, said in zip(epsilons, outcome, strict=True))
        for outcome in itertools.product((True, False), repeat=len(epsilons))
    ]
    assert epsilon_of(tuple(map(PureTests, epsilons)), 0) == pytest.approx(max(losses), rel=1e-12)


@pytest.mark.parametrize("event", IMPURE, ids=lambda event: str(event.name))
def test_no_epsilon_covers_a_noisy_sum_or_training_at_delta_0_however_loud_the_noise_is(event: Event) -> None:
    assert event.pure is None
    assert pure_cost((PureTests(0.1), event)) is None
    for events in ((event,), (PureTests(0.1), event), (event, PureTests(0.1))):
        assert epsilon_of(events, 0) == renyi_epsilon(events, 0) == math.inf
        assert epsilon_of(events, 0.01) < 1
        why = impurity(events)
        assert why is not None
        assert why.startswith(f"at delta=0 all that is opened must be pure, but got {event.mechanism}; give a delta")


def test_tails_of_skellam_noise_tell_neighbours_apart_by_more_than_any_epsilon() -> None:
    """Why its sums are not pure: one step out, the ratio of two chances grows without end."""
    logs = skellam.log_probabilities(Fraction(4), 4_000)
    ratios = logs[:-1] - logs[1:]
    assert np.abs(ratios).max() > 7
    assert np.abs(ratios[:10]).min() > np.abs(ratios[2_000:2_010]).max()


def test_what_cannot_change_is_pure_and_costs_nothing() -> None:
    assert [event.pure for event in NOTHING] == [0, 0, 0, 0]
    assert epsilon_of(NOTHING, 0) == 0
    assert impurity((*NOTHING, PureTests(0.3))) is None


def test_without_noise_nothing_is_pure() -> None:
    assert PureTests(math.inf).pure is Exact().pure is None
    for event in (PureTests(math.inf), PureTests(51.0), Exact()):
        assert epsilon_of((event,), 0) == math.inf
    assert epsilon_of((PureTests(50.0),) * 2, 0) == 100.0


def test_the_scale_follows_from_the_cost_at_scale_1() -> None:
    assert pure_scale((PureTests(2.0), PureTests(1.0, 3)), 0.25) == 20.0
    with pytest.raises(ht.SettingError, match="but got a sum under Gaussian noise and a sum under Skellam noise; give"):
        pure_scale((PureTests(2.0), GaussianVector(1.0, 1.0), SkellamShift(1.0, 2)), 0.25)


# ---- who refuses the rest ----------------------------------------------------------------------------


@pytest.mark.parametrize("by", [Noise(0.0), Noise(0.0, "curator"), Noise(0.0, "nodes", 3)], ids=lambda by: by.at)
@pytest.mark.parametrize(
    "bound", [KHot(1, 6), AtMost(2, 6), Ball(9, 4), Tally(4, 3, 1)], ids=lambda b: type(b).__name__
)
def test_no_noise_is_found_for_a_sum(bound: Bound, by: Noise) -> None:
    for bounds in ((bound,), (KHot(1, 6, 1), bound)) if by.at != "parties" else ((bound,),):
        with pytest.raises(
            ht.SettingError, match=r"must be pure, but got a sum under (Skellam|Gaussian) noise; give a"
        ):
            calibrate(bounds, PURE, Sums(), by)


def test_no_noise_is_found_for_private_training() -> None:
    with pytest.raises(ht.SettingError, match="must be pure, but got private training under Gaussian noise; give a"):
        noise_for(lambda multiplier: 0.5, PURE, 0.1, 10)
    with pytest.raises(ht.SettingError, match="must be pure"):
        gaussian_start(lambda scale: (SkellamShift(scale**2, 2),), 1.0, 0.0)


def test_a_renyi_filter_states_nothing_at_delta_0() -> None:
    rule = Renyi(20.0)
    assert not rule.states(Budget(50.0, 0.0))
    assert rule.spent([((PureTests(0.1),), 0.0)], 0.0).epsilon == math.inf


def test_a_client_refuses_noisy_sums_at_delta_0(tmp_path: Path) -> None:
    asked = party(tmp_path, policy=ht.Policy(seals=("clear",)))
    stated = replace(PRIVACY, epsilon=50.0)
    for events in (EVENTS, (*EVENTS, PureTests(0.1))):
        message = request(privacy=replace(stated, delta=0), events=events).to_bytes()
        assert "the noise asked for costs epsilon inf, more than the stated 50" in refusal(
            respond(message, asked, ROSTER)
        )
    assert asked.ledger is not None
    assert not asked.ledger.exists


@pytest.mark.parametrize("rule", ["sums", "renyi"])
@pytest.mark.parametrize("event", IMPURE[:5], ids=lambda event: str(event.name))
def test_a_ledger_refuses_noisy_sums_and_training_at_delta_0(tmp_path: Path, event: Event, rule: str) -> None:
    ledger = ht.Ledger.new(tmp_path / "ledger.db", 9.0, 1e-4, rule=rule)
    for events in ((event,), (PureTests(0.1), event)):
        charge = charge_of("r", "run", events, PURE)
        for use in (ledger.check, ledger.reserve, lambda charge: ledger.commit(charge, "r", "0", b"request", b"reply")):
            with pytest.raises(ht.BudgetError, match=f"must be pure, but got {event.mechanism}; give a delta"):
                use(charge)
    assert ledger.entries() == []
    assert ledger.answered("r", "0", b"request") is None


# ---- whole runs --------------------------------------------------------------------------------------


def clients(number: int) -> list[ht.Client]:
    return [ht.Client((np.full((1, 1), n), np.zeros(1)), Loss(np.arange(5.0) / 5)) for n in range(number)]


def test_a_run_that_opens_answers_only_costs_epsilon_and_no_delta(tmp_path: Path) -> None:
    ledger = ht.Ledger(tmp_path / "ledger.db")

    def run(name: str) -> ht.Result:
        return ht.tune(
            clients(4),
            CANDIDATES,
            method=ht.NoisyMax(),
            privacy=ht.Privacy(0.3, delta=0),
            seal=ht.Curator(),
            ledger=ledger,
            folder=tmp_path / name,
        )

    result = run("one")
    assert result.spent == Budget(0.3, 0.0)
    assert "Guarantee: (0.3, 0)-differential privacy" in result.statement
    assert "inf" not in result.statement.split()
    assert "Rényi" not in result.statement
    assert ht.verify(tmp_path / "one").holds
    assert (ledger.limit(), ledger.spent(), ledger.left()) == (Budget(0.3, 0.0), Budget(0.3, 0.0), Budget(0.0, 0.0))
    with pytest.raises(
        ht.BudgetError, match=r"limit is epsilon 0\.3, delta 0, but .* epsilon 0\.6, delta 0 .*; nothing fits"
    ):
        run("two")
    ledger.set_limit(0.6, 0)
    with pytest.raises(ht.AbortedError, match="the ledgers of 4 refuse"):  # each client keeps to its own limit
        run("three")


@pytest.mark.parametrize("seal", [ht.Masked(), ht.Curator(), ht.Clear()], ids=lambda seal: str(seal.name))
def test_a_run_that_opens_a_sum_is_refused_before_anybody_is_asked(seal: ht.Seal, tmp_path: Path) -> None:
    ledger = ht.Ledger(tmp_path / "ledger.db")
    for method in (ht.Vote(1), ht.Vote()):
        with pytest.raises(ht.SettingError, match="at delta=0 all that is opened must be pure, but got a sum under"):
            ht.tune(
                clients(4), CANDIDATES, method=method, privacy=PURE, seal=seal, ledger=ledger, folder=tmp_path / "run"
            )
    assert not ledger.exists
