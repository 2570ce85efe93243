"""DP-FTS-DE as a method: its vectors, its sensitivity, and its rounds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.methods.thompson.test_exploration import CANDIDATES, RUN, SPACE, Bowl, parties

import hushtune as ht
from hushtune.client.release import contribution
from hushtune.client.rows import WHOLE
from hushtune.methods.base import Facts
from hushtune.methods.thompson.agents import shortened, weights
from hushtune.methods.thompson.method import AgentVectors, Thompson
from hushtune.methods.thompson.regions import Emphasis, attention
from hushtune.privacy.accounting import epsilon_of
from hushtune.privacy.calibration import events_of
from hushtune.privacy.events.sums import GaussianVector, SkellamVector

ZERO_OUT = ht.Privacy(8.0, 1e-3, neighbours="zero-out")
SHORT = Thompson(iterations=3, initial=3, features=12, regions=2)


def facts(clients: int = 12, privacy: ht.Privacy | None = ZERO_OUT, seal: Any = None) -> Facts:
    return Facts(CANDIDATES, clients, privacy, seal or ht.Curator(), ht.Search())


def query(number: int = 0, shared: Any = (), **changes: Any) -> AgentVectors:
    method = replace(SHORT, **changes).settled(facts())
    return method.query(RUN, CANDIDATES, 0, number, shared)


# ---- what an agent sends -----------------------------------------------------------------------------


@settings(max_examples=60)
@given(
    st.lists(st.floats(-1e6, 1e6), min_size=12, max_size=12),
    st.integers(4, 500),
    st.integers(1, 4),
    st.integers(0, 60),
    st.floats(0.01, 1e3) | st.none(),
)
def test_no_agents_vector_is_longer_than_its_bound(
    vector: list[float], agents: int, regions: int, number: int, norm: float | None
) -> None:
    """Whatever its model says, whoever it is, in every iteration."""
    one = query(number=number, regions=regions, norm=norm)
    within = shortened(np.array([vector]), norm, regions)[0]
    table = Emphasis(agents, regions, attention(number + 1)).table()
    for assigned in range(regions):
        found = np.trunc(np.outer(table[assigned], within).ravel() / one.step(agents) * (1 - 1e-12)).astype(np.int64)
        one.bound.check(found)


def test_the_bound_is_reached_so_less_noise_would_not_do(tmp_path: Path) -> None:
    """An agent with a long vector sends nearly the norm that noise is calibrated to."""
    those = parties(tmp_path, count=4)
    one = query(norm=1e-3)
    vector = contribution(one, those[0], WHOLE, private=True)
    assert 0.9 * one.bound.norm < np.linalg.norm(vector) <= one.bound.norm


def test_the_sum_stands_for_the_papers_weighted_average(tmp_path: Path) -> None:
    """Algorithm 1, line 10, without noise: sum over n of phi_n^(i) times n's clipped vector."""
    those = parties(tmp_path, count=5)
    one = query()
    total = np.sum([contribution(one, party, WHOLE, private=True) for party in those], axis=0) * one.step(5)
    expected = np.zeros((2, 12))
    for at, party in enumerate(those):
        points, values = one.observed(one.trials(party))
        own = weights(one.phi(points)[None], values[None], np.array([one.variance]), None)
        phi = Emphasis(5, 2, 16.0).table()[at % 2]
        expected += np.outer(phi, shortened(own, None, 2)[0])
    assert np.abs(total.reshape(2, 12) - expected).max() < 5 * one.step(5)


def test_a_failing_agent_sends_zeros(tmp_path: Path) -> None:
    (party,) = parties(tmp_path, count=1, objective=Bowl(error=RuntimeError("secret")))
    assert not contribution(query(regions=1), party, WHOLE, private=True).any()


def test_samples_differ_and_means_do_not(tmp_path: Path) -> None:
    those = parties(tmp_path, count=2)
    first, second = (contribution(query(), those[0], WHOLE, private=True) for _ in range(2))
    assert (first == second).all()
    drawn = [contribution(query(sends="sample"), those[0], WHOLE, private=True) for _ in range(2)]
    assert (drawn[0] != drawn[1]).any()


# ---- what is settled beforehand ----------------------------------------------------------------------


def test_rounds_end_where_following_is_negligible() -> None:
    def rounds(**changes: Any) -> int | None:
        return Thompson(iterations=60, **changes).settled(facts()).rounds

    assert rounds(decay=1.0, negligible=1 / 60) == 60
    assert rounds(decay=1.0, negligible=0.05) == 20
    assert rounds(decay=2.0, negligible=0.05) == 4
    assert rounds(decay=0.0) == 60
    assert rounds() == 10
    assert rounds(rounds=7) == 7


def test_with_a_noise_multiplier_rounds_end_where_epsilon_does() -> None:
    published = Thompson(
        iterations=40, regions=2, rate=0.25, multiplier=1.0, decay=0.5, sends="sample", centre="none", final="surface"
    )
    privacy = ht.Privacy(7.0537, 200**-1.1, neighbours="zero-out")
    assert published.settled(facts(200, replace(privacy, epsilon=7.054))).rounds == 40
    assert published.settled(facts(200, replace(privacy, epsilon=7.0))).rounds == 39
    settled = published.settled(facts(200, replace(privacy, epsilon=4.0)))
    half = settled.rounds
    assert half is not None
    cost = [
        epsilon_of(
            events_of(replace(settled, rounds=n).bounds(CANDIDATES), privacy, ht.Curator().noise(1024.0)), 200**-1.1
        )
        for n in (half, half + 1)
    ]
    assert cost[0] <= 4.0 < cost[1]


def test_sub_regions_and_centres_follow_from_the_guarantee() -> None:
    private, free = Thompson().settled(facts()), Thompson().settled(facts(privacy=None))
    assert (private.regions, private.centre) == (1, "own")
    assert (free.regions, free.centre) == (4, "none")
    assert Thompson().settled(facts(3, None)).regions == 1


def test_bounds_are_one_per_round_and_the_vote() -> None:
    method = replace(SHORT, rate=0.5, rounds=2).settled(facts())
    events = events_of(method.bounds(CANDIDATES), ZERO_OUT, ht.Curator().noise(2048.0))
    assert events == (GaussianVector(2048.0, 1024.0, 0.5),) * 2 + (GaussianVector(2048.0, 2048.0),)
    shares = events_of(method.bounds(CANDIDATES), ZERO_OUT, ht.Masked().noise(2048.0))
    assert [type(event) for event in shares] == [SkellamVector] * 3
    assert [event.rate for event in shares if isinstance(event, SkellamVector)] == [0.5, 0.5, 1.0]


@pytest.mark.parametrize(
    ("changes", "clients", "privacy", "message"),
    [
        ({"regions": 4}, 3, None, "every sub-region needs an agent, but got 3 clients, regions=4"),
        (
            {"rate": 0.5},
            9,
            ht.Privacy(1.0),
            "needs privacy with neighbours='zero-out', but got 'replace-one'; or use rate=1",
        ),
        ({}, 9, ht.Privacy(1.0, unit="record"), "unit='client'"),
        ({"rounds": 0, "final": "surface"}, 9, None, "needs at least one round"),
        ({"multiplier": 2.0}, 9, None, "multiplier=2 needs privacy"),
    ],
)
def test_what_cannot_be_is_refused(changes: Any, clients: int, privacy: Any, message: str) -> None:
    with pytest.raises(ht.SettingError, match=message):
        replace(SHORT, **changes).settled(facts(clients, privacy))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rate": 0.0}, "`0 < rate <= 1` must hold"),
        ({"rate": 1.5}, "`0 < rate <= 1` must hold"),
        ({"norm": 0.0}, "norm"),
        ({"norm": -1.0}, "norm"),
        ({"iterations": 0}, "iterations"),
        ({"rounds": 4}, "rounds"),
        ({"regions": 0}, "regions"),
        ({"sends": "all"}, "sends must be one of"),
        ({"uses": "all"}, "uses must be one of"),
        ({"final": "none"}, "final must be one of"),
        ({"multiplier": 0.0}, "multiplier"),
        ({"losses": (1.0, 1.0)}, "smallest < largest"),
        ({"refine": "yes"}, "refine"),
        ({"centre": "all"}, "centre must be one of"),
    ],
)
def test_impossible_settings_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ht.SettingError, match=message):
        replace(SHORT, **changes)


def test_a_domain_of_one_point_is_refused() -> None:
    one = SPACE.candidates([{"x": 0.5, "y": 0.5}])
    with pytest.raises(ht.SettingError, match="at least 2 points"):
        SHORT.settled(Facts(one, 12, None, ht.Clear(), ht.Search()))
