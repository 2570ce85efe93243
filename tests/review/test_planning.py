from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.methods.vote.harness import cost, plan

import hushtune as ht
from hushtune.methods.base import Method, Openings
from hushtune.methods.plan import CostPlan, Plan, Prospect
from hushtune.privacy.bounds import Bound, KHot


def test_candidates_may_be_given_as_they_are() -> None:
    grid = ht.Space(x=ht.Float(0, 1), kind=ht.Choice(["a", "b"])).grid(x=6)
    found = cost(50, grid, privacy=ht.Privacy(1.0), method=ht.Vote(2))
    assert found.candidates == 12
    assert set(found.to_json()) >= {"sigma", "k", "form", "advice", "bound", "success", "messages", "bytes", "charge"}


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


@pytest.mark.parametrize(
    ("arguments", "settings", "message"),
    [
        ((1, 20), {}, "at least 2 clients, but got 1"),
        ((10, 1), {}, "candidates=1"),
        ((10, 20), {"method": ht.Vote(2, voters=5)}, "voters=5 needs privacy with unit='record'"),
        ((10, 20), {"assume": {"good": 30}}, "good=30, candidates=20"),
        ((10, 20), {"seal": ht.Masked(dropouts=0.3, corrupt=0.3)}, "no safe threshold"),
        ((10, 20), {"privacy": None}, "privacy must be a Privacy"),
        ((10, 20), {"repetitions": 1}, "repetitions=1"),
        ((50, 10), {"method": ht.Vote(100)}, "k=100, candidates=10"),
        ((10, 20), {"assume": {"godd": 3}}, r"method 'vote' assumes \['good', 'overlap'\], but got 'godd'"),
        ((10, 20), {"assume": {"overlap": "much"}}, "overlap='much'"),
        ((10, 20), {"assume": 3}, "assume must be a Mapping"),
        ((10, 20), {"method": "vote"}, "method must be a Method"),
        ((10, "many"), {}, "candidates='many'"),
        (([object()] * 3, 20), {}, "must hold for an integer, but got a list$"),
    ],
)
def test_bad_plans(arguments: Any, settings: Any, message: str) -> None:
    with pytest.raises(ht.SettingError, match=message):
        plan(*arguments, **{"privacy": ht.Privacy(1.0), **settings})


@dataclass(frozen=True)
class Quiet(Method):
    """A method of somebody else's, which says nothing about its odds."""

    name: ClassVar[str] = "quiet"

    def bounds(self, candidates: ht.Candidates) -> tuple[Bound, ...]:
        return (KHot(1, len(candidates)),)

    def run(self, run: Openings) -> ht.Config:
        raise AssertionError("a plan runs nothing")


@dataclass(frozen=True)
class Telling(Quiet):
    """... and one that does."""

    name: ClassVar[str] = "telling"

    def plan(self, prospect: Prospect) -> Plan:
        assumed = prospect.assumed(luck=0.5)
        other = prospect.changed(clients=2 * prospect.clients)
        return Plan(
            f"Luck is {assumed['luck']:g}; noise {prospect.noise.scale / other.noise.scale:.2f}", **prospect.common()
        )


def test_any_method_can_be_planned(tmp_path: Path) -> None:
    ledger = ht.Ledger.new(tmp_path / "ledger.db", 1.5, 1e-4)
    found = ht.plan(50, 20, privacy=ht.Privacy(1.0), method=Quiet(), ledger=ledger)
    vote = cost(50, 20, privacy=ht.Privacy(1.0), method=ht.Vote(1), ledger=ledger)
    assert isinstance(found, CostPlan)
    assert (found.scale, found.openings) == (vote.sigma, 1)
    assert (found.charge, found.ledger) == (vote.charge, vote.ledger)
    assert found.to_json()["method"] == {"name": "quiet"}
    assert any("seal 'masked'" in line for line in found.lines())
    with pytest.raises(ht.SettingError, match="method 'quiet' assumes nothing, but got 'luck'"):
        ht.plan(50, 20, privacy=ht.Privacy(1.0), method=Quiet(), assume={"luck": 1.0})


def test_a_method_says_what_to_expect_of_it() -> None:
    found = ht.plan(50, 20, privacy=ht.Privacy(1.0), method=Telling(), assume={"luck": 0.7})
    assert found.verdict == "Luck is 0.7; noise 1.00"


@pytest.mark.parametrize("method", [ht.Surface(), ht.Combine()], ids=lambda method: method.name)
def test_methods_without_a_simulation_have_noise_and_cost(method: Method) -> None:
    space = ht.Space(x=ht.Float(0.0, 1.0), y=ht.Float(0.0, 1.0))
    found = ht.plan(50, space.grid(x=5, y=5), privacy=ht.Privacy(1.0), method=method)
    assert isinstance(found, CostPlan)
    assert 0.99 < found.charge["epsilon"] <= 1.0
    assert found.scale > 1


def test_a_plan_costs_what_the_run_will_be_charged(
    make_clients: Callable[..., list[ht.Client]], candidates: ht.Candidates
) -> None:
    method, privacy = ht.Vote(2), ht.Privacy(3.0)
    found = cost(8, candidates, privacy=privacy, method=method)
    result = ht.tune(make_clients(8), candidates, method=method, privacy=privacy, observer=ht.Silent(), jobs=1)
    assert found.charge["epsilon"] == result.spent.epsilon
    assert found.sigma == result.noise.scale
