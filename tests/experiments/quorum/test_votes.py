"""What is measured is a real opening: nodes in processes of their own, and the right winner."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from experiments.__main__ import app
from experiments.quorum.ballots import BALLOTS, CANDIDATES, VOTES, Case, roster_of
from experiments.quorum.clusters import clusters
from experiments.quorum.room import Room
from experiments.quorum.votes import Crowd, vote
from hushtune.federation.base import Dropped
from hushtune.seals.quorum.envelopes import ENVELOPE_BYTES
from hushtune.seals.quorum.sharing import KEY_BYTES

FIGURES = {
    *("clients", "nodes", "ballot", "signed", "bytes_per_client", "client_ms", "node_cpu_seconds", "node_mb"),
    *("coordinator_cpu_seconds", "coordinator_mb", "cpu_seconds", "wall_seconds", "right"),
}

SMALLEST = 2 * 8 * CANDIDATES + KEY_BYTES + 3 * ENVELOPE_BYTES
"""Bytes of two shares of a ballot, a key for the third, and three envelopes."""


def test_the_command_prints_a_row_for_each_number_of_clients() -> None:
    shown = CliRunner().invoke(app, ["quorum", "--clients", "6", "--signed", "--jobs", "1", "--json"])
    assert shown.exit_code == 0, shown.output
    (row,) = json.loads(shown.stdout)["rows"]
    assert set(row) == FIGURES
    wanted = {"clients": 6, "nodes": 3, "ballot": "k-hot", "signed": True, "right": True}
    assert wanted.items() <= row.items()
    assert min(row[name] for name in ("client_ms", "wall_seconds", "node_cpu_seconds", "node_mb")) > 0
    assert row["cpu_seconds"] > row["node_cpu_seconds"] + row["coordinator_cpu_seconds"]
    assert SMALLEST + 64 < row["bytes_per_client"] < 6000


@pytest.mark.long
def test_grades_and_five_nodes() -> None:
    row = vote(Case(7, 5, "soft", False), 1)
    assert row["right"]
    assert row["bytes_per_client"] > 3 * 4 * 800


def test_clusters_are_as_exact_as_the_grid() -> None:
    row = clusters(Case(10, 3, "dbscan", False))
    assert set(row) == FIGURES
    assert row["right"]


@pytest.mark.parametrize("ballot", BALLOTS)
def test_ballots_are_within_their_bound(ballot: str) -> None:
    case = Case(3, 3, ballot, False)
    scores = np.random.default_rng(0).random((20, CANDIDATES))
    made = BALLOTS[ballot][1](scores)
    for one in made:
        assert np.array_equal(case.query.bound.check(one), one)
    assert made.sum(axis=1).min() >= VOTES


def test_a_crowd_is_made_while_it_is_read_and_not_kept() -> None:
    case = Case(5, 3, "k-hot", False)
    seen: list[int] = []

    def clients(message: bytes) -> dict[str, Dropped]:
        crowd = Crowd(case, message, 1)
        names = list(crowd)
        assert names == list(roster_of(case).ids)
        assert len(crowd) == 5
        sent = [crowd[name] for name in names]
        assert crowd[names[-1]] == sent[-1]
        assert crowd.sums.sum() == 5 * VOTES
        seen.extend(map(len, sent))
        with pytest.raises(StopIteration):
            crowd[names[0]]
        return dict.fromkeys(names, Dropped("it was read"))

    with Room(case) as room, pytest.raises(Exception, match="5 of 5 clients must answer"):
        room.open(0, case.query, clients, noise=case.seal.noise(8.0), choose=lambda oracle: oracle.noisy_max())
    assert len(seen) == 5
    assert SMALLEST < min(seen) == max(seen) < 6000


def test_other_ballots_are_refused() -> None:
    failed = CliRunner().invoke(app, ["quorum", "--ballot", "best"])
    assert "ballot must be one of" in str(failed.exception)
