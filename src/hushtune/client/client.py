"""One party: what the user gives (Client), and what happens inside it (Party)."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hushtune.client.objectives.base import Objective, checked_losses
from hushtune.client.rows import Parts, Rows, count_of
from hushtune.client.trials import TrialStore, from_study
from hushtune.core.arrays import FloatArray
from hushtune.core.errors import ObjectiveError, SettingError, described
from hushtune.core.fingerprint import fingerprint
from hushtune.core.identity import Identity
from hushtune.core.randomness import Randomness
from hushtune.core.roster import Id
from hushtune.core.space import Config, Space, config_key
from hushtune.privacy.ledger import Ledger
from hushtune.privacy.policy import Policy

if TYPE_CHECKING:
    import optuna


Trial = tuple[Config, float]
"""A config and its loss; NaN if it failed."""


@dataclass
class Client:
    """One party as the user describes it.

    Args:
        data: the client's own data: `(X, y)`, `Rows(X, y, subjects)`, or anything with `len` and `take(indices)`; or a
            function without arguments that loads it, called once, when the data is first needed.
        objective: how it scores configs on that data. May be left out if `trials` covers all candidates.
        name: its public name in the roster. Its ledger goes by this name, so keep it the same from run to run.
            Default: its place in the list.
        trials: an Optuna study the client has run before; configs found there are not scored again, and an adaptive
            search goes on from them. Maximised values count with a minus: a method that clips losses must know.
        policy: what the client accepts, whatever the server asks. Default: everything its ledger allows.
        ledger: its own ledger. Default: one file per name under the home folder.
        identity: its signing key, pinned in the roster.
    """

    data: Any = field(default=None, repr=False)
    objective: Objective | None = None
    name: Id | None = None
    trials: optuna.Study | None = None
    policy: Policy | None = None
    ledger: Ledger | None = None
    identity: Identity | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.data = _in_rows(self.data)
        if self.objective is None and self.trials is None:
            raise SettingError("a client needs an objective, or an Optuna study as its trials, but got neither")
        if isinstance(self.objective, type) or not isinstance(self.objective, Objective | None):
            raise SettingError(
                "objective must have a method losses(configs, data, seed); for a function use @hushtune.objective; "
                f"but got {self.objective!r}"
            )
        if self.objective is not None and self.data is None:
            raise SettingError("a client with an objective needs data, but got None")
        if self.trials is not None:
            from_study(self.trials)  # refuses a study with several objectives


def _in_rows(data: Any) -> Any:
    """A tuple (X, y) as Rows; anything else as it is."""
    if not isinstance(data, tuple):
        return data
    if len(data) != 2:
        raise SettingError(f"data as a tuple must be (X, y), but got {len(data)} items")
    return Rows(*data)


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
    ledger: Ledger | None = field(default=None, repr=False)
    failure: str | None = field(default=None, repr=False)
    sessions: dict[str, Any] = field(default_factory=dict, repr=False)  # by run: the client's end of its seal
    detached: bool = False  # whether what it begins for a run must outlive this process
    part: str = ""
    own: str = ""
    place: tuple[int, int] = (0, 1)  # its number in the roster, and how many there are
    _parts: dict[Parts, list[Party]] = field(default_factory=dict, repr=False)

    @property
    def policy(self) -> Policy:
        """The client's own rules."""
        return self.client.policy or Policy()

    def parts(self, parts: Parts) -> list[Party]:
        """The units that answer: this party, or one for each part of its rows, with an objective of its own."""
        if parts.voters == 1:
            return [self]
        if parts not in self._parts:
            try:
                parts.check(self.data)
                data, failure = parts.of(self.data), None
            except Exception as error:  # depends on the data, so it is nobody else's business
                data, failure = [[] for _ in range(parts.voters)], f"rows cannot be split: {described(error)}"
                self.log(failure)
            self._parts[parts] = [
                Party(
                    self.id,
                    replace(self.client, data=rows, trials=None),
                    self.store,
                    self.folder,
                    self.randomness,
                    failure=failure,
                    part=f"{number} of {parts.voters}, {parts.neighbours}",
                    own=self.own,
                    place=self.place,
                )
                for number, rows in enumerate(data)
            ]
        return self._parts[parts]

    @cached_property
    def data(self) -> Any:
        """The client's data, loaded when it is first asked for; what the client's own code raises passes through."""
        given = self.client.data
        if not callable(given) or hasattr(given, "__len__"):
            return given
        try:
            return _in_rows(given())
        except (Exception, KeyboardInterrupt):
            raise
        except BaseException as error:  # sys.exit, or the panic of a library
            raise ObjectiveError(f"data cannot be loaded: {described(error)}") from None

    def loaded(self) -> bool:
        """Whether there is data; if it cannot be loaded, the reason stays in the client's own log."""
        try:
            return self.data is not None
        except Exception as error:
            self.log(f"data cannot be loaded: {described(error)}")
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
        """Adds trials."""
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

    def fail(self, seed: int, reason: str) -> None:
        """Notes that the objective failed: the reason goes to the log, its last line is kept for this run."""
        self.log(f"objective failed: {reason}")
        self.failure = reason.strip().splitlines()[-1]
        self.store.put_failure(self.data_key, self.objective_key, seed)

    def failed_before(self, seed: int) -> bool:
        """Whether the objective failed in an earlier run with the same data and seed."""
        return self.store.has_failure(self.data_key, self.objective_key, seed)

    def losses(self, configs: Sequence[Config], seed: int) -> FloatArray:
        """The client's losses, shape (configs,), scoring what is missing. NaN: no finite loss is known."""
        if self.failure is not None:
            raise ObjectiveError(self.failure)
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
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            with open(self.folder / "client.log", "a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(line)
