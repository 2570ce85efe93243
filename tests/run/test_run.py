"""A run as a whole: it opens what was announced, says who saw it, and shows nothing of a client that fails."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.run.harness import CANDIDATES, QUERY, Parrot, terms
from tests.watched import Watched

import hushtune as ht
from hushtune.core.errors import HushtuneError
from hushtune.methods.propose_test.method import CandidateScores
from hushtune.methods.vote.ballots import TopVotes
from hushtune.run.account import Account
from hushtune.run.folder import RunFolder
from hushtune.run.run import Run, place_of


def begun(path: Path, parrot: Parrot, watched: Watched, **changes: Any) -> Run:
    agreed = terms(**{"seal": ht.Clear(), **changes})
    folder = RunFolder(path, {"seed": 5}, None)
    folder.begin()
    account = Account(ht.Ledger(path / "ledger.db"), folder.run, agreed, watched)
    return Run(agreed, folder, parrot, account, watched, None)


@pytest.mark.parametrize(
    ("query", "privacy", "message"),
    [
        (TopVotes(2, CANDIDATES, 0), ht.Privacy(2.0), "that its `bounds` did not announce"),
        (CandidateScores(CANDIDATES, 0, (0.0, 1.0), 2, 1024), ht.Privacy(2.0), "sums that are tested are never opened"),
        (CandidateScores(CANDIDATES, 0, (0.0, 1.0), 2, 1024), None, "sums that are tested are never opened"),
    ],
)
def test_what_was_not_announced_is_refused_before_anybody_is_asked(
    tmp_path: Path, query: Any, privacy: Any, message: str
) -> None:
    parrot = Parrot()
    run = begun(tmp_path, parrot, Watched(), privacy=privacy)
    with pytest.raises(HushtuneError, match=message):
        run.sum(query)
    with pytest.raises(HushtuneError, match="sums that are tested"):
        run.consult(QUERY, lambda oracle: 0)
    assert parrot.log == []


def test_no_opening_is_made_that_was_not_announced(tmp_path: Path) -> None:
    parrot = Parrot()
    run = begun(tmp_path, parrot, Watched())
    run.sum(QUERY)
    with pytest.raises(HushtuneError, match=r"a sum \(step 1\) that its `bounds` did not announce"):
        run.sum(QUERY)
    assert len(parrot.asked()) == 1


@pytest.mark.parametrize("changes", [{}, {"seal": ht.Masked(), "privacy": None}])
def test_single_answers_are_opened_in_the_clear_and_without_epsilon_only(tmp_path: Path, changes: Any) -> None:
    parrot = Parrot()
    with pytest.raises(HushtuneError, match="under seal 'clear' and without epsilon only"):
        begun(tmp_path, parrot, Watched(), **changes).gather(QUERY)
    assert parrot.log == []


def test_what_an_interrupted_run_has_opened_is_not_asked_for_again(tmp_path: Path) -> None:
    first, again, watched = Parrot(), Parrot(vector=(0, 0, 0, 1)), Watched()
    first.replies["c1"] = b"garbage"
    opened = begun(tmp_path, first, Watched()).sum(QUERY)
    resumed = begun(tmp_path, again, watched)
    assert resumed.sum(QUERY)["votes"].tolist() == opened["votes"].tolist() == [9, 0, 0, 0]
    assert again.log == []
    assert resumed.answered() == 9
    assert list(resumed.record.dropped) == ["c1"]
    assert [event[:2] for event in watched.events] == [("dropped", "c1"), ("opened", 1)]


def test_every_opening_is_disclosed_and_the_choice_last(tmp_path: Path) -> None:
    run = begun(tmp_path, Parrot(), Watched())
    run.sum(QUERY)
    run.note("margin", 8.0)
    run.leave_out("c2", "odd")
    result = run.result(CANDIDATES[0], {})
    assert [found.to for found in result.disclosures] == [
        "server",
        "server and every reader of the result",
        "every reader of the result",
    ]
    assert (result.notes, result.left_out, result.index) == ({"margin": 8.0}, {"c2": "odd"}, 0)
    assert (result.events, result.spent, result.noise) == (run.terms.events, run.terms.spent, run.terms.noise)
    assert result.ledger is not None
    assert result.ledger.runs == 1


def test_a_config_that_a_client_found_has_no_place_among_the_candidates() -> None:
    assert [place_of(config, CANDIDATES) for config in CANDIDATES] == [0, 1, 2, 3]
    assert place_of({"x": 0.123}, CANDIDATES) is None


# ---- with clients ------------------------------------------------------------------------------------


@ht.objective
def distance(config: ht.Config, data: ht.Rows) -> float:
    if data.y[0] < 0:
        os._exit(7)
    return float(abs(config["x"] - data.y[0]))


def tune(centres: list[float], home: Path, **settings: Any) -> ht.Result:
    those = [ht.Client((np.zeros((4, 1)), np.full(4, centre)), distance) for centre in centres]
    given = {"method": ht.Vote(1), "home": home, "jobs": 1, "observer": ht.Silent(), **settings}
    return ht.tune(those, CANDIDATES, **given)


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("others", [0, 4])
def test_an_objective_that_kills_its_process_shows_nowhere(tmp_path: Path, jobs: int, others: int) -> None:
    result = tune([-1.0, *[0.3] * others], tmp_path, privacy=ht.Privacy(1.0), jobs=jobs, seal=ht.Clear())
    assert result.dropped == {}
    assert result.answered == others + 1


def test_clients_are_told_which_cells_are_dense_and_the_statement_says_so(tmp_path: Path) -> None:
    result = tune([0.3] * 6, tmp_path, method=ht.Combine("dbscan"))
    counts = next(found for found in result.disclosures if "numbers of good configs" in found.what)
    assert counts.to == "server, all clients and every reader of the result"
