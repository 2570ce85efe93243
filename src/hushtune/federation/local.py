"""All clients in this process: the default federation, and the one for simulations."""

from __future__ import annotations

import copy
import hashlib
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from hushtune.client.asked import allows
from hushtune.client.client import Client
from hushtune.client.failures import refused_by
from hushtune.client.objectives.base import check_data, check_space, for_part
from hushtune.client.party import Party
from hushtune.client.release import respond
from hushtune.client.rows import WHOLE, Parts
from hushtune.client.search.adaptive import Adaptive
from hushtune.client.search.base import Search
from hushtune.client.trials import TrialStore
from hushtune.client.work import Allowance
from hushtune.core.checks import in_words, integer, kind
from hushtune.core.errors import AbortedError, LedgerError, SettingError
from hushtune.core.files import create_once, make_folder, own
from hushtune.core.fingerprint import fingerprint
from hushtune.core.observer import Observer
from hushtune.core.processes.pool import default_jobs
from hushtune.core.randomness import SimulatedRandomness, SystemRandomness
from hushtune.core.roster import Id, Roster, check_name
from hushtune.core.secret import Secret
from hushtune.core.space import Domain, Space
from hushtune.federation.base import Dropped, Federation, Reach, Traffic, for_clients
from hushtune.federation.nodes.local import nodes_of, own_entries
from hushtune.privacy.charges import Charge
from hushtune.privacy.ledger import Ledger
from hushtune.seals.ends import Trip


def default_home() -> Path:
    """Where ledgers and cached trials are kept: $HUSHTUNE_HOME, else .hushtune in the current folder."""
    return Path(os.environ.get("HUSHTUNE_HOME") or ".hushtune")


def check_clients(clients: object) -> None:
    """Refuses what is no list of clients."""
    if not isinstance(clients, Sequence) or isinstance(clients, str | bytes):
        raise SettingError(f"clients must be a list of Client, or a federation, but got {in_words(clients)}")
    if not clients:
        raise SettingError("a run needs at least one client, but got none")
    for client in clients:
        kind("client", client, Client, optional=False)


class LocalFederation(Federation):
    """Clients of this process.

    Args:
        clients: the parties.
        home: folder of ledgers and cached trials. A client's ledger goes by its name, or by its place in the list,
            never by its data.
        roster: the pinned roster that the clients were given. Default: made of the clients' identities, if they have
            any.
        seed: the seed of a marked simulation; then there are no ledgers. None: a real run.
        jobs: processes for scoring. Default: one per core.
    """

    def __init__(
        self,
        clients: Sequence[Client],
        home: Path | None = None,
        roster: Roster | None = None,
        seed: int | None = None,
        jobs: int | None = None,
    ) -> None:
        check_clients(clients)
        if jobs is not None:
            integer("jobs", jobs, 1, 1024)
        self.home = home or default_home()
        make_folder(self.home)
        self.jobs = jobs or default_jobs()
        store = TrialStore(self.home / "trials.db")
        store.check()
        self.roster = _roster(clients, roster, self.home)
        self.traffic = Traffic()
        self.simulated = seed is not None
        self._seed = seed
        self._nodes: Reach | None = None
        self.parties = {
            id_: self._party(id_, client, store, seed, (at, len(clients)))
            for at, (id_, client) in enumerate(zip(self.roster.ids, clients, strict=True))
        }
        self._settle(seed)

    def _party(self, id_: Id, client: Client, store: TrialStore, seed: int | None, place: tuple[int, int]) -> Party:
        folder = self.home / "clients" / id_
        secret = Secret.kept(folder) if seed is None else Secret.simulated(seed, id_)
        return Party(
            id_,
            client,
            store,
            folder,
            SystemRandomness(),
            secret=secret,
            place=place,
            allowance=Allowance.of(client.policy),
        )

    def _settle(self, seed: int | None) -> None:
        """Gives every party its ledger and its randomness."""
        seen: dict[Path, Id] = {}
        for party in self.parties.values():
            own(party.folder, folder=True)
            if seed is not None:
                party.randomness = SimulatedRandomness(seed, party.id)
                continue
            party.ledger = party.client.ledger or Ledger(party.folder / "ledger.db")
            path = party.ledger.path.resolve()
            if path in seen:
                raise SettingError(
                    f"each client needs a ledger of its own, but '{seen[path]}' and '{party.id}' share one"
                )
            seen[path] = party.id

    def key(self) -> str:
        """The very same clients."""
        return self.roster.clients_digest()

    def coordinator_ledger(self) -> Ledger:
        """The coordinator's ledger for exactly these clients."""
        return Ledger(self.home / "coordinator" / f"ledger-{self.roster.clients_digest()[:16]}.db")

    def check(self, space: Space, parts: Parts) -> None:
        """Asks each distinct objective once per kind of data; none of this looks into data."""
        seen = set()
        for party in self.parties.values():
            objective, trials = party.client.objective, party.client.trials
            if objective is None and trials is not None and not _covers(trials, space):
                raise SettingError(
                    f"client '{party.id}' has no objective, and no trial with the knobs {sorted(space.knobs)}"
                )
            if parts.voters > 1 and trials is not None:
                raise SettingError(
                    f"voters={parts.voters} splits a client's rows, but client '{party.id}' brings an Optuna study, "
                    "whose trials are of all its rows; use voters=1"
                )
            if objective is None or not party.loaded():
                continue
            data = party.data
            if (id(objective), type(data)) in seen:
                continue
            parts.check(data)
            seen.add((id(objective), type(data)))
            _copyable(objective)
            fingerprint(objective)  # refuses what cannot be told apart in the trial cache
            check_space(objective, space)
            check_data(objective, data)
            refused_by(partial(for_part, copy.deepcopy(objective), parts.voters))

    def check_ledgers(self, charge: Charge, needed: int) -> None:
        """Refuses a run that too few clients' own ledgers allow, before anybody spends time on scoring."""
        refused = {}
        for party in self.parties.values():
            if party.ledger is None:
                continue
            try:
                if party.ledger.exists:
                    with party.ledger.connected() as ledger:
                        if ledger.limit() is not None:
                            ledger.check(charge)
            except LedgerError as error:
                refused[party.id] = str(error)
        if len(self.roster) - len(refused) < needed:
            name, reason = next(iter(refused.items()))
            raise AbortedError(
                f"{needed} of {len(self.roster)} clients must answer, but the ledgers of {len(refused)} refuse; "
                f"nothing was asked; {name}: {reason}"
            )

    def score(
        self,
        search: Search,
        domain: Domain,
        observer: Observer,
        private: bool,
        parts: Parts = WHOLE,
        name: str = "scoring",
    ) -> None:
        """Fills all trials, in parallel over clients, their parts and configs; who refuses the configs scores none."""
        able = [party for party in self.parties.values() if allows(party.client, search, domain)]
        parties = [part for party in able for part in party.parts(parts)]
        own = isinstance(search, Adaptive)  # only then does each client have work of its own
        each = [f"{party.id} {party.part}".strip() for party in parties] if own else []
        with observer.phase(name, search.work(len(parties), domain), each) as advance:
            search.fill(parties, domain, self.jobs, advance, private, apart=private)

    def provide(self, nodes: int) -> None:
        """Nodes of its own, on this machine, if the roster names none."""
        if nodes and not self.roster.nodes:
            self.roster = replace(self.roster, nodes=own_entries(self.home, nodes, self._seed))
        super().provide(nodes)

    def nodes(self) -> Reach:
        """At their addresses, or on this machine."""
        if self._nodes is None:
            self._nodes = nodes_of(self.roster, self.home, self._seed)
        return self._nodes

    def close(self) -> None:
        """Ends the processes of its nodes."""
        if self._nodes is not None:
            self._nodes.close()
            self._nodes = None

    def exchange(self, trip: Trip, observer: Observer) -> Mapping[Id, bytes | Dropped]:
        """Calls each client in turn, or all nodes at once."""
        if trip.to == "nodes":
            return self.to_nodes(trip, observer)
        replies: dict[Id, bytes | Dropped] = {}
        self.traffic.trips += 1
        with observer.phase(trip.name, len(trip.messages)) as advance:
            for id_, message in for_clients(trip).items():
                replies[id_] = respond(message, self.parties[id_], self.roster)
                self.traffic.count(message, replies[id_])
                advance(1)
        return replies


def _covers(study: Any, space: Space) -> bool:
    return any(set(trial.params) == set(space.knobs) for trial in study.trials)


def _copyable(objective: Any) -> None:
    try:
        copy.deepcopy(objective)
    except Exception as error:
        raise SettingError(
            "an objective must allow copy.deepcopy, because each client gets its own copy, "
            f"but got {type(error).__name__}: {error}"
        ) from None


def _roster(clients: Sequence[Client], given: Roster | None, home: Path) -> Roster:
    if given is not None:
        found = [(client.name, client.identity.public if client.identity else None) for client in clients]
        if found != list(zip(given.ids, given.keys or (), strict=True)):
            raise SettingError("the clients must be those of the roster, in its order and with their identities")
        return given
    ids = [client.name or f"client-{at:02}" for at, client in enumerate(clients)]
    for id_, times in Counter(check_name(id_).lower() for id_ in ids).items():  # some file systems ignore case
        if times > 1:
            raise SettingError(f"clients must have different names, but got '{id_}' {times} times")
    pinned = [client.identity.public for client in clients if client.identity is not None]
    if not pinned:
        return Roster(tuple(ids))
    if len(pinned) < len(clients):
        raise SettingError(f"all clients need an identity, or none, but got {len(pinned)} of {len(clients)}")
    return _kept(Roster(tuple(ids), tuple(pinned), os.urandom(32)), home)


def _kept(new: Roster, home: Path) -> Roster:
    """The roster that these clients had before, under these identities: its seed must not change, as the coordinator's
    ledger and the folder of a run that is resumed go by it.
    """
    assert new.keys is not None
    known = hashlib.sha256(b"".join(name.encode() + b"\0" + key for name, key in zip(new.ids, new.keys, strict=True)))
    path = home / "rosters" / f"{known.hexdigest()[:32]}.toml"
    create_once(path, new.save)
    found = Roster.load(path)
    if (found.ids, found.keys) != (new.ids, new.keys):
        raise SettingError(f"{path} must be the roster of these clients, but names others: remove it")
    return found
