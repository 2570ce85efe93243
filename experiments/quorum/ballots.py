"""Who takes part in a measured run, and what they send: made-up ballots, sealed by the seal's own client end."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from hushtune.client.query import Query
from hushtune.core.arrays import IntArray
from hushtune.core.identity import Identity
from hushtune.core.randomness import SimulatedRandomness, SystemRandomness
from hushtune.core.roster import NodeEntry, Roster
from hushtune.core.secret import Secret
from hushtune.core.space import Float, Space
from hushtune.methods.vote.ballots import BEST_GRADES, GradedVotes, TopVotes
from hushtune.seals.ends import Due, Seat
from hushtune.seals.quorum.seal import Quorum

RUN = "0123456789abcdef" * 2
CANDIDATES, VOTES = 100, 10
_LEAD = 0.3  # by which the best candidate's scores are larger than the worst's


@dataclass(frozen=True)
class Case:
    """What is measured.

    Args:
        clients: how many.
        nodes: how many.
        ballot: one of `BALLOTS`, or `CLUSTERS`.
        signed: whether clients have identities.
    """

    clients: int
    nodes: int
    ballot: str
    signed: bool

    @property
    def seal(self) -> Quorum:
        """Nobody may be missing."""
        return Quorum(dropouts=0.0, nodes=self.nodes)

    @property
    def query(self) -> Query:
        """What every client is asked."""
        return BALLOTS[self.ballot][0]()


def _k_hot() -> Query:
    return TopVotes(VOTES, Space(x=Float(0.0, 1.0)).grid(x=CANDIDATES), 0, tests=1)


def _grades() -> Query:
    return GradedVotes(1.0, BEST_GRADES[0], Space(x=Float(0.0, 1.0)).grid(x=CANDIDATES), 0)


def _best(scores: np.ndarray) -> IntArray:
    """One vote for each of the largest scores."""
    found = np.zeros(scores.shape, dtype=np.int64)
    np.put_along_axis(found, np.argpartition(-scores, VOTES, axis=1)[:, :VOTES], 1, axis=1)
    return found


def _graded(scores: np.ndarray) -> IntArray:
    """Grades that grow with the score."""
    found: IntArray = np.rint(BEST_GRADES[0] * scores / scores.max(axis=1, keepdims=True)).astype(np.int64)
    return found


CLUSTERS = "dbscan"
"""No ballot: the counts and sums of PrivTuna's clusters."""

BALLOTS: dict[str, tuple[Callable[[], Query], Callable[[np.ndarray], IntArray]]] = {
    "k-hot": (_k_hot, _best),
    "soft": (_grades, _graded),
}
"""By name: what is asked, and what clients with given scores of all candidates send."""


def identity_of(name: str) -> Identity:
    """Whoever has a name signs with this key."""
    return Identity(SimulatedRandomness(0, f"identity of {name}").bytes(32))


@lru_cache(maxsize=1)
def roster_of(case: Case) -> Roster:
    """The same in every process."""
    ids = tuple(f"client-{at}" for at in range(case.clients))
    nodes = tuple(NodeEntry(f"node-{at}", identity_of(f"node-{at}").public) for at in range(1, case.nodes + 1))
    if not case.signed:
        return Roster(ids, nodes=nodes)
    return Roster(ids, tuple(identity_of(name).public for name in ids), bytes(32), nodes)


def end_of(case: Case, at: int) -> Callable[[Query, bytes, IntArray], bytes]:
    """One client: what it replies to the coordinator's message, from what is asked and its vector.

    Args:
        case: what is measured.
        at: its place.
    """
    roster = roster_of(case)
    name = roster.ids[at]
    identity, drawn = identity_of(name) if case.signed else None, Secret.simulated(0, name).randomness
    end = case.seal.client(Seat(RUN, roster, at, "", SystemRandomness(), identity))

    def reply(query: Query, message: bytes, vector: IntArray) -> bytes:
        given = lambda: query.bound.check(vector)[np.newaxis]  # noqa: E731
        return end.step(message, Due(None, query.blocks, 0, given, query.bound, drawn))

    return reply


def submissions(case: Case, message: bytes, start: int, stop: int) -> tuple[list[bytes], IntArray, float]:
    """What some clients reply to the coordinator's message, the sum of their ballots, and the CPU seconds it took.

    Args:
        case: what is measured.
        message: with the request and the nodes' keys.
        start: the first client's place.
        stop: one after the last.
    """
    query = case.query
    scores = np.random.default_rng(start).random((stop - start, CANDIDATES)) + np.linspace(0, _LEAD, CANDIDATES)
    ballots = BALLOTS[case.ballot][1](scores)
    ends = [end_of(case, at) for at in range(start, stop)]
    begun = time.process_time()
    sent = [end(query, message, ballot) for end, ballot in zip(ends, ballots, strict=True)]
    return sent, ballots.sum(axis=0), time.process_time() - begun
