"""DP-FTS-DE: whole runs, ledgers with less left, interruptions, and a server that lies."""

from __future__ import annotations

import json
import math
import sqlite3
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.methods.thompson.test_exploration import CANDIDATES, RUN, SPACE, Bowl
from tests.methods.thompson.test_method import SHORT, ZERO_OUT, facts

import hushtune as ht
from hushtune.client.party import Party
from hushtune.client.release import respond
from hushtune.client.request import Request
from hushtune.core.roster import Roster
from hushtune.core.wire import pack, unpack
from hushtune.federation.local import LocalFederation
from hushtune.methods.thompson import method as thompson
from hushtune.methods.thompson.method import Thompson
from hushtune.methods.thompson.plan import ThompsonPlan
from hushtune.privacy.accounting import epsilon_of
from hushtune.privacy.calibration import events_of

# ---- whole runs --------------------------------------------------------------------------------------


def run(tmp_path: Path, count: int = 8, objective: Any = None, domain: Any = CANDIDATES, **changes: Any) -> ht.Result:
    clients = [ht.Client([str(tmp_path / f"calls-{at}")], objective or Bowl()) for at in range(count)]
    given = {"method": SHORT, "home": tmp_path / "home", "folder": tmp_path / "run", "observer": ht.Silent(), "jobs": 1}
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
        in (tmp_path / "home" / "clients" / "client-00" / "client.log").read_text()
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
    assert isinstance(planned, ThompsonPlan)
    assert planned.method == result.method
    assert planned.ledger is not None
    assert planned.ledger["allowed"]
    whole = ht.Result.load(tmp_path / "first")
    assert result.privacy is not None
    assert result.privacy.epsilon == pytest.approx(6.0, rel=1e-3)
    assert 1 <= result.method.rounds < whole.method.rounds == 8
    assert result.noise.scale <= whole.noise.scale
    longer = replace(result.method, rounds=result.method.rounds + 1)
    noise = ht.Curator().noise(whole.noise.scale)
    assert epsilon_of(events_of(longer.bounds(CANDIDATES), LARGE, noise), LARGE.delta) > 6.0
    assert result.spent.epsilon <= result.privacy.epsilon
    assert "It had less left than epsilon 8, delta 0.001, which was asked for" in result.statement
    assert result.ledger is not None
    assert result.ledger.wanted == LARGE.budget
    assert whole.ledger is not None
    assert whole.ledger.wanted is None
    with closing(sqlite3.connect(tmp_path / "home" / "trials.db")) as db:  # all trials, though fewer rounds
        assert db.execute("SELECT count(*) FROM searches").fetchone() == (2 * 8 * 11,)
    calls = (tmp_path / "calls-0").read_text().splitlines()
    assert len(set(calls)) == len(calls)  # the second run scores nothing that the first one has scored
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
    assert len(result.opened) == opened == result.method.rounds + 1
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
    assert result.method.refine is True
    check(tmp_path)


def test_an_interrupted_run_goes_on_without_scoring_again(tmp_path: Path) -> None:
    """Ctrl-C in the middle of an iteration: the same call takes it up again, with the same id and trials."""
    tmp_path.joinpath("calls-0").touch()

    class Interrupted(Bowl):
        here = threading.Lock()  # cannot be sent: it is scored in this process, where an interrupt is Ctrl-C

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
    from hushtune.core.wire import unpack
    from hushtune.federation import local

    respond, dropped = local.respond, []

    def unreliable(message: bytes, party: Party, *rest: Any) -> bytes:
        if party.id == "client-02" and unpack(message)[0].get("step") == 1:
            dropped.append(party.id)
            from hushtune.client.release import refused

            return refused("out of reach")
        return respond(message, party, *rest)

    monkeypatch.setattr(local, "respond", unreliable)
    result = run(tmp_path, seal=ht.Curator(dropouts=0.2), privacy=ZERO_OUT)
    assert dropped == ["client-02"]
    assert [opened.answered for opened in result.opened] == [8, 7, 8, 8]
    check(tmp_path)


@pytest.mark.statistical
def test_opened_vectors_have_the_curators_noise(tmp_path: Path) -> None:
    """Failing agents send zeros: what is opened is noise alone. Variance at 6 sigma; halved noise is 1/4 of it."""
    method = replace(SHORT, features=400, final="surface", rounds=3)
    failing = Bowl(error=RuntimeError("no"))
    result = run(tmp_path, objective=failing, seal=ht.Curator(), privacy=ZERO_OUT, method=method)
    drawn = np.concatenate([opened.blocks["vectors"] for opened in result.opened]).astype(np.float64)
    assert abs(np.var(drawn) / result.noise.scale**2 - 1) < 6 * math.sqrt(2 / len(drawn))


def test_a_curator_needs_epsilon(tmp_path: Path) -> None:
    with pytest.raises(ht.SettingError, match="seal 'curator' is for a server that adds noise"):
        run(tmp_path, seal=ht.Curator())


def test_a_ledger_refuses_a_run_beyond_its_limit_before_anybody_explores(tmp_path: Path) -> None:
    run(tmp_path, seal=ht.Curator(), privacy=ZERO_OUT)
    with pytest.raises(ht.BudgetError):
        run(tmp_path, seal=ht.Curator(), privacy=ZERO_OUT, folder=tmp_path / "second")
    assert len((tmp_path / "calls-0").read_text().splitlines()) == 6


# ---- a server that lies ------------------------------------------------------------------------------


def request_of(wanted: Any, step: int, events: Any, run: str = RUN) -> bytes:
    noise = ht.Curator().noise(5_000.0)
    return Request(run, step, ROSTER.digest(), wanted, None, ht.Curator(), noise, LOOSE, 1, events).to_bytes()


ROSTER = Roster(("client-00", "client-01"))
LOOSE = ht.Privacy(20.0, 1e-3, neighbours="zero-out")
MIXED = ht.Space(gamma=ht.Choice(["scale", 0.1, 0.5])).grid()


class Picky(Bowl):
    """Fails, or has tried other things, depending on the data."""

    def losses(self, configs: Any, data: Any, seed: int) -> Any:
        return np.array([0.1 if config.get("gamma") == "scale" else 0.5 for config in configs])


def test_another_space_in_a_later_step_finds_nothing_out_about_earlier_trials(tmp_path: Path) -> None:
    """Each client's earlier trials do not fit the new space, or there are none: all answer alike."""
    method = replace(SHORT, regions=1, rounds=2).settled(facts(2))
    events = events_of(method.bounds(MIXED), LOOSE, ht.Curator().noise(5_000.0))
    clients = [ht.Client(["x"], Picky()), ht.Client([str(tmp_path / "calls")], Bowl(error=RuntimeError("no")))]
    inside = LocalFederation(clients, tmp_path / "home", jobs=1).parties
    other = ht.Space(gamma=ht.Float(0.0, 1.0)).grid(gamma=3)
    for party in inside.values():
        first = respond(request_of(method.query(RUN, MIXED, 0, 0, ()), 0, events), party, ROSTER)
        probe = respond(request_of(method.query(RUN, other, 0, 1, ()), 1, events), party, ROSTER)
        assert unpack(first)[0]["kind"] == unpack(probe)[0]["kind"] == "vector"


def test_one_step_has_one_request_and_a_query_is_of_its_run(tmp_path: Path) -> None:
    method = replace(SHORT, regions=1, rounds=2).settled(facts(2))
    events = events_of(method.bounds(CANDIDATES), LOOSE, ht.Masked().noise(5_000.0))
    clients = [ht.Client([str(tmp_path / f"calls-{at}")], Bowl()) for at in range(2)]
    party = LocalFederation(clients, tmp_path / "home", jobs=1).parties["client-00"]

    def keys(wanted: Any, number: int = 0) -> dict[str, Any]:
        seal = ht.Masked()
        content = Request(RUN, 0, ROSTER.digest(), wanted, None, seal, seal.noise(5_000.0), LOOSE, 1, events).to_bytes()
        message = pack({"kind": "masked", "run": RUN, "trip": "keys", "round": number}, content)
        return unpack(respond(message, party, ROSTER, lambda request: request.query.trials(party)))[0]  # type: ignore[attr-defined]

    assert "is of another run" in keys(method.query("b" * 32, CANDIDATES, 0, 0, ()))["reason"]
    assert not (tmp_path / "calls-0").exists()
    assert keys(method.query(RUN, CANDIDATES, 0, 0, ()))["kind"] == "keys"
    before = (tmp_path / "calls-0").read_text()
    for number, shared in ((1, ()), (0, (0.5,) * 12)):
        assert "another request" in keys(method.query(RUN, CANDIDATES, 0, number, shared), 7)["reason"]
    assert (tmp_path / "calls-0").read_text() == before
