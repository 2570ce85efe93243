"""One run's clients and nodes, the nodes in processes of their own."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.federation.nodes.program import BOUND, INSIDE
from tests.seals.quorum.room import RUN, Room, seeded

from hushtune.core.roster import NodeEntry, Roster
from hushtune.core.secret import Secret
from hushtune.core.wire import pack
from hushtune.federation.nodes.front import Front, listening
from hushtune.federation.nodes.own import Own, told
from hushtune.federation.nodes.process import Process
from hushtune.federation.nodes.reach import Nodes
from hushtune.seals.ends import Replies, Trip

SECRET = Secret(lambda: b"s" * 32)
KEY = pack({"kind": "quorum", "run": RUN, "is": "key", "at": 0})
END = pack({"kind": "quorum", "run": RUN, "is": "end"})


TOKEN = b"t" * 32


def framed(message: bytes = KEY, token: bytes = TOKEN, run: str = RUN) -> bytes:
    """What a coordinator sends."""
    return token + run.encode() + message


def until(holds: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, "it never came to hold"
        time.sleep(0.01)


def alive(pid: int) -> bool:
    """Whether a process runs; one that nobody has waited for yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def free_address() -> str:
    """Where nothing listens now, outside of the range from which systems choose."""
    for port in range(20000 + 10 * (os.getpid() % 1000), 32000):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)):
                return f"127.0.0.1:{port}"
    raise AssertionError("no port is free")


class Site:
    """A room's run with nodes elsewhere.

    Args:
        folder: of everything.
        addresses: of nodes, by name; the others are started here.
    """

    def __init__(self, folder: Path, **addresses: str) -> None:
        self.folder = folder
        self.room = Room(folder / "room", n=2, bound=BOUND)
        entries = [NodeEntry(name, seeded(name).public, addresses.get(_word(name), "")) for name in self.room.names]
        keys = tuple(seeded(name).public for name in self.room.clients)
        self.roster = Roster(tuple(self.room.clients), keys, bytes(32), tuple(entries))

    def own(self, entry: NodeEntry, served: bool = False) -> Own:
        return Own(entry.name, seeded(entry.name), self.folder / "nodes", served=served)

    def process(self, name: str = "node-1", served: bool = False) -> Process:
        (entry,) = (entry for entry in self.roster.nodes if entry.name == name)
        return Process(self.own(entry, served), self.roster, INSIDE)

    def nodes(self, **settings: Any) -> Nodes:
        return Nodes(self.roster, SECRET, self.own, command=INSIDE, **settings)

    def open(self, nodes: Nodes, before: Callable[[Trip], None] = lambda trip: None) -> list[int]:
        """What the nodes open, and what must come back byte for byte whenever it is sent again."""

        def exchange(trip: Trip) -> Replies:
            if trip.to == "clients":
                return self.room.exchange(trip)
            before(trip)
            replies = nodes.exchange(trip.messages)
            self.room.record.append((trip, replies))
            return replies

        return [int(value) for value in self.room.open(exchange=exchange).values]

    @contextmanager
    def front(self, name: str, address: str) -> Iterator[subprocess.Popen[str]]:
        """A node's front in a process of its own."""
        (entry,) = (entry for entry in self.roster.nodes if entry.name == name)
        command = [sys.executable, str(Path(__file__).with_name("program.py")), "front"]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            assert child.stdin is not None
            assert child.stdout is not None
            given = {"told": told(self.own(entry, served=True), self.roster).decode(), "listen": address}
            child.stdin.write(json.dumps(given) + "\n")
            child.stdin.flush()
            assert child.stdout.readline() == "ready\n"
            yield child
        finally:
            child.kill()
            child.communicate()


def _word(name: str) -> str:
    return name.replace("-", "")


@contextmanager
def served(process: Process, address: str = "127.0.0.1:0") -> Iterator[tuple[Front, str]]:
    """A front in a thread of this process, and where it listens."""
    listener = listening(address)
    front = Front(process, listener)
    thread = threading.Thread(target=front.serve)
    thread.start()
    try:
        yield front, "{}:{}".format(*listener.getsockname())
    finally:
        front.close()
        thread.join()
