"""What a method is, and all it sees of a run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from hushtune.client.party import Party
from hushtune.client.query import Query
from hushtune.client.search.base import Search
from hushtune.core.arrays import FloatArray, IntArray
from hushtune.core.codec import fields_to_json
from hushtune.core.errors import SettingError
from hushtune.core.registry import Registry
from hushtune.core.roster import Id
from hushtune.core.space import Candidates, Config, Space
from hushtune.methods.figures import Figure, Told, pairs_figure
from hushtune.methods.unopened import Unopened
from hushtune.privacy.accounting import Budget
from hushtune.privacy.bounds import Bound
from hushtune.privacy.guarantee import Privacy
from hushtune.seals.base import Seal
from hushtune.seals.oracle import Choose

if TYPE_CHECKING:
    from hushtune.methods.plan import Plan, Prospect

Note = str | float
"""Something that a method computed from opened values and that the result should say."""


@dataclass(frozen=True)
class Facts:
    """What everybody knows of a run before it begins.

    Args:
        candidates: the public list.
        clients: how many are asked.
        privacy: the guarantee asked for; None: exact values are opened.
        seal: how single contributions stay hidden.
        search: how clients fill their trials.
        whole: whether a space was given, of which the candidates are some points.
    """

    candidates: Candidates
    clients: int
    privacy: Privacy | None
    seal: Seal
    search: Search
    whole: bool = False  # whether a space was given, of which the candidates are some points


class Openings(Protocol):
    """What a method sees of a run: public facts, and what was opened. It never sees a client, a seal or a ledger."""

    @property
    def id(self) -> str:
        """The run's: clients keep what they do in it under this name."""
        ...

    @property
    def candidates(self) -> Candidates:
        """The public candidates that the run chooses from."""
        ...

    @property
    def search(self) -> Search:
        """How clients fill their trials. Public, as is its seed."""
        ...

    @property
    def asked(self) -> int:
        """How many clients are asked."""
        ...

    def sum(self, query: Query) -> Mapping[str, IntArray]:
        """Opens the sum of all clients' answers, noisy if epsilon is set; one array per block of the query.

        Args:
            query: what each privacy unit is asked; its bound must be one that the method announced.
        """
        ...

    def unopened(self, query: Query) -> Unopened:
        """The sum of all clients' answers, not opened yet: a seal may compute with it first. Without epsilon only.

        Args:
            query: as for `sum`.
        """
        ...

    def consult(self, query: Query, choose: Choose) -> int:
        """Lets whoever keeps the sums secret, a curator or nodes, answer the questions that `choose` asks about all
        clients' scores; opens the answers. Without epsilon they are exact.

        Args:
            query: with a bound that announces tests, as `Scores` does.
            choose: asks an `Oracle` its questions and gives the place of a candidate; it sees no score.

        Returns:
            the place of the candidate that `choose` takes.
        """
        ...

    def gather(self, query: Query) -> Mapping[Id, Mapping[str, IntArray]]:
        """Opens every client's own answer: under seal 'clear' and without epsilon only.

        Args:
            query: as for `sum`; its bound is a `Box`, for which no epsilon can be claimed.
        """
        ...

    def noise_variance(self) -> float:
        """Variance of the noise in each entry of the last opened sum (0 without epsilon). Public."""
        ...

    def answered(self) -> int:
        """How many clients' answers are in the last opened sum. Public."""
        ...

    def leave_out(self, client: Id, reason: str) -> None:
        """Says that a client's own answer, though opened, does not count.

        Args:
            client: its name in the roster.
            reason: in plain words; it is in the result.
        """
        ...

    def note(self, name: str, value: Note) -> None:
        """Adds to what the result says. Only what follows from opened values and public facts.

        Args:
            name: what it is, in plain words.
            value: a text or a number.
        """
        ...


def check_secret(what: str, seal: Seal) -> None:
    """Refuses a seal under which nobody answers questions about sums that stay hidden.

    Args:
        what: needs such answers, in words.
        seal: the run's.
    """
    if not seal.mechanisms:
        raise SettingError(
            f"{what} needs somebody who keeps the sums secret: give seal=Curator() or seal=Quorum(), but got seal "
            f"'{seal.name}'"
        )


METHOD_CLASSES: Registry[Method] = Registry("method", own="hushtune.methods.registry", group="hushtune.methods")


class Method(ABC):
    """Which sums are asked for, and how the server decides. Methods are frozen dataclasses that derive from this.

    `run` reads opened values and public facts only, so that `verify` can decide again from a result's records. What a
    method opens is announced by `bounds`: noise is calibrated, and the whole cost reserved, before anybody is asked.
    """

    name: ClassVar[str]
    adaptive: ClassVar[bool] = False  # whether clients may search a space on their own instead of scoring candidates
    losses: tuple[float, float] = (0.0, 1.0)  # the smallest and the largest loss that pairs of its clients can have
    voters: int | None = 1  # how many parts of a client's rows answer for themselves; 1: the client as a whole

    def __init_subclass__(cls, **settings: Any) -> None:
        """Makes a method known by its name, to whoever reads a result."""
        super().__init_subclass__(**settings)
        if "name" in vars(cls):
            METHOD_CLASSES.claim(cls.name, cls)

    @property
    def voters_each(self) -> int:
        """How many voters a client is, once settled."""
        if self.voters is None:
            raise SettingError("voters are not settled; ask `settled` for those in use, or give them")
        return self.voters

    def to_json(self) -> dict[str, Any]:
        """The method's name and its settings, as plain values."""
        return {"name": self.name, **fields_to_json(self)}

    def listed(self, given: Any, privacy: Privacy | None, seal: Seal) -> Candidates:
        """The public candidates, from what the user gave.

        Args:
            given: candidates, or a space.
            privacy: the guarantee asked for, if any.
            seal: the run's.
        """
        if not isinstance(given, Candidates):
            raise SettingError(
                "candidates must be a finite public list: space.grid(...), space.sample(...) or "
                f"space.candidates(...), but got {type(given).__name__}"
                + (f", which method '{self.name}' does not search" if isinstance(given, Space) else "")
            )
        return given

    def searched(self, given: Any) -> Search:
        """How clients fill their trials, if the user does not say: by scoring all candidates.

        Args:
            given: candidates, or a space.
        """
        return Search()

    def settled(self, facts: Facts) -> Method:
        """The method with everything filled in that follows from public facts; the others are asked of this one.

        Args:
            facts: what everybody knows before the run.
        """
        return self

    def shortened(self, facts: Facts, left: Budget) -> tuple[Method, Privacy | None]:
        """The method settled, and the guarantee it is run with, if the ledger has only so much left.

        What a method does not shorten stays as it was asked for, and the ledger refuses it.

        Args:
            facts: what everybody knows before the run.
            left: what the coordinator's ledger has left.
        """
        return self.settled(facts), facts.privacy

    @abstractmethod
    def bounds(self, candidates: Candidates) -> tuple[Bound, ...]:
        """The bounds of all that the method will open, in order, so that noise is calibrated beforehand.

        Args:
            candidates: the public list.
        """

    @abstractmethod
    def run(self, run: Openings) -> Config:
        """Straight-line code, the way the paper states it.

        Args:
            run: what the method sees of the run.
        """

    def plan(self, prospect: Prospect) -> Plan:
        """What to expect of a run, before anything is spent. The default: noise, cost and ledger.

        Args:
            prospect: the run, settled; its `study.method` is this method with everything filled in.
        """
        return prospect.costs()

    def variants(self) -> Mapping[str, Method]:
        """Methods that open the same sums and decide otherwise, by name; for comparisons, at no cost."""
        return {}

    def figures(self, told: Told) -> list[Figure]:
        """What a report shows of this method's openings, beside the values that candidates got.

        Args:
            told: the result.
        """
        return [pairs_figure(told)] if told.pairs() else []

    def expected(self, candidates: Candidates) -> FloatArray | None:
        """By how much each candidate's opened value is expected to differ from others', whatever clients say: public.

        Args:
            candidates: the public list.
        """
        return None

    def beside(self, candidates: Candidates) -> Mapping[str, Config]:
        """Configs that results show beside the chosen one, by name; they follow from public facts alone.

        Args:
            candidates: the public list.
        """
        return {}

    def rests_on(self, voters: int) -> tuple[str, ...]:
        """What a choice rests on beside clients' data, as the statement says it; one sentence or more each.

        Args:
            voters: how many clients, or parts of them, were asked.
        """
        return ()

    @property
    def not_covered(self) -> tuple[str, ...]:
        """What the guarantee says nothing about, because of how this method works."""
        return ()

    @property
    def consults(self) -> bool:
        """Whether it asks questions about sums that are never opened: somebody must keep them secret and answer."""
        return False

    def drawn(self, seal: Seal, scale: float) -> str:
        """What the noise is that such answers are given under, in words; empty if nothing is asked.

        Args:
            seal: the run's, which has mechanisms of its own.
            scale: of the noise, in steps of the scores.
        """
        return ""

    @property
    def scored_on(self) -> str:
        """Which rows scores are computed on, as the statement says it; empty if each client sees to that."""
        return ""

    def total(self, candidates: Candidates, answered: int) -> float | None:
        """What the noise-free sum over candidates adds up to, if that is public.

        Args:
            candidates: the public list.
            answered: how many clients' answers are in the sum.
        """
        return None

    def known(self, parties: Sequence[Party], candidates: Candidates, search: Search) -> Mapping[str, float]:
        """What only a marked simulation may know about its clients.

        Args:
            parties: the simulation's clients.
            candidates: the public list.
            search: how their trials were filled.
        """
        return {}
