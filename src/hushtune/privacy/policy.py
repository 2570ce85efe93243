"""What a client accepts, whatever the server asks."""

from __future__ import annotations

import math
import os
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from hushtune.core.checks import integer, kind, number
from hushtune.core.errors import RefusedError, SettingError
from hushtune.privacy.accounting import Neighbours, Unit
from hushtune.privacy.guarantee import Privacy


@dataclass(frozen=True)
class Policy:
    """A client's own rules. What they refuse does not depend on the client's data.

    Args:
        epsilon: the largest epsilon of one run; with it, a run without epsilon is refused. None: no such rule.
        delta: the largest delta of one run.
        units: accepted units, of "client" and "record". None: all.
        neighbours: accepted relations, of "replace-one", "zero-out" and "add-remove". None: all.
        corrupt: the least share of corrupt clients that the seal and its noise must allow for.
        insecure: whether a seal that calls itself insecure (fewer peers than its failure bound asks for, or a toy) is
            accepted.
        seals: accepted seals by name, e.g. ("masked",). None: all.
        queries: accepted queries by name, e.g. ("top-votes",). None: all.
        smallest_cohort: the fewest honest clients whose contributions must be in every opened sum: what the seal leaves
            of the roster when as many as it allows for drop out or are corrupt; without the one who reads, if none is.
        smudging: the fewest bits (lambda) by which this client's noise must hide the error of what is decrypted, under
            seal 'threshold'.
        work: the most configs that a client scores for one query of a run, all its voters together. None: no such rule.
        opt_out: True refuses everything.
    """

    epsilon: float | None = None
    delta: float = 1e-3
    units: tuple[Unit, ...] | None = None
    neighbours: tuple[Neighbours, ...] | None = None
    corrupt: float = 0.1
    insecure: bool = False
    seals: tuple[str, ...] | None = None
    queries: tuple[str, ...] | None = None
    smallest_cohort: int = 1
    smudging: float = 8.0
    work: int | None = 1_000_000
    opt_out: bool = False

    def __post_init__(self) -> None:
        if self.epsilon is not None:
            number("epsilon", self.epsilon, 0, math.inf, "()")
        number("delta", self.delta, 0, 1, "()")
        number("corrupt", self.corrupt, 0, 1, "[)")
        integer("smallest_cohort", self.smallest_cohort, 1)
        number("smudging", self.smudging, 0, 128)
        if self.work is not None:
            integer("work", self.work, 1)
        kind("opt_out", self.opt_out, bool, optional=False)
        kind("insecure", self.insecure, bool, optional=False)
        for name in ("seals", "queries", "units", "neighbours"):
            if not isinstance(getattr(self, name), tuple | None):
                raise SettingError(f'{name} must be several names, as in ("a", "b"), but got {getattr(self, name)!r}')

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Policy:
        """The policy in a TOML file: any of the arguments, as `epsilon = 1.0` or `seals = ["masked"]`.

        Args:
            path: of the TOML file.
        """
        try:
            raw = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise SettingError(f"{path} cannot be read: {error.strerror}") from None
        except ValueError as error:
            raise SettingError(f"{path} must be TOML, but: {error}") from None
        known = [f.name for f in fields(cls)]
        if unknown := sorted(set(raw) - set(known)):
            raise SettingError(f"{path} may set {known}, but got {unknown}")
        values: dict[str, Any] = {n: tuple(value) if isinstance(value, list) else value for n, value in raw.items()}
        try:
            return cls(**values)
        except SettingError as error:
            raise SettingError(f"{path}: {error}") from None

    def check_smudging(self, bits: float) -> None:
        """Raises RefusedError if a partial decryption would be hidden by less noise than this client asks for.

        Args:
            bits: lambda, as this client computes it from the request.
        """
        if bits < self.smudging:
            raise RefusedError(f"policy: smudging must reach {self.smudging:g} bits, but got {bits:.1f}")

    def check_work(self, configs: int) -> None:
        """Raises RefusedError if a run asks for more work than this client does.

        Args:
            configs: how many the run has this client score.
        """
        if self.work is not None and configs > self.work:
            raise RefusedError(f"policy: at most {self.work} configs are scored for a run, but got {configs}")

    def check(
        self, query: str, seal: str, corrupt: float, insecure: bool, honest: int, privacy: Privacy | None
    ) -> None:
        """Raises RefusedError, naming the rule, if this client does not take part.

        Args:
            query: its name.
            seal: its name.
            corrupt: share of corrupt clients that seal and noise allow for.
            insecure: whether the seal calls itself insecure.
            honest: the fewest honest clients in every sum, by the client's own roster.
            privacy: the guarantee; None: exact values would be opened.
        """
        if self.opt_out:
            raise RefusedError("policy: this client has opted out")
        if self.seals is not None and seal not in self.seals:
            raise RefusedError(f"policy: seal must be one of {list(self.seals)}, but got '{seal}'")
        if corrupt < self.corrupt:
            raise RefusedError(f"policy: `corrupt >= {self.corrupt:g}` must hold, but got corrupt={corrupt:g}")
        if insecure and not self.insecure:
            raise RefusedError("policy: a seal that calls itself insecure must be accepted with insecure=True")
        if self.queries is not None and query not in self.queries:
            raise RefusedError(f"policy: query must be one of {list(self.queries)}, but got '{query}'")
        if honest < self.smallest_cohort:
            raise RefusedError(
                f"policy: at least {self.smallest_cohort} honest clients must be in every sum, but got {honest}"
            )
        if self.epsilon is not None and (privacy is None or privacy.epsilon > self.epsilon):
            got = "no epsilon at all" if privacy is None else f"epsilon={privacy.epsilon:g}"
            raise RefusedError(f"policy: `epsilon <= {self.epsilon:g}` must hold, but got {got}")
        if privacy is None:
            return
        if privacy.delta > self.delta:
            raise RefusedError(f"policy: `delta <= {self.delta:g}` must hold, but got delta={privacy.delta:g}")
        for name, accepted in (("unit", self.units), ("neighbours", self.neighbours)):
            if accepted is not None and getattr(privacy, name) not in accepted:
                got = getattr(privacy, name)
                raise RefusedError(f"policy: {name} must be one of {list(accepted)}, but got '{got}'")
