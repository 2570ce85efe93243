"""`tune`: the one call that runs a method over clients."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from hushtune.adaptive import Adaptive
from hushtune.checks import kind
from hushtune.client import Client
from hushtune.errors import SettingError
from hushtune.federation.base import Federation
from hushtune.federation.local import LocalFederation
from hushtune.privacy.guarantee import Privacy
from hushtune.privacy.ledger import Ledger
from hushtune.privacy.release import parts_of
from hushtune.progress import Progress
from hushtune.result import Result
from hushtune.roster import Roster
from hushtune.rows import Parts
from hushtune.run import Method, Run
from hushtune.runfolder import RunFolder
from hushtune.seals.base import Seal
from hushtune.seals.masked import Masked
from hushtune.search import Search
from hushtune.simulation import Shortcut, Simulation
from hushtune.space import Candidates

log = logging.getLogger("hushtune")

Figures = Callable[[Method, Run, int], dict[str, Any] | None]


def tune(
    clients: Sequence[Client],
    candidates: Candidates,
    *,
    method: Method,
    privacy: Privacy | None = None,
    seal: Seal | None = None,
    roster: Roster | None = None,
    search: Search | None = None,
    simulation: Simulation | None = None,
    ledger: Ledger | None = None,
    folder: str | Path | None = None,
    home: str | Path | None = None,
    jobs: int | None = None,
    quiet: bool = False,
) -> Result:
    """Has clients agree on one candidate, and states what that revealed.

    Args:
        clients: the parties, in public order.
        candidates: the public list to choose from: `space.grid(...)`, `space.sample(...)`, `space.candidates(...)`.
        method: who is asked what, and how the server decides, e.g. `Vote()`.
        privacy: the guarantee for everything opened. None: exact values are opened, and the statement says so.
        seal: how single contributions stay hidden. Default: `Masked()`.
        roster: the pinned roster that all clients were given. Default: made of the clients' identities, if any.
        search: how clients fill their trials. Default: every candidate is scored.
        simulation: marks the run as a simulation: seeded, never charged, reference figures allowed.
        ledger: the coordinator's ledger. Default: one per set of clients, under `home`. A ledger that does not
            exist yet is made with this run's epsilon and delta as its limit.
        folder: where the run keeps its state; the same call with the same folder resumes it.
        home: folder of ledgers and cached trials. Default: $HUSHTUNE_HOME, else .hushtune in the current folder.
        jobs: processes for scoring. Default: one per core.
        quiet: no progress bars.

    Raises:
        SettingError: a setting breaks a constraint; nothing was spent.
        BudgetError: a ledger's limit would be exceeded; nothing was spent.
        AbortedError: too few clients answered; nothing was opened, but the budget stays reserved, unless nobody was
            asked for an input yet.
    """
    kind("roster", roster, Roster)
    kind("simulation", simulation, Simulation)
    kind("privacy", privacy, Privacy)
    _settled(candidates, method, len(clients), privacy).bounds(candidates)  # refused before anything is written
    seed = simulation.seed if simulation is not None else None
    federation = LocalFederation(clients, Path(home) if home is not None else None, roster, seed, jobs)
    search = search or Search()

    def figures(settled: Method, run: Run, chosen: int) -> dict[str, Any] | None:
        assert simulation is not None
        parts = parts_of(settled.voters, privacy)
        return _figures(simulation, settled, parts, run, chosen, search, federation, Progress(quiet))

    return conduct(federation, candidates, method, privacy, seal, search, ledger, folder, quiet, seed, figures=figures)


def conduct(
    federation: Federation,
    candidates: Candidates,
    method: Method,
    privacy: Privacy | None,
    seal: Seal | None,
    search: Search | None,
    ledger: Ledger | None,
    folder: str | Path | None,
    quiet: bool,
    seed: int | None,
    figures: Figures | None = None,
) -> Result:
    """One run over whatever federation. The arguments are those of `tune`, but for two.

    Args:
        seed: of a marked simulation; None: a real run.
        figures: gives a simulation's reference figures, from the settled method, the run and the chosen candidate.
    """
    for name, value, wanted in (
        ("privacy", privacy, Privacy),
        ("seal", seal, Seal),
        ("search", search, Search),
        ("ledger", ledger, Ledger),
    ):
        kind(name, value, wanted)
    method = _settled(candidates, method, len(federation.roster), privacy)
    bounds = method.bounds(candidates)
    seal, search, progress = seal or Masked(), search or Search(), Progress(quiet)
    if isinstance(search, Adaptive):
        raise SettingError(f"method '{method.name}' needs every candidate scored: use Search(), not Search.adaptive()")
    place = Path(folder) if folder is not None else None
    seal.check(len(federation.roster))
    parts = parts_of(method.voters, privacy)
    federation.check(candidates.space, parts)
    if seed is not None:
        ledger = None
    elif ledger is None:
        ledger = federation.coordinator_ledger()
    state = RunFolder(place, _settings(candidates, method, privacy, seal, search, seed, federation))
    with _clock("calibrate") as calibrating:
        run = Run(state, candidates, search.seed, federation, seal, privacy, bounds, method.voters, ledger, progress)
        run.check_budget()
        federation.check_ledgers(run.charge(), seal.needed(len(federation.roster)))
    state.begin()
    log.info("run %s: %d candidates, %d clients", run.id, len(candidates), len(federation.roster))
    with _clock("score") as scoring:
        federation.score(search, candidates, progress, privacy is not None, parts)
    with _clock("ask and choose") as asking:
        config = method.run(run)
    result = run.result(config, method_to_json(method), calibrating | scoring | asking)
    result.traffic = federation.traffic.per_client(len(federation.roster))
    if seed is not None:
        with _clock("reference figures") as referring:
            found = figures(method, run, result.index) if figures is not None else None
        result.simulation = {"seed": seed, "figures": found}
        result.seconds |= referring
    if place is not None:
        result.save(place)
    return result


def method_to_json(method: Method) -> dict[str, Any]:
    """Name and settings of a method."""
    return {"name": method.name, **asdict(method)}  # type: ignore[call-overload]


def _settled(candidates: Any, method: Any, clients: int, privacy: Privacy | None) -> Method:
    if not isinstance(candidates, Candidates):
        raise SettingError(
            "candidates must be a finite public list: space.grid(...), space.sample(...) or "
            f"space.candidates(...), but got {type(candidates).__name__}"
        )
    if not hasattr(method, "bounds") or isinstance(method, type):
        raise SettingError(f"method must be a method such as Vote(), but got {method!r}")
    if method.voters > 1 and privacy is not None and privacy.unit == "client":
        raise SettingError(
            f"voters={method.voters} needs privacy with unit='record': for unit='client' each client has one voter"
        )
    settled: Method = method.settled(candidates, clients, privacy)
    return settled


def _settings(
    candidates: Candidates,
    method: Method,
    privacy: Privacy | None,
    seal: Seal,
    search: Search,
    seed: int | None,
    federation: Federation,
) -> str:
    """One text for everything that must be the same when a run is taken up again."""
    parts = [
        candidates.to_json(),
        method_to_json(method),
        privacy and privacy.to_json(),
        seal.to_json(),
        asdict(search),
        seed,
        federation.key(),
    ]
    return sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@contextmanager
def _clock(name: str) -> Iterator[dict[str, float]]:
    """A dictionary that holds the seconds spent inside, once it is over."""
    seconds: dict[str, float] = {}
    start = time.monotonic()
    yield seconds
    seconds[name] = time.monotonic() - start


def _figures(
    simulation: Simulation,
    method: Method,
    parts: Parts,
    run: Run,
    chosen: int,
    search: Search,
    federation: LocalFederation,
    progress: Progress,
) -> dict[str, Any] | None:
    """Scores of the chosen candidate, of `opt` and `random_guess`, and of each decoding over many noise draws."""
    if simulation.reference is None:
        return None
    candidates = run.candidates
    stand_in = LocalFederation([simulation.reference], federation.home, None, simulation.seed, federation.jobs)
    stand_in.score(search, candidates, progress, private=False, name="reference figures")
    (party,) = stand_in.parties.values()
    scores = 1 - party.losses(candidates.configs, search.seed)
    if not np.isfinite(scores).any():
        raise SettingError("the simulation's reference must score at least one candidate, but all of them failed")
    scores = np.where(np.isfinite(scores), scores, np.nanmin(scores[np.isfinite(scores)]))  # failed: as bad as any
    parties = list(federation.parties.values())
    shortcut = Shortcut(parties, parts, candidates, search.seed, run.share_variance * len(parties), simulation.seed)
    arms = method.variants()
    means = {}
    with progress.phase("noise draws", len(arms) * simulation.draws) as advance:
        for name, arm in arms.items():
            found = []
            for _ in range(simulation.draws):
                found.append(scores[candidates.index(arm.run(shortcut))])
                advance(1)
            means[name] = float(np.mean(found))
    return {
        "chosen": float(scores[chosen]),
        "opt": float(scores.max()),
        "random_guess": float(scores.mean()),
        "draws": simulation.draws,
        "means": means,
    }
