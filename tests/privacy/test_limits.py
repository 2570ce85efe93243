"""What a sum can be: every honest one passes, with the noise at its reach, and what lies beyond is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushtune.core.errors import BoundError
from hushtune.core.randomness import SimulatedRandomness
from hushtune.privacy.bounds import AtMost, Ball, Bound, Box, KHot, Scores, Tally
from hushtune.privacy.limits import FAILURE, Possible, one_client, opened_sum
from hushtune.privacy.noise.base import Noise

BOUNDS: list[Bound] = [
    KHot(1, 4),
    KHot(3, 7),
    AtMost(2, 5),
    Ball(50, 6),
    Ball(50, 6, rate=0.25),
    Box(9, 5, caps=(3, 4)),
    Tally(5, 3, values=2, unit=4),
    Tally(5, 4, cap=3),
    Scores(4, 2, 10, 10),
]


def extreme(bound: Bound, rng: np.random.Generator) -> Any:
    """A vector that passes, often at an edge of the bound."""
    length = bound.length
    match bound:
        case KHot() | AtMost():
            vector = np.zeros(length, dtype=np.int64)
            vector[rng.permutation(length)[: bound.k]] = 1
        case Ball():
            vector = np.zeros(length, dtype=np.int64)
            vector[rng.integers(length)] = rng.choice([-bound.norm, bound.norm])
        case Tally():
            vector = np.zeros(length, dtype=np.int64)
            vector[rng.integers(bound.groups) :: bound.groups] = bound.largest
        case Box():
            vector = np.full(length, bound.largest)
            vector[: len(bound.caps)] = bound.caps
        case _:
            vector = np.full(length, bound.largest)
    return bound.check(vector)


def refused(possible: Possible, values: Any, match: str) -> None:
    with pytest.raises(BoundError, match=match):
        possible.check(np.asarray(values, dtype=np.int64))


@pytest.mark.parametrize("bound", BOUNDS, ids=str)
@given(seed=st.integers(0, 2**32), units=st.integers(1, 200), same=st.booleans())
def test_honest_extreme_votes_pass_exactly_and_with_noise(bound: Bound, seed: int, units: int, same: bool) -> None:
    rng = np.random.default_rng(seed)
    each = [extreme(bound, rng)] * units if same else [extreme(bound, rng) for _ in range(units)]
    total = np.sum(each, axis=0, dtype=np.int64)
    Possible(bound, units).check(total)
    noise = Noise(12.0)
    shares = [noise.share(8, bound.length, SimulatedRandomness(seed, f"share {n}")) for n in range(3)]
    opened_sum(bound, units, 1, noise, 8).check(total + shares[0])
    opened_sum(bound, units, 3, noise, 8).check(3 * total + np.sum(shares, axis=0))
    one_client(bound, units, 100, noise, 8).check(total + shares[1])
    at_curator = Noise(12.0, "curator")
    drawn = at_curator.by_curator(bound.length, SimulatedRandomness(seed, "curator"))
    opened_sum(bound, units, 1, at_curator, 8).check(total + drawn)
    one_client(bound, units, 100, at_curator, 8).check(total)


@pytest.mark.parametrize("at", ["parties", "curator"])
def test_an_entry_may_be_as_far_out_as_the_noise_reaches_and_no_further(at: Any) -> None:
    """100 unanimous votes, with the largest noise on two entries: it passes; one more is refused."""
    noise, length = Noise(12.0, at), 10
    possible = opened_sum(KHot(1, length), 1, 100, noise, 80)
    reach = noise.reach(80, 100, 1, FAILURE / (length + 1))
    votes = np.zeros(length, dtype=np.int64)
    votes[0] = 100
    loud = votes.copy()
    loud[:2] += (reach, -reach)
    possible.check(loud)
    loud[0] += 1
    refused(possible, loud, "an entry is above what 100 voters can send")
    loud[:2] -= (1, 1)
    refused(possible, loud, "an entry is below what 100 voters can send")


def test_a_public_total_is_held_to_the_noise_of_the_total() -> None:
    """Far tighter than entry by entry: twenty entries, each well within its reach, that all err to one side."""
    noise, length = Noise(12.0), 20
    possible = opened_sum(KHot(2, length), 1, 100, noise, 80)
    entry, total = (noise.reach(80, 100, entries, FAILURE / (length + 1)) for entries in (1, length))
    assert total < length * entry / 4
    votes = np.full(length, 10) + total // length
    possible.check(votes)
    votes[1:] += total // length
    assert votes.max() < entry
    refused(possible, votes, "entries 1 to 20 do not add up to what they can")
    refused(possible, 2 * np.full(length, 10) - votes, "do not add up")


def test_the_noise_of_all_who_answered_counts_and_not_of_the_fewest_honest() -> None:
    noise = Noise(12.0)
    assert noise.reach(80, 100, 1, 1e-12) > noise.reach(80, 80, 1, 1e-12) == noise.reach(100, 100, 1, 1e-12)
    assert Noise(0.0).reach(8, 10, 1, 1e-12) == 0


@pytest.mark.parametrize(
    ("bound", "units", "values", "match"),
    [
        (KHot(1, 3), 10, [11, -1, 0], "below"),
        (KHot(1, 3), 10, [11, 0, 0], "above"),
        (KHot(1, 3), 10, [9, 0, 0], "add up"),
        (KHot(1, 3), 10, [6, 5, 0], "add up"),
        (AtMost(1, 3), 10, [6, 5, 0], "add up"),
        (Ball(5, 3), 2, [11, 0, 0], "above"),
        (Ball(5, 3), 2, [8, -8, 0], "longer than it can be"),
        (Ball(5, 3), 2, [6, 6, 6], "add up"),
        (Box(9, 3, caps=(2,)), 2, [5, 0, 0], "above"),
        (Box(9, 3, caps=(2,)), 2, [0, 18, 19], "above"),
        (Tally(3, 2, values=1), 2, [3, 4, 0, 0], "add up"),
        (Tally(3, 2, values=1), 2, [3, 3, 4, 0], "above the one that it must be at most"),
        (Scores(3, 1, 10, 10), 2, [0, 21, 0], "above"),
        (KHot(1, 2), 3, [2**62, -(2**62)], "below"),
        (KHot(1, 2), 3, [-(2**63), 2**63 - 1], "below"),
    ],
    ids=str,
)
def test_exact_sums_are_held_to_exact_limits(bound: Bound, units: int, values: list[int], match: str) -> None:
    refused(Possible(bound, units), values, match)


def test_one_voter_without_noise_must_pass_the_bound_itself() -> None:
    bound = Ball(5, 2, rate=0.5)
    Possible(bound, 1).check(np.array([0, 0]))
    refused(Possible(KHot(1, 2), 1), [0, 0], "a ballot must be")
    refused(Possible(KHot(1, 2), 1), [2, -1], "a ballot must be")
    refused(one_client(Tally(3, 2), 1, 9, Noise(3.0, "curator"), 8), [2, 2], "at most 3 points in all")


@dataclass(frozen=True)
class Sampled(KHot):
    rate: Any = 0.5


def test_units_that_are_not_in_the_sum_count_as_zeros() -> None:
    sampled = Sampled(2, 4)
    Possible(sampled, 1).check(np.zeros(4, dtype=np.int64))
    Possible(sampled, 10).check(np.array([3, 3, 0, 0]))
    refused(Possible(sampled, 10), [8, 7, 6, 0], "add up")


def test_large_entries_are_added_up_exactly() -> None:
    bound = Tally(2**20, 2, unit=2**24)
    largest = bound.points * bound.unit
    Possible(bound, 2**18).check(np.array([2**18 * largest - 1, 1]))
    refused(Possible(bound, 2**18), [2**18 * largest - 1, 2], "add up")


@pytest.mark.statistical
def test_honest_openings_do_not_abort() -> None:
    """10,000 openings of 100 entries: a false alarm has a chance below 1e4 x 2^-42, under 1e-8."""
    noise, bound = Noise(12.0), KHot(1, 100)
    possible = opened_sum(bound, 1, 50, noise, 40)
    votes = np.zeros(100, dtype=np.int64)
    votes[0] = 50
    drawn = noise.share(1, 100 * 10_000, SimulatedRandomness(3, "noise")).reshape(10_000, 100)
    for row in drawn:
        possible.check(votes + row)
