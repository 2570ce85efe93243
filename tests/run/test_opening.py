"""One opening: what clients are asked, what is kept, and what an interruption leaves behind."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.run.harness import CANDIDATES, QUERY, Parrot, terms
from tests.watched import Watched

import hushtune as ht
from hushtune.methods.propose_test.method import CandidateScores
from hushtune.methods.vote.ballots import TopVotes
from hushtune.run.account import Account
from hushtune.run.folder import RunFolder
from hushtune.run.opening import Opener
from hushtune.run.terms import Terms
from hushtune.seals.ends import Trip
from hushtune.seals.oracle import ANSWERS, Oracle
from hushtune.seals.plain import protect

SCORES = CandidateScores(CANDIDATES, 0, (0.0, 1.0), 2, 1024)


class Desk:
    """All that an opener needs, in one folder."""

    def __init__(self, path: Path, agreed: Terms, seed: int | None = None) -> None:
        self.parrot, self.watched = Parrot(agreed.clients), Watched()
        self.ledger = ht.Ledger(path / "ledger.db")
        self.folder = RunFolder(path, {"seed": 5}, None)
        self.folder.begin()
        self.account = Account(self.ledger, self.folder.run, agreed, self.watched)
        self.opener = Opener(agreed, self.parrot, self.folder, self.account, self.watched, seed)

    def open(self, query: Any = QUERY, step: int = 0, each: bool = False, choose: Any = None) -> Any:
        return self.opener.open(query, step, None, each, choose)


def test_clients_score_then_the_cost_is_reserved_then_they_are_asked(tmp_path: Path) -> None:
    desk = Desk(tmp_path, terms(seal=ht.Clear()))
    charged: list[int] = []
    real = desk.parrot.exchange
    desk.parrot.exchange = lambda *given: charged.append(len(desk.ledger.entries())) or real(*given)  # type: ignore[method-assign]
    opened, missing, late = desk.open()
    assert opened.blocks == {"votes": [10, 0, 0, 0]}
    assert (opened.query, opened.answered, missing, late) == (QUERY.name, 10, {}, {})
    assert opened.noise_variance == pytest.approx(desk.opener._terms.noise.variance * 10 / 8)
    assert charged == [1]
    kinds = [type(entry) for entry in desk.parrot.log]
    assert kinds == [tuple, Trip]
    assert desk.parrot.log[0] == ("score", QUERY.scored[0], True)
    (request,) = desk.parrot.asked()
    assert (request.run, request.step, request.query) == (desk.folder.run, 0, QUERY)


def test_nobody_scores_again_for_the_same_trials(tmp_path: Path) -> None:
    desk = Desk(tmp_path, terms(seal=ht.Clear()))
    desk.open()
    desk.open(step=1)
    assert sum(isinstance(entry, tuple) for entry in desk.parrot.log) == 1
    desk.open(TopVotes(1, CANDIDATES, 7), step=2)  # another seed: other trials
    assert sum(isinstance(entry, tuple) for entry in desk.parrot.log) == 2


def test_too_few_answers_open_nothing(tmp_path: Path) -> None:
    desk = Desk(tmp_path, terms(seal=ht.Clear()))
    for client in ("c0", "c1"):
        desk.parrot.replies[client] = b"garbage"
    with pytest.raises(ht.AbortedError, match="9 of 10 clients must answer"):
        desk.open()
    assert desk.folder.opening(0) is None
    assert [entry.opened for entry in desk.ledger.entries()] == [False]


def test_a_missing_client_is_named_and_its_noise_is_not_counted(tmp_path: Path) -> None:
    desk = Desk(tmp_path, terms(seal=ht.Clear()))
    desk.parrot.replies["c3"] = b"garbage"
    opened, missing, _ = desk.open()
    assert list(missing) == ["c3"]
    assert opened.answered == 9
    assert opened.noise_variance == pytest.approx(desk.opener._terms.noise.variance * 9 / 8)


def test_each_answer_is_opened_as_it_was_sent(tmp_path: Path) -> None:
    desk = Desk(tmp_path, terms(3, seal=ht.Clear(), privacy=None))
    opened, _, _ = desk.open(each=True)
    assert opened.own == {f"c{n}": {"votes": [1, 0, 0, 0]} for n in range(3)}
    assert opened.blocks == {}


def desk_of(tmp_path: Path, seed: int | None = None) -> Desk:
    desk = Desk(tmp_path, terms(seal=ht.Curator(), method=ht.NoisyMax(losses=(0.0, 1.0))), seed)
    desk.parrot.replies = dict.fromkeys(desk.parrot.roster.ids, protect(np.array([0, 900, 0, 0])))
    return desk


def test_answers_are_opened_and_the_sums_are_not(tmp_path: Path) -> None:
    desk = desk_of(tmp_path, seed=3)
    opened, _, _ = desk.open(SCORES, choose=lambda oracle: oracle.noisy_max("exponential"))
    assert set(opened.blocks) == {ANSWERS}
    assert len(opened.blocks[ANSWERS]) == 1
    again = desk_of(tmp_path / "again", seed=3)
    assert (
        again.open(SCORES, choose=lambda oracle: oracle.noisy_max("exponential"))[0] == opened
    )  # a simulation repeats


def test_an_answer_that_was_given_before_an_interruption_is_on_record(tmp_path: Path) -> None:
    """Else the same question could be asked again, and get another answer, for nothing."""
    desk = desk_of(tmp_path)
    del desk.parrot.replies["c4"]

    def choose(oracle: Oracle) -> int:
        oracle.above_threshold(Fraction(0), [0, 1, 2, 3])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        desk.open(SCORES, choose=choose)
    kept = RunFolder(tmp_path, {"seed": 5}, None).opening(0)
    assert kept is not None
    opened, missing, _ = kept
    assert len(opened.blocks[ANSWERS]) == 1
    assert (opened.answered, missing) == (9, {"c4": "no reply"})
    assert [entry.opened for entry in desk.ledger.entries()] == [True]


def test_trips_are_shown_with_the_opening_that_they_are_of(tmp_path: Path) -> None:
    agreed = terms(seal=ht.Clear(), method=ht.Combine("dbscan"))
    assert agreed.openings == 2
    desk = Desk(tmp_path, agreed)
    desk.open(step=1)
    (trip,) = [entry for entry in desk.parrot.log if isinstance(entry, Trip)]
    assert trip.name == "2 of 2: asking clients"
    one = Desk(tmp_path / "one", terms(seal=ht.Clear()))
    one.open()
    assert one.parrot.log[-1].name == "asking clients"


def test_an_opener_without_an_opening_has_nothing_to_close(tmp_path: Path) -> None:
    Desk(tmp_path, terms(seal=ht.Clear())).opener.close()
