from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy import stats

import hushtune as ht
from hushtune.client.party import Party
from hushtune.client.trials import TrialStore
from hushtune.core.randomness import SimulatedRandomness
from hushtune.core.secret import Secret
from hushtune.methods.base import Facts
from hushtune.methods.registry import method_from_json
from hushtune.methods.vote.ballots import TopVotes
from hushtune.run.replay import Replay

SPACE = ht.Space(x=ht.Int(0, 4))
CANDIDATES = SPACE.grid()


def facts(candidates: ht.Candidates, clients: int, privacy: ht.Privacy | None) -> Facts:
    return Facts(candidates, clients, privacy, ht.Masked(), ht.Search())


def party(tmp_path: Path, losses: list[float]) -> Party:
    @ht.objective
    def loss(config: ht.Config, data: ht.Rows) -> float:
        return losses[config["x"]]

    client = ht.Client((np.zeros((1, 1)), np.zeros(1)), loss)
    return Party(
        "a",
        client,
        TrialStore(tmp_path / "t.db"),
        tmp_path,
        SimulatedRandomness(3, "ties"),
        secret=Secret.simulated(0, "a"),
    )


def ballots(tmp_path: Path, losses: list[float], k: int, times: int) -> np.ndarray:
    inside = party(tmp_path, losses)
    return np.array([TopVotes(k, CANDIDATES, 0).answer(inside) for _ in range(times)])


def test_votes_go_to_the_k_smallest_losses(tmp_path: Path) -> None:
    assert ballots(tmp_path, [0.5, 0.1, 0.9, 0.2, 0.7], 2, 1).tolist() == [[0, 1, 0, 1, 0]]


def test_nan_and_inf_rank_last(tmp_path: Path) -> None:
    losses = [float("nan"), 0.9, float("-inf"), float("inf"), 0.1]
    assert ballots(tmp_path, losses, 2, 1).tolist() == [[0, 1, 0, 0, 1]]


@pytest.mark.statistical
def test_ties_are_broken_at_random_not_by_index(tmp_path: Path) -> None:
    """Three equal losses for one remaining vote: chi-square at a false-alarm rate of 1e-7."""
    found = ballots(tmp_path, [0.5, 0.5, 0.1, 0.5, 0.9], 2, 600)
    assert found[:, 2].all()
    assert not found[:, 4].any()
    assert stats.chisquare(found[:, [0, 1, 3]].sum(0)).pvalue > 1e-7


@pytest.mark.statistical
def test_a_client_without_any_finite_loss_casts_a_uniformly_random_ballot(tmp_path: Path) -> None:
    """All ten ballots of two out of five are equally likely: chi-square at 1e-7. So is the bound's default."""
    default = TopVotes(2, CANDIDATES, 0).bound.default
    source = SimulatedRandomness(4, "default")
    for found in (
        ballots(tmp_path, [float("nan")] * 5, 2, 1_000),
        np.array([default(source) for _ in range(1_000)]),
    ):
        places = [tuple(np.flatnonzero(ballot)) for ballot in found]
        counts = [places.count(pair) for pair in combinations(range(5), 2)]
        assert sum(counts) == 1_000
        assert stats.chisquare(counts).pvalue > 1e-7


def test_without_noise_the_majority_wins(
    make_clients: Callable[..., list[ht.Client]], candidates: ht.Candidates
) -> None:
    result = ht.tune(make_clients(7), candidates, method=ht.Vote(1), observer=ht.Silent(), jobs=1)
    assert result.config == {"x": 0.3}
    assert result.opened[0].blocks["votes"][3] == 7
    assert result.opened[0].noise_variance == 0


def test_all_votes_for_everybody_needs_no_noise(
    make_clients: Callable[..., list[ht.Client]], candidates: ht.Candidates
) -> None:
    result = ht.tune(
        make_clients(3), candidates, method=ht.Vote(11), privacy=ht.Privacy(1.0), observer=ht.Silent(), jobs=1
    )
    assert result.noise.scale == 0
    assert result.spent.epsilon == 0
    assert result.opened[0].blocks["votes"] == [3] * 11


def test_both_decodings_read_the_same_opened_counts() -> None:
    """A lone 9 against a hill of 7: within noise of standard deviation 2 the hill is the better bet."""
    from hushtune.run.result import Opened

    candidates = ht.Space(x=ht.Float(0.0, 1.0)).grid(x=21)
    votes = [0, 0, 9, 0, 0, 0, 0, 0, 0, 3, 6, 7, 6, 4, 0, 0, 0, 0, 0, 0, 0]
    opened = [Opened("top-votes", {"votes": votes}, 4.0, 30)]
    arms = ht.Vote(1, opens="sum").variants()
    chosen = {name: arm.run(Replay("", candidates, ht.Search(), 1, opened)) for name, arm in arms.items()}
    assert chosen == {"argmax": candidates[2], "smooth": candidates[11]}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k": 0}, "k=0"),
        ({"k": 2.0}, "k=2.0"),
        ({"k": "5"}, "k='5'"),
        ({"k": True}, "k=True"),
        ({"decode": "best"}, "decode must be one of"),
        ({"ballot": "secret"}, "ballot must be one of"),
        ({"ballot": "soft", "k": 3}, "a soft ballot has no k"),
        ({"ballot": "approval", "tolerance": -1.0}, "tolerance"),
        (
            {"ballot": "soft", "tolerance": 0.0},
            "tolerance is for ballot='approval', but got tolerance=0, ballot='soft'",
        ),
        ({"tolerance": 0.1}, "tolerance is for ballot='approval', but got tolerance=0.1, ballot=None"),
        ({"ballot": "soft", "width": 0.0}, "0 < width"),
        ({"ballot": "soft", "width": "wide"}, "width"),
        ({"ballot": "soft", "grades": 0}, "grades"),
        ({"ballot": "soft", "grades": 16}, "grades"),
        ({"ballot": "soft", "grades": 2.5}, "grades"),
        ({"width": 0.5}, "width is for ballot='soft' with opens='winner', but got width=0.5, ballot=None, opens=None"),
        ({"ballot": "soft", "width": 0.5, "opens": "sum"}, "but got width=0.5, ballot='soft', opens='sum'"),
        ({"grades": 5, "ballot": "approval"}, "grades is for ballot='soft' with opens='winner', but got grades=5"),
        ({"opens": "votes"}, r"opens must be one of \['winner', 'sum'\], but got 'votes'"),
        ({"opens": "winner", "decode": "smooth"}, "decode is for opens='sum': .* but got decode='smooth'"),
    ],
)
def test_bad_settings(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ht.SettingError, match=message):
        ht.Vote(**arguments)


def test_more_votes_than_candidates_are_refused_before_anything_runs(
    make_clients: Callable[..., list[ht.Client]], candidates: ht.Candidates, home: Path
) -> None:
    with pytest.raises(ht.SettingError, match="k=12, candidates=11"):
        ht.tune(make_clients(3), candidates, method=ht.Vote(12), privacy=ht.Privacy(1.0), observer=ht.Silent())
    assert not home.exists()


GRID = ht.Space(x=ht.Float(0.0, 1.0)).grid(x=100)


def test_the_paper_is_one_argument_away() -> None:
    for clients, privacy in ((10, ht.Privacy(0.1)), (1_000, ht.Privacy(3.0)), (5, None)):
        published = ht.Vote(decode="argmax").settled(facts(GRID, clients, privacy))
        assert published == ht.Vote(5, 1, "top", decode="argmax", opens="sum")
        assert published.query(GRID, 0) == TopVotes(5, GRID, 0)


@pytest.mark.parametrize(
    ("candidates", "clients", "epsilon", "k"),
    [
        (100, 100, 0.25, 15),  # noise 42: 2.4 voters per standard deviation
        (100, 100, 0.5, 10),  # noise 22: 4.5
        (100, 100, 1.0, 5),  # noise 11.8
        (100, 250, 0.25, 5),
        (100, 250, 0.1, 15),
        (1_000, 10, 1.0, 150),
        (20, 10, 1.0, 5),
        (8, 10, 1.0, 4),  # never more than half
        (3, 10, 1.0, 1),
        (1, 10, 1.0, 1),
        (100, 3, None, 5),
    ],
)
def test_the_default_k_follows_from_public_numbers(
    candidates: int, clients: int, epsilon: float | None, k: int
) -> None:
    grid = ht.Space(x=ht.Float(0.0, 1.0)).grid(x=candidates)
    privacy = ht.Privacy(epsilon) if epsilon is not None else None
    assert ht.Vote().settled(facts(grid, clients, privacy)).k == k
    assert ht.Vote(7).settled(facts(grid, clients, privacy)).k == 7


@dataclass(frozen=True)
class Computing(ht.Curator):
    """A seal that computes without anybody seeing the sums, as far as methods can tell."""

    name: ClassVar[str] = "test-computing"
    computes: ClassVar[bool] = True
    mechanisms: ClassVar[Any] = ("geometric",)


SETTLED: list[tuple[Any, dict[str, Any], dict[str, Any]]] = [
    (ht.Masked(), {}, {"opens": "sum", "decode": "smooth", "k": 5, "tolerance": None}),
    (ht.Curator(), {}, {"opens": "sum", "decode": "smooth", "k": 5, "width": None}),
    (ht.Curator(), {"opens": "winner"}, {"opens": "winner", "decode": None, "ballot": "soft", "k": None, "grades": 3}),
    (Computing(), {}, {"opens": "winner", "decode": None, "ballot": "soft", "k": None, "width": 0.5, "grades": 3}),
    (Computing(), {"ballot": "top"}, {"opens": "winner", "decode": None, "k": 10, "width": None, "grades": None}),
    (Computing(), {"opens": "sum"}, {"opens": "sum", "decode": "smooth", "k": 5, "grades": None}),
    (Computing(), {"k": 60}, {"opens": "winner", "ballot": "top", "decode": None, "k": 60, "width": None}),
    (ht.Masked(), {"ballot": "approval"}, {"opens": "sum", "decode": "smooth", "k": 5, "tolerance": 0.01}),
    (Computing(), {"ballot": "approval"}, {"opens": "winner", "decode": None, "k": 10, "tolerance": 0.01}),
    (ht.Masked(), {"ballot": "soft"}, {"opens": "sum", "decode": "smooth", "k": None, "width": None, "grades": None}),
    (ht.Curator(), {"ballot": "soft", "opens": "winner", "width": 0.3, "grades": 7}, {"width": 0.3, "grades": 7}),
]


@pytest.mark.parametrize(("seal", "given", "expected"), SETTLED, ids=str)
def test_what_is_opened_follows_from_the_seal(seal: Any, given: dict[str, Any], expected: dict[str, Any]) -> None:
    """And what was settled once stays as it is, also as JSON: `verify` settles it again."""
    known = Facts(GRID, 100, ht.Privacy(1.0), seal, ht.Search())
    method = ht.Vote(**given).settled(known)
    assert {name: getattr(method, name) for name in expected} == expected
    assert method.settled(known) == method
    assert method_from_json(json.loads(json.dumps(method.to_json()))) == method
    assert method.consults == (method.opens == "winner")
    assert {bool(bound.tests) for bound in method.bounds(GRID)} == {method.consults}


@pytest.mark.parametrize("privacy", [None, ht.Privacy(0.25, 0)])
def test_a_winner_needs_no_gaussian_estimate_of_its_noise(privacy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With delta 0, or without epsilon, there is none."""
    monkeypatch.setattr("hushtune.methods.vote.method.gaussian_start", None)
    for size, k in ((1, 1), (6, 1), (15, 2), (100, 10), (1_000, 100)):
        grid = ht.Space(x=ht.Float(0.0, 1.0)).grid(x=size)
        known = Facts(grid, 3, privacy, Computing(), ht.Search())
        assert ht.Vote(ballot="top").settled(known).k == (k if privacy is None else max(1, round(0.3 * size)))
        assert ht.Vote().settled(known).width == (0.5 if privacy is None else 1)


@pytest.mark.parametrize("seal", [ht.Masked(), ht.Clear(), ht.Threshold()], ids=lambda seal: seal.name)
def test_a_winner_needs_somebody_who_keeps_the_sums_secret(seal: ht.Seal) -> None:
    wanted = rf"opens='winner' needs .*: give seal=Curator\(\) or seal=Quorum\(\), but got seal '{seal.name}'"
    with pytest.raises(ht.SettingError, match=wanted):
        ht.Vote(opens="winner").settled(Facts(GRID, 100, ht.Privacy(1.0), seal, ht.Search()))


def test_what_does_not_go_with_what_the_seal_opens_is_refused() -> None:
    known = Facts(GRID, 100, ht.Privacy(1.0), Computing(), ht.Search())
    with pytest.raises(ht.SettingError, match="decode is for opens='sum'"):
        ht.Vote(decode="argmax").settled(known)
    for name, value in (("width", 0.5), ("grades", 3)):
        with pytest.raises(ht.SettingError, match=f"{name} is for ballot='soft' with opens='winner'"):
            ht.Vote(ballot="soft", **{name: value}).settled(facts(GRID, 100, None))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("clients", "privacy", "k", "width", "grades"),
    [
        (100, ht.Privacy(0.1, 0), 30, 1.0, 3),  # 5 voters for each 2 / epsilon
        (140, ht.Privacy(0.1, 0), 20, 1.0, 3),  # 7
        (100, ht.Privacy(0.1, 0, neighbours="zero-out"), 20, 1.0, 3),  # 10 for each 1 / epsilon
        (359, ht.Privacy(0.1, 0), 20, 1.0, 3),
        (360, ht.Privacy(0.1, 0), 10, 0.5, 3),
        (3, None, 10, 0.5, 15),
    ],
)
def test_what_a_winners_ballots_say_follows_from_public_numbers(
    clients: int, privacy: Any, k: int, width: float, grades: int
) -> None:
    known = Facts(GRID, clients, privacy, Computing(), ht.Search())
    graded, voted = ht.Vote().settled(known), ht.Vote(ballot="top").settled(known)
    assert (graded.width, graded.grades, graded.k) == (width, grades, None)
    assert (voted.width, voted.grades, voted.k) == (None, None, k)


def test_words_for_the_noise_are_the_seals_own() -> None:
    vote = ht.Vote(2, opens="winner")
    assert vote.drawn(ht.Curator(), 8.0) == "coins of scale 8 on each candidate's score (permute-and-flip)"
    assert vote.drawn(Computing(), 8.0) == "geometric noise of scale 8 on each candidate's score"
    assert ht.Vote(2, opens="sum").drawn(ht.Curator(), 8.0) == ""


def test_voters_count_as_clients_do() -> None:
    privacy = ht.Privacy(1.0, unit="record")
    assert ht.Vote(voters=1).settled(facts(GRID, 10, privacy)).k == 15  # noise 11.8
    assert ht.Vote(voters=5).settled(facts(GRID, 10, privacy)).k == 10
    assert ht.Vote(voters=10).settled(facts(GRID, 10, privacy)).k == 5


@pytest.mark.parametrize(
    ("clients", "epsilon", "rows", "voters"),
    [
        (10, 1.0, None, 14),  # 30 * ln(100) / 10
        (10, 3.0, None, 5),
        (200, 1.0, None, 1),
        (10, 0.1, None, 20),  # nobody says that there are rows for more
        (10, 0.1, 100_000, 139),
        (10, 0.1, 1_000, 40),  # parts of 25 rows
        (10, 1.0, 50, 2),
        (10, 1.0, 3, 1),
        (1, 1e-3, 10**7, 10_000),
    ],
)
def test_records_have_as_many_voters_as_are_heard_and_have_rows(
    clients: int, epsilon: float, rows: int | None, voters: int
) -> None:
    privacy = ht.Privacy(epsilon, unit="record")
    assert ht.Vote(rows=rows).settled(facts(GRID, clients, privacy)).voters_each == voters


@pytest.mark.parametrize("privacy", [None, ht.Privacy(1.0), ht.Privacy(1.0, unit="record")])
def test_winners_are_chosen_by_grades_unless_votes_are_asked_for(privacy: ht.Privacy | None) -> None:
    def ballot(method: ht.Vote, seal: ht.Seal) -> str | None:
        return method.settled(Facts(GRID, 10, privacy, seal, ht.Search())).ballot

    assert ballot(ht.Vote(), ht.Quorum(nodes=3)) == "soft"
    assert ballot(ht.Vote(opens="winner"), ht.Curator()) == "soft"
    assert ballot(ht.Vote(3), ht.Quorum(nodes=3)) == "top"
    assert ballot(ht.Vote(ballot="top"), ht.Quorum(nodes=3)) == "top"
    assert ballot(ht.Vote(opens="sum"), ht.Quorum(nodes=3)) == "top"
    assert ballot(ht.Vote(), ht.Masked()) == "top"


def test_records_have_three_voters_for_each_of_a_priors() -> None:
    prior, privacy = ht.Prior(list(range(100)), 30), ht.Privacy(10.0, unit="record")
    assert ht.Vote(rows=10_000).settled(facts(GRID, 10, privacy)).voters_each == 2
    assert ht.Vote(rows=10_000, prior=prior).settled(facts(GRID, 10, privacy)).voters_each == 9
    assert ht.Vote(rows=100, prior=prior).settled(facts(GRID, 10, privacy)).voters_each == 4  # 25 rows each


@pytest.mark.parametrize("privacy", [None, ht.Privacy(1.0)])
def test_a_client_is_one_voter_unless_records_are_protected(privacy: ht.Privacy | None) -> None:
    assert ht.Vote(rows=10_000).settled(facts(GRID, 10, privacy)).voters_each == 1


def test_a_stated_number_of_rows_is_said_to_be_public() -> None:
    (words,) = ht.Vote(rows=500).not_covered
    assert words.startswith("rows=500, which was stated in public: about how many rows a client has, or those of its")
    assert ht.Vote().not_covered == ()
    with pytest.raises(ht.SettingError, match="rows=0"):
        ht.Vote(rows=0)
    with pytest.raises(ht.SettingError, match="voters are not settled"):
        _ = ht.Vote().voters_each


def test_the_usual_voters_stand_in_the_result(tmp_path: Path) -> None:
    clients = [ht.Client((np.arange(200.0), np.arange(200) % 2), _place, name=name) for name in "abc"]
    privacy, simulation = ht.Privacy(5.0, unit="record"), ht.Simulation(seed=1)
    how: dict[str, Any] = {"method": ht.Vote(rows=200), "privacy": privacy, "observer": ht.Silent()}
    found = ht.tune(clients, CANDIDATES, simulation=simulation, **how)
    assert found.method.voters == 4
    assert "each with 4 voters" in found.statement
    assert "rows=200, which was stated in public" in found.statement
    assert method_from_json(found.method.to_json()) == found.method


@ht.objective
def _place(config: ht.Config, data: ht.Rows) -> float:
    return abs(config["x"] - 2.0)


def test_an_unsettled_vote_asks_nothing() -> None:
    with pytest.raises(ht.SettingError, match="not settled"):
        ht.Vote().bounds(GRID)


def test_a_result_names_the_k_in_use(make_clients: Callable[..., list[ht.Client]], candidates: ht.Candidates) -> None:
    result = ht.tune(
        make_clients(12), candidates, method=ht.Vote(), privacy=ht.Privacy(1.0), observer=ht.Silent(), jobs=1
    )
    assert result.method.k == 5


def test_variants_read_the_same_sum() -> None:
    given: list[dict[str, Any]] = [
        {"k": 15},
        {"ballot": "soft"},
        {"k": 7, "ballot": "approval"},
        {"k": 3, "decode": "argmax"},
    ]
    for method in (ht.Vote(**fields, opens="sum") for fields in given):
        assert {arm.query(GRID, 0) for arm in method.variants().values()} == {method.query(GRID, 0)}
