"""DP-FTS-DE as a method: its vectors, its sensitivity, its rounds, and whole runs."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.methods.test_exploration import CANDIDATES, RUN, SPACE, Bowl, parties

import hushtune as ht
from hushtune.calibration import plan_of
from hushtune.client import Party
from hushtune.federation.local import LocalFederation
from hushtune.method import Facts
from hushtune.methods import method_from_json, thompson
from hushtune.methods.agents import shortened, weights
from hushtune.methods.regions import Weights, attention
from hushtune.methods.thompson import AgentVectors, Thompson
from hushtune.privacy.accounting import epsilon_of
from hushtune.privacy.events import GaussianVector, SkellamVector
from hushtune.privacy.release import contribution, respond
from hushtune.privacy.request import Request
from hushtune.query import query_from_json, query_to_json
from hushtune.roster import Roster
from hushtune.rows import WHOLE
from hushtune.sharing import SharingPlan
from hushtune.tuning import method_to_json
from hushtune.wire import pack, unpack

ZERO_OUT = ht.Privacy(8.0, 1e-3, neighbours="zero-out")
SHORT = Thompson(iterations=3, initial=3, features=12, regions=2)


def facts(clients: int = 12, privacy: ht.Privacy | None = ZERO_OUT, seal: Any = None) -> Facts:
    return Facts(CANDIDATES, clients, privacy, seal or ht.Curator(), ht.Search())


def query(number: int = 0, shared: Any = (), **changes: Any) -> AgentVectors:
    method = replace(SHORT, **changes).settled(facts())
    return method.query(RUN, CANDIDATES, 0, number, shared)


# ---- what an agent sends -----------------------------------------------------------------------------


@settings(max_examples=60)
@given(
    st.lists(st.floats(-1e6, 1e6), min_size=12, max_size=12),
    st.integers(4, 500),
    st.integers(1, 4),
    st.integers(0, 60),
    st.floats(0.01, 1e3) | st.none(),
)
def test_no_agents_vector_is_longer_than_its_bound(
    vector: list[float], agents: int, regions: int, number: int, norm: float | None
) -> None:
    """Whatever its model says, whoever it is, in every iteration."""
    asked = query(number=number, regions=regions, norm=norm)
    within = shortened(np.array([vector]), norm, regions)[0]
    table = Weights(agents, regions, attention(number + 1)).table()
    for assigned in range(regions):
        found = np.trunc(np.outer(table[assigned], within).ravel() / asked.step(agents) * (1 - 1e-12)).astype(np.int64)
        asked.bound.check(found)


def test_the_bound_is_reached_so_less_noise_would_not_do(tmp_path: Path) -> None:
    """An agent with a long vector sends nearly the norm that noise is calibrated to."""
    those = parties(tmp_path, count=4)
    asked = query(norm=1e-3)
    vector = contribution(asked, those[0], WHOLE, private=True)
    assert 0.9 * asked.bound.norm < np.linalg.norm(vector) <= asked.bound.norm


def test_the_sum_stands_for_the_papers_weighted_average(tmp_path: Path) -> None:
    """Algorithm 1, line 10, without noise: sum over n of phi_n^(i) times n's clipped vector."""
    those = parties(tmp_path, count=5)
    asked = query()
    total = np.sum([contribution(asked, party, WHOLE, private=True) for party in those], axis=0) * asked.step(5)
    expected = np.zeros((2, 12))
    for at, party in enumerate(those):
        points, values = asked.observed(asked.trials(party))
        own = weights(asked.phi(points)[None], values[None], np.array([asked.variance]), None)
        phi = Weights(5, 2, 16.0).table()[at % 2]
        expected += np.outer(phi, shortened(own, None, 2)[0])
    assert np.abs(total.reshape(2, 12) - expected).max() < 5 * asked.step(5)


def test_a_failing_agent_sends_zeros(tmp_path: Path) -> None:
    (party,) = parties(tmp_path, count=1, objective=Bowl(error=RuntimeError("secret")))
    assert not contribution(query(regions=1), party, WHOLE, private=True).any()


def test_samples_differ_and_means_do_not(tmp_path: Path) -> None:
    those = parties(tmp_path, count=2)
    first, second = (contribution(query(), those[0], WHOLE, private=True) for _ in range(2))
    assert (first == second).all()
    drawn = [contribution(query(sends="sample"), those[0], WHOLE, private=True) for _ in range(2)]
    assert (drawn[0] != drawn[1]).any()


def test_requests_survive_the_wire() -> None:
    method = SHORT.settled(facts())
    shared = tuple(np.linspace(-1, 1, 24).tolist())
    for asked in (method.query(RUN, CANDIDATES, 3, 2, shared), method.votes(RUN, CANDIDATES, 3, shared)):
        assert query_from_json(json.loads(json.dumps(query_to_json(asked)))) == asked
    assert method_from_json(json.loads(json.dumps(method_to_json(method)))) == method


# ---- what is settled beforehand ----------------------------------------------------------------------


def test_rounds_end_where_following_is_negligible() -> None:
    def rounds(**changes: Any) -> int | None:
        return Thompson(iterations=60, **changes).settled(facts()).rounds

    assert rounds(decay=1.0, negligible=1 / 60) == 60
    assert rounds(decay=1.0, negligible=0.05) == 20
    assert rounds(decay=2.0, negligible=0.05) == 4
    assert rounds(decay=0.0) == 60
    assert rounds() == 10
    assert rounds(rounds=7) == 7


def test_with_a_noise_multiplier_rounds_end_where_epsilon_does() -> None:
    published = Thompson(
        iterations=40, regions=2, rate=0.25, multiplier=1.0, decay=0.5, sends="sample", centre="none", final="surface"
    )
    privacy = ht.Privacy(7.0537, 200**-1.1, neighbours="zero-out")
    assert published.settled(facts(200, replace(privacy, epsilon=7.054))).rounds == 40
    assert published.settled(facts(200, replace(privacy, epsilon=7.0))).rounds == 39
    settled = published.settled(facts(200, replace(privacy, epsilon=4.0)))
    half = settled.rounds
    assert half is not None
    cost = [
        epsilon_of(
            plan_of(replace(settled, rounds=n).bounds(CANDIDATES), privacy, ht.Curator().noise(1024.0)), 200**-1.1
        )
        for n in (half, half + 1)
    ]
    assert cost[0] <= 4.0 < cost[1]


def test_sub_regions_and_centres_follow_from_the_guarantee() -> None:
    private, free = Thompson().settled(facts()), Thompson().settled(facts(privacy=None))
    assert (private.regions, private.centre) == (1, "own")
    assert (free.regions, free.centre) == (4, "none")
    assert Thompson().settled(facts(3, None)).regions == 1


def test_bounds_are_one_per_round_and_the_vote() -> None:
    method = replace(SHORT, rate=0.5, rounds=2).settled(facts())
    events = plan_of(method.bounds(CANDIDATES), ZERO_OUT, ht.Curator().noise(2048.0))
    assert events == (GaussianVector(2048.0, 1024.0, 0.5),) * 2 + (GaussianVector(2048.0, 2048.0),)
    shares = plan_of(method.bounds(CANDIDATES), ZERO_OUT, ht.Masked().noise(2048.0))
    assert [type(event) for event in shares] == [SkellamVector] * 3
    assert [event.rate for event in shares if isinstance(event, SkellamVector)] == [0.5, 0.5, 1.0]


@pytest.mark.parametrize(
    ("changes", "clients", "privacy", "message"),
    [
        ({"regions": 4}, 3, None, "every sub-region needs an agent, but got 3 clients, regions=4"),
        (
            {"rate": 0.5},
            9,
            ht.Privacy(1.0),
            "needs privacy with neighbours='zero-out', but got 'replace-one'; or use rate=1",
        ),
        ({}, 9, ht.Privacy(1.0, unit="record"), "unit='client'"),
        ({"rounds": 0, "final": "surface"}, 9, None, "needs at least one round"),
        ({"multiplier": 2.0}, 9, None, "multiplier=2 needs privacy"),
    ],
)
def test_what_cannot_be_is_refused(changes: Any, clients: int, privacy: Any, message: str) -> None:
    with pytest.raises(ht.SettingError, match=message):
        replace(SHORT, **changes).settled(facts(clients, privacy))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rate": 0.0}, "`0 < rate <= 1` must hold"),
        ({"rate": 1.5}, "`0 < rate <= 1` must hold"),
        ({"norm": 0.0}, "norm"),
        ({"norm": -1.0}, "norm"),
        ({"iterations": 0}, "iterations"),
        ({"rounds": 4}, "rounds"),
        ({"regions": 0}, "regions"),
        ({"sends": "all"}, "sends must be one of"),
        ({"uses": "all"}, "uses must be one of"),
        ({"final": "none"}, "final must be one of"),
        ({"multiplier": 0.0}, "multiplier"),
        ({"losses": (1.0, 1.0)}, "smallest < largest"),
        ({"refine": "yes"}, "refine"),
        ({"centre": "all"}, "centre must be one of"),
    ],
)
def test_impossible_settings_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ht.SettingError, match=message):
        replace(SHORT, **changes)


def test_a_domain_of_one_point_is_refused() -> None:
    one = SPACE.candidates([{"x": 0.5, "y": 0.5}])
    with pytest.raises(ht.SettingError, match="at least 2 points"):
        SHORT.settled(Facts(one, 12, None, ht.Clear(), ht.Search()))


# ---- whole runs --------------------------------------------------------------------------------------


def run(tmp_path: Path, count: int = 8, objective: Any = None, domain: Any = CANDIDATES, **changes: Any) -> ht.Result:
    clients = [ht.Client([str(tmp_path / f"calls-{at}")], objective or Bowl()) for at in range(count)]
    given = {"method": SHORT, "home": tmp_path / "home", "folder": tmp_path / "run", "quiet": True, "jobs": 1}
    return ht.tune(clients, domain, **{**given, **changes})


def check(tmp_path: Path) -> None:
    assert [check for check in ht.verify(tmp_path / "run") if not check.holds] == []


@pytest.mark.parametrize(
    ("seal", "privacy", "rate"),
    [
        (ht.Clear(), None, 1.0),
        (ht.Masked(), None, 1.0),
        (ht.Curator(), ZERO_OUT, 0.5),
        (ht.Masked(), ZERO_OUT, 0.5),
        (ht.Masked(), ht.Privacy(8.0, 1e-3), 1.0),
    ],
)
def test_a_run_agrees_on_a_candidate_and_can_be_verified(tmp_path: Path, seal: Any, privacy: Any, rate: float) -> None:
    result = run(tmp_path, seal=seal, privacy=privacy, method=replace(SHORT, rate=rate))
    assert result.index is not None
    assert len(result.opened) == 4
    assert len((tmp_path / "calls-0").read_text().splitlines()) == 6
    check(tmp_path)
    assert (
        "the best of 6 trials of its own: {'x'"
        in (tmp_path / "home" / "clients" / "client-0" / "client.log").read_text()
    )
    assert "their own trials and the configs that they use or publish" in result.statement
    if privacy is not None:
        assert result.spent.epsilon <= 8.0
        assert "3 times, that each" in result.statement
    assert ("is in a sum with chance 0.5 in 3 of 4 sums" in result.statement) == (rate < 1)
    assert "server, all clients and every reader of the result: summed weights" in result.statement


def test_the_two_trust_models_are_told_apart(tmp_path: Path) -> None:
    method = replace(SHORT, rate=0.5)
    trusted = run(tmp_path / "a", seal=ht.Curator(), privacy=ZERO_OUT, method=method).statement
    assert "TRUSTED: the server" in trusted
    assert "by Rényi divergences epsilon would be" in trusted
    assert "each client's own weights" in trusted
    hidden = run(tmp_path / "b", seal=ht.Masked(), privacy=ZERO_OUT, method=method).statement
    assert "nobody but the client itself can see" in hidden
    assert "each client's own" not in hidden


def test_without_noise_everybody_finds_the_best(tmp_path: Path) -> None:
    result = run(tmp_path, seal=ht.Clear(), method=replace(SHORT, iterations=12))
    assert abs(result.config["x"] - 0.3) < 0.15
    assert abs(result.config["y"] - 0.7) < 0.15


def test_the_surface_is_a_choice_too(tmp_path: Path) -> None:
    result = run(tmp_path, seal=ht.Clear(), method=replace(SHORT, iterations=8, final="surface"))
    assert len(result.opened) == 8
    check(tmp_path)


def test_agents_that_share_nothing_still_agree(tmp_path: Path) -> None:
    result = run(tmp_path, seal=ht.Masked(), privacy=ht.Privacy(4.0), method=replace(SHORT, rounds=0))
    assert [opened.query for opened in result.opened] == ["agent-votes"]
    assert result.notes == {}


ALL = Thompson(iterations=8, initial=3, features=12)
LARGE = ht.Privacy(8.0, 1e-3)


def used(tmp_path: Path, left: float) -> None:
    """A first run, after which all ledgers have so much left."""
    run(tmp_path, seal=ht.Curator(), privacy=LARGE, method=ALL, folder=tmp_path / "first")
    for path in (tmp_path / "home").rglob("*ledger*.db"):
        ht.Ledger(path).set_limit(8.0 + left, 2e-3)


def test_a_run_ends_where_the_ledgers_limit_is_reached(tmp_path: Path) -> None:
    used(tmp_path, left=6.0)
    (path,) = (tmp_path / "home" / "coordinator").glob("ledger*.db")
    planned = ht.plan(8, CANDIDATES, privacy=LARGE, method=ALL, seal=ht.Curator(), ledger=ht.Ledger(path))
    result = run(tmp_path, seal=ht.Curator(), privacy=LARGE, method=ALL)
    assert isinstance(planned, SharingPlan)
    assert planned.method["rounds"] == result.method["rounds"]
    assert planned.ledger is not None
    assert planned.ledger["allowed"]
    whole = ht.Result.load(tmp_path / "first")
    assert result.privacy is not None
    assert result.privacy.epsilon == pytest.approx(6.0, rel=1e-3)
    assert 1 <= result.method["rounds"] < whole.method["rounds"] == 8
    assert result.noise["scale"] <= whole.noise["scale"]
    longer = replace(method_from_json(result.method), rounds=result.method["rounds"] + 1)
    noise = ht.Curator().noise(whole.noise["scale"])
    assert epsilon_of(plan_of(longer.bounds(CANDIDATES), LARGE, noise), LARGE.delta) > 6.0
    assert result.spent.epsilon <= result.privacy.epsilon
    assert "It had less left than epsilon 8, delta 0.001, which was asked for" in result.statement
    assert result.ledger is not None
    assert result.ledger.wanted == LARGE.budget
    assert whole.ledger is not None
    assert whole.ledger.wanted is None
    assert len((tmp_path / "calls-0").read_text().splitlines()) == 22  # all trials, though fewer rounds
    check(tmp_path)
    with pytest.raises(ht.BudgetError):
        run(tmp_path, seal=ht.Curator(), privacy=LARGE, method=ALL, folder=tmp_path / "third")


def test_a_shortened_run_is_taken_up_again_as_it_began(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used(tmp_path, left=6.0)
    with monkeypatch.context() as patch:
        patch.setattr(ht.Result, "save", lambda *a: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path, seal=ht.Curator(), privacy=LARGE, method=ALL)
    opened = len(json.loads((tmp_path / "run" / "run.json").read_text())["opened"])
    result = run(tmp_path, seal=ht.Curator(), privacy=LARGE, method=ALL)
    assert len(result.opened) == opened == result.method["rounds"] + 1
    check(tmp_path)


@pytest.mark.parametrize(("left", "rounds"), [(0.0, None), (4.0, None), (6.0, 8)])
def test_where_nothing_fits_or_rounds_are_given_the_ledger_refuses(
    tmp_path: Path, left: float, rounds: int | None
) -> None:
    used(tmp_path, left)
    with pytest.raises(ht.BudgetError, match="limit is epsilon"):
        run(tmp_path, seal=ht.Curator(), privacy=LARGE, method=replace(ALL, rounds=rounds))


def test_a_space_is_listed_and_refined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(SHORT.listed(SPACE, None, ht.Clear())) == 1_000
    monkeypatch.setattr(thompson, "_POINTS", 60)
    result = run(tmp_path, count=4, domain=SPACE, seal=ht.Clear(), method=replace(SHORT, iterations=1))
    assert len(result.candidates) == 60
    assert result.method["refine"] is True
    check(tmp_path)


def test_an_interrupted_run_goes_on_without_scoring_again(tmp_path: Path) -> None:
    """Ctrl-C in the middle of an iteration: the same call takes it up again, with the same id and trials."""
    tmp_path.joinpath("calls-0").touch()

    class Interrupted(Bowl):
        def losses(self, configs: Any, data: Any, seed: int) -> Any:
            own = data[0].endswith("calls-3")
            if own and len(Path(data[0]).read_text().splitlines()) == 4 and not (tmp_path / "again").exists():
                raise KeyboardInterrupt
            return super().losses(configs, data, seed)

    for at in range(8):
        (tmp_path / f"calls-{at}").touch()
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, objective=Interrupted(), seal=ht.Masked(), privacy=ZERO_OUT)
    before = json.loads((tmp_path / "run" / "run.json").read_text())
    assert len(before["opened"]) == 2
    (tmp_path / "again").touch()
    result = run(tmp_path, objective=Interrupted(), seal=ht.Masked(), privacy=ZERO_OUT)
    assert result.run == before["run"]
    assert all(len((tmp_path / f"calls-{at}").read_text().splitlines()) == 6 for at in range(8))
    check(tmp_path)


def test_agents_that_drop_out_are_missing_from_that_sum_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent out of reach in one iteration answers again in the next; nobody else's weight changes."""
    from hushtune.federation import local
    from hushtune.wire import unpack

    respond, dropped = local.respond, []

    def unreliable(message: bytes, party: Party, *rest: Any) -> bytes:
        if party.id == "client-2" and unpack(message)[0].get("step") == 1:
            dropped.append(party.id)
            from hushtune.privacy.release import refused

            return refused("out of reach")
        return respond(message, party, *rest)

    monkeypatch.setattr(local, "respond", unreliable)
    result = run(tmp_path, seal=ht.Curator(dropouts=0.2), privacy=ZERO_OUT)
    assert dropped == ["client-2"]
    assert [opened.answered for opened in result.opened] == [8, 7, 8, 8]
    check(tmp_path)


@pytest.mark.statistical
def test_opened_vectors_have_the_curators_noise(tmp_path: Path) -> None:
    """Failing agents send zeros: what is opened is noise alone. Variance at 6 sigma; halved noise is 1/4 of it."""
    method = replace(SHORT, features=400, final="surface", rounds=3)
    failing = Bowl(error=RuntimeError("no"))
    result = run(tmp_path, objective=failing, seal=ht.Curator(), privacy=ZERO_OUT, method=method)
    drawn = np.concatenate([opened.blocks["vectors"] for opened in result.opened]).astype(np.float64)
    assert abs(np.var(drawn) / result.noise["scale"] ** 2 - 1) < 6 * math.sqrt(2 / len(drawn))


def test_a_curator_needs_epsilon(tmp_path: Path) -> None:
    with pytest.raises(ht.SettingError, match="seal 'curator' is for a server that adds noise"):
        run(tmp_path, seal=ht.Curator())


def test_a_ledger_refuses_a_run_beyond_its_limit_before_anybody_explores(tmp_path: Path) -> None:
    run(tmp_path, seal=ht.Curator(), privacy=ZERO_OUT)
    with pytest.raises(ht.BudgetError):
        run(tmp_path, seal=ht.Curator(), privacy=ZERO_OUT, folder=tmp_path / "second")
    assert len((tmp_path / "calls-0").read_text().splitlines()) == 6


# ---- a server that lies ------------------------------------------------------------------------------


def request_of(asked: Any, step: int, plan: Any, run: str = RUN) -> bytes:
    noise = ht.Curator().noise(5_000.0)
    return Request(run, step, ROSTER.digest(), asked, None, ht.Curator(), noise, LOOSE, 1, plan).to_bytes()


ROSTER = Roster(("client-0", "client-1"))
LOOSE = ht.Privacy(20.0, 1e-3, neighbours="zero-out")
MIXED = ht.Space(gamma=ht.Choice(["scale", 0.1, 0.5])).grid()


class Picky(Bowl):
    """Fails, or has tried other things, depending on the data."""

    def losses(self, configs: Any, data: Any, seed: int) -> Any:
        return np.array([0.1 if config.get("gamma") == "scale" else 0.5 for config in configs])


def test_another_space_in_a_later_step_finds_nothing_out_about_earlier_trials(tmp_path: Path) -> None:
    """Each client's earlier trials do not fit the new space, or there are none: all answer alike."""
    method = replace(SHORT, regions=1, rounds=2).settled(facts(2))
    plan = plan_of(method.bounds(MIXED), LOOSE, ht.Curator().noise(5_000.0))
    clients = [ht.Client(["x"], Picky()), ht.Client([str(tmp_path / "calls")], Bowl(error=RuntimeError("no")))]
    inside = LocalFederation(clients, tmp_path / "home", jobs=1).parties
    other = ht.Space(gamma=ht.Float(0.0, 1.0)).grid(gamma=3)
    for party in inside.values():
        first = respond(request_of(method.query(RUN, MIXED, 0, 0, ()), 0, plan), party, ROSTER)
        probe = respond(request_of(method.query(RUN, other, 0, 1, ()), 1, plan), party, ROSTER)
        assert unpack(first)[0]["kind"] == unpack(probe)[0]["kind"] == "vector"


def test_one_step_has_one_request_and_a_query_is_of_its_run(tmp_path: Path) -> None:
    method = replace(SHORT, regions=1, rounds=2).settled(facts(2))
    plan = plan_of(method.bounds(CANDIDATES), LOOSE, ht.Masked().noise(5_000.0))
    clients = [ht.Client([str(tmp_path / f"calls-{at}")], Bowl()) for at in range(2)]
    party = LocalFederation(clients, tmp_path / "home", jobs=1).parties["client-0"]

    def keys(asked: Any, number: int = 0) -> dict[str, Any]:
        seal = ht.Masked()
        content = Request(RUN, 0, ROSTER.digest(), asked, None, seal, seal.noise(5_000.0), LOOSE, 1, plan).to_bytes()
        message = pack({"kind": "masked", "run": RUN, "trip": "keys", "round": number}, content)
        return unpack(respond(message, party, ROSTER, lambda request: request.query.trials(party)))[0]  # type: ignore[attr-defined]

    assert "is of another run" in keys(method.query("b" * 32, CANDIDATES, 0, 0, ()))["reason"]
    assert not (tmp_path / "calls-0").exists()
    assert keys(method.query(RUN, CANDIDATES, 0, 0, ()))["kind"] == "keys"
    before = (tmp_path / "calls-0").read_text()
    for number, shared in ((1, ()), (0, (0.5,) * 12)):
        assert "another request" in keys(method.query(RUN, CANDIDATES, 0, number, shared), 7)["reason"]
    assert (tmp_path / "calls-0").read_text() == before
