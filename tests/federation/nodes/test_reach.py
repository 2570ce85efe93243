"""The coordinator's side: whatever dies or breaks on the way, a run opens what it would have opened."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from tests.federation.nodes.harness import END, KEY, SECRET, Site, alive, free_address, served, until
from tests.seals.quorum.room import RUN, said

from hushtune.core.errors import AbortedError, SettingError
from hushtune.core.secret import Secret
from hushtune.federation.base import Dropped
from hushtune.federation.nodes import reach
from hushtune.federation.nodes.front import listening
from hushtune.federation.nodes.reach import Nodes
from hushtune.federation.nodes.streams import LARGEST
from hushtune.seals.ends import Trip

NAMES = ("node-1", "node-2", "node-3")


def pids(nodes: Nodes) -> list[int]:
    ways: Any = nodes._ways.values()
    return [way._process._child.pid for way in ways if hasattr(way, "_process") and way._process._child]


def same_again(site: Site, nodes: Nodes) -> None:
    """Everything that nodes were told, again: they say the same to the byte."""
    told = [(trip, replies) for trip, replies in site.room.record if trip.to == "nodes"]
    assert len(told) > 5
    for trip, replies in told:
        assert nodes.exchange(trip.messages) == replies


def test_own_processes_are_killed_at_any_time(tmp_path: Path) -> None:
    site, count = Site(tmp_path), [0]

    def kill(trip: Trip) -> None:
        count[0] += 1
        if count[0] in (2, 4, 7):
            os.kill(pids(nodes)[count[0] % 3], signal.SIGKILL)

    with closing(site.nodes()) as nodes:
        assert pids(nodes) == []  # none before the first exchange
        assert site.open(nodes, kill) == site.room.total()
        first = pids(nodes)
        nodes.close()
        assert not any(map(alive, first))
        same_again(site, nodes)
        assert all(said(reply)["is"] == "ended" for reply in nodes.exchange(dict.fromkeys(NAMES, END)).values())
    assert not any(map(alive, pids(nodes)))
    assert not [path for path in (tmp_path / "nodes").rglob("*") if path.is_file()]


def test_a_front_is_killed_and_comes_back(tmp_path: Path) -> None:
    address = free_address()
    site = Site(tmp_path, node1=address)
    with ExitStack() as stack, closing(site.nodes()) as nodes:
        running = [stack.enter_context(site.front("node-1", address))]
        count = [0]

        def kill(trip: Trip) -> None:
            count[0] += 1
            if count[0] == 4:
                running[0].kill()
                running[0].wait()
                running.append(stack.enter_context(site.front("node-1", address)))

        assert site.open(nodes, kill) == site.room.total()
        assert len(running) == 2
        same_again(site, nodes)


@pytest.mark.long
def test_every_process_is_killed_at_every_message(tmp_path: Path) -> None:
    address = free_address()
    site = Site(tmp_path, node1=address)
    with ExitStack() as stack, closing(site.nodes()) as nodes:
        running = [stack.enter_context(site.front("node-1", address))]

        def kill(trip: Trip) -> None:
            for replies in range(2):
                if replies:
                    nodes.exchange(trip.messages)
                running[-1].kill()
                running[-1].wait()
                running.append(stack.enter_context(site.front("node-1", address)))
                for pid in pids(nodes):
                    os.kill(pid, signal.SIGKILL)

        assert site.open(nodes, kill) == site.room.total()
        same_again(site, nodes)


def test_a_node_that_is_away_is_waited_for_so_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "_PAUSES", (0.01, 0.01))
    address = free_address()
    site = Site(tmp_path, node1=address)
    with closing(site.nodes(patience=0.2)) as nodes:
        replies = nodes.exchange(dict.fromkeys(NAMES[:2], KEY))
        assert isinstance(replies["node-1"], Dropped)
        assert replies["node-1"].reason == f"no reply from {address} in 0.2 seconds: Connection refused"
        assert said(replies["node-2"])["is"] == "key"  # type: ignore[arg-type]
        with pytest.raises(
            AbortedError, match="node-1: no reply from .* when it is there again, give the same command"
        ):
            site.open(nodes)
    tried, dial = threading.Event(), reach.dialled

    def dialled(*given: Any) -> Any:
        try:
            return dial(*given)
        finally:
            tried.set()

    monkeypatch.setattr(reach, "dialled", dialled)
    with closing(site.nodes()) as nodes:
        found: list[Any] = []
        asking = threading.Thread(target=lambda: found.append(nodes.exchange({"node-1": KEY})))
        asking.start()
        assert tried.wait(60)
        with served(site.process("node-1", served=True), address):
            asking.join()
            assert said(found[0]["node-1"])["is"] == "key"
            assert nodes.exchange({"node-1": KEY}) == found[0]


def test_one_that_hangs_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    address = free_address()
    site = Site(tmp_path, node1=address)
    process = site.process("node-1", served=True)
    with served(process, address), closing(site.nodes(longest=0.3)) as nodes:
        assert process._child is not None
        until(lambda: said(nodes.exchange({"node-1": KEY})["node-1"]).get("is") == "key")  # type: ignore[arg-type]
        os.kill(process._child.pid, signal.SIGSTOP)
        assert nodes.exchange({"node-1": KEY})["node-1"] == Dropped(f"no reply from {address} in 0.3 seconds")
        os.kill(process._child.pid, signal.SIGCONT)


def test_an_impostor_hears_nothing(tmp_path: Path) -> None:
    address = free_address()
    site = Site(tmp_path, node1=address)
    with served(site.process("node-2", served=True), address), closing(site.nodes(patience=0.1)) as nodes:
        (reply,) = nodes.exchange({"node-1": KEY}).values()
        assert isinstance(reply, Dropped)
        assert "but got none that its key in the roster has signed" in reply.reason
    assert not list((tmp_path / "nodes" / "node-2").glob("*.token"))


def test_messages_of_a_run_are_from_one_coordinator(tmp_path: Path) -> None:
    site = Site(tmp_path)
    with closing(site.nodes()) as nodes:
        first = nodes.exchange(dict.fromkeys(NAMES, KEY))
    assert len({path.read_bytes() for path in (tmp_path / "nodes").rglob("*.token")}) == 3
    other = Nodes(site.roster, Secret(lambda: b"x" * 32), site.own, command=nodes._ways["node-1"]._process._command)  # type: ignore[attr-defined]
    with closing(other):
        for message in (KEY, END):
            assert "somebody else" in said(other.exchange({"node-1": message})["node-1"])["reason"]  # type: ignore[arg-type]
    with closing(site.nodes()) as again:
        assert again.exchange(dict.fromkeys(NAMES, KEY)) == first


def test_tokens_are_of_one_run_and_one_node(tmp_path: Path) -> None:
    """With a token for all nodes, one of them could speak to the others in the coordinator's name."""
    nodes = Site(tmp_path).nodes()
    token = nodes._token("node-1", RUN)
    assert len(token) == 32
    assert token == Site(tmp_path / "again").nodes()._token("node-1", RUN)
    other = Nodes(Site(tmp_path).roster, Secret(lambda: b"x" * 32), Site(tmp_path).own)
    assert token not in (nodes._token("node-2", RUN), nodes._token("node-1", "f" * 32), other._token("node-1", RUN))


def test_what_cannot_be_sent(tmp_path: Path) -> None:
    site = Site(tmp_path)
    with pytest.raises(SettingError, match="must have an address, but 'node-1' of the roster has none"):
        Nodes(site.roster, SECRET)
    with closing(site.nodes()) as nodes:
        with pytest.raises(SettingError, match="but got some for \\['stranger'\\]"):
            nodes.exchange({"node-1": KEY, "stranger": KEY})
        assert nodes.exchange({"node-1": KEY + bytes(LARGEST)}) == {
            "node-1": Dropped(f"a message must have at most {LARGEST} bytes, but got {LARGEST + len(KEY)}")
        }
        assert pids(nodes) == []


def test_a_process_that_cannot_be_started_is_a_node_without_a_reply(tmp_path: Path) -> None:
    site = Site(tmp_path)
    with closing(Nodes(site.roster, SECRET, site.own, command=(sys.executable, "-c", "1"))) as nodes:
        (reply,) = nodes.exchange({"node-1": KEY}).values()
    assert isinstance(reply, Dropped)
    assert "a node's process must start, but it ended with exit code 0" in reply.reason


def test_what_nobody_expects_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*given: Any) -> Any:
        raise ZeroDivisionError

    with closing(Site(tmp_path).nodes()) as nodes:
        monkeypatch.setattr(reach._Started, "ask", fails)
        with pytest.raises(ZeroDivisionError):
            nodes.exchange({"node-1": KEY})


INTERRUPTED = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.federation.nodes.harness import KEY, Site
import os, signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs ignore it
site = Site(Path(sys.argv[2]), node1=sys.argv[3])
nodes = site.nodes(patience=600)
nodes.exchange({"node-2": KEY, "node-3": KEY})
pids = [way._process._child.pid for way in list(nodes._ways.values())[1:]]
os.kill(pids[0], signal.SIGSTOP)
print(*pids, flush=True)
try:
    nodes.exchange(dict.fromkeys(("node-1", "node-2", "node-3"), KEY))
except KeyboardInterrupt:
    import threading
    from tests.federation.nodes.harness import alive, until
    until(lambda: threading.active_count() == 1)
    print("interrupted", *map(alive, pids), flush=True)
"""


def test_ctrl_c_ends_an_exchange_at_once_and_leaves_no_process(tmp_path: Path) -> None:
    """One node says nothing, one hangs, one has answered."""
    address = free_address()
    root = str(Path(__file__).parents[3])
    command = [sys.executable, "-c", INTERRUPTED, root, str(tmp_path), address]
    with listening(address) as silent:
        parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert parent.stdout is not None
        children = [int(pid) for pid in parent.stdout.readline().split()]
        silent.setblocking(True)
        connection, _ = silent.accept()
        parent.send_signal(signal.SIGINT)
        connection.close()
    assert parent.communicate(timeout=60)[0] == "interrupted False False\n"
    assert parent.returncode == 0
    assert len(children) == 2
    assert not any(map(alive, children))
