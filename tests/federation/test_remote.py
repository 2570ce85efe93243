"""Runs over clients on machines of their own, without any transport: the same code runs under Flower."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.federation.harness import CANDIDATES, ThreeVotes, Wire, data_of, distance

import hushtune as ht
from hushtune.core.secret import Secret
from hushtune.federation.endpoint import Endpoint
from hushtune.federation.envelope import Answer, Letter
from hushtune.methods.base import Facts
from hushtune.seals.base import Seal

PINNED = pytest.mark.parametrize("pinned", [False, True])


# ---- the same as in one process ----------------------------------------------------------------------


@PINNED
@pytest.mark.parametrize("seal", [ht.Masked(dropouts=0.4), ht.Curator(dropouts=0.4)], ids=["masked", "curator"])
def test_agents_explore_on_their_own_machines_as_in_one_process(tmp_path: Path, pinned: bool, seal: Seal) -> None:
    """Sub-regions, secret coins, samples and trials are the same; nothing but disk and state lasts between messages."""
    wire = Wire(tmp_path, pinned=pinned, seed=7)
    settings: dict[str, Any] = {
        "method": ht.Thompson(iterations=3, initial=2, features=10, regions=2, rate=0.5, sends="sample"),
        "privacy": ht.Privacy(8.0, 1e-3, neighbours="zero-out"),
        "seal": seal,
    }
    remote = wire.tune(**settings)
    clients = [ht.Client(data_of(at), distance, name=wire.names[at]) for at in range(5)]
    local = ht.tune(clients, CANDIDATES, simulation=ht.Simulation(seed=7), observer=ht.Silent(), **settings)
    assert remote.opened == local.opened
    assert remote.config == local.config


def test_an_agent_out_of_reach_makes_up_for_its_trials(tmp_path: Path) -> None:
    wire = Wire(tmp_path, clients=6)
    seen: list[str] = []

    def fail(trip: str, node: str) -> str | None:
        if node == wire.nodes[1]:
            seen.append(trip)
        return "gone" if node == wire.nodes[1] and len(seen) == 2 else None

    wire.fail = fail
    method = ht.Thompson(iterations=3, initial=2, features=10)
    privacy = ht.Privacy(8.0, 1e-3, neighbours="zero-out")
    result = wire.tune(method=method, privacy=privacy, seal=ht.Curator(dropouts=0.2))
    assert [opened.answered for opened in result.opened] == [6, 5, 6, 6]
    key = (
        method.settled(Facts(CANDIDATES, 6, privacy, ht.Curator(), ht.Search()))
        .votes(result.run, CANDIDATES, 0, ())
        .key
    )
    for node in wire.nodes:
        assert len(wire.endpoint(node)._party(node).searched(key)) == 5


@PINNED
@pytest.mark.parametrize(("unit", "voters"), [("client", 1), ("record", 3)])
@pytest.mark.parametrize("seal", [ht.Masked(dropouts=0.4), ht.Clear()], ids=["masked", "clear"])
def test_a_simulation_equals_the_one_in_process(
    tmp_path: Path, pinned: bool, unit: Any, voters: int, seal: ht.Masked
) -> None:
    wire = Wire(tmp_path, pinned=pinned, seed=7)
    settings: dict[str, Any] = {
        "method": ht.Vote(k=2, voters=voters),
        "privacy": ht.Privacy(2.0, unit=unit),
        "seal": seal,
    }
    remote = wire.tune(**settings)
    clients = [ht.Client(data_of(at), distance, name=wire.names[at]) for at in range(5)]
    local = ht.tune(clients, CANDIDATES, simulation=ht.Simulation(seed=7), observer=ht.Silent(), **settings)
    assert remote.opened == local.opened
    assert remote.config == local.config
    assert remote.simulation == {"seed": 7, "figures": None}
    assert remote.ledger is None
    assert not list(tmp_path.rglob("ledger*.db"))


@pytest.mark.parametrize(
    ("seal", "privacy"),
    [
        (ht.Masked(dropouts=0.4), ht.Privacy(5.0)),
        pytest.param(ht.Masked(dropouts=0.4), None, marks=pytest.mark.long),
        pytest.param(ht.Clear(), None, marks=pytest.mark.long),
    ],
    ids=["noisy", "masked", "pairs"],
)
def test_clients_search_on_their_own_machines_as_in_one_process(
    tmp_path: Path, seal: ht.Masked, privacy: ht.Privacy | None
) -> None:
    wire = Wire(tmp_path, seed=7)
    settings: dict[str, Any] = {
        "method": ht.Surface(),
        "privacy": privacy,
        "seal": seal,
        "search": ht.Search.adaptive(6, seed=2),
    }
    remote = wire.tune(**settings)
    clients = [ht.Client(data_of(at), distance, name=wire.names[at]) for at in range(5)]
    local = ht.tune(clients, CANDIDATES, simulation=ht.Simulation(seed=7), observer=ht.Silent(), **settings)
    assert remote.config == local.config
    if seal.name == "clear":
        there, here = (list((result.opened[0].own or {}).values()) for result in (remote, local))
        assert there == here
    else:
        assert remote.opened == local.opened
    assert remote.search == ht.Search.adaptive(6, seed=2)


@PINNED
def test_few_trips(tmp_path: Path, pinned: bool) -> None:
    """Four for the first sum, with keys and scoring, and two for each later one; one more if lists are signed."""
    wire, more = Wire(tmp_path, pinned=pinned), int(pinned)
    federation = wire.federation()
    result = wire.tune(federation, privacy=None, method=ht.Vote(k=1, decode="argmax"))
    assert federation.traffic.trips == 4 + more
    assert sum(result.opened[0].blocks["votes"]) == 5
    assert result.traffic is not None
    assert result.traffic["messages"] == 2 * (4 + more)
    size = sum(len(seen.letter) + len(seen.answer) for seen in wire.seen)
    assert result.traffic["bytes"] == pytest.approx(size / 5, abs=1)
    federation = wire.federation()
    wire.tune(federation, privacy=None, method=ThreeVotes())
    assert federation.traffic.trips == (4 + more) + 2 * (2 + more)
    assert all(seen.letter for seen in wire.seen)


def test_scoring_happens_in_the_first_trip_and_only_once(tmp_path: Path) -> None:
    @ht.objective
    def counted(config: ht.Config, data: ht.Rows) -> float:
        with open(tmp_path / "scored", "a") as file:
            file.write("x")
        return float(config["x"])

    wire = Wire(tmp_path, objective=counted)
    stages: dict[str, int] = {}

    def note(trip: str, node: str, content: bytes, is_answer: bool) -> bytes:
        path = tmp_path / "scored"
        stages[trip] = len(path.read_text()) if path.exists() else 0
        return content

    wire.tamper = note
    wire.tune()
    assert stages == dict.fromkeys(("keys", "shares", "input", "unmask"), 5 * len(CANDIDATES))


# ---- dropouts ----------------------------------------------------------------------------------------


@PINNED
def test_one_lost_before_its_input_and_one_after(tmp_path: Path, pinned: bool) -> None:
    wire = Wire(tmp_path, pinned=pinned)

    def dies(trip: str, node: str) -> str | None:
        gone = {"node-101": ("input", "agree", "unmask"), "node-103": ("agree", "unmask")}
        return "no reply within 600 s" if trip in gone.get(node, ()) else None

    wire.fail = dies
    result = wire.tune(privacy=None)
    name = (lambda at: f"client-{at}") if pinned else (lambda at: f"node-{100 + at}")
    assert result.dropped == {name(1): "no reply within 600 s"}
    assert result.late == {name(3): "no reply within 600 s"}
    expected = np.zeros(11, dtype=int)
    for at in (0, 2, 3, 4):
        expected[np.argmin([abs(c["x"] - np.mean(data_of(at)[1])) for c in CANDIDATES])] += 1
    assert result.opened[0].blocks["votes"] == expected.tolist()
    assert f"not counted: {name(1)}" in result.statement
    assert f"of no help in opening the sum: {name(3)}" in result.statement
    assert result.to_json()["clients"]["late"] == [{"client": name(3), "reason": "no reply within 600 s"}]


@PINNED
@pytest.mark.parametrize("trip", ["keys", "shares", "input", "unmask"])
def test_too_many_lost_abort_with_nothing_opened_and_at_most_the_budget_reserved(
    tmp_path: Path, pinned: bool, trip: str
) -> None:
    wire = Wire(tmp_path, pinned=pinned)
    wire.fail = lambda t, node: "gone" if t == trip and node in ("node-100", "node-101", "node-102") else None
    federation = wire.federation()
    with pytest.raises(ht.AbortedError, match="nothing was opened"):
        wire.tune(federation, folder=tmp_path / "run")
    assert '"opened": []' in (tmp_path / "run" / "run.json").read_text()
    coordinator = federation.coordinator_ledger()
    if trip in ("keys", "shares"):  # nobody was asked for an input: nothing was spent
        assert not coordinator.exists
    else:
        (entry,) = coordinator.entries()
        assert not entry.opened
        assert coordinator.spent().epsilon <= 1.0
    for at in range(5):
        ledger = wire.ledger(at)
        charged = len(ledger.entries()) if ledger.exists else 0
        assert charged == (1 if trip == "unmask" or (trip == "input" and at > 2) else 0)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"garbage",
        Letter(b"x", None).to_bytes(),
        Answer(b"", "node-102", False, b"").to_bytes(),
        Answer(b"junk", "node-102", False, b"").to_bytes(),
        Answer(b"x" * 10, "node-104", False, b"").to_bytes(),
        Answer(b"", "node-102", True, b"").to_bytes(),
    ],
    ids=["empty", "garbage", "letter", "no reply in it", "junk in it", "of another", "simulated"],
)
@pytest.mark.parametrize("trip", ["keys", "shares", "input"])
def test_whatever_else_comes_back_is_a_dropout(tmp_path: Path, answer: bytes, trip: str) -> None:
    wire = Wire(tmp_path)
    wire.tamper = lambda t, node, content, back: answer if back and (t, node) == (trip, "node-102") else content
    result = wire.tune(privacy=None)
    assert set(result.dropped) == {"node-102"}
    assert sum(result.opened[0].blocks["votes"]) == 4


def test_an_old_reply_a_duplicate_and_a_wrong_length_are_dropouts(tmp_path: Path) -> None:
    wire = Wire(tmp_path, clients=8)
    first: dict[str, bytes] = {}

    def stale(trip: str, node: str, content: bytes, is_answer: bool) -> bytes:
        if not is_answer:
            return content
        first.setdefault(node, content)
        if node == "node-101" and trip == "input":
            return first[node]  # of another trip
        if node == "node-102" and trip == "input":
            return next(seen.answer for seen in wire.seen if seen.trip == "input")  # somebody else's
        if node == "node-103" and trip == "input":
            header = Answer.from_bytes(content)
            return Answer(header.reply[:-40], header.name, False, b"").to_bytes()
        return content

    wire.tamper = stale
    result = wire.tune(privacy=None)
    assert set(result.dropped) == {"node-101", "node-102", "node-103"}
    assert sum(result.opened[0].blocks["votes"]) == 5


def test_a_client_that_is_no_simulation_does_not_count_in_one(tmp_path: Path) -> None:
    wire = Wire(tmp_path)  # real clients
    federation = wire.federation()
    federation.simulated = True
    with pytest.raises(ht.AbortedError, match="not marked as a simulation"):
        wire.tune(federation, simulation=ht.Simulation(3))


# ---- processes that come and go ----------------------------------------------------------------------


def test_a_message_delivered_twice_gets_the_same_bytes(tmp_path: Path) -> None:
    wire = Wire(tmp_path)
    before: dict[tuple[str, str], bytes] = {}

    def keep(trip: str, node: str, content: bytes, is_answer: bool) -> bytes:
        if not is_answer:
            before[trip, node] = wire.states.get(node, b"")
        return content

    wire.tamper = keep
    wire.tune()
    for seen in wire.seen:
        for state in (before[seen.trip, seen.node], b""):  # a crash before the state was kept, and after a restart
            again, _ = wire.endpoint(seen.node).reply(seen.letter, state)
            assert again == seen.answer


@pytest.mark.parametrize("trip", ["shares", "input", "unmask"])
def test_a_node_that_restarts_in_the_middle_is_a_dropout(tmp_path: Path, trip: str) -> None:
    wire = Wire(tmp_path)

    def restart(t: str, node: str, content: bytes, is_answer: bool) -> bytes:
        if t == trip and node == "node-101" and not is_answer:
            wire.states[node] = b""
        return content

    wire.tamper = restart
    result = wire.tune()
    gone = result.late if trip == "unmask" else result.dropped
    assert gone == {"node-101": "refused: this client has no part in that run, or its state is lost"}


@PINNED
def test_a_server_that_restarts_before_the_inputs_takes_the_run_up_again(tmp_path: Path, pinned: bool) -> None:
    """Trials are reused, no ledger is charged twice, nothing is drawn twice."""
    wire, folder = Wire(tmp_path, pinned=pinned), tmp_path / "run"

    def crash(trip: str, node: str) -> str | None:
        if trip == "shares" and node == "node-102":
            raise KeyboardInterrupt
        return None

    wire.fail = crash
    with pytest.raises(KeyboardInterrupt):
        wire.tune(folder=folder)
    wire.fail = lambda trip, node: None
    if not pinned:
        wire.nodes = [f"node-{900 + at}" for at in range(5)]  # unpinned nodes have new names after a restart
    wire.states.clear()
    result = wire.tune(folder=folder)
    assert result.dropped == {}
    assert [len(wire.ledger(at).entries()) for at in range(5)] == [1] * 5
    assert len(wire.federation().coordinator_ledger().entries()) == 1


def test_a_server_that_restarts_after_an_opening_reuses_it(tmp_path: Path) -> None:
    wire, folder = Wire(tmp_path), tmp_path / "run"
    opened = {"count": 0}

    def crash(trip: str, node: str) -> str | None:
        opened["count"] += trip == "unmask" and node == "node-104"
        if trip == "input" and opened["count"] == 1:
            raise KeyboardInterrupt
        return None

    wire.fail = crash
    with pytest.raises(KeyboardInterrupt):
        wire.tune(method=ThreeVotes(), privacy=None, folder=folder)
    (first,) = json.loads((folder / "run.json").read_text())["opened"]
    wire.fail = lambda trip, node: None
    result = wire.tune(method=ThreeVotes(), privacy=None, folder=folder)
    assert result.opened[0].blocks == first["opened"]["blocks"]
    assert len(result.opened) == 3
    assert [len(wire.ledger(at).entries()) for at in range(5)] == [1] * 5


def test_a_server_that_restarts_after_the_inputs_gets_no_second_noisy_sum(tmp_path: Path) -> None:
    wire, folder = Wire(tmp_path), tmp_path / "run"
    wire.fail = _interrupted_at_unmask
    with pytest.raises(KeyboardInterrupt):
        wire.tune(folder=folder)
    wire.fail = lambda trip, node: None
    with pytest.raises(ht.AbortedError, match="answered already"):
        wire.tune(folder=folder)
    assert [len(wire.ledger(at).entries()) for at in range(5)] == [1] * 5


def _interrupted_at_unmask(trip: str, node: str) -> str | None:
    if trip == "unmask":
        raise KeyboardInterrupt
    return None


# ---- who is who --------------------------------------------------------------------------------------


def test_a_node_that_cannot_prove_its_name_is_left_out(tmp_path: Path) -> None:
    """A stranger who claims a name, and somebody else's proof under another node, count for nothing."""
    wire = Wire(tmp_path, pinned=True)
    stranger = ht.Identity.new()
    client = wire.client

    def make(at: int) -> ht.Client:
        made = client(at)
        if at == 2:
            made.identity = stranger
        return made

    wire.client = make  # type: ignore[method-assign]
    result = wire.tune(privacy=None)
    assert result.dropped == {"client-2": "no node has proved to be this client"}


def test_two_nodes_of_one_client_count_once(tmp_path: Path) -> None:
    wire = Wire(tmp_path, pinned=True)
    wire.names[3] = "client-1"
    wire.identities[3] = wire.identities[1]
    result = wire.tune(privacy=None)
    assert result.dropped == {"client-3": "no node has proved to be this client"}
    assert sum(result.opened[0].blocks["votes"]) == 4


def test_more_nodes_than_the_roster_names(tmp_path: Path) -> None:
    wire = Wire(tmp_path, clients=6, pinned=True)
    assert wire.roster is not None
    assert wire.roster.keys is not None
    wire.roster = ht.Roster(wire.roster.ids[:5], wire.roster.keys[:5], wire.roster.seed)
    result = wire.tune(privacy=None)
    assert (result.asked, result.answered, result.dropped) == (5, 5, {})
    assert any("the roster does not name this client" in repr(seen.answer) for seen in wire.seen)


def test_without_nodes_there_is_no_run(tmp_path: Path) -> None:
    wire = Wire(tmp_path)
    wire.nodes = []
    with pytest.raises(ht.SettingError, match="no node is connected"):
        wire.federation()


def test_a_clients_secret_outlives_its_process_and_a_simulation_keeps_none(tmp_path: Path) -> None:
    client = ht.Client(data_of(0), distance)

    def derived(home: str, seed: int | None = None) -> bytes:
        endpoint = Endpoint(client, "a", "node-1", tmp_path / home, None, seed, 1)
        return endpoint._party("node-1").secret.derived("parts")

    assert derived("one") == derived("one") != derived("two")
    assert derived("three", 5) == derived("four", 5) == Secret.simulated(5, "a").derived("parts") != derived("three", 6)
    assert [path.parent for path in sorted(tmp_path.glob("**/secret.key"))] == [
        tmp_path / home / "clients" / "a" for home in ("one", "two")
    ]
