"""`tune`: the one call that runs a method over clients."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from hushtune.client.client import Client
from hushtune.client.request import parts_of
from hushtune.client.search.base import Search
from hushtune.client.simulation import Simulation
from hushtune.core.checks import kind
from hushtune.core.errors import SettingError
from hushtune.core.identity import Identity
from hushtune.core.observer import Bars, Observer, shown, told_failures
from hushtune.core.roster import Roster
from hushtune.core.space import Config, Domain
from hushtune.federation.base import Federation
from hushtune.federation.local import LocalFederation, check_clients
from hushtune.methods.base import Method
from hushtune.methods.study import Settled, Study
from hushtune.privacy.calibration import Training, left_in
from hushtune.privacy.guarantee import Privacy
from hushtune.privacy.ledger import Ledger
from hushtune.run.account import Account
from hushtune.run.folder import RunFolder
from hushtune.run.reference import Reference
from hushtune.run.result import Result
from hushtune.run.run import Run
from hushtune.run.simulation import Shortcut
from hushtune.run.terms import Terms, calibrated
from hushtune.seals.base import Seal

log = logging.getLogger("hushtune")

Figures = Callable[[Run, Config], dict[str, Any] | None]


def tune(
    clients: Sequence[Client] | Federation,
    candidates: Domain,
    *,
    method: Method,
    privacy: Privacy | None = None,
    seal: Seal | None = None,
    search: Search | None = None,
    roster: Roster | None = None,
    simulation: Simulation | None = None,
    ledger: Ledger | None = None,
    folder: str | Path | None = None,
    home: str | Path | None = None,
    jobs: int | None = None,
    identity: Identity | None = None,
    observer: Observer = Bars(),
) -> Result:
    """Has clients agree on one config, and states what that revealed.

    Privacy: with `privacy` given, everything the run opens is (epsilon, delta)-differentially private for `privacy`'s
    unit and relation; the method's docstring has its theorem. The whole cost is reserved in the coordinator's ledger,
    and in each client's own, before anything leaves. Not covered: who takes part, how long a client takes, and the
    training that follows.

    Args:
        clients: the parties, in public order; or a federation, such as `hushtune.flower.FlowerFederation(grid)`, which
            knows its clients, their roster and its home itself.
        candidates: the public list to choose from: `space.grid(...)`, `space.sample(...)`, `space.candidates(...)`; or
            the space itself, for a method that searches it.
        method: who is asked what, and how the server decides, e.g. `Vote()` or `Surface()`.
        privacy: the guarantee for everything opened. None: exact values are opened, and the statement says so.
        seal: how single contributions stay hidden. Default: `Masked()`.
        search: how clients fill their trials. Default: `Search()`, every candidate is scored; for a method that takes
            it, `Search.adaptive()`, each client searches the space on its own.
        roster: the pinned roster that all clients were given. Default: made of the clients' identities, if any.
        simulation: marks the run as a simulation: seeded, never charged, reference figures allowed. Default: none; over
            a federation that is marked itself, `Simulation(0)`.
        ledger: the coordinator's ledger. Default: one per set of clients, under `home`. A ledger that does not
            exist yet is made with this run's epsilon and delta as its limit.
        folder: where the run keeps its state; the same call with the same folder resumes it.
        home: folder of ledgers and cached trials. Default: $HUSHTUNE_HOME, else .hushtune in the current folder.
        jobs: processes for scoring. Default: one per core.
        identity: the coordinator's; signs result.json in `folder`, and `verify` can then tell who made it.
        observer: who watches; `Silent()` for no bars.

    Raises:
        SettingError: a setting breaks a constraint; nothing was spent.
        BudgetError: a ledger's limit would be exceeded; nothing was spent.
        AbortedError: too few clients answered; its message says what was opened before. The budget stays reserved,
            unless nobody was asked for an input yet.
        SpentError: the run failed after its cost was reserved: a full disk, a file that was taken away.
    """
    kind("simulation", simulation, Simulation)
    kind("observer", observer, Observer, optional=False)
    kind("ledger", ledger, Ledger)
    kind("folder", folder, str, Path)
    kind("home", home, str, Path)
    kind("identity", identity, Identity)
    if identity is not None and folder is None:
        raise SettingError("an identity signs what is written: give `folder` too")
    study = Study(candidates, method, privacy, seal, search)
    if isinstance(clients, Federation) and clients.simulated and simulation is None:
        simulation = Simulation(0)
    seed = simulation.seed if simulation is not None else None
    with told_failures(observer):
        if isinstance(clients, Federation):
            federation = _given(clients, simulation, roster=roster, home=home, jobs=jobs)
            settled = study.seated(len(federation.roster.nodes)).settled(len(federation.roster))
        else:
            kind("roster", roster, Roster)
            check_clients(clients)
            named = len(roster.nodes) if roster is not None else 0
            settled = study.seated(named).settled(len(clients))  # refused before anything is written
            federation = LocalFederation(clients, Path(home) if home is not None else None, roster, seed, jobs)

        def figures(run: Run, chosen: Config) -> dict[str, Any] | None:
            assert simulation is not None
            if not isinstance(federation, LocalFederation):
                return None
            return _figures(simulation, run, chosen, federation, observer)

        return conduct(federation, settled, ledger, folder, observer, seed, figures=figures, identity=identity)


def _given(federation: Federation, simulation: Simulation | None, **own: Any) -> Federation:
    """A federation that the caller made, if nothing else is said that it knows itself."""
    for name, value in own.items():
        if value is not None:
            raise SettingError(f"{name} is the federation's own setting: give it to the federation, not to `tune`")
    if simulation is not None and not federation.simulated:
        raise SettingError("the federation is not marked as a simulation, so that the run cannot be: mark its clients")
    if simulation is not None and simulation.reference is not None:
        raise SettingError("reference figures need all clients in one process: give a list of clients instead")
    return federation


def conduct(
    federation: Federation,
    study: Settled,
    ledger: Ledger | None,
    folder: str | Path | None,
    observer: Observer,
    seed: int | None,
    figures: Figures | None = None,
    training: Training | None = None,
    privacy: Privacy | None = None,
    ready: Callable[[], None] | None = None,
    identity: Identity | None = None,
) -> Result:
    """One run over whatever federation.

    Args:
        federation: the clients, and how to reach them.
        study: what is asked of them, settled for their number.
        ledger: as for `tune`.
        folder: as for `tune`.
        observer: as for `tune`.
        seed: of a marked simulation; None: a real run.
        figures: gives a simulation's reference figures, from the run and the chosen config.
        training: private training that follows and is charged with the run.
        privacy: the guarantee for both together; the study's own is the run's share of it.
        ready: called when ledgers allow the run, before anything is written or spent.
        identity: as for `tune`.
    """
    privacy = study.facts.privacy if training is None else privacy
    observer = shown(observer, privacy is not None)
    timed = privacy is None or seed is not None
    if not timed:
        observer.keep_no_times()
    place = Path(folder) if folder is not None else None
    study.facts.seal.check(len(federation.roster))
    study.facts.seal.check_bounds(study.bounds, len(federation.roster) * study.method.voters_each)
    federation.check(study.facts.candidates.space, parts_of(study.method.voters_each, privacy))
    if seed is not None:
        ledger = None
    elif ledger is None:
        ledger = federation.coordinator_ledger()
    state = RunFolder(place, _settings(study, privacy, seed, federation, training), left_in(ledger), seed is not None)
    with _clock("calibrate") as calibrating:
        terms = _terms(study, privacy, ledger, state, training)
        account = Account(ledger, state.run, terms, observer)
        account.check()
        federation.check_ledgers(terms.charge(state.run), terms.needed)
    if ready is not None:
        ready()
    federation.provide(study.facts.seal.served_by)
    with closing(state):
        state.begin()
        run = Run(terms, state, federation, account, observer, seed)
        log.info("run %s: %d candidates, %d clients", run.id, len(terms.candidates), terms.clients)
        with account.told(), closing(run.opener):
            with _clock("ask and choose") as asking:
                config = terms.study.method.run(run)
                run.opener.finish()
            asking["ask and choose"] -= run.opener.seconds_scoring
            seconds = calibrating | {"score": run.opener.seconds_scoring} | asking
            result = run.result(config, seconds if timed else {})
        if seed is not None:
            with _clock("reference figures") as referring:
                found = figures(run, config) if figures is not None else None
            result.simulation = {"seed": seed, "figures": found}
            result.seconds |= referring
        if place is not None:
            with account.told():
                result.save(place, identity)
    if training is None:
        observer.done(result.config)
    return result


def _terms(
    study: Settled, privacy: Privacy | None, ledger: Ledger | None, state: RunFolder, training: Training | None
) -> Terms:
    """What the run is held to, shortened if the ledger has less left and the method can be."""
    if state.left is None or training is not None:
        return calibrated(study, privacy, ledger, training)
    shorter = study.within(state.left)
    wanted = privacy.budget if privacy is not None and privacy != shorter.facts.privacy else None
    return calibrated(shorter, shorter.facts.privacy, ledger, wanted=wanted)


def _settings(
    study: Settled, privacy: Privacy | None, seed: int | None, federation: Federation, training: Training | None
) -> dict[str, Any]:
    """Everything that must be the same when a run is taken up again."""
    facts = study.facts
    return {
        "candidates": facts.candidates.to_json(),
        "method": study.method.to_json(),
        "privacy": privacy and privacy.to_json(),
        "seal": facts.seal.to_json(),
        "search": facts.search.to_json(),
        "seed": seed,
        "clients": federation.key(),
        "training": training and asdict(training),
    }


@contextmanager
def _clock(name: str) -> Iterator[dict[str, float]]:
    """A dictionary that holds the seconds spent inside, once it is over."""
    seconds: dict[str, float] = {}
    start = time.monotonic()
    yield seconds
    seconds[name] = time.monotonic() - start


def _figures(
    simulation: Simulation, run: Run, chosen: Config, federation: LocalFederation, observer: Observer
) -> dict[str, Any] | None:
    """Scores of the chosen config, of reference arms, and of each decoding over many noise draws.

    The arms are `opt`, the best candidate, and `random_guess`, the mean candidate; if the clients searched on their
    own, `opt` is the best that such a search finds on the reference's data.
    """
    parties, terms, method = list(federation.parties.values()), run.terms, run.terms.study.method
    own = dict(method.known(parties, run.candidates, run.search)) if method.voters_each == 1 else {}
    if simulation.reference is None:
        return own or None
    scores = Reference(simulation.reference, simulation.seed, run.search, run.candidates, federation, observer)
    noise = terms.seal, terms.noise, terms.honest
    shortcut = Shortcut(parties, terms.parts, run.candidates, run.search, *noise, simulation.seed)
    arms = method.variants()
    means = {}
    with observer.phase("noise draws", len(arms) * simulation.draws) as advance:
        for name, arm in arms.items():
            found = []
            for _ in range(simulation.draws):
                found.append(scores.of(arm.run(shortcut)))
                advance(1)
            means[name] = float(np.mean(found))
    beside = {name: scores.of(config) for name, config in method.beside(run.candidates).items()}
    return {"chosen": scores.of(chosen), **scores.arms, "draws": simulation.draws, "means": means, **beside, **own}
