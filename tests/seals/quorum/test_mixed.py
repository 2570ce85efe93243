"""Whatever a coordinator loses, repeats or mixes up, and whichever node is away for a while: nothing is opened twice or
otherwise, and the same command finishes later."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.seals.quorum.polls import Poll, candidates, stepped
from tests.seals.quorum.room import RUN, changed, said
from tests.seals.quorum.test_seal import over, wire

import hushtune as ht
from hushtune.core.errors import AbortedError
from hushtune.core.wire import pack, unpack
from hushtune.methods.vote.ballots import TopVotes
from hushtune.seals.ends import Replies, Trip
from hushtune.seals.quorum import server
from hushtune.seals.quorum.envelopes import Submission

VOTES = TopVotes(2, candidates(4), 0)
BALLOTS = [[1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 0, 1], [0, 1, 1, 0], [0, 0, 1, 1]]
BALLOT_CLIENTS = tuple(f"client-{at:02}" for at in range(len(BALLOTS)))
LOUD = 50.0  # so that noise that was drawn anew would be seen


def poll(scale: float = LOUD, **settings: Any) -> Poll:
    return Poll(VOTES, BALLOTS, scale=scale, **settings)


class Line:
    """The nodes of one run, whose folders outlive them, behind a line on which things happen.

    Args:
        of: the run.
        folder: of nodes and coordinator.
    """

    def __init__(self, of: Poll, folder: Path) -> None:
        self.of, self.folder = of, folder
        self.trips: list[Trip] = []
        self.before: Callable[[Mapping[str, bytes]], Mapping[str, bytes]] = lambda messages: messages
        self.after: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda replies: replies
        self.restart()

    def restart(self) -> None:
        """Every node is a new process."""
        self.nodes = self.of.nodes(self.folder)

    def exchange(self, trip: Trip) -> Replies:
        self.trips.append(trip)
        if trip.to == "clients":
            return self.of.answered(trip)
        return self.after(stepped(self.nodes)(self.before(trip.messages)))

    def command(self) -> list[int]:
        """What the coordinator's command opens; it keeps what it has between two of them."""
        folder = self.folder / "run"
        folder.mkdir(parents=True, exist_ok=True)
        return [int(value) for value in self.of.open(self.exchange, folder=folder).values]

    @property
    def asked(self) -> int:
        """How often clients were asked."""
        return sum(trip.to == "clients" for trip in self.trips)


def undisturbed(folder: Path) -> tuple[list[int], int]:
    """What is opened if nothing happens, and in how many trips to nodes."""
    line = Line(poll(), folder)
    return line.command(), sum(trip.to == "nodes" for trip in line.trips)


# ---- nodes that are away ---------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", ["messages", "replies"])
def test_a_node_that_is_away_opens_nothing_and_when_it_is_back_the_same_command_finishes(
    tmp_path: Path, lost: str
) -> None:
    """At every trip, one of the nodes in turn: what it was sent is lost, or what it has replied. So does one that is
    late: nobody listens to it any more."""
    expected, trips = undisturbed(tmp_path / "whole")
    line, at = Line(poll(), tmp_path / "line"), 0

    def away(name: str) -> None:
        reached = False

        def once(carried: Mapping[str, Any]) -> Mapping[str, Any]:
            nonlocal reached
            if len([trip for trip in line.trips if trip.to == "nodes"]) - begun <= at or reached:
                return carried
            reached = True
            if lost == "messages":
                return {node: message for node, message in carried.items() if node != name}
            return {node: None if node == name else reply for node, reply in carried.items()}

        begun = len([trip for trip in line.trips if trip.to == "nodes"])
        line.before, line.after = (once, _nothing) if lost == "messages" else (_nothing, once)

    for at in range(trips):
        name = f"node-{at % 3 + 1}"
        away(name)
        with pytest.raises(AbortedError, match=f"all nodes must answer, but {name}: no reply; when it is there again"):
            line.command()
        line.restart()
    line.before = line.after = _nothing
    assert line.command() == expected
    assert line.asked == 1
    assert line.command() == expected  # once more, and to the byte


def _nothing(carried: Mapping[str, Any]) -> Mapping[str, Any]:
    return carried


def test_a_coordinator_that_is_stopped_at_every_trip_goes_on(tmp_path: Path) -> None:
    expected, trips = undisturbed(tmp_path / "whole")
    line, left = Line(poll(), tmp_path / "line"), 0

    class Stopped(Exception):
        pass

    def stop(carried: Mapping[str, Any]) -> Mapping[str, Any]:
        nonlocal left
        left -= 1
        if not left:
            raise Stopped
        return carried

    line.after = stop
    for at in range(trips):
        left = at + 1
        with pytest.raises(Stopped):
            line.command()
    left = 0
    assert line.command() == expected
    assert line.asked == 1


def test_with_too_few_clients_nothing_is_sent_to_nodes_and_those_who_come_later_count(tmp_path: Path) -> None:
    """The same command, once the others are there: all send what they sent, and nobody pays twice."""
    expected, _ = undisturbed(tmp_path / "whole")
    line = Line(poll(dropouts=0.2), tmp_path / "line")
    line.of.forged = dict.fromkeys(("client-01", "client-03"), lambda of, client, message: None)
    with pytest.raises(AbortedError, match="4 of 5 clients must answer .*, but got 3"):
        line.command()
    assert [trip.name for trip in line.trips if trip.to == "nodes"] == ["asking nodes for their keys"]
    line.of.forged = {}
    line.restart()
    assert len(line.command()) == len(expected)
    assert line.asked == 2


def test_a_run_that_was_cut_off_when_all_was_opened_still_has_nodes_forget_it(tmp_path: Path) -> None:
    """Else keys that open envelopes would outlive the run, until nodes find that nobody ends it."""
    settings: dict[str, Any] = {"privacy": ht.Privacy(8.0), "folder": tmp_path / "run"}
    first = wire(tmp_path / "home")
    result = over(first, privacy=settings["privacy"])
    last = 10**9 - first.cut  # the trip in which nodes are told to forget
    first = wire(tmp_path / "home", cut=last)
    first.close = lambda: None  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        over(first, **settings)
    kept = Path(first._nodes._place.name)  # type: ignore[union-attr]
    assert len(list(kept.rglob("secret"))) == 3
    assert (tmp_path / "run" / "submissions-0").exists()
    second = wire(tmp_path / "home")
    second._nodes = first._nodes
    assert over(second, **settings).index == result.index
    assert second.asked == 0
    assert not [path for path in kept.rglob("*") if path.is_file()]
    assert not list((tmp_path / "run").glob("submissions-*"))


def test_a_simulation_of_several_steps_goes_on_with_nodes_that_begin_anew(tmp_path: Path) -> None:
    """Those of a simulation do not outlive the command."""
    settings: dict[str, Any] = {"method": ht.Thompson(iterations=3, rounds=2), "privacy": ht.Privacy(8.0)}
    whole = wire(tmp_path / "whole")
    openings = len(over(whole, **settings).opened)
    assert openings > 2
    trips = 10**9 - whole.cut
    folder = tmp_path / "home" / "run"
    with pytest.raises(KeyboardInterrupt):
        over(wire(tmp_path / "home", cut=trips // 2), folder=folder, **settings)
    assert len(over(wire(tmp_path / "home"), folder=folder, **settings).opened) == openings


def test_submissions_that_are_too_large_for_one_message_go_in_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, _ = undisturbed(tmp_path / "whole")
    monkeypatch.setattr(server, "_ROOM", 5_000)
    line = Line(poll(), tmp_path / "line")
    assert line.command() == expected
    handed = [trip.messages["node-1"] for trip in line.trips if trip.name == "handing envelopes to nodes"]
    assert [said(message)["clients"] for message in handed] == [
        list(BALLOT_CLIENTS[:2]),
        list(BALLOT_CLIENTS[2:4]),
        list(BALLOT_CLIENTS[4:]),
    ]
    assert max(map(len, handed)) < 5_000


# ---- what is mixed up ------------------------------------------------------------------------------------


def tampered(line: Line, what: str, node: str, change: Callable[[bytes], bytes]) -> None:
    """One node gets something else when nodes are told this."""

    def before(messages: Mapping[str, bytes]) -> Mapping[str, bytes]:
        if said(messages[node])["is"] != what:
            return messages
        return {**messages, node: change(messages[node])}

    line.before = before


def swapped(message: bytes) -> bytes:
    """The first two clients' deliveries in each other's place."""
    _, (request, first, second, *rest) = unpack(message)
    return changed(message, [request, second, first, *rest])


@pytest.mark.parametrize("pinned", [True, False])
def test_envelopes_of_another_client(tmp_path: Path, pinned: bool) -> None:
    line = Line(poll(scale=0.0, dropouts=0.5, pinned=pinned), tmp_path)
    tampered(line, "submissions", "node-2", swapped)
    outcome = line.of.open(line.exchange)
    assert set(outcome.missing) == {"client-00", "client-01"}
    assert all(reason.startswith("node-2: ") for reason in outcome.missing.values())
    assert list(outcome.values) == line.of.total("client-00", "client-01")


def elsewhere(line: Line, about: str) -> dict[str, bytes]:
    """What one client would send in another run, or in answer to another request: the keys are the same."""
    sent: dict[str, bytes] = {}
    trip = next(trip for trip in line.trips if trip.to == "clients")
    header, (request, *keys) = unpack(trip.messages["client-00"])
    if about == "request":
        request = line.of.request(step=1).to_bytes()
    other = pack(header, request, *keys)
    for client in line.of.clients:
        sent[client] = line.of.reply(client, other) or b""
    return sent


@pytest.mark.parametrize("pinned", [True, False])
def test_submissions_to_another_request(tmp_path: Path, pinned: bool) -> None:
    first = Line(poll(scale=0.0, pinned=pinned), tmp_path / "first")
    first.command()
    other = elsewhere(first, "request")
    line = Line(poll(scale=0.0, pinned=pinned), tmp_path / "line")
    line.of.forged = {"client-03": lambda of, client, message: other[client]}
    outcome = line.of.open(line.exchange)
    assert set(outcome.missing) == {"client-03"}
    assert list(outcome.values) == line.of.total("client-03")


def test_submissions_of_another_run_are_for_keys_that_nobody_has(tmp_path: Path) -> None:
    of = poll(scale=0.0)
    nodes, other = of.nodes(tmp_path), "f" * 32
    of.open(of.through(stepped(nodes)), run=other)
    sent = next(replies for trip, replies in of.record if trip.to == "clients")
    of.forged = {"client-02": lambda of, client, message: sent[client]}
    outcome = of.open(of.through(stepped(nodes)))
    assert set(outcome.missing) == {"client-02"}
    assert list(outcome.values) == of.total("client-02")


def two_minds(of: Poll, client: str, message: bytes) -> tuple[Submission, Submission]:
    """Two submissions of one client, both honest."""
    return tuple(of.sealed(client, message, of.shares(client, ballot)) for ballot in ([1, 1, 0, 0], [0, 0, 1, 1]))  # type: ignore[return-value]


@pytest.mark.parametrize("digests", ["the first's", "the second's"])
def test_a_submission_that_is_mixed_from_two(tmp_path: Path, digests: str) -> None:
    def forge(of: Poll, client: str, message: bytes) -> bytes:
        one, other = two_minds(of, client, message)
        named = one if digests == "the first's" else other
        return replace(named, envelopes=(one.envelopes[0], *other.envelopes[1:])).to_bytes()

    line = Line(poll(scale=0.0), tmp_path)
    line.of.forged = {"client-04": forge}
    outcome = line.of.open(line.exchange)
    assert set(outcome.missing) == {"client-04"}
    assert list(outcome.values) == line.of.total("client-04")


@pytest.mark.parametrize("kind", ["two submissions of one client", "two orders", "a client less"])
def test_nodes_that_do_not_hold_the_same_open_nothing_and_take_no_other_list(tmp_path: Path, kind: str) -> None:
    """Then the run is over: a second list would be a second opening of the same ballots."""
    line = Line(poll(), tmp_path)
    kept: list[Submission] = []

    def forge(of: Poll, client: str, message: bytes) -> bytes:
        kept[:] = two_minds(of, client, message)
        return kept[0].to_bytes()

    def other(message: bytes) -> bytes:
        _, parts = unpack(message)
        return changed(message, [*parts[:-1], kept[1].delivery(3).to_bytes()])

    if kind == "two submissions of one client":
        line.of.forged = {"client-04": forge}
        tampered(line, "submissions", "node-3", other)
    else:
        names = list(line.of.clients)
        told = names[::-1] if kind == "two orders" else names[1:]
        tampered(line, "list", "node-3", lambda message: changed(message, clients=told))
    with pytest.raises(AbortedError, match="nothing is"):
        line.command()
    line.before = _nothing
    line.restart()
    with pytest.raises(AbortedError, match="nothing is|nothing can"):
        line.command()
    at = max(said(trip.messages["node-1"])["at"] for trip in line.trips if trip.to == "nodes") + 1
    messages = {"is": "list", "at": at, "step": 0, "clients": list(line.of.clients[1:])}
    keys = unpack(
        next(trip for trip in line.trips if said(trip.messages.get("node-1", b"") or _NONE)["is"] == "list").messages[
            "node-1"
        ]
    )[1]
    for node in line.nodes.values():
        reply = said(node.step(pack({"kind": "quorum", "run": RUN, **messages}, *keys)))
        assert reply["kind"] == "refused"


_NONE = pack({"is": ""})
