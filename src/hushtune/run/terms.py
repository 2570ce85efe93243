"""The terms of a run: what it asks, how much noise that takes, and what it costs. Fixed before anybody is asked."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from hushtune.client.query import Query
from hushtune.client.request import Request, parts_of
from hushtune.client.rows import Parts
from hushtune.core.space import Candidates
from hushtune.methods.study import Settled
from hushtune.privacy.accounting import Budget, Rule, Sums, check_events
from hushtune.privacy.calibration import Training, calibrate, events_of, rule_of
from hushtune.privacy.charges import Charge, charge_of
from hushtune.privacy.events.sums import Event
from hushtune.privacy.guarantee import Privacy
from hushtune.privacy.ledger import Ledger
from hushtune.privacy.noise.base import Noise
from hushtune.seals.base import Seal, largest_sum
from hushtune.seals.ends import Due
from hushtune.seals.forms import Form


@dataclass(frozen=True)
class Terms:
    """What a run is held to.

    Args:
        study: what is asked, settled for the clients that are asked.
        privacy: the guarantee for everything that is charged; None: exact values are opened.
        rule: how epsilon is computed from events: the ledger's.
        noise: what every opening gets.
        events: those of all openings, and of private training that follows; empty without epsilon.
        wanted: what was asked for, if the ledger had less left.
    """

    study: Settled
    privacy: Privacy | None
    rule: Rule
    noise: Noise
    events: tuple[Event, ...]
    wanted: Budget | None = None

    @property
    def seal(self) -> Seal:
        """How single contributions stay hidden."""
        return self.study.facts.seal

    @property
    def candidates(self) -> Candidates:
        """The public list that the run chooses from."""
        return self.study.facts.candidates

    @property
    def clients(self) -> int:
        """How many are asked."""
        return self.study.facts.clients

    @property
    def voters(self) -> int:
        """How many units each client is split into."""
        return self.study.method.voters_each

    @property
    def openings(self) -> int:
        """How many values the method may open."""
        return len(self.study.bounds)

    @property
    def parts(self) -> Parts:
        """How each client is split into units."""
        return parts_of(self.voters, self.privacy)

    @property
    def honest(self) -> int:
        """How many clients the noise counts on."""
        return self.seal.honest(self.clients)

    @property
    def needed(self) -> int:
        """How many clients must answer."""
        return self.seal.needed(self.clients)

    @property
    def share_variance(self) -> Fraction:
        """Variance of one client's noise share."""
        return self.noise.share_variance(self.honest)

    @cached_property
    def spent(self) -> Budget:
        """What the whole run costs under the rule."""
        if self.privacy is None:
            return Budget(0.0, 0.0)
        return self.rule.spent([(self.events, self.privacy.delta)], self.privacy.delta)

    def charge(self, run: str) -> Charge:
        """What a ledger is charged.

        Args:
            run: the run's id.
        """
        return charge_of(run, "run", self.events, self.privacy)

    def due(self, query: Query, form: Form | None) -> Due:
        """What one step asks of the seal.

        Args:
            query: what each unit is asked.
            form: which form of the sum is opened; None: the sum.
        """
        largest = largest_sum(self.clients, self.voters, query.bound, self.share_variance)
        return Due(form, query.blocks, largest, bound=query.bound)

    def request(self, run: str, step: int, roster: str, query: Query, form: Form | None) -> Request:
        """What all clients are asked in one step.

        Args:
            run: the run's id.
            step: which opening.
            roster: the roster's digest.
            query: what each unit is asked.
            form: which form of the sum is opened; None: the sum.
        """
        return Request(run, step, roster, query, form, self.seal, self.noise, self.privacy, self.voters, self.events)

    def announced(self, query: Query, step: int) -> bool:
        """Whether the run announced this sum at this cost; its length may follow from earlier openings.

        Args:
            query: what each unit would be asked.
            step: which opening it would be.
        """
        if step >= self.openings:
            return False
        if self.privacy is None:
            return type(query.bound) is type(self.study.bounds[step])
        return query.bound.event(self.noise, self.privacy.change) == self.events[step]


def calibrated(
    study: Settled,
    privacy: Privacy | None,
    ledger: Ledger | None,
    training: Training | None = None,
    wanted: Budget | None = None,
) -> Terms:
    """The terms with the least noise that keeps the run, and private training after it, within epsilon.

    Args:
        study: what is asked; its own guarantee is the run's share of epsilon.
        privacy: the guarantee for everything that is charged.
        ledger: whose rule counts.
        training: private training that is charged with the run.
        wanted: what was asked for, if the ledger had less left.
    """
    rule, seal, own = rule_of(ledger, privacy), study.facts.seal, study.facts.privacy
    if privacy is None or own is None:
        return Terms(study, privacy, rule, seal.noise(0.0), (), wanted)
    share = rule if training is None else Sums()  # a share is only a share: what counts under the rule is the whole
    noise = calibrate(study.bounds, own, share, seal.noise(0.0))
    events = events_of(study.bounds, privacy, noise)
    if training is not None:
        events = (*events, training.event(events, privacy, rule))
        check_events(events)
    return Terms(study, privacy, rule, noise, events, wanted)
