"""What a node runs as a process, but that it reads the requests of these tests: `program.py inside`, or `program.py
front` with what `harness.py` gives it as JSON on the standard input."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.seals.quorum.room import Room

from hushtune.core.roster import Roster
from hushtune.federation.nodes import inside
from hushtune.federation.nodes.front import Front, listening
from hushtune.federation.nodes.own import heard
from hushtune.federation.nodes.process import Process
from hushtune.privacy.bounds import KHot
from hushtune.seals.quorum.node import Read, Task

INSIDE = (sys.executable, __file__, "inside")
BOUND = KHot(1, 2)


LONG = b"a request that takes long"


def reader(roster: Roster) -> Read:
    print("a stray line, which must not get into the pipe", flush=True)
    read = Room(Path("nowhere"), n=len(roster), m=len(roster.nodes), bound=BOUND).read

    def slow(request: bytes) -> Task:
        if request == LONG:
            print("it takes long", file=sys.stderr, flush=True)
            time.sleep(600)
        return read(request)

    return slow


def front() -> None:
    given = json.loads(sys.stdin.readline())
    own, roster = heard(given["told"].encode())
    served = Front(Process(own, roster, INSIDE), listening(given["listen"]))
    print("ready", flush=True)
    served.serve()


if __name__ == "__main__":
    if sys.argv[1] == "inside":
        inside.main(reader)
    else:
        front()
