from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.conftest import PRIVACY, Make, distance, tune
from tests.observed import Observed

import hushtune as ht
from hushtune.client.search.base import Search
from hushtune.client.trials import TrialStore
from hushtune.core.jsonlines import read_line
from hushtune.core.roster import Roster
from hushtune.federation.base import Dropped
from hushtune.federation.local import LocalFederation
from hushtune.seals.ends import Trip


def test_a_private_run_end_to_end(make_clients: Make, candidates: ht.Candidates) -> None:
    result = tune(make_clients(60), candidates)
    assert result.config == {"x": 0.3}  # 60 unanimous votes against noise of standard deviation 2
    assert result.answered == result.asked == 60
    assert 2.99 < result.spent.epsilon <= 3.0
    assert result.simulation is None
    assert [d.epsilon is None for d in result.disclosures] == [False, False]


def test_ledgers_of_coordinator_and_clients_are_charged_and_refuse_the_next_run(
    make_clients: Make, candidates: ht.Candidates, home: Path
) -> None:
    clients = make_clients(5)
    first = tune(clients, candidates)
    assert first.ledger is not None
    assert first.ledger.new
    ledgers = list(home.glob("clients/*/ledger.db"))
    assert len(ledgers) == 5
    assert all(len(ht.Ledger(path).entries()) == 1 for path in ledgers)
    with pytest.raises(ht.BudgetError, match="nothing fits any more"):
        tune(clients, candidates)
    with pytest.raises(ht.AbortedError, match="the ledgers of 5 refuse; nothing was asked"):
        tune(clients, candidates, ledger=ht.Ledger(home / "fresh.db"))  # a fresh coordinator's ledger does not help
    assert all(len(ht.Ledger(path).entries()) == 1 for path in ledgers)


def test_a_clients_ledger_goes_by_its_name_never_by_its_data(make_clients: Make, candidates: ht.Candidates) -> None:
    clients = make_clients(4)
    for client, name in zip(clients, "abcd", strict=True):
        client.name = name
    tune(clients, candidates)
    with pytest.raises(ht.AbortedError):
        tune(clients[:3], candidates)  # another federation, so another coordinator's ledger, but the same clients
    for client in clients:
        client.data = ht.Rows(client.data.X, client.data.y + 1e-9)
    with pytest.raises(ht.BudgetError):
        tune(clients, candidates)  # changing the data makes no fresh ledger, and so tells nothing


def test_raising_the_limits_lets_a_second_run_through(
    make_clients: Make, candidates: ht.Candidates, home: Path
) -> None:
    clients = make_clients(4)
    tune(clients, candidates)
    for path in home.glob("*/**/ledger*.db"):
        ht.Ledger(path).set_limit(6.0, 2e-5)
    second = tune(clients, candidates)
    assert second.ledger is not None
    assert not second.ledger.new
    assert second.ledger.runs == 2
    assert second.ledger.spent.epsilon == pytest.approx(6, rel=1e-3)


def test_runs_without_epsilon_are_on_record(make_clients: Make, candidates: ht.Candidates, home: Path) -> None:
    clients = make_clients(3)
    exact = tune(clients, candidates, privacy=None)
    assert "1 of the runs on record opened exact values" in exact.statement
    private = tune(clients, candidates)
    assert private.ledger is not None
    assert (private.ledger.runs, private.ledger.exact) == (2, 1)
    assert "1 of the runs on record opened exact values" in private.statement
    with pytest.raises(ht.BudgetError, match="a run without epsilon exceeds any"):
        tune(clients, candidates, privacy=None)


def test_clients_cannot_share_a_ledger(make_clients: Make, candidates: ht.Candidates, tmp_path: Path) -> None:
    clients = make_clients(3)
    for client in clients[:2]:
        client.ledger = ht.Ledger(tmp_path / "shared.db")
    with pytest.raises(ht.SettingError, match="'client-00' and 'client-01' share one"):
        tune(clients, candidates)


def test_a_run_is_calibrated_under_its_ledgers_rule(
    make_clients: Make, candidates: ht.Candidates, tmp_path: Path
) -> None:
    ledger = ht.Ledger.new(tmp_path / "renyi.db", 3.0, 1e-5, rule="renyi")
    result = tune(make_clients(4), candidates, ledger=ledger)
    assert result.rule.name == "renyi"
    assert result.spent.epsilon == pytest.approx(3, rel=1e-3)
    plain = tune(make_clients(4), candidates, home=tmp_path / "other")
    assert result.noise.scale > plain.noise.scale


def test_a_simulation_repeats_and_charges_nothing(make_clients: Make, candidates: ht.Candidates, home: Path) -> None:
    simulation = ht.Simulation(seed=5)
    runs = [tune(make_clients(20), candidates, simulation=simulation) for _ in range(2)]
    assert runs[0].opened == runs[1].opened
    other = tune(make_clients(20), candidates, simulation=ht.Simulation(seed=6))
    assert other.opened != runs[0].opened
    assert runs[0].simulation == {"seed": 5, "figures": None}
    assert runs[0].statement.startswith("SIMULATION")
    assert not list(home.glob("**/ledger*.db"))


def test_real_noise_is_fresh_every_time(make_clients: Make, candidates: ht.Candidates, tmp_path: Path) -> None:
    runs = [tune(make_clients(9), candidates, home=tmp_path / str(i)).opened[0].blocks["votes"] for i in range(3)]
    assert len({tuple(votes) for votes in runs}) == 3


def test_nothing_is_scored_again_for_another_epsilon(candidates: ht.Candidates, home: Path) -> None:
    scored = Observed()

    class Counting:
        def fingerprint(self) -> str:
            return "counting"

        def losses(self, configs: list[ht.Config], data: Any, seed: int) -> np.ndarray:
            scored.extend(configs)
            return np.zeros(len(configs))

    clients = [ht.Client((np.zeros((1, 1)), np.array([i])), Counting()) for i in range(3)]
    tune(clients, candidates, privacy=None)
    assert len(scored) == 33
    tune(clients, candidates, privacy=ht.Privacy(0.5), method=ht.Vote(2))
    assert len(scored) == 33


def test_the_search_seed_reaches_objective_and_query(candidates: ht.Candidates) -> None:
    seeds = Observed()

    class Seeds:
        def fingerprint(self) -> str:
            return "seeds"

        def losses(self, configs: list[ht.Config], data: Any, seed: int) -> np.ndarray:
            seeds.append(seed)
            return np.zeros(len(configs))

    clients = [ht.Client((np.zeros((1, 1)), np.array([i])), Seeds()) for i in range(2)]
    tune(clients, candidates, search=ht.Search(seed=9), privacy=None)
    assert set(seeds) == {9}


class Broken:
    def fingerprint(self) -> str:
        return "broken"

    def losses(self, configs: list[ht.Config], data: Any, seed: int) -> np.ndarray:
        raise RuntimeError(f"secret {data.y[0]}")


def test_without_epsilon_a_failing_client_is_dropped_and_named(make_clients: Make, candidates: ht.Candidates) -> None:
    clients = [*make_clients(10), ht.Client((np.zeros((1, 1)), np.array([5.0])), Broken(), name="hospital-x")]
    result = tune(clients, candidates, privacy=None)
    assert result.dropped == {"hospital-x": "refused: objective failed; see the client's own log"}
    assert result.answered == 10
    assert "hospital-x" in result.statement


def test_with_epsilon_a_failing_client_looks_like_any_other(
    make_clients: Make, candidates: ht.Candidates, tmp_path: Path, home: Path, caplog: Any, capfd: Any
) -> None:
    """Change one client's data so that its objective fails, and compare EVERYTHING visible but the noisy counts."""

    def visible(objective: Any) -> tuple[Any, str]:
        rng = np.random.default_rng(3)
        clients = make_clients(10)
        clients[4] = ht.Client((np.zeros((1, 1)), rng.normal(size=1)), objective, name="client-04")
        folder = tmp_path / f"run-{type(objective).__name__}"
        result = tune(clients, candidates, home=tmp_path / folder.name, folder=folder, observer=ht.Bars())
        raw = json.loads((folder / "result.json").read_text())
        for field in ("run", "opened", "config", "index"):
            raw.pop(field)
        raw["ledger"].pop("id")
        output = capfd.readouterr()
        shown = [line for line in output.err.splitlines() if "0:00" not in line]
        return raw, result.statement + output.out + "".join(shown) + caplog.text

    assert visible(distance) == visible(Broken())
    assert "secret" in (tmp_path / "run-Broken" / "clients" / "client-04" / "client.log").read_text()


@ht.objective
def slow_distance(config: ht.Config, data: ht.Rows) -> float:
    """As `distance`, but slower."""
    time.sleep(0.01)
    return float(abs(config["x"] - np.mean(data.y)))


def test_with_epsilon_nothing_that_is_kept_tells_how_long_clients_took(
    make_clients: Make, candidates: ht.Candidates, tmp_path: Path
) -> None:
    """Clients that differ only in speed: what is kept is the same, but for ids and what was drawn."""

    def kept(objective: Any) -> tuple[Any, str, list[Any]]:
        folder, stream = tmp_path / objective.function.__name__, StringIO()
        clients = make_clients(10, objective)
        result = tune(clients, candidates, home=folder / "home", folder=folder, observer=ht.JsonLines(stream))
        raw = json.loads((folder / "result.json").read_text())
        for field in ("run", "opened", "config", "index"):
            raw.pop(field)
        raw["ledger"].pop("id")
        lines = [read_line(line) for line in stream.getvalue().splitlines()]
        assert [line.time is None for line in lines] == [False, *[True] * (len(lines) - 1)]
        page = ht.report(folder).read_text()
        assert re.search(r"\d s<|seconds", page + result.statement) is None
        assert "keeps no times" in page
        return raw, result.statement, [(line.kind, line.fields) for line in lines if line.kind != "done"]

    assert kept(distance) == kept(slow_distance)


def test_runs_without_epsilon_and_simulations_keep_their_times(make_clients: Make, candidates: ht.Candidates) -> None:
    assert set(tune(make_clients(3), candidates, simulation=ht.Simulation(1)).seconds) >= {"score", "calibrate"}
    assert set(tune(make_clients(3), candidates, privacy=None, seal=ht.Clear()).seconds) >= {"score", "calibrate"}


def test_too_few_answers_abort_with_nothing_opened(make_clients: Make, candidates: ht.Candidates, home: Path) -> None:
    clients = make_clients(10)
    for client in clients[:2]:
        client.policy = ht.Policy(opt_out=True)
    with pytest.raises(ht.AbortedError, match=r"9 of 10 clients must have sent keys, but got 8; .*nothing was opened"):
        tune(clients, candidates)
    assert not list(home.glob("coordinator/*.db"))  # nobody was asked for an input: nothing is spent
    with pytest.raises(ht.AbortedError, match=r"9 of 10 clients must answer .* but got 8; .*nothing was opened"):
        tune(clients, candidates, seal=ht.Clear())
    (ledger,) = home.glob("coordinator/*.db")
    (entry,) = ht.Ledger(ledger).entries()
    assert not entry.opened  # reserved, not refunded


def test_dropouts_within_the_limit_are_named_and_the_rest_is_summed(
    make_clients: Make, candidates: ht.Candidates, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = LocalFederation.exchange

    def lossy(self: LocalFederation, trip: Trip, observer: Any) -> Mapping[str, bytes | Dropped]:
        return {**real(self, trip, observer), "client-03": Dropped("no reply in time"), "client-07": b"garbage"}

    monkeypatch.setattr(LocalFederation, "exchange", lossy)
    result = tune(make_clients(20), candidates, privacy=None)
    assert result.opened[0].blocks["votes"][3] == 18
    assert set(result.dropped) == {"client-03", "client-07"}
    assert result.opened[0].answered == 18


def test_equal_data_twice_are_two_clients_with_two_ledgers_and_two_noise_shares(
    candidates: ht.Candidates, home: Path
) -> None:
    same = [ht.Client((np.zeros((1, 1)), np.array([0.3])), distance) for _ in range(4)]
    tune(same, candidates)
    assert len(list(home.glob("clients/*/ledger.db"))) == 4


def test_spent_clients_are_noticed_before_anything_is_scored(make_clients: Make, candidates: ht.Candidates) -> None:
    clients = make_clients(4)
    tune(clients, candidates)
    late = ht.Client((np.zeros((1, 1)), np.zeros(1)), Broken(), name="late")
    with pytest.raises(ht.AbortedError, match="the ledgers of 4 refuse"):
        tune([*clients, late], candidates)


def test_mistakes_that_do_not_depend_on_data_are_refused_before_they_cost(
    candidates: ht.Candidates, home: Path
) -> None:
    from sklearn.svm import SVC

    sklearn = ht.SklearnObjective(SVC())
    with pytest.raises(ht.SettingError, match="@hushtune.objective"):
        ht.Client((np.zeros((1, 1)), np.zeros(1)), lambda config, data: 1.0)  # type: ignore[arg-type]
    with pytest.raises(ht.SettingError, match="SklearnObjective needs data as"):
        tune([ht.Client([1, 2], sklearn)] * 2, ht.Space(C=ht.Float(1, 2)).grid(C=2))
    with pytest.raises(ht.SettingError, match="knob 'x' must be a parameter of SVC"):
        tune([ht.Client((np.zeros((1, 1)), np.zeros(1)), sklearn)] * 2, candidates)
    with pytest.raises(ht.SettingError, match="privacy must be a Privacy, but got 1.0"):
        tune([ht.Client((np.zeros((1, 1)), np.zeros(1)), distance)], candidates, privacy=1.0)
    assert not list(home.glob("**/ledger*.db"))


SEALS = [ht.Clear(), ht.Masked()]


@pytest.mark.parametrize("seal", SEALS, ids=lambda seal: seal.name)
@pytest.mark.parametrize("privacy", [None, PRIVACY], ids=["exact", "private"])
def test_every_seal_gives_the_same_kind_of_result(
    make_clients: Make, candidates: ht.Candidates, tmp_path: Path, seal: Any, privacy: Any
) -> None:
    result = tune(make_clients(30), candidates, seal=seal, privacy=privacy, folder=tmp_path / "run")
    assert result.config == {"x": 0.3}
    assert all(check.holds for check in ht.verify(tmp_path / "run"))
    if privacy is None:
        assert result.opened[0].blocks["votes"][3] == 30


def test_pinned_identities(make_clients: Make, candidates: ht.Candidates, tmp_path: Path) -> None:
    clients = make_clients(5)
    for number, client in enumerate(clients):
        client.identity, client.name = ht.Identity.new(), f"hospital-{number}"
    result = tune(clients, candidates)
    assert result.pinned
    assert "not pinned" not in result.statement
    assert "Seal 'masked': the server, even if it lies, sees no single contribution" in result.statement
    roster = Roster(tuple(c.name for c in clients), tuple(c.identity.public for c in clients), bytes(range(32)))
    roster.save(tmp_path / "roster.toml")
    assert Roster.load(tmp_path / "roster.toml") == roster
    assert tune(clients, candidates, roster=roster, home=tmp_path / "other").pinned
    clients[2].identity = ht.Identity.new()
    with pytest.raises(ht.SettingError, match="must be those of the roster"):
        tune(clients, candidates, roster=roster, home=tmp_path / "third")
    clients[1].identity = None
    with pytest.raises(ht.SettingError, match="all clients need an identity, or none, but got 4 of 5"):
        tune(clients, candidates, home=tmp_path / "third")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"clients": []}, "at least one client"),
        ({"seal": ht.Masked(dropouts=0.3, corrupt=0.3), "names": list("abcdefghij")}, "leave no safe threshold"),
        ({"clients": [3]}, "client must be a Client"),
        ({"clients": 5}, "clients must be a list of Client, or a federation, but got 5"),
        ({"clients": None}, "clients must be a list of Client, or a federation, but got None"),
        ({"clients": "abc"}, "clients must be a list of Client, or a federation, but got 'abc'"),
        ({"home": 5}, "home must be a str or a Path, but got 5"),
        ({"candidates": ht.Space(x=ht.Float(0, 1))}, "finite public list"),
        ({"method": ht.Vote}, "method must be"),
        ({"jobs": 0}, "jobs=0"),
        ({"seal": ht.Clear(dropouts=0.5, corrupt=0.5)}, "leave an honest client"),
        ({"names": ["a", "a", "b"]}, "different names"),
        ({"names": ["a", "A", "b"]}, "different names"),
        ({"names": ["a/b", "c", "d"]}, "name must match"),
        ({"method": ht.Vote(2, voters=3)}, "voters=3 needs privacy with unit='record'"),
    ],
)
def test_bad_settings_cost_nothing(
    make_clients: Make, candidates: ht.Candidates, home: Path, arguments: dict[str, Any], message: str
) -> None:
    clients = make_clients(
        len(arguments.get("names", "abc")) if "names" in arguments else 2 if "seal" in arguments else 3
    )
    for client, name in zip(clients, arguments.pop("names", []), strict=False):
        client.name = name
    chosen = arguments.pop("candidates", candidates)
    with pytest.raises(ht.HushtuneError, match=message) as caught:
        tune(arguments.pop("clients", clients), chosen, **arguments)
    assert "\n" not in str(caught.value)
    assert not list(home.glob("**/ledger*.db"))


def test_parts_used_by_hand_are_exported_where_documented() -> None:
    for name in ht.__all__:
        assert getattr(ht, name) is not None
    assert Search is ht.Search
    assert TrialStore.__doc__
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        ht.nonsense  # noqa: B018


def test_a_ledger_made_for_many_runs_takes_one_small_one(
    make_clients: Make, candidates: ht.Candidates, tmp_path: Path
) -> None:
    """Its Rényi order, fixed for a limit of 8, cannot state epsilon 1: the run states its own, and is charged by the
    ledger's rule."""
    ledger = ht.Ledger.new(tmp_path / "ledger.db", 8.0, 1e-5, rule="renyi")
    result = ht.tune(
        make_clients(6),
        candidates,
        method=ht.Vote(2),
        privacy=ht.Privacy(1.0),
        ledger=ledger,
        home=tmp_path,
        observer=ht.Silent(),
    )
    assert result.rule.name == "sums"
    assert result.spent.epsilon <= 1.0
    assert result.ledger is not None
    assert result.ledger.rule == "renyi"
    assert ledger.spent().epsilon < 8.0
