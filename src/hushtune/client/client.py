"""One party as the user describes it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hushtune.client.objectives.base import Objective
from hushtune.client.rows import in_rows
from hushtune.client.trials import from_study
from hushtune.core.checks import kind
from hushtune.core.errors import SettingError
from hushtune.core.identity import Identity
from hushtune.core.roster import Id
from hushtune.core.space import Space
from hushtune.privacy.ledger import Ledger
from hushtune.privacy.policy import Policy

if TYPE_CHECKING:
    import optuna


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
        space: the knobs that a request may set, with their types and ranges; other candidates are refused before
            anything is scored. If the policy names a space too, both hold. Default: the objective's own check decides.
    """

    data: Any = field(default=None, repr=False)
    objective: Objective | None = None
    name: Id | None = None
    trials: optuna.Study | None = None
    policy: Policy | None = None
    ledger: Ledger | None = None
    identity: Identity | None = field(default=None, repr=False)
    space: Space | None = None

    def __post_init__(self) -> None:
        self.data = in_rows(self.data)
        if isinstance(self.policy, str | os.PathLike):
            raise SettingError(f"policy must be a Policy, but got {str(self.policy)!r}: use ht.Policy.load(...)")
        kind("policy", self.policy, Policy)
        kind("space", self.space, Space)
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
