"""What happens inside one party."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from hushtune.client import failures
from hushtune.client.client import Client
from hushtune.client.objectives.base import Objective, checked_losses, for_part
from hushtune.client.rows import Parts, count_of, in_rows
from hushtune.client.trials import TrialStore, from_study
from hushtune.client.work import Allowance
from hushtune.core.arrays import FloatArray
from hushtune.core.errors import CacheError
from hushtune.core.files import append
from hushtune.core.fingerprint import fingerprint
from hushtune.core.randomness import Randomness, SimulatedRandomness
from hushtune.core.roster import Id
from hushtune.core.secret import Secret
from hushtune.core.space import Config, Space, config_key
from hushtune.privacy.ledger import Ledger
from hushtune.privacy.policy import Policy

Trial = tuple[Config, float]
"""A config and its loss; NaN if it failed."""


_LONGEST_LOG = 10_000_000  # bytes


def own_copy(objective: Any) -> Any:
    """A copy that shares nothing: of functions too, with what they enclose, unless they are a module's own."""
    import cloudpickle

    try:
        return cloudpickle.loads(cloudpickle.dumps(objective))
    except Exception:
        return copy.deepcopy(objective)


@dataclass
class Party:
    """The inside of one client: nothing here leaves except through `release`.

    A marked simulation has no ledger; a real run has one. `id` is its name in the roster; `own` is the name that its
    trials go by, where the roster's names change from run to run. `place` comes from the roster too, never from what a
    server announces.
    """

    id: Id
    client: Client = field(repr=False)
    store: TrialStore = field(repr=False)
    folder: Path = field(repr=False)
    randomness: Randomness = field(repr=False)
    secret: Secret = field(repr=False, kw_only=True)  # its own, from which it derives what must not change
    ledger: Ledger | None = field(default=None, repr=False)
    failure: str | None = field(default=None, repr=False)  # why it has nothing to say (`client/failures.py`)
    sessions: dict[str, Any] = field(default_factory=dict, repr=False)  # by run: the client's end of its seal
    detached: bool = False  # whether what it begins for a run must outlive this process
    tells: bool = False  # whether its failures may be told: a marked simulation's, on a machine of its own
    part: str = ""
    own: str = ""
    place: tuple[int, int] = (0, 1)  # its number in the roster, and how many there are
    allowance: Allowance = field(default_factory=Allowance, repr=False)  # how long it may score in this run
    _parts: dict[Parts, list[Party]] = field(default_factory=dict, repr=False)

    @property
    def policy(self) -> Policy:
        """The client's own rules."""
        return self.client.policy or Policy()

    @property
    def real(self) -> bool:
        """Whether this is no marked simulation."""
        return self.ledger is not None

    @property
    def alone(self) -> bool:
        """Whether the client is on a machine of its own in a real run: somebody else is the coordinator."""
        return self.detached and self.real

    def drawn_for(self, purpose: str, *content: bytes) -> Randomness:
        """What a random choice is drawn from: the client's secret and what the choice may depend on.

        So a machine that was rolled back repeats its choices. In a marked simulation it is the simulation's one stream.

        Args:
            purpose: what is drawn.
            content: what it may depend on; the same content gives the same choice.
        """
        if isinstance(self.randomness, SimulatedRandomness):
            return self.randomness
        return self.secret.randomness(purpose, self.part.encode(), *content)

    @contextmanager
    def drawing(self, purpose: str, *content: bytes) -> Iterator[None]:
        """Inside, whatever asks for `randomness` gets what `drawn_for` gives."""
        before, self.randomness = self.randomness, self.drawn_for(purpose, *content)
        try:
            yield
        finally:
            self.randomness = before

    def parts(self, parts: Parts) -> list[Party]:
        """The units that answer: this party, or one for each part of its rows, with an objective of its own."""
        if parts.voters == 1:
            return [self]
        if parts not in self._parts:
            objective, voters = self.client.objective, parts.voters
            try:
                parts.check(self.data)
                found = parts.of(self.data, self.secret.derived("parts"))
                what = f"the objective cannot be told of {voters} parts"
                objective = failures.loaded_by(lambda: for_part(own_copy(self.client.objective), voters), what)
            except Exception as error:  # depends on the data, so it is nobody else's business
                found = [error] * parts.voters
            reasons = failures.unsplit(self, found)
            self._parts[parts] = [
                Party(
                    self.id,
                    replace(self.client, data=[] if reason else rows, trials=None, objective=objective),
                    self.store,
                    self.folder,
                    self.randomness,
                    secret=self.secret,
                    failure=reason,
                    tells=self.tells,
                    part=f"{number} of {parts.voters}, {parts.neighbours}",
                    own=self.own,
                    place=self.place,
                    allowance=self.allowance.part(f"{number} of {parts.voters}", parts.voters),
                )
                for number, (rows, reason) in enumerate(zip(found, reasons, strict=True))
            ]
        return self._parts[parts]

    @cached_property
    def data(self) -> Any:
        """The client's data, loaded when it is first asked for; what the client's own code raises passes through."""
        given = self.client.data
        if not callable(given) or hasattr(given, "__len__"):
            return given
        return failures.loaded_by(lambda: in_rows(given()))

    def loaded(self) -> bool:
        """Whether there is data; if it cannot be loaded, the reason stays in the client's own log."""
        try:
            return self.data is not None
        except Exception as error:
            failures.cannot(self, "data cannot be loaded", error)
            return False

    @property
    def silent(self) -> bool:
        """Whether this is a part without rows: what it contributes depends on no data."""
        return bool(self.part) and hasattr(self.data, "__len__") and count_of(self.data) == 0

    @cached_property
    def objective(self) -> Objective | None:
        """The unit's own copy: what an objective keeps to itself must not pass from one to another."""
        copied: Objective | None = own_copy(self.client.objective)
        return copied

    @cached_property
    def data_key(self) -> str:
        """Fingerprint of the data, or of the trials brought along without data. Local to the client.

        It also names the unit, so that whatever two units hold, neither sees the other's trials.
        """
        brought = self._brought if self.client.data is None else self.data
        return fingerprint([self.own or self.id, self.part, brought])

    @cached_property
    def objective_key(self) -> str:
        """Fingerprint of the objective. Local to the client."""
        return fingerprint(self.client.objective)

    @cached_property
    def _brought(self) -> dict[str, float]:
        return from_study(self.client.trials) if self.client.trials is not None else {}

    def _known(self, seed: int) -> dict[str, float]:
        if self.objective is None:
            return dict(self._brought)
        return {**self.store.get(self.data_key, self.objective_key, seed), **self._brought}

    def missing(self, configs: Sequence[Config], seed: int) -> list[Config]:
        """The configs that have no trial yet and that the objective could score."""
        return self._unscored(configs, self._known(seed))

    def _unscored(self, configs: Sequence[Config], known: Mapping[str, float]) -> list[Config]:
        if self.objective is None:
            return []
        return [config for config in configs if config_key(config) not in known]

    def keep(self, configs: Sequence[Config], seed: int, losses: FloatArray) -> None:
        """Adds one trial for each config to the client's store; `losses` has their shape and order."""
        self.store.put(self.data_key, self.objective_key, seed, configs, losses)

    def searched(self, key: str) -> list[Trial]:
        """What an adaptive search has found here so far, in its order."""
        return self.store.get_search(self.data_key, self.objective_key, key)

    def brought(self, space: Space) -> list[Trial]:
        """The trials that the client brought, as far as they are of this space."""
        trials = [(json.loads(config), loss) for config, loss in self._brought.items()]
        return [(config, loss) for config, loss in trials if space.has(config)]

    def keep_search(self, key: str, start: int, found: Sequence[Trial]) -> None:
        """Adds to what an adaptive search has found, from its trial number `start` on."""
        self.store.put_search(self.data_key, self.objective_key, key, start, found)

    def losses(self, configs: Sequence[Config], seed: int) -> FloatArray:
        """The client's losses, shape (configs,), scoring what is missing. NaN: no finite loss is known."""
        failures.check(self)
        known = self._known(seed)
        if todo := self._unscored(configs, known):
            assert self.objective is not None
            losses = checked_losses(self.objective, todo, self.data, seed)
            self.keep(todo, seed, losses)
            known |= {config_key(config): loss for config, loss in zip(todo, losses, strict=True)}
        return np.array([known.get(config_key(config), np.nan) for config in configs])

    def log(self, message: str) -> None:
        """Writes to the client's own log file and nowhere else: what fails inside a client stays there.

        That includes failing to write, so nothing is raised.
        """
        line = f"{datetime.now(UTC).isoformat(timespec='seconds')} {message}\n"
        with suppress(OSError, CacheError):
            if not _full(self.folder / "client.log"):
                append(self.folder / "client.log", line)


def _full(log: Path) -> bool:
    """Whether a log has grown as long as it may: a server that is refused again and again must not fill a disk."""
    return log.exists() and log.stat().st_size > _LONGEST_LOG
