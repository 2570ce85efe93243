"""Every pair of ballots that a bound lets pass is within the change that its event accounts for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.privacy.noise.test_geometric import FloatArray, log_chances
from tests.privacy.noise.test_selection import exponential_chances, permute_and_flip_chances

from hushtune.core.errors import BoundError, SettingError
from hushtune.core.randomness import SimulatedRandomness
from hushtune.privacy.bounds import AtMost, KHot
from hushtune.privacy.events.answers import PureTests
from hushtune.privacy.events.sums import GaussianVector, SkellamShift
from hushtune.privacy.noise import geometric
from hushtune.privacy.noise.base import Noise

NOISE = Noise(10.0)
QUIET = Noise(2.0, "nodes", 3)
WHO = {"parties": Noise(10.0), "curator": Noise(10.0, "curator"), "nodes": Noise(10.0, "nodes", 5)}
Ballot = tuple[int, ...]


@pytest.mark.parametrize(("k", "length"), [(1, 4), (2, 4), (3, 4), (4, 4)])
def test_every_pair_of_approvals_is_within_the_event(k: int, length: int) -> None:
    ballots = [np.array(b) for b in product((0, 1), repeat=length) if sum(b) <= k]
    changed = max(int(np.abs(one - other).sum()) for one in ballots for other in ballots)
    assert AtMost(k, length).event(NOISE, "replace-one") == SkellamShift(100.0, changed)
    assert AtMost(k, length).event(NOISE, "zero-out") == SkellamShift(100.0, max(int(b.sum()) for b in ballots))


@pytest.mark.parametrize("vector", [[1, 1, 1, 0], [2, 0, 0, 0], [-1, 0, 0, 0], [0.5, 0, 0, 0], [1, 1]])
def test_approvals_beyond_the_bound_are_refused(vector: list[float]) -> None:
    with pytest.raises(BoundError):
        AtMost(2, 4).check(np.array(vector))


def test_what_is_allowed_passes_unchanged() -> None:
    assert AtMost(2, 4).check([0, 0, 0, 0]).tolist() == [0, 0, 0, 0]
    assert AtMost(2, 4).check(np.array([1, 1, 0, 0], dtype=bool)).tolist() == [1, 1, 0, 0]


def test_the_default_of_approvals_depends_on_nothing() -> None:
    bound = AtMost(2, 4)
    assert bound.check(bound.default(SimulatedRandomness(0, "x"))).tolist() == [0, 0, 0, 0]
    assert bound.total is None


def test_impossible_ballots() -> None:
    with pytest.raises(SettingError, match="k=5, candidates=4"):
        AtMost(5, 4)


# ---- places of noisy maxima --------------------------------------------------------------------------


def chances(mechanism: str, sums: Sequence[int]) -> FloatArray:
    """Logarithms of each place's chance to be opened, under QUIET noise."""
    if mechanism == "geometric":
        return log_chances(tuple(value - min(sums) for value in sums), geometric.rate_of(QUIET.scale), Fraction(1))
    found = {"permute-and-flip": permute_and_flip_chances, "exponential": exponential_chances}[mechanism]
    return np.log(found(list(sums), int(QUIET.scale)))


def worst_loss(vectors: Sequence[Ballot], change: str, opened: Callable[[Sequence[int]], FloatArray]) -> float:
    """The largest log ratio that one unit's vector can make, whatever sums of 0 to 2 the others have."""
    length = len(vectors[0])
    others = vectors if change == "replace-one" else [(0,) * length]
    worst = 0.0
    for rest in product(range(3), repeat=length):
        for one, other in product(vectors, others):
            pair = [opened([r + own for r, own in zip(rest, vector, strict=True)]) for vector in (one, other)]
            worst = max(worst, float(np.abs(pair[0] - pair[1]).max()))
    return worst


CASES = [KHot(1, 2, 1), KHot(1, 3, 1), KHot(2, 3, 1), KHot(3, 3, 1), AtMost(1, 3, 1), AtMost(3, 3, 1), AtMost(1, 1, 1)]


@pytest.mark.parametrize("change", ["replace-one", "zero-out"])
@pytest.mark.parametrize("mechanism", ["geometric", "permute-and-flip", "exponential"])
@pytest.mark.parametrize("bound", CASES, ids=str)
def test_no_pair_of_ballots_loses_more_than_the_event_says_and_one_loses_that(
    bound: KHot | AtMost, mechanism: str, change: Any
) -> None:
    """An R that is too small fails here, and so does half the noise; one that is too large does, of two candidates.

    The exponential mechanism comes near what the event says only where the scores of the others are far apart.
    """
    event = bound.event(QUIET, change)
    assert isinstance(event, PureTests)
    ballots = [b for b in product((0, 1), repeat=bound.length) if _passes(bound, b)]
    found = worst_loss(ballots, change, lambda sums: chances(mechanism, sums))
    assert found <= event.epsilon * (1 + 1e-9) + 1e-12
    assert found >= 0.98 * event.epsilon or mechanism == "exponential" or bound.length > 2
    claimed = bound.event(Noise(2 * QUIET.scale, "nodes", 3), change)
    assert isinstance(claimed, PureTests)
    assert found > claimed.epsilon or event.epsilon == 0  # half of the noise that was claimed


def _passes(bound: KHot | AtMost, ballot: Ballot) -> bool:
    try:
        bound.check(np.array(ballot))
    except BoundError:
        return False
    return True


@pytest.mark.parametrize("at", ["curator", "nodes"])
@pytest.mark.parametrize(
    ("bound", "replaced", "left_out"),
    [
        (KHot(1, 6, 3), 0.2, 0.1),
        (KHot(5, 6, 3), 0.2, 0.1),  # however many ones there are
        (KHot(6, 6, 3), 0.0, 0.0),
        (KHot(1, 1, 3), 0.0, 0.0),
        (AtMost(1, 6, 3), 0.2, 0.1),
        (AtMost(6, 6, 3), 0.2, 0.1),
        (AtMost(1, 1, 3), 0.0, 0.0),
    ],
    ids=str,
)
def test_a_place_costs_what_two_counts_can_move_apart(
    bound: KHot | AtMost, at: str, replaced: float, left_out: float
) -> None:
    assert bound.event(WHO[at], "replace-one") == PureTests(replaced, 3)
    assert bound.event(WHO[at], "zero-out") == PureTests(left_out, 3)
    for change in ("replace-one", "zero-out"):
        event = bound.event(Noise(0.0, "nodes", 5), change)  # type: ignore[arg-type]
        assert event.bare == (replaced > 0)


def test_sums_that_are_opened_cost_what_they_did() -> None:
    assert KHot(2, 6).event(WHO["nodes"], "replace-one") == SkellamShift(100.0, 4)
    assert AtMost(2, 6).event(WHO["nodes"], "zero-out") == SkellamShift(100.0, 2)
    assert isinstance(KHot(2, 6).event(WHO["curator"], "replace-one"), GaussianVector)


@pytest.mark.parametrize("bound", [KHot(2, 6, 1), AtMost(2, 6, 1), KHot(6, 6, 1)], ids=str)
def test_nobody_keeps_sums_secret_where_parties_draw_the_noise(bound: KHot | AtMost) -> None:
    with pytest.raises(SettingError, match="use seal 'curator' or 'quorum'"):
        bound.event(WHO["parties"], "replace-one")


@pytest.mark.parametrize("tests", [-1, 1.0, True, 2**21])
def test_impossible_numbers_of_tests_are_refused(tests: Any) -> None:
    for bound in (KHot, AtMost):
        with pytest.raises(SettingError, match="tests="):
            bound(1, 4, tests)


def test_the_loudest_noise_can_be_drawn() -> None:
    for bound in (KHot(1, 4, 1), AtMost(1, 4, 1)):
        assert geometric.rate_of(bound.loudest) == Fraction(1, geometric.LARGEST_DENOMINATOR)
    assert KHot(1, 4).loudest != KHot(1, 4, 1).loudest
