"""What a run is held to: fixed before anybody is asked, the same for every step."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from tests.run.harness import CANDIDATES, PRIVACY, QUERY, RUN, terms

import hushtune as ht
from hushtune.client.request import Request
from hushtune.methods.study import Study
from hushtune.methods.vote.ballots import TopVotes
from hushtune.privacy.accounting import Budget, Renyi, Sums, epsilon_of
from hushtune.privacy.calibration import Training
from hushtune.privacy.charges import charge_of
from hushtune.privacy.events.training import TrainingSteps
from hushtune.privacy.noise.base import Noise
from hushtune.run.terms import calibrated
from hushtune.seals.base import largest_sum
from hushtune.seals.forms import Form


def test_the_whole_run_costs_what_was_asked_for_and_not_more() -> None:
    agreed = terms()
    assert agreed.spent == Budget(pytest.approx(2.0, rel=2e-5), 1e-5)  # type: ignore[arg-type]
    assert agreed.spent.epsilon <= 2.0
    assert agreed.charge(RUN) == charge_of(RUN, "run", agreed.events, PRIVACY)
    assert terms(privacy=None).spent == Budget(0.0, 0.0)
    assert terms(privacy=None).charge(RUN).exact


@pytest.mark.parametrize("clients", [2, 3, 10, 57])
def test_the_honest_carry_the_whole_noise(clients: int) -> None:
    agreed = terms(clients)
    assert (agreed.honest, agreed.needed) == (ht.Masked().honest(clients), ht.Masked().needed(clients))
    assert agreed.share_variance * agreed.honest == Fraction(agreed.noise.variance)
    assert agreed.noise == terms(10).noise  # who drops out changes the shares, not the guarantee
    curator = terms(clients, seal=ht.Curator())
    assert (curator.noise.at, curator.share_variance) == ("curator", 0)


def test_what_is_due_leaves_room_for_the_noise() -> None:
    agreed = terms()
    due = agreed.due(QUERY, None)
    assert due.largest == largest_sum(10, 1, QUERY.bound, agreed.share_variance) > 10
    assert terms(privacy=None).due(QUERY, None).largest == 10
    assert agreed.due(QUERY, Form("votes", at_least=1)).opens == 4


def test_requests_of_all_steps_have_the_same_terms() -> None:
    agreed = terms(method=ht.Vote(1, voters=3), privacy=ht.Privacy(2.0, unit="record"))
    first, later = (agreed.request(RUN, step, "roster", QUERY, None) for step in (0, 5))
    assert first.terms() == later.terms()
    assert Request.from_bytes(first.to_bytes()) == first
    assert (first.voters, first.parts, first.events) == (3, agreed.parts, agreed.events)


def test_a_sum_that_was_not_announced_is_recognised() -> None:
    agreed = terms()
    assert agreed.announced(QUERY, 0)
    assert not agreed.announced(QUERY, 1)  # one more than announced
    assert not agreed.announced(TopVotes(2, CANDIDATES, 0), 0)  # two votes cost more
    assert agreed.announced(TopVotes(1, ht.Space(x=ht.Float(0.0, 1.0)).grid(x=9), 0), 0)  # another length does not
    assert not replace(agreed, noise=Noise(agreed.noise.scale / 2)).announced(QUERY, 0)


def test_without_epsilon_the_kind_of_bound_is_what_is_announced() -> None:
    agreed = terms(privacy=None)
    assert agreed.events == ()
    assert agreed.announced(TopVotes(2, CANDIDATES, 0), 0)
    assert not agreed.announced(ht.Search(), 1)  # type: ignore[arg-type]


def test_the_rule_is_the_ledgers(tmp_path: Path) -> None:
    ledger = ht.Ledger.new(tmp_path / "ledger.db", 2.0, 1e-5, rule="renyi")
    agreed = terms(ledger=ledger)
    assert isinstance(agreed.rule, Renyi)
    assert 2 * (1 - 2e-5) <= agreed.spent.epsilon <= 2.0
    assert epsilon_of(agreed.events, 1e-5) < agreed.spent.epsilon  # a filter's order is not the best for one run
    assert agreed.noise.scale > terms().noise.scale
    ledger.reserve(agreed.charge(RUN))
    with pytest.raises(ht.BudgetError):
        ledger.reserve(agreed.charge("1" * 32))


def test_training_gets_what_the_run_leaves_and_is_in_the_same_charge(tmp_path: Path) -> None:
    ledger = ht.Ledger.new(tmp_path / "ledger.db", 2.0, 1e-5, rule="renyi")
    training = Training(rate=0.05, steps=20, share=0.25)
    study = Study(CANDIDATES, ht.Vote(1), training.before(PRIVACY)).settled(10)
    agreed = calibrated(study, PRIVACY, ledger, training, Budget(3.0, 1e-5))
    vote, steps = agreed.events
    assert isinstance(steps, TrainingSteps)
    assert agreed.openings == 1  # training opens nothing
    assert 2 * (1 - 1e-4) <= agreed.spent.epsilon <= 2.0
    assert Sums().spent([((vote,), 1e-5)], 1e-5).epsilon == pytest.approx(0.5, rel=2e-5)
    assert agreed.wanted == Budget(3.0, 1e-5)
    assert agreed.announced(QUERY, 0)
    assert not agreed.announced(QUERY, 1)
