"""Votes of which only the winner is opened: whole runs, what they say, and what `verify` finds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from tests.conftest import Make, distance, tune

import hushtune as ht
from hushtune.core.randomness import SimulatedRandomness
from hushtune.methods.base import Facts
from hushtune.methods.figures import Figure
from hushtune.privacy.accounting import Sums
from hushtune.privacy.bounds import AtMost, KHot
from hushtune.privacy.calibration import calibrate
from hushtune.privacy.noise.base import Noise
from hushtune.testing.audits import epsilon_lower_bound

CURATOR = ht.Curator()
PURE = ht.Privacy(3.0, 0)
BALLOTS: tuple[dict[str, Any], ...] = ({"k": 2}, {"ballot": "approval", "k": 3, "tolerance": 0.05}, {"ballot": "soft"})
ONLY = "Only the winner's place was opened: no candidate's total, and not how far ahead the winner is."


class Exact(ht.Curator):
    """A curator that also runs without epsilon, as nodes do that only compute."""

    name: ClassVar[str] = "test-exact"

    def check_privacy(self, private: bool) -> None:
        """Both will do."""


def winner(clients: list[ht.Client], candidates: ht.Candidates, **changes: Any) -> ht.Result:
    settings: dict[str, Any] = {"method": ht.Vote(2, opens="winner"), "privacy": PURE, "seal": CURATOR}
    return tune(clients, candidates, **{**settings, **changes})


@pytest.mark.parametrize("fields", BALLOTS, ids=str)
def test_a_run_opens_one_place_and_verifies(
    fields: dict[str, Any], make_clients: Make, candidates: ht.Candidates, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    result = winner(make_clients(25), candidates, method=ht.Vote(**fields, opens="winner"), folder=folder)
    (opened,) = result.opened
    assert opened.blocks == {"answers": [result.index]}
    assert opened.noise_variance == 0
    assert result.config == candidates[result.index or 0]
    assert abs(result.config["x"] - 0.3) <= 0.1  # 25 voters against noise of 0.7 votes, or best grades
    assert (result.spent.epsilon, result.spent.delta) == (3.0, 0.0)
    assert result.per_candidate() is None
    with pytest.raises(ht.SettingError, match="one opened value per candidate"):
        result.to_optuna()
    assert all(check.holds for check in ht.verify(folder))
    assert ht.Result.load(folder).method == result.method


def test_the_statement_says_that_nothing_else_was_opened(make_clients: Make, candidates: ht.Candidates) -> None:
    result = winner(make_clients(5), candidates)
    assert ONLY in result.statement
    assert "exact coins of scale 0.6667 on each candidate's score (permute-and-flip), where one" in result.statement
    assert "two sums apart by at most 2; drawn by the server." in result.statement
    own, place, _ = result.disclosures
    assert (own.to, own.shape, own.epsilon) == ("server", (5, 11), None)
    assert place.what == "the winner's place among the candidates, and not how far ahead it is"
    assert (place.to, place.shape, place.epsilon) == ("every reader of the result", (1,), 3.0)


def test_one_candidate_wins_without_noise_and_at_no_cost(make_clients: Make) -> None:
    result = winner(
        make_clients(5), ht.Space(x=ht.Float(0.0, 1.0)).candidates([{"x": 0.5}]), method=ht.Vote(1, opens="winner")
    )
    assert (result.config, result.spent.epsilon) == ({"x": 0.5}, 0.0)
    assert "Noise: none is needed, because what is opened is the same whatever the data are." in result.statement


@pytest.mark.parametrize(
    ("method", "only"),
    [
        (ht.Vote(2, opens="sum"), False),
        (ht.NoisyMax(), True),
        (ht.ProposeTest(granularity=0.5), False),
        (ht.ProposeTest(tests=1), False),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_so_it_does_of_every_method_of_which_it_is_true(
    method: Any, only: bool, make_clients: Make, candidates: ht.Candidates
) -> None:
    result = winner(make_clients(5), candidates, method=method, privacy=ht.Privacy(3.0))
    assert (ONLY in result.statement) == only


def test_the_report_says_why_there_are_no_bars(make_clients: Make, tmp_path: Path) -> None:
    space = ht.Space(x=ht.Float(0.0, 1.0), depth=ht.Int(1, 3))
    winner(make_clients(12), space.grid(x=5), folder=tmp_path / "run")
    text = ht.report(tmp_path / "run").read_text()
    assert "No total was opened, so there are no bars to draw" in text
    assert "plot-counts" not in text
    assert text.count('class="candidate-line') == 15
    assert text.count('class="candidate-line chosen"') == 1
    assert "All 15 candidates as a table" in text
    assert "DOES NOT HOLD" not in text


def test_with_one_knob_candidates_are_a_table(make_clients: Make, candidates: ht.Candidates, tmp_path: Path) -> None:
    result = winner(make_clients(12), candidates, folder=tmp_path / "run")
    text = ht.report(tmp_path / "run").read_text()
    assert "plot-parallel" not in text
    assert "All 11 candidates as a table" in text
    (figure,) = result.method.figures(result)
    assert isinstance(figure, Figure)
    assert f"candidate {result.index} of 11" in figure.words


def _move(raw: dict[str, Any]) -> None:
    (answers,) = raw["opened"][0]["blocks"].values()
    answers[0] = (answers[0] + 1) % 11


def _again(raw: dict[str, Any]) -> None:
    raw["opened"][0]["blocks"]["answers"] *= 2


def _beyond(raw: dict[str, Any]) -> None:
    raw["opened"][0]["blocks"]["answers"] = [11]


def _counts(raw: dict[str, Any]) -> None:
    raw["opened"][0]["blocks"]["votes"] = [1] * 11


def _none(raw: dict[str, Any]) -> None:
    raw["opened"][0]["blocks"]["answers"] = [-1]


def _sum(raw: dict[str, Any]) -> None:
    raw["method"]["opens"] = "sum"
    raw["method"]["decode"] = "argmax"


def _louder(raw: dict[str, Any]) -> None:
    raw["noise"]["scale"] *= 2


@pytest.mark.parametrize("change", [_move, _again, _beyond, _counts, _none, _sum, _louder])
def test_what_was_tampered_with_is_found(
    change: Callable[[dict[str, Any]], None], make_clients: Make, candidates: ht.Candidates, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    winner(make_clients(5), candidates, folder=folder)
    raw = json.loads((folder / "result.json").read_text())
    change(raw)
    (folder / "result.json").write_text(json.dumps(raw))
    (folder / "run.json").unlink()
    assert not ht.verify(folder).holds


def test_a_simulation_repeats_itself_and_knows_its_mean_over_draws(
    make_clients: Make, candidates: ht.Candidates
) -> None:
    whole = ht.Client((np.zeros((8, 1)), np.full(8, 0.3)), distance)
    simulation = ht.Simulation(5, whole, draws=20)
    one, other = (winner(make_clients(12), candidates, simulation=simulation) for _ in range(2))
    assert one.opened == other.opened
    assert one.simulation == other.simulation
    assert one.simulation is not None
    figures = one.simulation["figures"]
    assert set(figures["means"]) == {"winner"}
    assert figures["random_guess"] + 0.1 < figures["means"]["winner"] <= figures["opt"]


@pytest.mark.parametrize("fields", BALLOTS, ids=str)
def test_without_epsilon_the_winner_is_exact(
    fields: dict[str, Any], make_clients: Make, candidates: ht.Candidates, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    clients = [*make_clients(3, centre=0.8), *make_clients(4)]
    method = ht.Vote(**fields, opens="winner")
    result = winner(clients, candidates, method=method, seal=Exact(), privacy=None, folder=folder)
    assert result.config["x"] == pytest.approx(0.3)
    assert (result.events, result.noise.scale) == ((), 0.0)
    assert "Guarantee: NONE" in result.statement
    assert ONLY in result.statement
    assert [(found.mechanism, found.epsilon) for found in result.disclosures[:2]] == [
        ("seal 'test-exact': exact", None),
        ("exact", None),
    ]
    assert all(check.holds for check in ht.verify(folder))


def test_a_client_that_fails_is_like_any_other(make_clients: Make, candidates: ht.Candidates, tmp_path: Path) -> None:
    """It sends what depends on no data; only the answer may differ, and what follows from it."""

    @ht.objective
    def failing(config: ht.Config, data: ht.Rows) -> float:
        raise RuntimeError("secret")

    told = []
    for fields in BALLOTS:
        for odd in (distance, failing):
            clients = [*make_clients(6), ht.Client((np.zeros((4, 1)), np.full(4, 0.3)), odd)]
            method, home = ht.Vote(**fields, opens="winner"), tmp_path / f"home {len(told)}"
            raw = winner(clients, candidates, method=method, home=home).to_json()
            for own in ("run", "config", "index", "opened", "ledger", "traffic"):
                raw.pop(own)
            told.append(json.dumps(raw))
        assert told[-1] == told[-2]
        assert "secret" not in told[-1]


def test_winners_are_compared_with_sums(make_clients: Make, candidates: ht.Candidates) -> None:
    whole = ht.Client((np.zeros((8, 1)), np.full(8, 0.3)), distance)
    found = ht.compare(
        make_clients(20),
        candidates,
        methods=[ht.Vote(k=1), ht.Vote(k=1, opens="winner")],
        seals=[CURATOR],
        privacies=[ht.Privacy(0.5)],
        simulation=ht.Simulation(0, whole, draws=40),
        observer=ht.Silent(),
        jobs=1,
    )
    least, most = found.arms
    assert most.method == "vote(k=1, opens=winner)"
    assert (least.score or 0) < (most.score or 0)  # noise of 4 votes instead of 10
    assert "the winner's place among the candidates" in most.all_see


def test_the_noise_does_not_grow_with_k() -> None:
    """It follows from how far one ballot moves two totals apart; where every ballot is the same, nothing is drawn."""
    curated = Noise(0.0, "curator")
    scales = {k: calibrate((KHot(k, 100, 1),), PURE, Sums(), curated).scale for k in (1, 2, 50, 99, 100)}
    assert scales[100] == 0.0
    assert {scales[k] for k in (1, 2, 50, 99)} == {scales[1]}
    assert scales[1] == pytest.approx(2 / 3)
    grid = ht.Space(x=ht.Float(0.0, 1.0)).grid(x=100)
    for k in (1, 5, 50):
        method = ht.Vote(k, opens="winner").settled(Facts(grid, 10, PURE, CURATOR, ht.Search()))
        assert calibrate(method.bounds(grid), PURE, Sums(), curated).scale == scales[1]


def _audit(mechanism: Any, scale: float, runs: int = 6_000) -> float:
    """How often the last of ten candidates wins, where one voter approves of it alone, or of all others."""
    seen = []
    for at, sums in enumerate(([4] * 9 + [5], [5] * 9 + [4])):
        source = SimulatedRandomness(at, f"winner {mechanism} {scale}")
        oracle = CURATOR.oracle(np.array(sums), AtMost(9, 10, runs), 9, Noise(scale, "curator"), source)
        seen.append(np.array([oracle.noisy_max(mechanism) == 9 for _ in range(runs)], dtype=float))
    return epsilon_lower_bound(*seen, 0.0)


@pytest.mark.statistical
@pytest.mark.parametrize(
    "mechanism",
    ["geometric", *(pytest.param(one, marks=pytest.mark.long) for one in ("permute-and-flip", "exponential"))],
)
def test_a_winner_costs_what_is_charged_and_halved_noise_is_caught(mechanism: Any) -> None:
    """False alarms: 1e-7 each."""
    epsilon = 1.0
    scale = calibrate((AtMost(9, 10, 1),), ht.Privacy(epsilon, 0), Sums(), Noise(0.0, "curator")).scale
    assert _audit(mechanism, scale) <= epsilon
    assert _audit(mechanism, scale / 2) > epsilon
