"""A study: what is asked of clients, whoever they are. One value, which study.toml writes down."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hushtune.client.search.adaptive import Adaptive
from hushtune.client.search.base import Search
from hushtune.core.checks import kind
from hushtune.core.errors import SettingError
from hushtune.core.space import Domain, Space
from hushtune.methods.base import Facts, Method
from hushtune.privacy.accounting import Budget
from hushtune.privacy.bounds import Bound
from hushtune.privacy.guarantee import Privacy
from hushtune.seals.base import Seal
from hushtune.seals.registry import default_seal


@dataclass(frozen=True)
class Study:
    """What a run asks, and under which protection.

    Args:
        candidates: the public list to choose from, or a space, for a method that searches it.
        method: who is asked what, and how the server decides.
        privacy: the guarantee for everything opened; None: exact values are opened.
        seal: how single contributions stay hidden. Default: `Masked()`.
        search: how clients fill their trials. Default: the method's own.
    """

    candidates: Domain
    method: Method
    privacy: Privacy | None = None
    seal: Seal | None = None
    search: Search | None = None

    def __post_init__(self) -> None:
        wanted = {"privacy": Privacy, "seal": Seal, "search": Search}
        for name, value in wanted.items():
            kind(name, getattr(self, name), value)
        if not isinstance(self.method, Method):
            raise SettingError(f"method must be a method such as Vote(), but got {self.method!r}")

    def seated(self, nodes: int) -> Study:
        """The study for a roster that names so many nodes, 0 if none.

        Args:
            nodes: how many.
        """
        return replace(self, seal=(self.seal or default_seal()).seated(nodes))

    def settled(self, clients: int) -> Settled:
        """The study with everything filled in that follows from public facts, or a refusal.

        Args:
            clients: how many will be asked.
        """
        method, privacy, seal = self.method, self.privacy, self.seal or default_seal()
        search = self.search or method.searched(self.candidates)
        if isinstance(search, Adaptive) and not method.adaptive:
            raise SettingError(
                f"method '{method.name}' does not take Search.adaptive(): leave `search` out, or use Search()"
            )
        if (method.voters or 1) > 1 and privacy is not None and privacy.unit == "client":
            raise SettingError(
                f"voters={method.voters} needs privacy with unit='record': for unit='client' each client has one voter"
            )
        search.check()
        seal.check_privacy(privacy is not None)
        candidates = method.listed(self.candidates, privacy, seal)
        facts = Facts(candidates, clients, privacy, seal, search, whole=isinstance(self.candidates, Space))
        return settle(method, facts)


@dataclass(frozen=True)
class Settled:
    """A study as it will be run by a known number of clients.

    Args:
        given: the method as the user gave it.
        facts: what everybody knows before the run.
        method: the method with everything filled in.
        bounds: those of all that the method will open, in order.
    """

    given: Method
    facts: Facts
    method: Method
    bounds: tuple[Bound, ...]

    def within(self, left: Budget) -> Settled:
        """The study shortened to what a ledger has left, if its method can be shortened.

        Args:
            left: what the coordinator's ledger has left.
        """
        method, privacy = self.given.shortened(self.facts, left)
        facts = replace(self.facts, privacy=privacy)
        return Settled(self.given, facts, method, method.bounds(facts.candidates))


def settle(given: Method, facts: Facts) -> Settled:
    """A method with everything filled in that follows from public facts.

    Args:
        given: the method as the user gave it.
        facts: what everybody knows before the run.
    """
    method = given.settled(facts)
    return Settled(given, facts, method, method.bounds(facts.candidates))
