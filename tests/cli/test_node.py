"""`hushtune node`: a process that listens, knows nothing worth stealing, and goes on where it was."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from tests.cli.conftest import Hushtune
from tests.federation.nodes.harness import KEY, SECRET, Site, alive, free_address, until
from tests.seals.quorum.room import RUN, said, seeded

from hushtune.core.roster import Roster
from hushtune.federation.nodes.front import listening
from hushtune.federation.nodes.reach import Nodes

HUSHTUNE = (sys.executable, "-c", "from hushtune.cli import main; main()")


class Place:
    """A roster's file, and the identities' files of its nodes.

    Args:
        folder: of everything.
        address: of node-1.
    """

    def __init__(self, folder: Path, address: str = "127.0.0.1:7001") -> None:
        self.folder = folder
        self.roster = Site(folder, node1=address, node2="127.0.0.1:7002", node3="127.0.0.1:7003").roster
        self.roster.save(folder / "roster.toml")
        for node in self.roster.nodes:
            seeded(node.name).save(folder / node.name)
        seeded("stranger").save(folder / "stranger")

    def arguments(self, listen: str = "127.0.0.1:0", identity: str = "node-1") -> tuple[str, ...]:
        of = str(self.folder / identity)
        return "node", "--listen", listen, "--identity", of, "--roster", str(self.folder / "roster.toml")

    @contextmanager
    def running(self, *more: str, listen: str = "127.0.0.1:0") -> Iterator[subprocess.Popen[str]]:
        """The program, once it is ready; what it has printed is its `args`' last entry."""
        command = [*HUSHTUNE, *self.arguments(listen), "--home", str(self.folder / "home"), *more]
        heard = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heard)  # noqa: PLW1509
        try:
            assert child.stdout is not None
            command.append(child.stdout.readline())
            child.args = command
            yield child
        finally:
            child.kill()
            child.communicate()


def inside_of(front: subprocess.Popen[str]) -> int:
    """The process that its front has started."""
    (child,) = Path(f"/proc/{front.pid}/task/{front.pid}/children").read_text().split()
    return int(child)


def remembered(pid: int, *wanted: bytes) -> set[bytes]:
    """What of it stands in a process's memory."""
    found = set()
    with Path(f"/proc/{pid}/mem").open("rb", 0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            begin, end, mode = re.match(r"(\w+)-(\w+) (\S+)", line).groups()  # type: ignore[union-attr]
            if mode.startswith("rw"):
                memory.seek(int(begin, 16))
                content = memory.read(int(end, 16) - int(begin, 16))
                found |= {one for one in wanted if one in content}
    return found


def test_it_is_killed_and_goes_on_and_only_its_process_knows_the_identity(tmp_path: Path) -> None:
    address = free_address()
    place = Place(tmp_path, address)
    secret = seeded("node-1").secret
    wanted = secret, secret.hex().encode()
    with closing(Nodes(place.roster, SECRET)) as nodes:
        with place.running(listen=address) as front:
            assert front.args[-1] == (  # type: ignore[index]
                f"node-1 listens on {address}, one of 3 nodes for 2 clients; it keeps runs in "
                f"{tmp_path}/home/nodes/node-1; Ctrl-C ends it\n"
            )
            reply = nodes.exchange({"node-1": KEY})
            assert said(reply["node-1"])["is"] == "key"  # type: ignore[arg-type]
            inside = inside_of(front)
            assert remembered(front.pid, *wanted) == set()
            assert secret in remembered(inside, *wanted)
            front.kill()
            front.wait()
            until(lambda: not alive(inside))
        with place.running("--json", listen=address) as front:
            assert json.loads(front.args[-1]) == {  # type: ignore[index]
                "name": "node-1",
                "folder": f"{tmp_path}/home/nodes/node-1",
                "address": address,
                "nodes": 3,
                "clients": 2,
            }
            assert nodes.exchange({"node-1": KEY}) == reply
            inside = inside_of(front)
            front.send_signal(signal.SIGTERM)
            assert front.communicate() == ("", "")
            assert front.returncode == 0
            assert not alive(inside)


def test_ctrl_c_ends_it_and_a_folder_has_one(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with place.running() as front:
        (port,) = re.findall(r" listens on 127\.0\.0\.1:(\d+), ", front.args[-1])  # type: ignore[index]
        with socket.create_connection(("127.0.0.1", int(port)), timeout=30):
            command = [*HUSHTUNE, *place.arguments(), "--home", str(tmp_path / "home")]
            second = subprocess.run(command, capture_output=True, text=True, check=False)
            assert (second.returncode, second.stdout) == (2, "")
            assert re.fullmatch(
                r"error: node 'node-1' must have \S+ to itself, but another process .*\n", second.stderr
            )
            inside = inside_of(front)
            front.send_signal(signal.SIGINT)
            out, err = front.communicate()
        assert out.endswith("the node has ended; it keeps its runs until it is started again\n")
        assert err == ""
        assert front.returncode == 0
        assert not alive(inside)


def test_old_runs_go_when_it_starts(tmp_path: Path) -> None:
    place = Place(tmp_path)
    folder = tmp_path / "home" / "nodes" / "node-1" / RUN
    folder.mkdir(parents=True)
    for path in (folder / "secret", folder / "journal", folder.with_suffix(".token")):
        path.touch()
        os.utime(path, (0, 0))
    with place.running("--keep-days", "1"):
        until(lambda: not folder.exists() and not folder.with_suffix(".token").exists())


def test_what_is_refused_is_one_line(hushtune: Hushtune, tmp_path: Path) -> None:
    place = Place(tmp_path)
    roster = str(tmp_path / "roster.toml")
    two = tmp_path / "two.toml"
    replace(place.roster, nodes=place.roster.nodes[:2]).save(two)
    none = tmp_path / "none.toml"
    Roster(place.roster.ids, place.roster.keys, place.roster.seed).save(none)
    free = place.arguments()
    with listening("127.0.0.1:0") as taken:
        port = taken.getsockname()[1]
        for arguments, message in (
            (place.arguments(identity="stranger"), "3 nodes with other keys (node-1, node-2, node-3); make one with"),
            (place.arguments(identity="nothing"), "nothing cannot be read: No such file or directory"),
            (place.arguments(identity="roster.toml"), "must be a file made by `hushtune identity new`"),
            ((*free, "--name", "node-2"), "the node's name must be 'node-1', as in the roster, but got 'node-2'"),
            ((*free, "--roster", roster), "a node must be given --roster once, but got it 2 times"),
            ((*free, "--identity", roster), "a node must be given --identity once, but got it 2 times"),
            ((*free, "--listen", "x:1"), "a node must be given --listen once, but got it 2 times"),
            ((*free[:-1], str(two)), "nodes must be one of [3, 5, 7], but got 2"),
            ((*free[:-1], str(none)), "the roster must name a node with this identity's key, but it names no nodes"),
            ((*free[:-1], str(tmp_path / "no")), "no cannot be read: No such file or directory"),
            (place.arguments("7000"), "--listen must be HOST:PORT, with port 0 for any free one, but got '7000'"),
            (place.arguments(f"127.0.0.1:{port}"), f"'127.0.0.1:{port}' is not: Address already in use; choose"),
            ((*free, "--keep-days", "0"), "0 is not in the range"),
            ((*free, "--home", ""), "must name a folder, but got ''"),
            (free[:3], "Missing option '--identity'; see `hushtune node --help`"),
        ):
            failed = hushtune(*arguments)
            assert (failed.returncode, failed.stdout) == (2, ""), failed
            (line,) = failed.stderr.splitlines()
            assert line.startswith("error: ")
            assert message in line
    (tmp_path / "home").write_text("no folder")
    failed = hushtune(*free)
    assert failed.returncode == 2
    assert len(failed.stderr.splitlines()) == 1
