"""Votes on known losses choose as runs do."""

from __future__ import annotations

import numpy as np
import pytest

import hushtune as ht
from experiments.ballots import Votes

CANDIDATES = ht.Space(x=ht.Float(0.0, 1.0)).grid(x=6)
LOSSES = np.tile(np.abs(np.arange(6) - 4.0), (12, 1))
GOOD = 1 - np.abs(np.arange(6) - 4.0) / 10
PRIVACY = ht.Privacy(1.0, unit="record")


@pytest.mark.parametrize(
    ("vote", "seal"),
    [
        (ht.Vote(1, 4), ht.Masked(0.0, 0.0)),
        (ht.Vote(1, 4, decode="argmax"), ht.Masked(0.0, 0.0)),
        (ht.Vote(voters=4, opens="winner"), ht.Quorum(nodes=3)),
        (ht.Vote(voters=4, opens="winner", ballot="soft"), ht.Quorum(nodes=3)),
        (ht.Vote(voters=4, opens="winner", prior=ht.Prior([0, 0, 0, 0, 9, 0], 2, "made")), ht.Quorum(nodes=3)),
    ],
)
def test_voters_who_agree_get_what_they_want(vote: ht.Vote, seal: ht.Seal) -> None:
    votes = Votes(CANDIDATES, LOSSES, 3, GOOD)
    assert votes.voters == 4
    scale, found = votes.accuracies(vote, None, seal, 50)
    assert (scale, found.tolist()) == (0.0, [1.0])
    loud, noisy = votes.accuracies(vote, PRIVACY, seal, 50)
    quiet, _ = votes.accuracies(vote, ht.Privacy(3.0, unit="record"), seal, 50)
    assert loud > quiet > 0
    assert len(noisy) == 50
    assert noisy.mean() > GOOD.mean()
    np.testing.assert_array_equal(noisy, votes.accuracies(vote, PRIVACY, seal, 50)[1])


def test_sums_are_those_of_the_ballots() -> None:
    votes = Votes(CANDIDATES, LOSSES, 3, GOOD)
    settled = votes.settled(ht.Vote(2, 4), PRIVACY, ht.Masked(0.0, 0.0))
    assert votes.totals(settled)[4] == 12
    assert votes.totals(settled).sum() == 24
