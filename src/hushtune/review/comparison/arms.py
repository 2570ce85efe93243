"""`compare`: several methods, seals and guarantees on one simulated federation, from the same trials."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from hushtune.client.client import Client
from hushtune.client.query import Query
from hushtune.client.request import parts_of
from hushtune.client.search.base import Search
from hushtune.client.simulation import Simulation
from hushtune.client.trials import Passing
from hushtune.core.arrays import IntArray
from hushtune.core.checks import kind
from hushtune.core.errors import MissingExtraError, SettingError
from hushtune.core.files import replace
from hushtune.core.fingerprint import fingerprint
from hushtune.core.observer import Bars, Observer, Silent, told_failures
from hushtune.core.space import Candidates, Config, Domain
from hushtune.core.words import as_set
from hushtune.federation.local import LocalFederation, check_clients
from hushtune.methods.base import Facts, Method
from hushtune.methods.study import Study
from hushtune.privacy.guarantee import Privacy
from hushtune.review.comparison.table import ARMS, EXACT, FILE, SCORES, Arm, Comparison, checked_scores
from hushtune.run.folder import claimed
from hushtune.run.reference import Reference
from hushtune.run.result import Result
from hushtune.run.simulation import Shortcut
from hushtune.run.tuning import tune
from hushtune.seals.base import Seal

Combination = tuple[Method, Seal, Privacy | None]


def compare(
    clients: Sequence[Client],
    candidates: Domain,
    *,
    methods: Sequence[Method],
    seals: Sequence[Seal],
    privacies: Sequence[Privacy | None],
    simulation: Simulation,
    search: Search | None = None,
    folder: str | Path | None = None,
    home: str | Path | None = None,
    jobs: int | None = None,
    observer: Observer = Bars(),
) -> Comparison:
    """Runs every combination of methods, seals and guarantees, so that a user can choose one.

    Each is run once through the whole protocol, which tells what it opens, sends and takes; its choice is then repeated
    over `simulation.draws` draws of the noise, the same for all, and scored on the simulation's reference. Candidates
    are scored once for all. A combination that hushtune refuses is listed with the reason.

    It is a marked simulation: no ledger is charged, so nothing of it may be shown to others if the data is private. Use
    it on data that you may look at, choose, and then `tune` once for real.

    Args:
        clients: the simulated parties, in public order.
        candidates: the public list to choose from; or a space, for methods that search it.
        methods: at least one, e.g. `[Vote(), Surface()]`.
        seals: at least one, e.g. `[Masked(), Curator()]`.
        privacies: at least one guarantee, each with its unit and relation; None: exact values are opened.
        simulation: its seed, the reference that scores the chosen configs, and the draws.
        search: how clients fill their trials. Default: every candidate is scored, whatever the method; in a space, as
            each method would do it.
        folder: where every run's folder is kept, and what was scored; the same call goes on where it was interrupted,
            and one that compares more runs only what is new.
        home: folder of cached trials. Default: $HUSHTUNE_HOME, else .hushtune in the current folder.
        jobs: processes for scoring. Default: one per core.
        observer: who watches; `Silent()` for no bars.

    Raises:
        SettingError: an argument breaks a constraint, or every combination is refused.
        AbortedError: clients refuse to answer, by policies of their own.
    """
    kind("simulation", simulation, Simulation, optional=False)
    kind("observer", observer, Observer, optional=False)
    for name, values, wanted in (
        ("methods", methods, Method),
        ("seals", seals, Seal),
        ("privacies", privacies, Privacy),
    ):
        if not isinstance(values, Sequence) or not values:
            raise SettingError(f"{name} must be a list with at least one entry, but got {values!r}")
        for value in values:
            kind(f"each of {name}", value, wanted, optional=wanted is Privacy)
    if search is None and isinstance(candidates, Candidates):
        search = Search()
    kind("folder", folder, str, Path)
    kind("home", home, str, Path)
    check_clients(clients)
    place = Path(folder) if folder is not None else None
    work = _Work(clients, candidates, simulation, search, place, home, jobs, observer)
    with told_failures(observer), claimed(place, FILE) if place is not None else nullcontext():
        arms = work.arms([(method, seal, privacy) for method in methods for seal in seals for privacy in privacies])
        if all(arm.result is None for arm in arms):
            raise SettingError(f"every combination is refused; the first: {arms[0].refused}")
        found = Comparison(tuple(arms), simulation.seed, simulation.draws, work.reference_arms)
        if place is not None:
            replace(place / FILE, json.dumps(found.to_json(), indent=2, allow_nan=False) + "\n")
    observer.done(None)
    return found


@dataclass
class _Work:
    """What all arms share."""

    clients: Sequence[Client]
    domain: Domain
    simulation: Simulation
    search: Search | None
    folder: Path | None
    home: str | Path | None
    jobs: int | None
    observer: Observer

    def __post_init__(self) -> None:
        self._federation = self._simulated()
        self._methods: list[Method] = []
        self._references: dict[tuple[Search, Candidates], Reference] = {}

    def _simulated(self) -> LocalFederation:
        home = Path(self.home) if self.home is not None else None
        return LocalFederation(self.clients, home, None, self.simulation.seed, self.jobs)

    @cached_property
    def _reference_keys(self) -> tuple[str, str] | None:
        """What the reference's scores depend on."""
        if self.simulation.reference is None:
            return None
        (party,) = LocalFederation([self.simulation.reference], self._federation.home, None, 0, 1).parties.values()
        return party.data_key, party.objective_key

    @property
    def reference_arms(self) -> dict[str, float]:
        """The best candidate's score and the mean candidate's, if all arms have the same."""
        found = [reference.arms for reference in self._references.values()]
        return found[0] if len(found) == 1 else {}

    def arms(self, combinations: Sequence[Combination]) -> list[Arm]:
        """All of them, in order."""
        if isinstance(self.domain, Candidates) and type(self.search) is Search:
            self._federation.score(self.search, self.domain, self.observer, private=False)
        found = []
        with self.observer.phase("comparing", len(combinations)) as advance:
            for method, _, _ in combinations:
                self._methods += [method] if method not in self._methods else []
            for combination in combinations:
                found.append(self._arm(*combination))
                advance(1)
        return found

    def _arm(self, method: Method, seal: Seal, privacy: Privacy | None) -> Arm:
        labels = self._label_of(method), label_of(seal)
        try:
            study = Study(self.domain, method, privacy, seal, self.search).settled(len(self.clients))
            final, facts = study.method, study.facts
            seal.check(len(self.clients))
            folder = self._folder(final, facts)
            result = self._kept(folder) or self._run(method, facts, folder)
        except (SettingError, MissingExtraError) as error:
            return Arm(*labels, privacy, refused=str(error))
        scores = self._scores(final, facts, result, folder)
        kept = folder.name if folder is not None else None
        return Arm(*labels, privacy, result, scores, kept, beside=self._beside(final, facts))

    def _label_of(self, method: Method) -> str:
        """Its label; with where its prior comes from, if another method has the same."""
        label, prior = label_of(method), getattr(method, "prior", None)
        alike = [other for other in self._methods if label_of(other) == label]
        return label if len(alike) < 2 or prior is None else label.replace(str(prior), prior.words, 1)

    def _folder(self, final: Method, facts: Facts) -> Path | None:
        """One folder per arm, named after it and after everything that its outcome depends on."""
        if self.folder is None:
            return None
        parties = [*self._federation.parties.values()]
        kept = [(party.data_key, party.objective_key) for party in parties]
        same = [facts.candidates.to_json(), final.to_json(), facts.seal.to_json(), facts.search.to_json()]
        own = facts.privacy.to_json() if facts.privacy is not None else None
        key = fingerprint([same, own, kept, self.simulation.seed, self.simulation.draws, self._reference_keys])
        epsilon = EXACT if facts.privacy is None else as_set(facts.privacy.epsilon)
        return self.folder / ARMS / f"{final.name}-{facts.seal.name}-{epsilon}-{key[:10]}"

    def _kept(self, folder: Path | None) -> Result | None:
        """What an earlier call has found. What it has begun, or left in pieces, begins anew."""
        if folder is None:
            return None
        with suppress(SettingError):
            return Result.load(folder)
        for name in ("result.json", "run.json", SCORES):
            (folder / name).unlink(missing_ok=True)
        return None

    def _run(self, method: Method, facts: Facts, folder: Path | None) -> Result:
        return tune(
            self.clients,
            self.domain,
            method=method,
            privacy=facts.privacy,
            seal=facts.seal,
            search=self.search,
            simulation=Simulation(self.simulation.seed),
            folder=folder,
            home=self.home,
            jobs=self.jobs,
            observer=Silent(),
        )

    def _scores(self, final: Method, facts: Facts, result: Result, folder: Path | None) -> tuple[float, ...]:
        """The reference's scores of configs chosen over draws of the noise; of the only one, if there is no noise."""
        if self.simulation.reference is None:
            return ()
        reference = self._reference(facts)
        kept = folder / SCORES if folder is not None else None
        if kept is not None and kept.exists():
            with suppress(ValueError, TypeError):  # damaged: they are computed again
                return tuple(checked_scores(json.loads(kept.read_text(encoding="utf-8"))))
        scores = tuple(reference.of(config) for config in self._chosen(final, facts, result))
        if kept is not None:
            replace(kept, json.dumps(scores) + "\n")
        return scores

    def _beside(self, final: Method, facts: Facts) -> dict[str, float]:
        """The reference's scores of what results show beside the chosen config, such as a prior's own choice."""
        configs = final.beside(facts.candidates)
        if self.simulation.reference is None or not configs:
            return {}
        reference = self._reference(facts)
        return {name: reference.of(config) for name, config in configs.items()}

    def _chosen(self, final: Method, facts: Facts, result: Result) -> Iterator[Config]:
        if facts.privacy is None:
            yield result.config
            return
        parties = list(self._simulated().parties.values())  # of its own: nothing depends on what else is compared
        passing = Passing(parties[0].store)
        for party in parties:
            party.store = passing
        count, parts = len(parties), parts_of(final.voters_each, facts.privacy)
        noise = facts.seal, result.noise, facts.seal.honest(count)
        sums: dict[Query, IntArray] = {}
        for draw in range(self.simulation.draws):
            run = fingerprint([self.simulation.seed, draw])[:32]
            seed = int(run[:8], 16)  # the same noise for all arms, as far as they need the same: they differ by less
            yield final.run(Shortcut(parties, parts, facts.candidates, facts.search, *noise, seed, sums, run))

    def _reference(self, facts: Facts) -> Reference:
        key = (facts.search, facts.candidates)
        if key not in self._references:
            assert self.simulation.reference is not None
            self._references[key] = Reference(
                self.simulation.reference,
                self.simulation.seed,
                facts.search,
                facts.candidates,
                self._federation,
                Silent(),
            )
        return self._references[key]


def label_of(part: Method | Seal) -> str:
    """A method's or a seal's name, and those of its settings that are not the default's."""
    values = {field.name: (getattr(part, field.name), field.default) for field in fields(part)}  # type: ignore[arg-type]
    own = [f"{name}={_short(value)}" for name, (value, usual) in values.items() if value != usual]
    return f"{part.name}({', '.join(own)})" if own else part.name


def _short(value: Any) -> str:
    return f"{len(value)} points" if isinstance(value, Candidates) else str(value)
