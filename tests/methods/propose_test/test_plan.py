"""Whether a curator's tests can work: what `plan` says beforehand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hushtune as ht
from hushtune.core.randomness import SimulatedRandomness
from hushtune.methods.propose_test.plan import SelectionPlan
from hushtune.privacy.accounting import epsilon_of
from hushtune.privacy.events.answers import PureTests
from hushtune.seals.oracle import MECHANISMS

PRIVACY = ht.Privacy(2.0, 1e-5, "record")


def plan(method: Any, **changes: Any) -> SelectionPlan:
    found = ht.plan(1, 100, **{"privacy": PRIVACY, "method": method, "repetitions": 400, **changes})
    assert isinstance(found, SelectionPlan)
    return found


def test_the_published_setting_is_hopeless_and_a_noisy_maximum_is_not() -> None:
    published = plan(ht.ProposeTest(voters=10, granularity=0.01), privacy=replace(PRIVACY, epsilon=6.5))
    assert published.verdict.startswith("HOPELESS")
    assert published.tests == 199
    assert published.chance.epsilon0 == pytest.approx(0.1, rel=0.01)
    assert published.chance.noise == pytest.approx(2.0, rel=0.01)
    assert published.chance.gain < 0.1
    other = {chance.what: chance for chance in published.instead}["NoisyMax instead"]
    assert other.gain > 0.8


def test_more_parts_and_a_larger_epsilon_help() -> None:
    gains = [plan(ht.ProposeTest(voters=voters)).chance.gain for voters in (20, 200, 2_000)]
    assert gains == sorted(gains)
    assert plan(ht.ProposeTest(voters=5_000)).verdict.startswith("Likely to work")
    assert plan(ht.NoisyMax(voters=30)).chance.gap > plan(ht.NoisyMax(voters=300)).chance.gap


def test_the_charge_is_what_the_run_will_cost(tmp_path: Path) -> None:
    ledger = ht.Ledger(tmp_path / "ledger.db")
    found = plan(ht.ProposeTest(voters=50, stop="filter", epsilon0=0.2), ledger=ledger)
    assert found.tests < 19
    assert found.charge["epsilon"] == pytest.approx(2.0, rel=1e-3)
    assert epsilon_of((PureTests(found.chance.epsilon0, found.tests),), 1e-5) == pytest.approx(2.0, rel=1e-3)
    assert found.ledger is not None
    assert found.ledger["allowed"]
    assert not ledger.exists


@pytest.mark.statistical
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_simulated_maximum_is_chosen_as_often_as_a_real_one(mechanism: Any) -> None:
    """Mean gaps of 2,000 simulated and 2,000 real choices, within 6 standard errors: false alarms below 1e-8."""
    found = ht.plan(1, 8, privacy=PRIVACY, method=ht.NoisyMax(20, mechanism), repetitions=2_000)
    assert isinstance(found, SelectionPlan)
    steps = 1_024 * 20
    sums = np.rint(np.linspace(0.45, 0.95, 8) * steps).astype(np.int64)
    scale, source = round(2 * 1_024 / found.chance.epsilon0), SimulatedRandomness(1, mechanism)
    choose = MECHANISMS[mechanism]
    gaps = np.array([0.95 - sums[choose(sums, scale, source)] / steps for _ in range(2_000)])
    assert abs(gaps.mean() - found.chance.gap) < 6 * np.sqrt(2) * gaps.std() / np.sqrt(2_000)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seal": ht.Masked()}, "give seal=Curator"),
        ({"assume": {"spread": 0.0}}, "spread"),
        ({"assume": {"spread": 0.96}}, "spread"),
        ({"method": ht.ProposeTest(voters=9, stop="filter", epsilon0=3.0)}, "does not pay for one test"),
    ],
)
def test_bad_plans_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ht.SettingError, match=message):
        plan(**{"method": ht.NoisyMax(10), **changes})
