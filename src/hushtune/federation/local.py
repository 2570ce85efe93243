"""All clients in this process: the default federation, and the one for simulations."""

from __future__ import annotations

import hmac
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from hushtune.client import Client, Id, Party
from hushtune.errors import SettingError
from hushtune.federation.base import Dropped
from hushtune.files import create_once
from hushtune.objective import check_space
from hushtune.privacy.answers import Answers
from hushtune.privacy.ledger import Ledger
from hushtune.privacy.release import Roster, respond
from hushtune.progress import Progress
from hushtune.randomness import SimulatedRandomness, SystemRandomness
from hushtune.search import Search, default_jobs
from hushtune.space import Config, Space
from hushtune.trials import TrialStore

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def default_home() -> Path:
    """Where ledgers, answers and cached trials are kept: $HUSHTUNE_HOME, else ~/.hushtune."""
    return Path(os.environ.get("HUSHTUNE_HOME") or Path.home() / ".hushtune")


class LocalFederation:
    """Clients of this process.

    Args:
        clients: the parties.
        home: folder of ledgers, answers and cached trials. A client without a name is known there by a keyed
            hash of its data, so that its ledger is found again whatever its place in the list.
        seed: the seed of a marked simulation; then there are no ledgers. None: a real run.
        jobs: processes for scoring. Default: one per core.
    """

    def __init__(
        self,
        clients: Sequence[Client],
        home: Path | None = None,
        seed: int | None = None,
        jobs: int | None = None,
    ) -> None:
        if not clients:
            raise SettingError("a run needs at least one client, but got none")
        if jobs is not None and jobs < 1:
            raise SettingError(f"`jobs >= 1` must hold, but got jobs={jobs}")
        self.home = home or default_home()
        self.jobs = jobs or default_jobs()
        store = TrialStore(self.home / "trials.db")
        self.roster = _roster(clients)
        self.parties = {
            id_: Party(id_, client, store, self.home, SystemRandomness())
            for id_, client in zip(self.roster.ids, clients, strict=True)
        }
        self._settle(seed)

    def _settle(self, seed: int | None) -> None:
        """Gives every party its folder, its ledger and its randomness."""
        key, seen = _secret(self.home / "key"), Counter[str]()
        for party in self.parties.values():
            base = party.client.name or "data-" + hmac.digest(key, party.data_key.encode(), "sha256").hex()[:24]
            seen[base] += 1  # equal data twice are two clients with two ledgers
            party.folder = self.home / "clients" / (base if seen[base] == 1 else f"{base}-{seen[base]}")
            if seed is None:
                party.ledger = party.client.ledger or Ledger(party.folder / "ledger.db")
                party.answers = Answers(party.folder / "answers.db")
            else:
                party.randomness = SimulatedRandomness(seed, party.id)

    def coordinator_ledger(self) -> Ledger:
        """The coordinator's ledger for exactly these clients."""
        names = "\0".join(sorted(party.folder.name for party in self.parties.values()))
        digest = hmac.digest(_secret(self.home / "key"), names.encode(), "sha256").hex()[:24]
        return Ledger(self.home / "coordinator" / f"ledger-{digest}.db")

    def check(self, space: Space) -> None:
        """Asks each distinct objective once."""
        objectives = {id(party.client.objective): party.client.objective for party in self.parties.values()}
        for objective in objectives.values():
            if objective is not None:
                check_space(objective, space)

    def score(self, search: Search, configs: Sequence[Config], progress: Progress, name: str = "scoring") -> None:
        """Fills all trials, in parallel over clients and configs."""
        parties = list(self.parties.values())
        with progress.phase(name, len(parties) * len(configs)) as advance:
            search.fill(parties, configs, self.jobs, advance)

    def exchange(self, out: Mapping[Id, bytes], progress: Progress) -> Mapping[Id, bytes | Dropped]:
        """Calls each client in turn."""
        replies: dict[Id, bytes | Dropped] = {}
        with progress.phase("asking clients", len(out)) as advance:
            for id_, message in out.items():
                replies[id_] = respond(message, self.parties[id_], self.roster)
                advance(1)
        return replies


def _roster(clients: Sequence[Client]) -> Roster:
    width = len(str(len(clients) - 1))
    ids = [client.name or f"client-{at:0{width}}" for at, client in enumerate(clients)]
    for id_, times in Counter(ids).items():
        if not _NAME.fullmatch(id_):
            raise SettingError(f"a client's name must match {_NAME.pattern}, but got {id_!r}")
        if times > 1:
            raise SettingError(f"clients must have different names, but got '{id_}' {times} times")
    return Roster(tuple(ids))


def _secret(path: Path) -> bytes:
    """A random key that stays in this folder; made once."""

    def write(draft: Path) -> None:
        draft.touch(0o600)
        draft.write_bytes(os.urandom(32))

    create_once(path, write)
    key = path.read_bytes()
    if len(key) != 32:
        raise SettingError(f"{path} must hold 32 bytes, but got {len(key)}; restore it")
    return key
