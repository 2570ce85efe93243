"""What to expect of a run, before anything is spent: what `plan` knows whatever the method, and what a method adds.

`Method.plan` gets a `Prospect`, which holds the settled study with its noise and its cost, and gives a `Plan`: numbers
of its own, and lines of text that the command prints. A method that says nothing still gets noise, cost and ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from typing import Any

from hushtune.core.codec import plain
from hushtune.core.errors import SettingError
from hushtune.core.observer import Observer
from hushtune.core.space import Candidates
from hushtune.core.words import as_set, counted
from hushtune.methods.base import Method
from hushtune.methods.study import Settled, settle
from hushtune.privacy.accounting import Rule, rule_to_json
from hushtune.privacy.calibration import calibrate, events_of
from hushtune.privacy.events.sums import Event
from hushtune.privacy.guarantee import EPSILON_RANGE, Privacy
from hushtune.privacy.noise.base import Noise
from hushtune.seals.base import Seal

RUN = "0" * 32  # the id of a run that is only looked at
Books = Callable[[tuple[Event, ...]], dict[str, Any] | None]
"""Looks events up in the ledger that would be charged, if there is one."""


@dataclass(frozen=True)
class Plan:
    """What to expect of a run.

    Args:
        verdict: all this in a sentence.
        clients: how many are asked.
        candidates: how many there are to choose from.
        method: with all its settings filled in.
        privacy: the guarantee.
        seal: how single contributions stay hidden.
        charge: what the run alone costs, and the rule that it is stated under.
        ledger: the ledger before and after the run, under its own rule, if one was given.
    """

    verdict: str
    clients: int
    candidates: int
    method: Method
    privacy: Privacy
    seal: Seal
    charge: dict[str, Any]
    ledger: dict[str, Any] | None

    def to_json(self) -> dict[str, Any]:
        """All fields as plain values."""
        return {field.name: _plain(getattr(self, field.name)) for field in fields(self)}

    def head(self) -> Iterator[str]:
        """What comes first: the verdict."""
        yield self.verdict

    @property
    def aside(self) -> str:
        """What of the method the odds leave out."""
        return "; without its prior" if self.method.rests_on(self.clients) else ""

    def lines(self) -> Iterator[str]:
        """What the verdict follows from, for people to read; the command adds cost and ledger."""
        yield self.terms(f"{counted(self.clients, 'client')}, {counted(self.candidates, 'candidate')}")

    def terms(self, what: str) -> str:
        """Who is asked what, and under which protection, in a line.

        Args:
            what: the first part of it.
        """
        privacy = self.privacy
        return (
            f"Setting: {what}; epsilon {as_set(privacy.epsilon)}, delta {as_set(privacy.delta)} per {privacy.unit}, "
            f"{privacy.neighbours}; seal '{self.seal.name}'{self.aside}"
        )


@dataclass(frozen=True)
class CostPlan(Plan):
    """What to expect where nothing simulates the method.

    Args:
        openings: how many values may be opened.
        scale: of the noise on each opened number; for sums its standard deviation, if only the fewest honest clients
            add their share.
    """

    openings: int
    scale: float

    def lines(self) -> Iterator[str]:
        """The setting, and the noise."""
        yield from super().lines()
        yield f"Noise: of scale {self.scale:.4g} on every number; openings: {self.openings} at most"


def _plain(value: Any) -> Any:
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return asdict(value) if hasattr(value, "__dataclass_fields__") else plain(value)


@dataclass(frozen=True)
class Prospect:
    """A run that may come: all that is public about it, and how its odds are to be simulated.

    Args:
        study: what would be asked, settled for a number of clients.
        rule: how epsilon is computed from events: the ledger's.
        books: looks events up in the ledger.
        assume: what is assumed about clients, by name; each method knows its own.
        pinned: whether identities will be pinned.
        repetitions: how often something is simulated.
        seed: of the simulation.
        observer: who watches.
    """

    study: Settled
    rule: Rule
    books: Books
    assume: Mapping[str, float]
    pinned: bool
    repetitions: int
    seed: int
    observer: Observer

    @property
    def clients(self) -> int:
        """How many are asked."""
        return self.study.facts.clients

    @property
    def candidates(self) -> Candidates:
        """The public list to choose from."""
        return self.study.facts.candidates

    @property
    def seal(self) -> Seal:
        """How single contributions stay hidden."""
        return self.study.facts.seal

    @property
    def privacy(self) -> Privacy:
        """The guarantee: there is no plan without one."""
        assert self.study.facts.privacy is not None
        return self.study.facts.privacy

    @cached_property
    def noise(self) -> Noise:
        """The least noise that keeps the run within epsilon."""
        return calibrate(self.study.bounds, self.privacy, self.rule, self.seal.noise(0.0))

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """What the run costs."""
        return events_of(self.study.bounds, self.privacy, self.noise)

    @cached_property
    def charge(self) -> dict[str, Any]:
        """What the run alone costs, and the rule that it is stated under."""
        spent = self.rule.spent([(self.events, self.privacy.delta)], self.privacy.delta)
        return {"rule": rule_to_json(self.rule), **asdict(spent)}

    def assumed(self, **known: float) -> dict[str, float]:
        """What is assumed about clients: the method's own assumptions, as the user changed them.

        Args:
            known: all that the method assumes, with what it takes by default.
        """
        for name in self.assume:
            if name not in known:
                takes = f"assumes {sorted(known)}" if known else "assumes nothing"
                raise SettingError(f"method '{self.study.method.name}' {takes}, but got '{name}'")
        return {**known, **self.assume}

    def changed(
        self,
        *,
        clients: int | None = None,
        method: Method | None = None,
        privacy: Privacy | None = None,
        seal: Seal | None = None,
    ) -> Prospect:
        """The same run with something else about it; refused if that is not possible.

        Args:
            clients: how many are asked instead.
            method: what is run instead, not settled.
            privacy: the guarantee instead.
            seal: the seal instead.
        """
        clients, privacy, seal = clients or self.clients, privacy or self.privacy, seal or self.seal
        seal.check(clients)
        facts = replace(self.study.facts, clients=clients, privacy=privacy, seal=seal)
        return replace(self, study=settle(method or self.study.given, facts))

    def doubled(self) -> Privacy | None:
        """The same guarantee at twice the epsilon, if there is one."""
        epsilon = 2 * self.privacy.epsilon
        return replace(self.privacy, epsilon=epsilon) if epsilon <= EPSILON_RANGE[1] else None

    def common(self) -> dict[str, Any]:
        """The fields of `Plan` but for the verdict, by name."""
        return {
            "clients": self.clients,
            "candidates": len(self.candidates),
            "method": self.study.method,
            "privacy": self.privacy,
            "seal": self.seal,
            "charge": self.charge,
            "ledger": self.books(self.events),
        }

    def costs(self) -> Plan:
        """Noise, cost and ledger, for a method that does not say more."""
        self.assumed()
        verdict = "Only noise and cost are known beforehand: no simulation says how well this method chooses."
        return CostPlan(verdict, **self.common(), openings=len(self.study.bounds), scale=self.noise.scale)
