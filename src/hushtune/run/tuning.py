"""`tune`: the one call that runs a method over clients."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from hushtune.adaptive import Adaptive
from hushtune.bounds import Bound
from hushtune.calibration import Training, left_in
from hushtune.checks import kind
from hushtune.client import Client
from hushtune.errors import SettingError
from hushtune.federation.base import Federation
from hushtune.federation.local import LocalFederation
from hushtune.method import Facts, Method
from hushtune.privacy.guarantee import Privacy
from hushtune.privacy.ledger import Ledger
from hushtune.privacy.request import parts_of
from hushtune.progress import Progress
from hushtune.reference import Reference
from hushtune.result import Result
from hushtune.roster import Roster
from hushtune.rows import Parts
from hushtune.run import Run
from hushtune.runfolder import RunFolder
from hushtune.seals.base import Seal
from hushtune.seals.masked import Masked
from hushtune.search import Search
from hushtune.simulation import Shortcut, Simulation
from hushtune.space import Candidates, Config, Domain, Space

log = logging.getLogger("hushtune")

Figures = Callable[[Method, Run, Config], dict[str, Any] | None]


def tune(
    clients: Sequence[Client],
    candidates: Domain,
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
    """Has clients agree on one config, and states what that revealed.

    Privacy: with `privacy` given, everything the run opens is (epsilon, delta)-differentially private for `privacy`'s
    unit and relation; the method's docstring has its theorem. The whole cost is reserved in the coordinator's ledger,
    and in each client's own, before anything leaves. Not covered: who takes part, how long a client takes, and the
    training that follows.

    Args:
        clients: the parties, in public order.
        candidates: the public list to choose from: `space.grid(...)`, `space.sample(...)`, `space.candidates(...)`; or
            the space itself, for a method that searches it.
        method: who is asked what, and how the server decides, e.g. `Vote()` or `Surface()`.
        privacy: the guarantee for everything opened. None: exact values are opened, and the statement says so.
        seal: how single contributions stay hidden. Default: `Masked()`.
        roster: the pinned roster that all clients were given. Default: made of the clients' identities, if any.
        search: how clients fill their trials. Default: `Search()`, every candidate is scored; for a method that takes
            it, `Search.adaptive()`, each client searches the space on its own.
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
        AbortedError: too few clients answered; its message says what was opened before. The budget stays reserved,
            unless nobody was asked for an input yet.
        SpentError: the run failed after its cost was reserved: a full disk, a file that was taken away.
    """
    kind("roster", roster, Roster)
    kind("simulation", simulation, Simulation)
    kind("privacy", privacy, Privacy)
    settled(candidates, method, len(clients), privacy, seal, search)  # refused before anything is written
    seed = simulation.seed if simulation is not None else None
    federation = LocalFederation(clients, Path(home) if home is not None else None, roster, seed, jobs)

    def figures(final: Method, run: Run, chosen: Config) -> dict[str, Any] | None:
        assert simulation is not None
        return _figures(simulation, final, parts_of(final.voters, privacy), run, chosen, federation, Progress(quiet))

    return conduct(federation, candidates, method, privacy, seal, search, ledger, folder, quiet, seed, figures=figures)


def conduct(
    federation: Federation,
    candidates: Domain,
    method: Method,
    privacy: Privacy | None,
    seal: Seal | None,
    search: Search | None,
    ledger: Ledger | None,
    folder: str | Path | None,
    quiet: bool,
    seed: int | None,
    figures: Figures | None = None,
    training: Training | None = None,
    ready: Callable[[], None] | None = None,
) -> Result:
    """One run over whatever federation. The arguments are those of `tune`, but for four.

    Args:
        seed: of a marked simulation; None: a real run.
        figures: gives a simulation's reference figures, from the settled method, the run and the chosen config.
        training: private training that follows and is charged with the run.
        ready: called when ledgers allow the run, before anything is written or spent.
    """
    kind("ledger", ledger, Ledger)
    own = privacy if training is None or privacy is None else training.before(privacy)
    final, facts, bounds = settled(candidates, method, len(federation.roster), own, seal, search)
    candidates, seal, search, progress = facts.candidates, facts.seal, facts.search, Progress(quiet)
    place = Path(folder) if folder is not None else None
    seal.check(len(federation.roster))
    federation.check(candidates.space, parts_of(final.voters, privacy))
    if seed is not None:
        ledger = None
    elif ledger is None:
        ledger = federation.coordinator_ledger()
    settings = _settings(candidates, final, privacy, seal, search, seed, federation, training)
    state = RunFolder(place, settings, left_in(ledger), seed is not None)
    wanted = None
    if state.left is not None and training is None:
        final, privacy = method.shortened(facts, state.left)
        bounds = final.bounds(candidates)
        wanted = facts.privacy.budget if facts.privacy is not None and facts.privacy != privacy else None
    with _clock("calibrate") as calibrating:
        run = Run(
            state,
            candidates,
            search,
            federation,
            seal,
            privacy,
            bounds,
            final.voters,
            ledger,
            progress,
            seed,
            wanted,
            training,
        )
        run.check_budget()
        federation.check_ledgers(run.charge(), seal.needed(len(federation.roster)))
    if ready is not None:
        ready()
    state.begin()
    log.info("run %s: %d candidates, %d clients", run.id, len(candidates), len(federation.roster))
    with run.accounted():
        with _clock("ask and choose") as asking:
            config = final.run(run)
        asking["ask and choose"] -= run.seconds_scoring
        seconds = calibrating | {"score": run.seconds_scoring} | asking
        result = run.result(config, method_to_json(final), seconds)
    result.traffic = federation.traffic.per_client(len(federation.roster))
    if seed is not None:
        with _clock("reference figures") as referring:
            found = figures(final, run, config) if figures is not None else None
        result.simulation = {"seed": seed, "figures": found}
        result.seconds |= referring
    if place is not None:
        with run.accounted():
            result.save(place)
    return result


def method_to_json(method: Method) -> dict[str, Any]:
    """Name and settings of a method."""
    plain = asdict(method)  # type: ignore[call-overload]
    return {"name": method.name, **{name: list(v) if isinstance(v, tuple) else v for name, v in plain.items()}}


def settled(
    domain: Any, method: Any, clients: int, privacy: Privacy | None, seal: Seal | None, search: Search | None
) -> tuple[Method, Facts, tuple[Bound, ...]]:
    """The method as it will be run, the facts that it follows from, and the bounds of all it will open."""
    for name, value, wanted in (("privacy", privacy, Privacy), ("seal", seal, Seal), ("search", search, Search)):
        kind(name, value, wanted)
    if not isinstance(method, Method):
        raise SettingError(f"method must be a method such as Vote(), but got {method!r}")
    seal, search = seal or Masked(), search or method.searched(domain)
    if isinstance(search, Adaptive) and not method.adaptive:
        raise SettingError(
            f"method '{method.name}' does not take Search.adaptive(): leave `search` out, or use Search()"
        )
    if method.voters > 1 and privacy is not None and privacy.unit == "client":
        raise SettingError(
            f"voters={method.voters} needs privacy with unit='record': for unit='client' each client has one voter"
        )
    search.check()
    if privacy is None and seal.noise_at == "curator":
        raise SettingError("seal 'curator' is for a server that adds noise: give `privacy`, or use seal 'clear'")
    candidates = method.listed(domain, privacy, seal)
    facts = Facts(candidates, clients, privacy, seal, search, whole=isinstance(domain, Space))
    final = method.settled(facts)
    return final, facts, final.bounds(facts.candidates)


def _settings(
    candidates: Candidates,
    method: Method,
    privacy: Privacy | None,
    seal: Seal,
    search: Search,
    seed: int | None,
    federation: Federation,
    training: Training | None,
) -> str:
    """One text for everything that must be the same when a run is taken up again."""
    parts = [
        candidates.to_json(),
        method_to_json(method),
        privacy and privacy.to_json(),
        seal.to_json(),
        search.to_json(),
        seed,
        federation.key(),
        training and asdict(training),
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
    chosen: Config,
    federation: LocalFederation,
    progress: Progress,
) -> dict[str, Any] | None:
    """Scores of the chosen config, of reference arms, and of each decoding over many noise draws.

    The arms are `opt`, the best candidate, and `random_guess`, the mean candidate; if the clients searched on their
    own, `opt` is the best that such a search finds on the reference's data.
    """
    parties = list(federation.parties.values())
    own = dict(method.figures(parties, run.candidates, run.search)) if method.voters == 1 else {}
    if simulation.reference is None:
        return own or None
    scores = Reference(simulation.reference, simulation.seed, run.search, run.candidates, federation, progress)
    variance = Fraction(run.noise.opened_variance(run.honest, len(parties)))
    shortcut = Shortcut(parties, parts, run.candidates, run.search, variance, simulation.seed)
    arms = method.variants()
    means = {}
    with progress.phase("noise draws", len(arms) * simulation.draws) as advance:
        for name, arm in arms.items():
            found = []
            for _ in range(simulation.draws):
                found.append(scores.of(arm.run(shortcut)))
                advance(1)
            means[name] = float(np.mean(found))
    return {"chosen": scores.of(chosen), **scores.arms, "draws": simulation.draws, "means": means, **own}
