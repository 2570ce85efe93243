"""Propose-test and noisy maximum: whole runs, interruptions, saved results, and what a client accepts."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.methods.propose_test.test_method import (
    BEST_IS_THIRD,
    CURATOR,
    METHODS,
    RECORD,
    Loss,
    clients,
    party,
    query,
    tune,
)
from tests.observed import Observed

import hushtune as ht
from hushtune.client.release import contribution, respond
from hushtune.client.request import Request
from hushtune.client.rows import WHOLE, Parts
from hushtune.core.errors import AbortedError
from hushtune.core.roster import Roster
from hushtune.core.wire import pack, unpack
from hushtune.federation.local import LocalFederation
from hushtune.methods.propose_test.method import STEPS, public_order
from hushtune.privacy.accounting import Sums, epsilon_of
from hushtune.privacy.calibration import calibrate, events_of
from hushtune.privacy.events.answers import PureTests
from hushtune.privacy.noise.base import Noise
from hushtune.privacy.noise.geometric import cost_of
from hushtune.run.folder import RunFolder

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
        assert 2 * result.noise.scale < 0.03 * 48 * STEPS


@pytest.mark.parametrize("method", METHODS[:2])
@pytest.mark.parametrize("privacy", RELATIONS)
def test_every_unit_and_relation_is_charged_and_verified(method: Any, privacy: ht.Privacy, tmp_path: Path) -> None:
    privacy = replace(privacy, epsilon=2.0)
    result = tune(method=method, privacy=privacy, folder=tmp_path / "run")
    (event,) = result.events
    assert isinstance(event, PureTests)
    assert event.times == (19 if isinstance(method, ht.ProposeTest) else 1)
    one_sign = isinstance(method, ht.NoisyMax) and privacy.neighbours == "zero-out"  # and no threshold
    assert event.epsilon == cost_of(STEPS if one_sign else 2 * STEPS, result.noise.scale)
    assert 1.97 < epsilon_of(result.events, privacy.delta) <= 2.0
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
    assert result.method.tests == 2
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
    assert result.method.units == 15
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


@pytest.mark.parametrize("method", METHODS[2:])  # tests/testing has the others
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
        patch.setattr("hushtune.seals.curator.CuratorOracle", None)  # and nothing is drawn
        result = tune(method=method, folder=folder)
    assert result.opened[0].blocks == kept
    assert all(check.holds for check in ht.verify(folder))


def test_a_run_that_was_interrupted_before_its_answers_were_kept_is_charged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    """Clients send the same bytes again, nobody saw the first answers, and the events are the same."""
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
        assert entry.charge.events == result.events
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
    assert result.events == before.charge.events
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
    assert louder.noise.scale > tight.noise.scale
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
    "fewer tests in the events": _set("events", 0, "times", to=1),
    "smaller tests in the events": _set("events", 0, "epsilon", to=1e-3),
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
QUERY = query(tests=19)
PRIVACY = ht.Privacy(2.0)
NOISE = calibrate((QUERY.bound,), PRIVACY, Sums(), Noise(0.0, "curator"))
EVENTS = events_of((QUERY.bound,), PRIVACY, NOISE)


def request(**changes: Any) -> Request:
    return replace(Request("0" * 32, 0, ROSTER.digest(), QUERY, None, CURATOR, NOISE, PRIVACY, 1, EVENTS), **changes)


def test_a_client_answers_an_honest_request_and_is_charged_for_all_tests(tmp_path: Path) -> None:
    one = party(tmp_path, Loss(BEST_IS_THIRD))
    header, _ = unpack(respond(request().to_bytes(), one, ROSTER))
    assert header["kind"] == "vector"
    assert one.ledger is not None
    (entry,) = one.ledger.entries()
    assert entry.charge.events == (PureTests(cost_of(2 * STEPS, NOISE.scale), 19),)


@pytest.mark.parametrize(
    "changes",
    [
        {"events": (replace(EVENTS[0], times=1),)},  # type: ignore[type-var]
        {"query": query(tests=20)},
        {"query": query(tests=19, sensitivity=2 * STEPS)},
        {"events": (replace(EVENTS[0], epsilon=0.01),)},  # type: ignore[type-var]
        {"noise": Noise(NOISE.scale / 2, "curator")},
        {"noise": Noise(NOISE.scale / 2, "curator"), "events": (PureTests(cost_of(2 * STEPS, NOISE.scale / 2), 19),)},
        {"query": query(tests=50), "events": (replace(EVENTS[0], times=50),)},  # type: ignore[type-var]
        {"noise": Noise(1.0, "curator"), "events": (PureTests(2.0 * STEPS, 19),)},
        {"events": ()},
        {"events": (*EVENTS, *EVENTS)},
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
        {"tests": 0},
        {"tests": -1},
        {"tests": True},
        {"tests": 2**30},
        {"only_max": 1},
        {"only_max": "yes"},
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
    other = request(query=replace(QUERY, losses=(0.0, 2.0)))
    header, _ = unpack(respond(other.to_bytes(), one, ROSTER))
    assert header["kind"] == "refused"
