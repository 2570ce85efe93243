"""What `plan` needs to know of a run, whatever its method, and how it states the cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Generic, TypeVar

from hushtune.client.search.base import Search
from hushtune.core.space import Candidates
from hushtune.methods.base import Facts, Method
from hushtune.privacy.accounting import Rule, rule_to_json
from hushtune.privacy.events.sums import Event
from hushtune.privacy.guarantee import EPSILON_RANGE, Privacy
from hushtune.seals.base import Seal

RUN = "0" * 32  # the id of a run that is only looked at
Books = Callable[[tuple[Event, ...]], dict[str, Any] | None]
"""Looks events up in the ledger that would be charged, if there is one."""

Planned = TypeVar("Planned", bound=Method)


@dataclass(frozen=True)
class Setting(Generic[Planned]):
    """What a plan is about. The method is not settled yet: that depends on the rest."""

    clients: int
    candidates: Candidates
    method: Planned
    privacy: Privacy
    seal: Seal
    rule: Rule

    def settled(self) -> Planned:
        """The method as it would be run."""
        facts = Facts(self.candidates, self.clients, self.privacy, self.seal, Search())
        return self.method.settled(facts)  # type: ignore[return-value]

    def charge(self, events: tuple[Event, ...]) -> dict[str, Any]:
        """What the run alone costs, and the rule that it is stated under."""
        spent = self.rule.spent([(events, self.privacy.delta)], self.privacy.delta)
        return {"rule": rule_to_json(self.rule), **asdict(spent)}

    def doubled(self) -> Privacy | None:
        """The same guarantee at twice the epsilon, if there is one."""
        epsilon = 2 * self.privacy.epsilon
        return replace(self.privacy, epsilon=epsilon) if epsilon <= EPSILON_RANGE[1] else None
