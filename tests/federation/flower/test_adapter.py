"""Flower's messages, records, ids and errors, with a grid that calls the ClientApp directly."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from tests.federation.flower.direct import DirectGrid

import hushtune as ht
import hushtune.flower

pytestmark = pytest.mark.flower

CANDIDATES = ht.Space(x=ht.Float(0.0, 4.0)).grid(x=5)


@ht.objective
def distance(config: ht.Config, data: ht.Rows) -> float:
    return float(abs(config["x"] - data.y[0]))


def rows(context: Context) -> tuple[Any, Any]:
    return np.zeros((4, 1)), np.full(4, float(context.node_config["partition-id"]))


def partitions(count: int, **more: Any) -> list[dict[str, Any]]:
    return [{"partition-id": at, "num-partitions": count, "hushtune-jobs": 1, **more} for at in range(count)]


LIMIT = ht.Policy(epsilon=1.0, delta=1e-5)


def grid_of(configs: list[dict[str, Any]], **settings: Any) -> DirectGrid:
    app = ClientApp()
    hushtune.flower.register(app, distance, **{"data": rows, "policy": ht.Policy(exact=True), **settings})
    return DirectGrid(app, configs)


def tune(grid: DirectGrid, **changes: Any) -> ht.Result:
    given: dict[str, Any] = {
        "method": ht.Vote(k=1, decode="argmax"),
        "seal": ht.Masked(dropouts=0.4),
        "timeout": 7.0,
        "observer": ht.Silent(),
    }
    given |= changes
    own = {name: given.pop(name) for name in ("roster", "nodes", "timeout", "home") if name in given}
    own["simulated"] = "simulation" in given
    nodes = hushtune.flower.FlowerFederation(grid, observer=ht.Silent(), **own)  # type: ignore[arg-type]
    return ht.tune(nodes, CANDIDATES, **given)


def test_a_vote_in_four_trips(home: Path) -> None:
    grid = grid_of(partitions(5))
    result = tune(grid)
    assert result.opened[0].blocks["votes"] == [1] * 5
    assert result.traffic is not None
    assert (grid.trips, result.traffic["trips"], result.traffic["messages"]) == (4, 4, 8)
    assert grid.timeouts == [7.0] * 4
    assert {message.metadata.ttl for message, _ in grid.seen} == {7.0}
    assert {message.metadata.message_type for message, _ in grid.seen} == {"query.hushtune"}
    assert sorted(path.name for path in (home / "clients").iterdir()) == [f"client-{at}" for at in range(5)]


def test_state_is_kept_between_messages_and_erased_at_the_end() -> None:
    grid, kept = grid_of(partitions(5)), []

    def look(trip: int, message: Message, reply: Message) -> list[Message]:
        kept.append((trip, len(grid.contexts[message.metadata.dst_node_id].state)))
        return [reply]

    grid.tamper = look
    tune(grid)
    assert {(trip, count) for trip, count in kept} == {(0, 1), (1, 1), (2, 1), (3, 0)}


def test_the_apps_own_functions_stay_and_a_second_registration_is_refused() -> None:
    grid = grid_of(partitions(1))

    @grid.app.train()
    def train(message: Message, context: Context) -> Message:
        return Message(message.content, reply_to=message)

    message = Message(RecordDict({"x": ConfigRecord({"a": 1})}), 1000, "train")
    assert grid.app(message, grid.contexts[1000]).content["x"]["a"] == 1
    with pytest.raises(ht.SettingError, match="must be registered once"):
        hushtune.flower.register(grid.app, distance, data=rows)


# ---- what the transport does -------------------------------------------------------------------------


def test_replies_are_matched_by_the_message_they_answer() -> None:
    """Also if they seem to come from another node, arrive twice, or answer nothing that was asked."""
    grid = grid_of(partitions(5))

    def confuse(trip: int, message: Message, reply: Message) -> list[Message]:
        reply.metadata.__dict__["_src_node_id"] = 1
        stray = Message(RecordDict(), reply_to=message)
        stray.metadata.__dict__["_reply_to_message_id"] = "nobody asked"
        return [stray, reply, reply]

    grid.tamper = confuse
    result = tune(grid)
    assert result.dropped == {}
    assert result.opened[0].blocks["votes"] == [1] * 5


SECRET = "<class 'RuntimeError'>:<'patient 4711'>"


@pytest.mark.parametrize(
    ("trip", "reply", "reason"),
    [
        (2, None, "no reply within 7 s"),
        (2, Error(5, "Node Unavailable"), "its node is not there any more"),
        (2, Error(2, SECRET), "its app failed"),
        (0, Error(8, SECRET), "its app crashed"),
        (1, Error(99, SECRET), "no reply"),
        (2, RecordDict(), "malformed reply: it holds no bytes"),
        (2, RecordDict({"hushtune": ConfigRecord({"content": "text"})}), "malformed reply: it holds no bytes"),
        (1, RecordDict({"hushtune": ConfigRecord({"content": b"junk"})}), "malformed reply: a message must start"),
    ],
)
def test_what_does_not_arrive_is_a_dropout_named_as_the_transport_saw_it(trip: int, reply: Any, reason: str) -> None:
    grid = grid_of(partitions(5))

    def lose(at: int, message: Message, real: Message) -> list[Message]:
        if at != trip or message.metadata.dst_node_id != 1003:
            return [real]
        return [] if reply is None else [Message(reply, reply_to=message)]

    grid.tamper = lose
    result = tune(grid)
    assert set(result.dropped) == {"node-1003"}
    assert result.dropped["node-1003"].startswith(reason)
    assert result.opened[0].blocks["votes"] == [1, 1, 1, 0, 1]
    assert "4711" not in repr(result.to_json())


def test_too_many_are_lost(tmp_path: Path) -> None:
    grid = grid_of(partitions(5), policy=LIMIT)
    grid.tamper = lambda trip, message, reply: [] if trip == 2 and message.metadata.dst_node_id > 1001 else [reply]
    with pytest.raises(
        ht.AbortedError, match="3 of 5 clients must have sent an input, but got 2; .*nothing was opened"
    ):
        tune(grid, folder=tmp_path / "run", privacy=ht.Privacy(1.0))


def test_nodes_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hushtune.federation.flower._POLL", 0.01)
    grid = grid_of(partitions(5))
    found = iter([[], [1000], list(grid.contexts)])
    grid.get_node_ids = lambda: next(found)  # type: ignore[method-assign]
    assert tune(grid, nodes=5).asked == 5
    grid.get_node_ids = lambda: [1000, 1001]  # type: ignore[method-assign]
    with pytest.raises(ht.SettingError, match="5 nodes must be connected within 0.1 s, but got 2"):
        tune(grid, nodes=5, timeout=0.1)


# ---- identities and settings -------------------------------------------------------------------------


@pytest.fixture
def pins(tmp_path: Path) -> Path:
    made = [ht.Identity.new() for _ in range(5)]
    for at, identity in enumerate(made):
        identity.save(tmp_path / f"{at}.key")
    ht.Roster(tuple(f"clinic-{at}" for at in range(5)), tuple(i.public for i in made), b"s" * 32).save(
        tmp_path / "roster.toml"
    )
    return tmp_path


def pinned(pins: Path) -> list[dict[str, Any]]:
    return [
        {**config, "hushtune-roster": str(pins / "roster.toml"), "hushtune-identity": str(pins / f"{at}.key")}
        for at, config in enumerate(partitions(5))
    ]


def test_pinned_identities_come_from_the_node_config(pins: Path, home: Path) -> None:
    grid = grid_of(pinned(pins))
    result = tune(grid, roster=pins / "roster.toml")
    assert result.pinned
    assert result.dropped == {}
    assert "even if it lies" in result.statement
    assert (home / "clients" / "clinic-4" / "ledger.db").exists()
    assert "the server is trusted not to impersonate" in tune(grid_of(partitions(5))).statement


def test_a_server_with_another_roster_is_refused_by_every_client(pins: Path, tmp_path: Path) -> None:
    roster = ht.Roster.load(pins / "roster.toml")
    assert roster.keys is not None
    other = ht.Roster((*roster.ids, "ghost"), (*roster.keys, ht.Identity.new().public), roster.seed)
    with pytest.raises(ht.AbortedError, match="the request's roster is not the one this client was given"):
        tune(grid_of(pinned(pins)), roster=other, nodes=5)
    with pytest.raises(ht.AbortedError, match="answered as 'clinic-0'; with a pinned roster, give it to both sides"):
        tune(grid_of(pinned(pins)))  # a server that does without


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "a client needs a name"),
        ({"hushtune-name": "../../etc"}, "a client's name must match"),
        ({"hushtune-nmae": "x", "partition-id": 1}, "but got \\['hushtune-nmae'\\]"),
        ({"hushtune-jobs": 0.5, "partition-id": 1}, "1 <= hushtune-jobs <= 1024"),
        ({"hushtune-jobs": 0, "partition-id": 1}, "1 <= hushtune-jobs <= 1024"),
        ({"hushtune-home": 3, "partition-id": 1}, "hushtune-home must be a str, but got 3"),
        ({"partition-id": "a"}, "`partition-id >= 0` must hold for an integer"),
        (
            {"hushtune-roster": "ROSTER", "hushtune-identity": "FIRST", "hushtune-name": "x"},
            "must be 'clinic-0', as in",
        ),
        ({"hushtune-policy": "/nowhere.toml", "partition-id": 1}, "cannot be read"),
        ({"hushtune-roster": "ROSTER", "partition-id": 1}, "a pinned roster needs an identity"),
        ({"hushtune-roster": "ROSTER", "hushtune-identity": "STRANGER"}, "must hold this client's identity"),
    ],
)
def test_a_client_that_is_not_set_up_says_so_to_its_own_log_only(
    pins: Path, caplog: pytest.LogCaptureFixture, config: dict[str, Any], message: str
) -> None:
    ht.Identity.new().save(pins / "stranger.key")
    places = {"ROSTER": str(pins / "roster.toml"), "STRANGER": str(pins / "stranger.key"), "FIRST": str(pins / "0.key")}
    grid = grid_of([{name: places.get(value, value) for name, value in config.items()}])
    with (
        caplog.at_level(logging.ERROR),
        pytest.raises(ht.AbortedError, match="not set up; see what its SuperNode printed"),
    ):
        tune(grid, seal=ht.Clear())
    assert caplog.text.count("this client cannot take part") == 1
    import re

    assert re.search(message, caplog.text)


def test_a_ledger_goes_by_the_name_however_many_nodes_there_are(home: Path) -> None:
    """A federation that grows must not give a client a new ledger."""
    tune(grid_of(partitions(5), policy=LIMIT), privacy=ht.Privacy(1.0))
    for config in (grown := partitions(11)):
        config["num-partitions"] = 11
    for path in (home / "coordinator").iterdir():  # the ledger and its anchor
        path.unlink()
    with pytest.raises(ht.AbortedError, match="ledger: its limit would be exceeded"):
        tune(grid_of(grown, policy=LIMIT), privacy=ht.Privacy(1.0), seal=ht.Masked(dropouts=0.1))


def test_what_is_printed_while_waiting(capfd: pytest.CaptureFixture[str]) -> None:
    grid = grid_of(partitions(5))
    grid.tamper = lambda trip, message, reply: [] if message.metadata.dst_node_id == 1001 else [reply]
    tune(grid, observer=ht.Bars())
    printed = capfd.readouterr().err
    assert "secure sum: keys: asking 5 clients" in printed
    assert "secure sum: shares: asking 4 clients" in printed
    assert "4/5" in printed


@pytest.mark.parametrize("whose", ["app", "operator"])
def test_candidates_outside_the_space_that_was_named_are_refused(tmp_path: Path, whose: str) -> None:
    """By the app, or in the operator's policy file."""
    narrow, wide = ht.Space(x=ht.Float(0.0, 1.0)), ht.Space(x=ht.Float(0.0, 4.0))
    (tmp_path / "policy.toml").write_text(
        f'exact = true\n\n[space]\nx = {{ type = "float", low = 0, high = {1 if whose == "operator" else 4} }}\n'
    )
    configs = partitions(5, **{"hushtune-policy": str(tmp_path / "policy.toml")})
    grid = grid_of(configs, space=narrow if whose == "app" else wide)
    with pytest.raises(ht.AbortedError, match="space: knob 'x' must be a number from 0.0 to 1.0, but got 4.0"):
        tune(grid)
    assert tune(grid_of(partitions(5), space=wide)).dropped == {}


def test_a_policy_file_of_the_operator_goes_before_the_apps(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text('epsilon = 0.5\nseals = ["masked"]\n')
    grid = grid_of(partitions(5, **{"hushtune-policy": str(tmp_path / "policy.toml")}), policy=ht.Policy(epsilon=50.0))
    with pytest.raises(ht.AbortedError, match="policy: `epsilon <= 0.5` must hold, but got epsilon=1"):
        tune(grid, privacy=ht.Privacy(1.0))


def test_a_marked_simulation_counts_only_where_both_sides_say_so() -> None:
    mark = ht.Simulation(seed=3)
    assert (
        tune(grid_of(partitions(5), simulation=mark), simulation=mark, privacy=ht.Privacy(1.0)).simulation is not None
    )
    with pytest.raises(ht.AbortedError, match="the client is marked as a simulation"):
        tune(grid_of(partitions(5), simulation=mark))
    with pytest.raises(ht.AbortedError, match="the client is not marked as a simulation"):
        tune(grid_of(partitions(5)), simulation=mark)
    nodes = hushtune.flower.FlowerFederation(grid_of(partitions(5)))  # type: ignore[arg-type]
    with pytest.raises(ht.SettingError, match="the federation is not marked as a simulation, so that the run cannot"):
        ht.tune(nodes, CANDIDATES, method=ht.Vote(1), simulation=mark, observer=ht.Silent())
    with pytest.raises(ht.SettingError, match="reference figures need all clients in one process"):
        tune(grid_of(partitions(5)), simulation=ht.Simulation(3, reference=ht.Client(([[0]], [0]), distance)))


def test_an_operator_may_mark_a_node_and_a_server_may_not(home: Path) -> None:
    marked = partitions(5, **{"hushtune-simulation": 3})
    found = tune(grid_of(marked, policy=None), simulation=ht.Simulation(3), privacy=ht.Privacy(1.0))
    assert found.simulation is not None
    assert not list(home.glob("clients/*/ledger.db"))
    with pytest.raises(ht.AbortedError, match="the client is not marked as a simulation"):
        tune(grid_of(partitions(5), policy=None), simulation=ht.Simulation(3), privacy=ht.Privacy(1.0))


def test_without_a_policy_or_a_limit_a_node_refuses_every_run(home: Path) -> None:
    for privacy, message in ((ht.Privacy(0.1), "no limit: this client's owner has set none"), (None, "exact = true")):
        with pytest.raises(ht.AbortedError, match=message):
            tune(grid_of(partitions(5), policy=None), privacy=privacy)
    assert not list(home.glob("clients/*/ledger.db"))


def test_a_marked_node_tells_what_went_wrong(home: Path) -> None:
    def broken(context: Context) -> Any:
        raise FileNotFoundError(f"rows-{context.node_config['partition-id']}.csv")

    mark = ht.Simulation(3)
    with pytest.raises(ht.AbortedError, match=r"node-1000: refused: objective failed: .*rows-0\.csv"):
        tune(grid_of(partitions(5), data=broken, simulation=mark), simulation=mark, privacy=ht.Privacy(1.0))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"timeout": 0}, "0 < timeout < 1e\\+07"),
        ({"nodes": 0}, "`nodes >= 1` must hold"),
        ({"roster": "/nowhere"}, "/nowhere cannot be read: No such file"),
        ({"folder": 3}, "folder must be a str or a Path"),
        ({"home": 3}, "home must be a str or a Path"),
        ({"method": "vote"}, "method must be a method such as Vote"),
        ({"privacy": 1.0}, "privacy must be a Privacy"),
    ],
)
def test_bad_settings_of_the_server(changes: dict[str, Any], message: str) -> None:
    grid = grid_of(partitions(5))
    with pytest.raises(ht.SettingError, match=message):
        tune(grid, **changes)
    assert grid.trips == 0


def test_bad_settings_of_the_client() -> None:
    with pytest.raises(ht.SettingError, match="app must be a flwr.clientapp.ClientApp"):
        hushtune.flower.register("app", distance, data=rows)  # type: ignore[arg-type]
    with pytest.raises(ht.SettingError, match="data must be a function of Flower's context"):
        hushtune.flower.register(ClientApp(), distance, data=[1, 2])  # type: ignore[arg-type]
    with pytest.raises(ht.SettingError, match="policy must be a Policy"):
        hushtune.flower.register(ClientApp(), distance, data=rows, policy=3)  # type: ignore[arg-type]
    with pytest.raises(ht.SettingError, match="space must be a Space"):
        hushtune.flower.register(ClientApp(), distance, data=rows, space=3)  # type: ignore[arg-type]
    with pytest.raises(ht.SettingError, match="how the client scores configs, but got None"):
        hushtune.flower.register(ClientApp(), None, data=rows)  # type: ignore[arg-type]
    with pytest.raises(ht.SettingError, match="grid must be the Grid that Flower gives"):
        hushtune.flower.FlowerFederation(None)  # type: ignore[arg-type]
    with pytest.raises(ht.SettingError, match="objective must have a method losses"):
        hushtune.flower.register(ClientApp(), lambda config: 1.0, data=rows)  # type: ignore[arg-type]


def test_settings_from_the_run_config() -> None:
    def of(**config: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        given = {name.replace("_", "-"): value for name, value in config.items()}
        found = hushtune.flower.settings(Context(1, 1, {}, RecordDict(), given))
        return found.tune, found.federation

    assert of(voters=3, hushtune_epsilon="none", hushtune_unit="record") == ({}, {})
    assert of(hushtune_epsilon=2.0, hushtune_unit="record", hushtune_dropouts=0.2, hushtune_timeout=9.0) == (
        {"privacy": ht.Privacy(2.0, unit="record"), "seal": ht.Masked(dropouts=0.2)},
        {"timeout": 9.0},
    )
    assert of(hushtune_epsilon="none", hushtune_folder="", hushtune_roster="", hushtune_nodes=4) == ({}, {"nodes": 4})
    with pytest.raises(ht.SettingError, match="but got \\['hushtune-epsilom'\\]"):
        of(hushtune_epsilom=1.0)
    for missing in ({}, {"hushtune_epsilon": ""}, {"hushtune_delta": 1e-6}):
        with pytest.raises(ht.SettingError, match='must set hushtune-epsilon: a number, or "none"'):
            of(**missing)
