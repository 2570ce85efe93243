"""The seal's settings, what it says of itself, and whole runs in marked simulations."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.seals.quorum.room import seeded

import hushtune as ht
from hushtune.core.errors import AbortedError
from hushtune.core.observer import Observer
from hushtune.core.randomness import SimulatedRandomness
from hushtune.core.roster import Id, NodeEntry
from hushtune.core.wire import unpack
from hushtune.federation.base import Dropped
from hushtune.federation.local import LocalFederation
from hushtune.privacy.bounds import Ball, KHot, Scores
from hushtune.privacy.noise.base import Noise
from hushtune.seals.base import Protected
from hushtune.seals.ends import Trip
from hushtune.seals.registry import seal_from_json
from hushtune.testing.toys import SPACE, toy_clients

CANDIDATES = SPACE.grid(x=6)
APART = tuple(NodeEntry(f"node-{at}", seeded(f"node-{at}").public, f"host-{at}:70{at}") for at in range(1, 6))
FACTS = Protected(clients=9, pinned=True, private=True, smudging=0.0, nodes=APART[:3])


def tune(**changes: Any) -> ht.Result:
    settings = {"candidates": CANDIDATES, "method": ht.Vote(k=2), "seal": ht.Quorum(), "jobs": 1, **changes}
    return ht.tune(toy_clients(6, CANDIDATES, None), observer=ht.Silent(), **settings)


@pytest.mark.parametrize("nodes", [0, 1, 2, 4, 6, 8, 9, True, 3.0, "3"])
def test_even_and_few_nodes_are_refused(nodes: Any) -> None:
    with pytest.raises(ht.SettingError, match=r"nodes must be one of \[3, 5, 7\]"):
        ht.Quorum(nodes=nodes)


def test_nodes_are_those_of_the_roster() -> None:
    assert ht.Quorum().seated(0) == ht.Quorum(nodes=3)
    assert ht.Quorum().seated(5) == ht.Quorum(nodes=5).seated(0) == ht.Quorum(nodes=5).seated(5)
    with pytest.raises(ht.SettingError, match="the roster names 5 nodes, but got nodes=3"):
        ht.Quorum(nodes=3).seated(5)
    with pytest.raises(ht.SettingError, match="must be one of"):
        ht.Quorum().seated(4)
    ht.Quorum(nodes=3).check_nodes(APART[:3])
    with pytest.raises(ht.SettingError, match="must name 3 nodes, but names 5"):
        ht.Quorum().check_nodes(APART)


def test_it_is_the_same_once_it_was_json() -> None:
    for seal in (ht.Quorum(), ht.Quorum(dropouts=0.2, nodes=7)):
        assert seal_from_json(seal.to_json()) == seal


@pytest.mark.parametrize(("nodes", "pooling"), [(3, 1), (5, 2), (7, 3)])
def test_how_many_may_pool_and_who_draws_the_noise(nodes: int, pooling: int) -> None:
    seal = ht.Quorum(nodes=nodes)
    assert seal.most_pooling == pooling
    assert seal.noise(2.0) == Noise(2.0, "nodes", nodes)
    assert seal.noise(2.0).honest_nodes == nodes - pooling


@pytest.mark.parametrize(
    ("addresses", "where"),
    [
        (("", "", ""), "3 of 3 nodes are on the coordinator's own machine"),
        (("one:1", "one:2", "two:1"), r"2 of 3 nodes are on one machine \(one\)"),
        (("one:1", "two:1", "three:1"), None),
        (("127.0.0.1:1", "127.0.0.2:1", "three:1"), "2 of 3 nodes are on the coordinator's own machine"),
        (("localhost:1", "[::1]:2", "three:1"), "2 of 3 nodes are on the coordinator's own machine"),
        (("one:1", "one:2", "two:1", "three:1", "four:1"), None),  # two of five may pool
        (("one:1", "one:2", "one:3", "three:1", "four:1"), r"3 of 5 nodes are on one machine"),
    ],
)
def test_more_nodes_in_one_pair_of_hands_than_may_pool_are_named(addresses: tuple[str, ...], where: str | None) -> None:
    nodes = tuple(dataclasses.replace(node, address=at) for node, at in zip(APART, addresses, strict=False))
    seal = ht.Quorum(nodes=len(nodes))
    said = "\n".join(seal.protects(dataclasses.replace(FACTS, nodes=nodes)))
    if where is None:
        assert seal.exposed(nodes) is None
        assert "INSECURE" not in said
    else:
        assert re.search(f"INSECURE SETTING, {where}", said)


def test_the_statement_has_its_promise_its_trust_and_both_deltas() -> None:
    said = "\n".join(ht.Quorum().protects(dataclasses.replace(FACTS, epsilon=0.25, answers=1, entries=100)))
    assert "node-1 (host-1:701), node-2 (host-2:702), node-3 (host-3:703)" in said
    assert (
        "Any one of them, following the protocol, can learn what is listed above and nothing else, even if it" in said
    )
    assert "has the influence of one ballot and no more" in said
    assert "TRUSTED: all 3 nodes, to follow the protocol. One that does not can choose the outcome unnoticed" in said
    assert "2 nodes that pool what they hold see everything" in said
    assert "for readers of the result 6.713e-39 more than stated" in said  # (1 + e^.25) 2^-128
    assert "for 1 of the nodes 1.356e-36 more" in said  # and 201 comparisons
    more = "\n".join(ht.Quorum(nodes=5).protects(dataclasses.replace(FACTS, voters=20)))
    assert (
        "Any 2 of them, following the protocol, can learn what is listed above and nothing else, even if they" in more
    )
    assert "has the influence of its 20 ballots and no more" in more
    assert "Delta in full" not in "\n".join(ht.Quorum().protects(FACTS))
    assert "not to send ballots of clients that it invents" in "\n".join(
        ht.Quorum().protects(dataclasses.replace(FACTS, pinned=False))
    )


def test_both_deltas_stay_below_a_trillionth_up_to_epsilon_20_and_a_billionth_up_to_50() -> None:
    facts = dataclasses.replace(FACTS, epsilon=50.0, answers=199, entries=10_000)
    assert ht.Quorum(nodes=7)._overflow(facts) < ht.Quorum(nodes=7)._seen(facts) < 1e-9
    assert ht.Quorum()._seen(dataclasses.replace(facts, epsilon=20.0)) < 1e-12
    assert math.isclose(ht.Quorum()._overflow(dataclasses.replace(facts, epsilon=0.0)), 2 * 199 * 2.0**-128)


def test_what_a_client_sends() -> None:
    messages, size = ht.Quorum().traffic(100, KHot(10, 100, 1), 1, 100, 500, pinned=True)
    assert messages == 2
    assert 9_000 < size < 10_500
    more = ht.Quorum().traffic(100, KHot(10, 100, 1), 50, 100, 500, pinned=True)[1]
    assert more - size == 49 * 2 * 8 * 100


def test_noisy_max_has_the_noise_that_nodes_can_draw() -> None:
    with pytest.raises(ht.SettingError, match=r"mechanism must be one of \['geometric'\] under seal 'quorum'"):
        tune(method=ht.NoisyMax(mechanism="exponential"), privacy=ht.Privacy(1.0), simulation=ht.Simulation(1))


@pytest.mark.parametrize("nodes", [3, 5, 7])
def test_only_the_winner_is_opened(tmp_path: Path, nodes: int) -> None:
    result = tune(privacy=ht.Privacy(8.0), seal=ht.Quorum(nodes=nodes), simulation=ht.Simulation(1), home=tmp_path)
    assert [opened.blocks for opened in result.opened] == [{"answers": [result.index]}]
    assert len(result.nodes) == nodes
    assert "not how far ahead" in result.statement
    assert "INSECURE SETTING" in result.statement


class Wire(LocalFederation):
    """Clients of which some send garbage, and a conversation that can be cut off before a trip."""

    bad: tuple[Id, ...] = ()
    cut = 10**9
    asked = 0
    told: list[str]

    def exchange(self, trip: Trip, observer: Observer) -> Mapping[Id, bytes | Dropped]:
        self.cut -= 1
        if not self.cut:
            raise KeyboardInterrupt
        self.asked += trip.to == "clients"
        if trip.to == "nodes":
            self.told.append(str(unpack(next(iter(trip.messages.values())))[0]["is"]))
        replies = dict(super().exchange(trip, observer))
        return replies | (dict.fromkeys(self.bad, b"garbage") if trip.to == "clients" else {})


def wire(home: Path, **changes: Any) -> Wire:
    made = Wire(toy_clients(10, CANDIDATES, None), home, seed=3, jobs=1)
    made.told = []
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def over(wire: Wire, **changes: Any) -> ht.Result:
    settings: dict[str, Any] = {"method": ht.Vote(k=2), "seal": ht.Quorum(), "simulation": ht.Simulation(3), **changes}
    return ht.tune(wire, CANDIDATES, observer=ht.Silent(), **settings)


def test_a_client_that_sends_garbage_is_left_out_and_named(tmp_path: Path) -> None:
    result = over(wire(tmp_path, bad=("client-04",)), privacy=ht.Privacy(4.0))
    assert set(result.dropped) == {"client-04"}
    assert result.answered == 9


def test_with_too_many_of_them_nothing_is_opened(tmp_path: Path) -> None:
    with pytest.raises(AbortedError, match=r"9 of 10 clients must answer .*nothing was opened"):
        over(wire(tmp_path, bad=("client-04", "client-05")), privacy=ht.Privacy(4.0))


def test_a_run_that_was_cut_off_goes_on_and_asks_no_client_twice(tmp_path: Path) -> None:
    method = ht.ProposeTest(granularity=0.3)
    settings: dict[str, Any] = {"method": method, "privacy": ht.Privacy(8.0)}
    whole = wire(tmp_path / "whole")
    expected = over(whole, **settings)
    trips = 10**9 - whole.cut
    for cut in (1, 2, 3, 4, 8, trips // 3, trips // 2, trips - 1):
        home, folder = tmp_path / str(cut), tmp_path / str(cut) / "run"
        first = wire(home, cut=cut)
        first.close = lambda: None  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            over(first, folder=folder, **settings)
        second = wire(home)
        second._nodes = first._nodes  # the same nodes, with what they keep
        result = over(second, folder=folder, **settings)
        assert result.opened == expected.opened
        assert first.asked + second.asked == 1


def test_simulations_over_quorums_repeat(tmp_path: Path) -> None:
    first, second = (over(wire(tmp_path / name), privacy=ht.Privacy(0.5)) for name in "ab")
    assert first.opened == second.opened


def test_sums_get_the_noise_of_all_nodes(tmp_path: Path) -> None:
    result = over(wire(tmp_path), method=ht.Vote(k=2, opens="sum"), privacy=ht.Privacy(1.0))
    assert result.noise.at == "nodes"
    assert result.opened[0].noise_variance == pytest.approx(result.noise.variance * 3 / 2)


def test_known_sums_are_asked_what_nodes_would_be() -> None:
    sums, scores = np.array([3, 90, 1]), Scores(3, 2, 16, 16)
    oracle = ht.Quorum().oracle(sums, scores, 10, Noise(1.0, "nodes", 3), SimulatedRandomness(1, "x"))
    assert oracle.noisy_max() == 1


def test_vectors_that_nodes_cannot_check_are_refused_before_anybody_is_asked() -> None:
    class Odd:
        length, largest, tests = 3, 1, 0

    with pytest.raises(ht.SettingError, match="nodes can check vectors within"):
        ht.Quorum().traffic(10, Odd(), 1, 9, 9, False)  # type: ignore[arg-type]
    assert ht.Quorum().traffic(10, Ball(9, 4), 1, 9, 9, False)[1] > 0


@pytest.mark.parametrize("cut", [2, 3, 5, 20])
def test_what_cannot_be_taken_up_again_is_forgotten(tmp_path: Path, cut: int) -> None:
    """A run without a folder that was cut off: no node keeps what opens its envelopes."""
    made, kept = wire(tmp_path, cut=cut), wire(tmp_path / "kept", cut=cut)
    for one, folder in ((made, None), (kept, tmp_path / "run")):
        with pytest.raises(KeyboardInterrupt):
            over(one, privacy=ht.Privacy(4.0), folder=folder)
    assert made.told[-1] == "end"
    assert "end" not in kept.told


def test_more_candidates_than_nodes_can_compare_are_refused_before_anybody_is_asked(tmp_path: Path) -> None:
    many = SPACE.sample(17_000, seed=1)
    clients = toy_clients(3, many, None)
    with pytest.raises(ht.SettingError, match="3 nodes compute with at most 16384 entries, but got 17000"):
        ht.tune(clients, many, method=ht.Vote(), seal=ht.Quorum(), privacy=ht.Privacy(1.0), home=tmp_path)
    assert not list(tmp_path.rglob("ledger*.db"))
