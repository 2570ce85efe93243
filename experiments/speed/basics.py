"""What has no benchmark of its own: start-up, noise shares, a million simulated voters, trips, trials that are kept."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hushtune.client.client import Client
from hushtune.client.rows import WHOLE
from hushtune.client.search.base import Search
from hushtune.client.simulation import Simulation
from hushtune.core.arrays import FloatArray
from hushtune.core.identity import Identity
from hushtune.core.observer import Observer, Silent
from hushtune.core.randomness import SystemRandomness
from hushtune.core.roster import Roster
from hushtune.core.space import Candidates, Config, Float, Space
from hushtune.methods.vote.ballots import TopVotes
from hushtune.methods.vote.method import Vote
from hushtune.methods.vote.odds import Agreement, counts
from hushtune.privacy.accounting import Sums
from hushtune.privacy.bounds import KHot
from hushtune.privacy.calibration import calibrate
from hushtune.privacy.guarantee import Privacy
from hushtune.privacy.noise.base import Noise
from hushtune.review.pages import report
from hushtune.run.simulation import Shortcut
from hushtune.run.tuning import tune
from hushtune.seals.curator import Curator
from hushtune.seals.masked.seal import Masked
from hushtune.testing.conversation import Conversation

_HELP = "import sys; sys.argv = ['hushtune', '--help']; from hushtune.cli import main; main()"
STARTS = {
    "python alone": "pass",
    "import hushtune": "import hushtune",
    "import hushtune; hushtune.tune": "import hushtune; hushtune.tune",
    "hushtune --help": _HELP,
}
"""Programs whose start is measured, each in a process of its own."""

_COUNTED = "import atexit, sys; atexit.register(lambda: print(len(sys.modules), file=sys.stderr))\n"
_CANDIDATES, _VOTES, _GOOD, _CLIENTS = 100, 5, 5, 12
_EPSILONS = (1.0, 0.5)
_RUN = "0" * 32


def rows(voters: int, repeats: int, observer: Observer) -> Iterator[dict[str, Any]]:
    """All of it: `voters` in the simulated vote, and `repeats` starts of each program."""
    with observer.phase("basics", len(STARTS) + 5) as advance:
        for name, program in STARTS.items():
            yield {"name": name, **_start(program, repeats)}
            advance(1)
        yield _noise_shares()
        advance(1)
        yield _vote(voters)
        advance(1)
        for pinned in (False, True):
            yield _trips(pinned)
            advance(1)
        yield from _kept()
        advance(1)


def _start(program: str, repeats: int) -> dict[str, Any]:
    """Medians over processes; the first is not counted, it may have to read files from disk."""
    found = [_process(_COUNTED + program) for _ in range(repeats + 1)][1:]
    wall, cpu = (statistics.median(values) for values in zip(*(pair for *pair, _ in found), strict=True))
    return {"seconds": round(wall, 3), "cpu_seconds": round(cpu, 3), "modules": found[0][2], "processes": repeats}


def _process(program: str) -> tuple[float, float, int]:
    """Wall and CPU seconds of a Python process, and how many modules it has loaded."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu, int(done.stderr.split()[-1])


def _noise_shares(clients: int = 1_000) -> dict[str, Any]:
    """Every client's fresh share, one client after another, with the table that the first one makes."""
    noise = calibrate((KHot(_VOTES, _CANDIDATES),), Privacy(1.0), Sums())
    start = time.process_time()
    total = np.sum([noise.share(clients, _CANDIDATES, SystemRandomness()) for _ in range(clients)], axis=0)
    seconds = time.process_time() - start
    return {
        "name": "noise shares",
        "clients": clients,
        "length": _CANDIDATES,
        "cpu_seconds": round(seconds, 3),
        "variance": round(noise.variance, 1),
        "drawn_variance": round(float(np.mean(total**2)), 1),
    }


def _public() -> Candidates:
    return Space(x=Float(0.0, 1.0)).grid(x=_CANDIDATES)


def _vote(voters: int) -> dict[str, Any]:
    """A vote as a simulation does it: everybody's ballots, one sum, one draw of noise, one choice."""
    candidates, noise = _public(), calibrate((KHot(_VOTES, _CANDIDATES),), Privacy(1.0), Sums())
    start = time.process_time()
    exact = counts(voters, _CANDIDATES, [_VOTES], Agreement(_GOOD, 1.0), 1, np.random.default_rng(0))[_VOTES][0]
    scored = time.process_time()
    sums = {TopVotes(_VOTES, candidates, 0): exact}
    drawn = Curator(), Noise(noise.scale, "curator"), 1  # of its variance, however many voters there are
    shortcut = Shortcut([], WHOLE, candidates, Search(), *drawn, 0, sums)  # type: ignore[arg-type]
    config = Vote(_VOTES, decode="argmax", opens="sum").run(shortcut)
    end = time.process_time()
    return {
        "name": "simulated vote",
        "voters": voters,
        "candidates": _CANDIDATES,
        "cpu_seconds": round(end - start, 2),
        "noise_seconds": round(end - scored, 4),
        "peak_megabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "ballots": int(exact.sum()) // _VOTES,
        "good": candidates.index(config) < _GOOD,
    }


def _trips(pinned: bool) -> dict[str, Any]:
    """Message rounds of a run's first masked sum and of a later one."""
    identities = [Identity.new() if pinned else None for _ in range(_CLIENTS)]
    ids = tuple(f"client-{number}" for number in range(_CLIENTS))
    keys = tuple(identity.public for identity in identities if identity is not None)
    roster = Roster(ids, keys, os.urandom(32)) if pinned else Roster(ids)
    talk, made = Conversation(Masked(), roster, identities), [0]
    one = dict.fromkeys(ids, np.ones(1, dtype=np.int64))
    for request in (b"first", b"later"):
        outcome = talk.open(one, _CLIENTS, request=request, last=request == b"later")
        if outcome.values.tolist() != [_CLIENTS]:
            raise AssertionError("the masked sum is not exact")
        made.append(talk.trips)
    return {"name": "trips", "pinned": pinned, "clients": _CLIENTS, "first": made[1], "later": made[2] - made[1]}


@dataclass(frozen=True)
class _Counted:
    """Writes down how many configs it scores, whatever process it is in."""

    path: str

    def losses(self, configs: Sequence[Config], data: Any, seed: int) -> FloatArray:
        with Path(self.path).open("a") as file:
            file.write(f"{len(configs)}\n")
        return np.array([abs(config["x"] - data[0]) for config in configs])


def _kept() -> Iterator[dict[str, Any]]:
    """Configs scored by a vote, and by another one with another epsilon on the same clients; and its report."""
    scored = []
    with tempfile.TemporaryDirectory() as home:
        book, folder = Path(home) / "scored", Path(home) / "run"
        clients = [Client(np.array([number / _CLIENTS]), _Counted(str(book))) for number in range(_CLIENTS)]
        for epsilon in _EPSILONS:
            book.write_text("")
            tune(
                clients,
                _public(),
                method=Vote(),
                privacy=Privacy(epsilon),
                simulation=Simulation(seed=0),
                folder=folder / str(epsilon),
                home=home,
                jobs=1,
                observer=Silent(),
            )
            scored.append(sum(int(line) for line in book.read_text().split()))
        yield {"name": "rerun", "clients": _CLIENTS, "scored": scored[0], "scored_again": scored[1]}
        start = time.process_time()
        report(folder / str(epsilon))
        yield {"name": "report", "candidates": _CANDIDATES, "cpu_seconds": round(time.process_time() - start, 3)}
