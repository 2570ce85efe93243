"""What a client accepts, whatever the server asks."""

from __future__ import annotations

import math
import os
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, get_args

from hushtune.core.checks import integer, kind, number
from hushtune.core.errors import RefusedError, SettingError
from hushtune.core.space import Space
from hushtune.core.tables import space_from_table
from hushtune.core.words import as_set
from hushtune.privacy.accounting import Neighbours, Unit
from hushtune.privacy.guarantee import Privacy


@dataclass(frozen=True)
class Proposal:
    """What a request proposes, as the client reads it: what a policy decides on.

    Args:
        query: its name.
        seal: its name.
        hides: whether under this seal even a server that lies sees no single contribution, if keys are pinned.
        corrupt: share of corrupt clients that seal and noise allow for.
        insecure: whether the seal calls itself insecure.
        honest: the fewest honest clients in every sum, by the client's own roster.
        privacy: the guarantee; None: exact values would be opened.
        pinned: whether the client holds a pinned roster.
        apart: whether the client is on a machine of its own, so that somebody else is the coordinator.
        nodes: who would compute on shares of what it sends, by the client's own roster.
    """

    query: str
    seal: str
    hides: bool
    corrupt: float
    insecure: bool
    honest: int
    privacy: Privacy | None
    pinned: bool
    apart: bool
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Policy:
    """A client's own rules. What they refuse does not depend on the client's data.

    Args:
        epsilon: the largest epsilon of one run; with it, a run without epsilon is refused. None: no such rule. On a
            machine of its own a client that has no ledger yet makes one with this limit, for all runs together.
        delta: the largest delta of one run; the limit's delta likewise. 0: of runs with an epsilon only those are
            accepted that open nothing but what is pure.
        exact: whether runs without epsilon, which open exact values, are accepted. None: in one process with the
            coordinator they are, on a machine of its own they are not.
        units: accepted units, of "client" and "record". None: all; a ledger that is made here counts per client. With
            several names, it counts per the first.
        neighbours: accepted relations, of "replace-one", "zero-out" and "add-remove". None: all; a ledger that is made
            here has "replace-one". With several names, it has the first.
        corrupt: the least share of corrupt clients that the seal and its noise must allow for.
        insecure: whether a seal that calls itself insecure (fewer peers than its failure bound asks for, or a toy) is
            accepted.
        seals: accepted seals by name, e.g. ("masked",). None: with a pinned roster, or on a machine of its own, those
            that hide single contributions, even from a server that lies if the roster is pinned (without one the
            server is trusted to invent no clients); else all.
        nodes: the nodes that may hold shares of what this client sends, by their names in its roster. None: all that
            its roster names.
        queries: accepted queries by name, e.g. ("top-votes",). None: all.
        smallest_cohort: the fewest honest clients whose contributions must be in every opened sum: what the seal leaves
            of the roster when as many as it allows for drop out or are corrupt; without the one who reads, if none is.
        smudging: the fewest bits (lambda) by which this client's noise must hide the error of what is decrypted, under
            seal 'threshold'.
        work: the most configs that a client scores for one run, all its voters together. None: no such rule.
        seconds: how long a client scores for one run, added up over its processes. When that is over, the client
            answers as one whose objective has failed; what it has scored is known next time. None: no such rule.
        trial_seconds: how long scoring one config may take; a trial that takes longer has failed. None: no such rule.
        unpaid: on a machine of its own, how many runs may be begun and never charged. None: no such rule.
        space: the knobs that a request may set, with their types and ranges. None: no such rule.
        opt_out: True refuses everything.
    """

    epsilon: float | None = None
    delta: float = 1e-3
    exact: bool | None = None
    units: tuple[Unit, ...] | None = None
    neighbours: tuple[Neighbours, ...] | None = None
    corrupt: float = 0.1
    insecure: bool = False
    seals: tuple[str, ...] | None = None
    nodes: tuple[str, ...] | None = None
    queries: tuple[str, ...] | None = None
    smallest_cohort: int = 1
    smudging: float = 20.0
    work: int | None = 1_000_000
    seconds: float | None = 86_400.0
    trial_seconds: float | None = None
    unpaid: int | None = 32
    space: Space | None = None
    opt_out: bool = False

    def __post_init__(self) -> None:
        if self.epsilon is not None:
            number("epsilon", self.epsilon, 0, math.inf, "()")
        number("delta", self.delta, 0, 1, "[)")
        number("corrupt", self.corrupt, 0, 1, "[)")
        integer("smallest_cohort", self.smallest_cohort, 1)
        number("smudging", self.smudging, 0, 128)
        for name in ("work", "unpaid"):
            if getattr(self, name) is not None:
                integer(name, getattr(self, name), 1)
        for name in ("seconds", "trial_seconds"):
            if getattr(self, name) is not None:
                number(name, getattr(self, name), 0, math.inf, "()")
        kind("exact", self.exact, bool)
        if self.exact and self.epsilon is not None:
            raise SettingError("exact=True lets everything out, so that no epsilon can be kept to: set one of the two")
        kind("space", self.space, Space)
        kind("opt_out", self.opt_out, bool, optional=False)
        kind("insecure", self.insecure, bool, optional=False)
        for name, known in (
            ("seals", None),
            ("nodes", None),
            ("queries", None),
            ("units", Unit),
            ("neighbours", Neighbours),
        ):
            self._check_names(name, None if known is None else get_args(known))
        _ = self.granted  # refuses a limit that no ledger can have

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Policy:
        """The policy in a TOML file: any of the arguments, as `epsilon = 1.0` or `seals = ["masked"]`.

        A space is a table [space] as in study files: `C = { type = "float", low = 0.01, high = 100 }`.

        Args:
            path: of the TOML file.
        """
        try:
            raw = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
        except OSError as error:
            raise SettingError(f"{path} cannot be read: {error.strerror}") from None
        except ValueError as error:
            raise SettingError(f"{path} must be TOML, but: {error}") from None
        known = [f.name for f in fields(cls)]
        if unknown := sorted(set(raw) - set(known)):
            raise SettingError(f"{path} may set {known}, but got {unknown}")
        values: dict[str, Any] = {n: tuple(value) if isinstance(value, list) else value for n, value in raw.items()}
        try:
            if isinstance(table := values.get("space"), dict):
                values["space"] = space_from_table(table)
            return cls(**values)
        except SettingError as error:
            raise SettingError(f"{path}: {error}") from None

    def _check_names(self, name: str, known: tuple[str, ...] | None) -> None:
        """Takes a list for a tuple, and refuses what is no list of names."""
        given: Any = getattr(self, name)
        if given is None:
            return
        if not isinstance(given, list | tuple) or not given or not all(isinstance(one, str) for one in given):
            raise SettingError(f'{name} must be a list of names, as in {name} = ["..."], but got {given!r}')
        if known is not None and (unknown := [one for one in given if one not in known]):
            raise SettingError(f"{name} must be of {list(known)}, but got {unknown}")
        object.__setattr__(self, name, tuple(given))

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

    def check_unpaid(self, runs: int) -> None:
        """Raises RefusedError if too many runs were begun and never charged: one more could be for its timing only.

        Args:
            runs: how many there are, without this one.
        """
        if self.unpaid is not None and runs >= self.unpaid:
            raise RefusedError(
                f"policy: at most {self.unpaid} runs may be begun and never charged, but got one more; its owner can "
                "allow more: unpaid, in the policy; or begin to count anew: remove work.db"
            )

    @property
    def granted(self) -> Privacy | None:
        """The limit of a ledger that this client makes on a machine of its own; None: its owner has set none."""
        if self.epsilon is None:
            return None
        neighbours = self.neighbours[0] if self.neighbours else "replace-one"
        unit = self.units[0] if self.units else "record" if neighbours == "add-remove" else "client"
        return Privacy(self.epsilon, self.delta, unit, neighbours)

    def check(self, proposal: Proposal) -> None:
        """Raises RefusedError, naming the rule, if this client does not take part.

        Args:
            proposal: what a request proposes.
        """
        if self.opt_out:
            raise RefusedError("policy: this client has opted out")
        self._check_seal(proposal)
        if self.queries is not None and proposal.query not in self.queries:
            raise RefusedError(f"policy: query must be one of {list(self.queries)}, but got '{proposal.query}'")
        if self.smallest_cohort > 1 and proposal.apart and not proposal.pinned:
            raise RefusedError(
                "policy: smallest_cohort needs a pinned roster; without one it is the server that says who takes part"
            )
        if proposal.honest < self.smallest_cohort:
            raise RefusedError(
                f"policy: at least {self.smallest_cohort} honest clients must be in every sum, but got "
                f"{proposal.honest}"
            )
        if proposal.privacy is None:
            self._check_exact(proposal.apart)
        else:
            self._check_privacy(proposal.privacy)

    def _check_seal(self, proposal: Proposal) -> None:
        seal = proposal.seal
        if self.seals is not None and seal not in self.seals:
            raise RefusedError(f"policy: seal must be one of {list(self.seals)}, but got '{seal}'")
        if self.seals is None and not proposal.hides and (proposal.pinned or proposal.apart):
            raise RefusedError(
                f"policy: under seal '{seal}' a server that lies can see what one client sends; a client whose owner "
                f'accepts that says so in its policy: seals = ["{seal}"]'
            )
        if self.nodes is not None and not set(proposal.nodes) <= set(self.nodes):
            raise RefusedError(
                f"policy: nodes must be among {list(self.nodes)}, but the run's nodes are {sorted(proposal.nodes)}"
            )
        if proposal.corrupt < self.corrupt:
            raise RefusedError(f"policy: `corrupt >= {self.corrupt:g}` must hold, but got corrupt={proposal.corrupt:g}")
        if proposal.insecure and not self.insecure:
            raise RefusedError("policy: a seal that calls itself insecure must be accepted with insecure=True")

    def _check_exact(self, apart: bool) -> None:
        if self.epsilon is not None:
            raise RefusedError(f"policy: `epsilon <= {as_set(self.epsilon)}` must hold, but got no epsilon at all")
        if self.exact is False or (apart and not self.exact):
            raise RefusedError(
                "policy: a run without epsilon opens exact values; a client whose owner accepts that says so in its "
                "policy: exact = true"
            )

    def _check_privacy(self, privacy: Privacy) -> None:
        if self.epsilon is not None and privacy.epsilon > self.epsilon:
            raise RefusedError(
                f"policy: `epsilon <= {as_set(self.epsilon)}` must hold, but got epsilon={as_set(privacy.epsilon)}"
            )
        if privacy.delta > self.delta:
            raise RefusedError(
                f"policy: `delta <= {as_set(self.delta)}` must hold, but got delta={as_set(privacy.delta)}"
            )
        for name, accepted in (("unit", self.units), ("neighbours", self.neighbours)):
            if accepted is not None and getattr(privacy, name) not in accepted:
                got = getattr(privacy, name)
                raise RefusedError(f"policy: {name} must be one of {list(accepted)}, but got '{got}'")
