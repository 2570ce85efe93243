from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hushtune as ht
from experiments.speed.secure_sum import rows
from hushtune.core.observer import Silent
from hushtune.methods.vote.odds import noise
from hushtune.methods.vote.plan import _loudest


def plan(*arguments: Any, **settings: Any) -> ht.Plan:
    return ht.plan(*arguments, **{"repetitions": 200, "observer": ht.Silent(), **settings})


def cost(*arguments: Any, **settings: Any) -> ht.Plan:
    """Where only the noise and its cost are looked at, a few simulated votes will do."""
    return plan(*arguments, repetitions=10, **settings)


def test_ten_clients_are_hopeless_and_ten_hospitals_with_patients_are_not() -> None:
    few = plan(10, 40, privacy=ht.Privacy(1.0), method=ht.Vote(5))
    assert few.verdict.startswith("HOPELESS")
    assert few.sigma == pytest.approx(11.784, abs=0.002)
    assert few.success < 0.3
    assert few.bound == 0.0
    record = next(odds for odds in few.instead if "record" in odds.what)
    assert record.success > 0.95
    patients = plan(10, 40, privacy=ht.Privacy(1.0, unit="record"), method=ht.Vote(5, voters=50))
    assert patients.verdict.startswith("Likely to work: a good choice has a chance of more than 99%; guessing has ")
    assert patients.sigma == few.sigma  # noise is calibrated to clients, not to voters
    assert patients.success > 0.95
    assert patients.bound <= patients.success + 0.05


def test_more_clients_and_more_epsilon_help() -> None:
    found = plan(20, 40, privacy=ht.Privacy(1.0), method=ht.Vote(3))
    odds = {other.what: other.success for other in found.instead}
    assert odds["100 clients"] > odds["40 clients"] > found.success
    assert odds["epsilon 2"] > found.success
    assert {other.k for other in found.by_k} >= {1, 2, 3, 5}


def test_the_default_vote_is_planned_and_other_k_are_compared() -> None:
    found = plan(30, 40, privacy=ht.Privacy(1.0), agreement=ht.Agreement(2, 0.5))
    assert found.k == 6  # 30 voters are few against noise of 11.8: 15% of the candidates
    odds = {other.k: other.success for other in found.by_k}
    assert found.success == pytest.approx(odds[6], abs=0.1)
    assert odds[found.best_k] >= max(odds.values()) - 0.005


def test_other_ballots_are_not_planned() -> None:
    with pytest.raises(ht.SettingError, match="ballot='soft'"):
        plan(30, 20, privacy=ht.Privacy(1.0), method=ht.Vote(ballot="soft"))


def test_candidates_may_be_given_as_they_are() -> None:
    grid = ht.Space(x=ht.Float(0, 1), kind=ht.Choice(["a", "b"])).grid(x=6)
    found = cost(50, grid, privacy=ht.Privacy(1.0), method=ht.Vote(2))
    assert found.candidates == 12
    assert set(found.to_json()) >= {"sigma", "k", "bound", "success", "smooth", "messages", "bytes", "charge"}


def test_the_ledger_is_read_and_not_written(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    absent = cost(30, 20, privacy=ht.Privacy(1.0), method=ht.Vote(2), ledger=ht.Ledger(path))
    assert absent.ledger is not None
    assert not absent.ledger["exists"]
    assert not path.exists()
    ledger = ht.Ledger.new(path, 1.5, 1e-4)
    before = path.read_bytes()
    one = cost(30, 20, privacy=ht.Privacy(1.0), method=ht.Vote(2), ledger=ledger)
    two = cost(30, 20, privacy=ht.Privacy(2.0), method=ht.Vote(2), ledger=ledger)
    assert one.ledger is not None
    assert two.ledger is not None
    assert one.ledger["allowed"]
    assert not two.ledger["allowed"]
    assert path.read_bytes() == before
    renyi = ht.Ledger.new(tmp_path / "renyi.db", 1.0, 1e-5, rule="renyi")
    other = cost(30, 20, privacy=ht.Privacy(1.0), method=ht.Vote(2), ledger=renyi)
    assert other.sigma > 1.02 * one.sigma  # calibrated under the ledger's rule
    assert other.charge["rule"]["name"] == "renyi"
    assert other.ledger is not None
    assert other.ledger["allowed"]
    large = ht.Ledger.new(tmp_path / "large.db", 8.0, 1e-5, rule="renyi")
    many = cost(30, 20, privacy=ht.Privacy(1.0), method=ht.Vote(2), ledger=large)
    assert many.ledger is not None
    assert many.charge["rule"]["name"] == "sums"  # the run states its own epsilon, and is charged by the ledger's rule
    assert many.charge["epsilon"] <= 1.0 < many.ledger["after"]["epsilon"] < 8.0


@pytest.mark.parametrize("clients", [12, 50])
def test_traffic_is_what_the_protocol_sends(clients: int) -> None:
    (measured,) = rows([clients], None, 30, Silent())
    _, expected = ht.Masked().traffic(clients, 30, 32, len(b"request"), pinned=True)
    assert expected == pytest.approx(measured["bytes_per_client"], rel=0.03)


def test_the_loudest_noise_is_the_mean_maximum() -> None:
    rng = np.random.default_rng(0)
    drawn = noise(50.0, (4_000, 30), rng).max(axis=1)
    assert _loudest(50.0, 30) == pytest.approx(drawn.mean(), abs=6 * drawn.std() / np.sqrt(4_000))
    assert _loudest(0.0, 30) == 0.0


@pytest.mark.parametrize(
    ("arguments", "settings", "message"),
    [
        ((1, 20), {}, "clients=1"),
        ((10, 1), {}, "candidates=1"),
        ((10, 20), {"method": ht.Vote(2, voters=5)}, "voters=5 needs privacy with unit='record'"),
        ((10, 20), {"agreement": ht.Agreement(30)}, "good=30, candidates=20"),
        ((10, 20), {"seal": ht.Masked(dropouts=0.3, corrupt=0.3)}, "no safe threshold"),
        ((10, 20), {"privacy": None}, "privacy must be a Privacy"),
        ((10, 20), {"repetitions": 1}, "repetitions=1"),
        ((50, 10), {"method": ht.Vote(100)}, "k=100, candidates=10"),
        ((50, 10), {"method": ht.Vote(2), "voters": 9}, "voters are given twice: 9, and 1"),
    ],
)
def test_bad_plans(arguments: Any, settings: Any, message: str) -> None:
    with pytest.raises(ht.SettingError, match=message):
        plan(*arguments, **{"privacy": ht.Privacy(1.0), **settings})


@pytest.mark.long
def test_a_million_voters_who_hardly_agree() -> None:
    """The normal approximation's mean is computed, not sampled: its error would be multiplied by the voters."""
    chances = [
        plan(
            1_000_000, 20, privacy=ht.Privacy(1.0), method=ht.Vote(1), agreement=ht.Agreement(1, 100.0), seed=seed
        ).success
        for seed in (0, 1)
    ]
    assert min(chances) > 0.9


def test_odd_settings_have_numbers(tmp_path: Path) -> None:
    all_good = plan(5, 3, privacy=ht.Privacy(1.0), agreement=ht.Agreement(3))
    assert all_good.success == 1.0
    assert all(np.isfinite(odds.margin) for odds in all_good.by_k)
    assert cost(4, 2, privacy=ht.Privacy(1.0)).k == 1  # not both of two
    records = ht.Ledger.new(tmp_path / "records.db", 5.0, 1e-5, unit="record")
    refused = cost(5, 3, privacy=ht.Privacy(1.0), method=ht.Vote(1), ledger=records)
    assert refused.ledger is not None
    assert not refused.ledger["allowed"]
    assert "counts per record" in refused.ledger["reason"]
