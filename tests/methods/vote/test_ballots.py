from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import PRIVACY, Make, tune

import hushtune as ht
from hushtune.client.party import Party
from hushtune.client.query import query_from_json, query_to_json
from hushtune.methods.vote.ballots import Approvals, GradedVotes, SoftVotes, TopVotes
from hushtune.privacy.events.answers import PureTests
from hushtune.privacy.noise.base import Noise
from hushtune.testing import check_query

NAN, INF = float("nan"), float("inf")
CANDIDATES = ht.Space(x=ht.Int(0, 4)).grid()
WINNERS = (TopVotes(3, CANDIDATES, 7, 1), Approvals(3, 0.05, CANDIDATES, 7, 1), GradedVotes(0.5, 15, CANDIDATES, 7))


class Losses:
    """A party of which only the losses are asked."""

    def __init__(self, losses: list[float]) -> None:
        from hushtune.core.randomness import SimulatedRandomness

        self._losses, self.randomness = np.array(losses), SimulatedRandomness(1, "ties")

    def losses(self, configs: Any, seed: int) -> np.ndarray:
        return self._losses


def votes_of(query: Any, losses: list[float]) -> list[int]:
    party: Party = Losses(losses)  # type: ignore[assignment]
    answer = query.bound.check(query.answer(party))
    return list(map(int, answer))


@pytest.mark.parametrize(
    ("k", "losses", "expected"),
    [
        (3, [0.10, 0.50, 0.11, 0.12, 0.90], [1, 0, 1, 1, 0]),
        (2, [0.10, 0.50, 0.11, 0.12, 0.90], [1, 0, 1, 0, 0]),  # never more than k
        (3, [0.10, 0.50, 0.30, 0.40, 0.90], [1, 0, 0, 0, 0]),  # only what is close
        (3, [NAN, 0.50, INF, 0.51, -INF], [0, 1, 0, 1, 0]),
        (3, [NAN] * 5, [0] * 5),
    ],
)
def test_approvals_are_what_is_close_to_the_best(k: int, losses: list[float], expected: list[int]) -> None:
    assert votes_of(Approvals(k, 0.02 + 1e-12, CANDIDATES, 0), losses) == expected


def test_a_soft_ballot_is_centred_scaled_and_ordered_by_loss() -> None:
    query = SoftVotes(CANDIDATES, 0)
    found = votes_of(query, [0.1, 0.2, 0.3, 0.4, 0.5])
    assert found == sorted(found, reverse=True)
    assert abs(sum(found)) <= 2
    assert query.bound.norm - 3 <= np.linalg.norm(found) <= query.bound.norm
    assert votes_of(query, [1.1, 1.2, 1.3, 1.4, 1.5]) == pytest.approx(
        found, abs=1
    )  # whatever the losses' own scale is
    assert votes_of(query, [1.0, 2.0, 3.0, 4.0, 5.0]) == pytest.approx(found, abs=1)


def test_what_failed_counts_as_the_worst_and_equal_losses_say_nothing() -> None:
    query = SoftVotes(CANDIDATES, 0)
    assert votes_of(query, [0.1, NAN, 0.3, INF, 0.5]) == votes_of(query, [0.1, 0.5, 0.3, 0.5, 0.5])
    assert votes_of(query, [0.3] * 5) == [0] * 5
    assert votes_of(query, [NAN] * 5) == [0] * 5


@settings(max_examples=300)
@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=5, max_size=5))
def test_whatever_the_losses_are_a_soft_ballot_is_within_its_bound(losses: list[float]) -> None:
    with np.errstate(all="ignore"):
        try:
            votes_of(SoftVotes(CANDIDATES, 0), losses)
        except ht.HushtuneError:
            pytest.fail("a soft ballot broke its bound")


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ([0.10, 0.60, 0.14, 0.30, 0.90], [15, 0, 9, 0, 0]),  # the median is .3, so that 0 is reached at .2
        ([0.10, 0.60, 0.11, 0.30, 0.90], [15, 0, 14, 0, 0]),  # 13.5 is rounded up
        ([1.00, 6.00, 1.40, 3.00, 9.00], [15, 0, 9, 0, 0]),  # whatever the losses' own scale is
        ([-9.0, -4.0, -8.6, -7.0, -1.0], [15, 0, 9, 0, 0]),  # and wherever it begins
        ([0.10, 0.10, 0.10, 0.10, 0.10], [15] * 5),
        ([0.10, 0.10, 0.10, 0.20, 0.90], [15, 15, 15, 0, 0]),  # most are as good as the best
        ([-INF, 0.50, NAN, 0.52, INF], [0, 15, 0, 0, 0]),  # what failed counts as the worst: the median is .52
        ([INF, 0.50, NAN, 0.60, 0.505], [0, 15, 0, 0, 14]),
        ([1e308, -1e308, 1e308, 1.0, NAN], [0, 15, 0, 0, 0]),  # a difference that no float holds
        ([NAN, INF, -INF, NAN, NAN], [0] * 5),
    ],
)
def test_grades_fall_from_the_voters_best_towards_its_median(losses: list[float], expected: list[int]) -> None:
    assert votes_of(GradedVotes(0.5, 15, CANDIDATES, 0), losses) == expected


def test_how_fine_and_how_wide_grades_are() -> None:
    losses = [0.1, 0.2, 0.5, 0.8, 0.9]  # the median is .4 above the best
    for width, best, expected in (
        (1.0, 3, [3, 2, 0, 0, 0]),
        (2.0, 3, [3, 3, 2, 0, 0]),
        (2.0, 7, [7, 6, 4, 1, 0]),
        (0.25, 3, [3, 0, 0, 0, 0]),
        (1.0, 1, [1, 1, 0, 0, 0]),
    ):
        assert votes_of(GradedVotes(width, best, CANDIDATES, 0), losses) == expected


@settings(max_examples=300)
@given(
    st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=5, max_size=5),
    st.floats(1e-9, 100),
    st.integers(1, 15),
)
def test_whatever_the_losses_are_grades_are_within_their_bound(losses: list[float], width: float, best: int) -> None:
    found = votes_of(GradedVotes(width, best, CANDIDATES, 0), losses)
    known = [grade for grade, loss in zip(found, losses, strict=True) if np.isfinite(loss)]
    assert max(found) == (best if known else 0)
    assert [grade for grade, loss in zip(found, losses, strict=True) if not np.isfinite(loss)] == [0] * (5 - len(known))


@pytest.mark.parametrize(
    "field",
    [{"width": w} for w in (0, -0.1, 101, NAN, INF, "x", None)] + [{"best": b} for b in (0, 16, 2.5, "3", True, None)],
    ids=str,
)
def test_what_grades_are_is_checked_when_it_comes_from_the_wire(field: dict[str, Any]) -> None:
    with pytest.raises(ht.SettingError, match=next(iter(field))):
        query_from_json({**query_to_json(GradedVotes(0.5, 15, CANDIDATES, 7)), **field})


@pytest.mark.parametrize("query", WINNERS, ids=lambda query: query.name)
def test_a_winners_ballot_has_no_sum_to_open(query: Any) -> None:
    """One answer, pure, at exactly the epsilon asked for; under noise of parties there is none."""
    assert (query.bound.tests, query.bound.only_max) == (1, True)
    for change, reach in (("replace-one", 2), ("zero-out", 1)):
        event = query.bound.event(Noise(4.0, "nodes", 3), change)
        assert event == PureTests(reach * query.bound.largest / 4.0, 1)
    with pytest.raises(ht.SettingError, match="keeps the sums secret"):
        query.bound.event(Noise(4.0), "replace-one")


@pytest.mark.parametrize("tests", [-1, 1.5, "1", True, None])
def test_the_number_of_places_from_the_wire_is_checked(tests: Any) -> None:
    for query in WINNERS[:2]:
        with pytest.raises(ht.SettingError, match="tests"):
            query_from_json({**query_to_json(query), "tests": tests}).bound  # noqa: B018


def test_what_failed_is_never_approved() -> None:
    assert votes_of(Approvals(5, 1e308, CANDIDATES, 0), [1e308, INF, NAN, 1.79e308, 5e307]) == [1, 0, 0, 0, 1]


@pytest.mark.parametrize("seed", ["x", None, 1.5, -1, 2**63, [1], True])
def test_a_seed_from_the_wire_is_checked(seed: Any) -> None:
    for query in (*WINNERS, Approvals(3, 0.05, CANDIDATES, 7), SoftVotes(CANDIDATES, 7), TopVotes(3, CANDIDATES, 7)):
        with pytest.raises(ht.SettingError, match="seed"):
            query_from_json({**query_to_json(query), "seed": seed})


def test_queries_conform() -> None:
    for query in (Approvals(3, 0.05, CANDIDATES, 7), SoftVotes(CANDIDATES, 7), *WINNERS):
        check_query(query)


@pytest.mark.parametrize("method", [ht.Vote(3, ballot="approval", tolerance=0.15), ht.Vote(ballot="soft"), ht.Vote()])
@pytest.mark.parametrize("seal", [ht.Masked(), pytest.param(ht.Clear(), marks=pytest.mark.long)])
def test_every_ballot_runs_under_every_seal_and_verifies(
    make_clients: Make, candidates: ht.Candidates, method: ht.Vote, seal: ht.Masked, tmp_path: Path
) -> None:
    result = tune(make_clients(40), candidates, method=method, seal=seal, privacy=PRIVACY)
    assert result.spent.epsilon <= PRIVACY.epsilon
    result.save(tmp_path / "run")
    assert all(check.holds for check in ht.verify(tmp_path / "run"))
    assert "plot-counts" in ht.report(tmp_path / "run").read_text()


def test_a_failing_client_sends_zeros_with_its_noise(make_clients: Make, candidates: ht.Candidates) -> None:
    @ht.objective
    def broken(config: ht.Config, data: ht.Rows) -> float:
        raise RuntimeError("secret 4711")

    clients = [*make_clients(30), ht.Client((np.zeros((4, 1)), np.zeros(4)), broken)]
    result = tune(clients, candidates, method=ht.Vote(ballot="soft"), privacy=PRIVACY)
    assert result.answered == 31
    assert "4711" not in result.statement
