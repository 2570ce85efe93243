"""What `plan` says about a vote."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.methods.vote.harness import cost, plan

import hushtune as ht
from experiments.speed.secure_sum import rows
from hushtune.core.observer import Silent
from hushtune.methods.plan import CostPlan
from hushtune.privacy.accounting import Sums
from hushtune.privacy.bounds import KHot
from hushtune.privacy.calibration import calibrate


def test_ten_clients_are_hopeless_and_ten_hospitals_with_patients_are_not() -> None:
    few = plan(10, 40, privacy=ht.Privacy(1.0), method=ht.Vote(5, decode="argmax"))
    assert few.verdict.startswith("HOPELESS")
    assert few.sigma == pytest.approx(11.784, abs=0.002)
    assert few.success < 0.3
    assert few.bound == 0.0
    record = next(odds for odds in few.instead if "record" in odds.what)
    assert record.success > 0.95
    patients = plan(10, 40, privacy=ht.Privacy(1.0, unit="record"), method=ht.Vote(5, 50, decode="argmax"))
    assert patients.verdict.startswith("Likely to work: a good choice has a chance of more than 99%; guessing has ")
    assert patients.sigma == few.sigma  # noise is calibrated to clients, not to voters
    assert patients.success > 0.95
    assert patients.bound is not None
    assert patients.bound <= patients.success + 0.05


def test_more_clients_and_more_epsilon_help() -> None:
    found = plan(20, 40, privacy=ht.Privacy(1.0), method=ht.Vote(3))
    odds = {other.what: other.success for other in found.instead}
    assert odds["100 clients"] > odds["40 clients"] > found.success
    assert odds["epsilon 2"] > found.success
    assert {other.k for other in found.by_size} >= {1, 2, 3, 5}


def test_the_default_vote_is_planned_and_other_k_are_compared() -> None:
    found = plan(30, 40, privacy=ht.Privacy(1.0), assume={"good": 2, "overlap": 0.5})
    assert found.k == 6  # 30 voters are few against noise of 11.8: 15% of the candidates
    odds = {other.k: other.success for other in found.by_size}
    assert found.success == odds[6]
    assert odds[found.best_k] >= max(odds.values()) - 0.01


@pytest.mark.parametrize("epsilon", [1.0, 5.0, 10.0])
def test_the_noise_of_other_k_is_nearly_what_a_run_would_use(epsilon: float) -> None:
    found = cost(50, 200, privacy=ht.Privacy(epsilon), method=ht.Vote(1))
    for odds in found.by_size:
        assert odds.k is not None
        exact = calibrate((KHot(odds.k, 200),), ht.Privacy(epsilon), Sums()).scale
        assert odds.sigma == pytest.approx(exact, rel=0.1), odds.k


def test_of_approvals_only_the_cost_is_known() -> None:
    found = ht.plan(30, 20, privacy=ht.Privacy(1.0), method=ht.Vote(ballot="approval"))
    assert isinstance(found, CostPlan)
    assert found.charge["epsilon"] == pytest.approx(1.0, rel=1e-3)


@pytest.mark.parametrize("clients", [12, 50])
def test_traffic_is_what_the_protocol_sends(clients: int) -> None:
    (measured,) = rows([clients], None, 30, Silent())
    _, expected = ht.Masked().traffic(clients, KHot(1, 30), 1, 32, len(b"request"), pinned=True)
    assert expected == pytest.approx(measured["bytes_per_client"], rel=0.03)


@pytest.mark.long
def test_a_million_voters_who_hardly_agree() -> None:
    """The normal approximation's mean is computed, not sampled: its error would be multiplied by the voters."""
    chances = [
        plan(
            1_000_000, 20, privacy=ht.Privacy(1.0), method=ht.Vote(1), assume={"good": 1, "overlap": 100.0}, seed=seed
        ).success
        for seed in (0, 1)
    ]
    assert min(chances) > 0.9


def test_odd_settings_have_numbers(tmp_path: Path) -> None:
    all_good = plan(5, 3, privacy=ht.Privacy(1.0), assume={"good": 3})
    assert all_good.success == 1.0
    assert all(np.isfinite(odds.margin) for odds in all_good.by_size)
    assert cost(4, 2, privacy=ht.Privacy(1.0)).k == 1  # not both of two
    records = ht.Ledger.new(tmp_path / "records.db", 5.0, 1e-5, unit="record")
    refused = cost(5, 3, privacy=ht.Privacy(1.0), method=ht.Vote(1), ledger=records)
    assert refused.ledger is not None
    assert not refused.ledger["allowed"]
    assert "counts per record" in refused.ledger["reason"]
