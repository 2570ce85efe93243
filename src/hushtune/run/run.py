"""One run: asks for private sums, keeps the records, and lets a method decide from what was opened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from hushtune._version import __version__
from hushtune.client.query import Query
from hushtune.client.search.base import Search
from hushtune.core.arrays import FloatArray, IntArray
from hushtune.core.errors import AbortedError, BoundError, HushtuneError
from hushtune.core.observer import Observer
from hushtune.core.roster import Id
from hushtune.core.space import Candidates, Config
from hushtune.core.words import counted
from hushtune.federation.base import Federation
from hushtune.methods.base import Note
from hushtune.methods.unopened import Unopened
from hushtune.run.account import Account
from hushtune.run.disclosures import CHOSEN, Disclosure, of_form, of_gathered, of_sum, of_tests
from hushtune.run.folder import RunFolder
from hushtune.run.opening import Opener
from hushtune.run.possible import check_possible
from hushtune.run.result import Opened, Result
from hushtune.run.terms import Terms
from hushtune.seals.forms import Form
from hushtune.seals.oracle import ANSWERS, Choose, RecordedOracle


@dataclass
class Record:
    """What a run has to say afterwards.

    Args:
        opened: what each step opened, in order.
        notes: what the method computed from opened values.
        disclosures: who saw what.
        dropped: clients that are not in a sum, and why.
        late: clients that are in a sum, but did not help to open it, or sent what is wrong, and why.
        left_out: clients whose own answers were opened but do not count, and why.
    """

    opened: list[Opened] = field(default_factory=list)
    notes: dict[str, Note] = field(default_factory=dict)
    disclosures: list[Disclosure] = field(default_factory=list)
    dropped: dict[Id, str] = field(default_factory=dict)
    late: dict[Id, str] = field(default_factory=dict)
    left_out: dict[Id, str] = field(default_factory=dict)


class Run:
    """The server's side of one run. Opens nothing that its terms did not announce.

    Args:
        terms: what the run is held to.
        folder: its id, and where its openings are kept.
        federation: the clients, and how to reach them.
        account: the coordinator's ledger.
        observer: who watches.
        seed: of a marked simulation; None: a real run.
    """

    def __init__(
        self,
        terms: Terms,
        folder: RunFolder,
        federation: Federation,
        account: Account,
        observer: Observer,
        seed: int | None,
    ) -> None:
        self.id = folder.run
        self.terms = terms
        self.record = Record()
        self._folder, self._federation, self._account, self._observer = folder, federation, account, observer
        self.opener = Opener(terms, federation, folder, account, observer, seed)

    # ---- what a method sees --------------------------------------------------------------------------

    @property
    def candidates(self) -> Candidates:
        """The public candidates that the run chooses from."""
        return self.terms.candidates

    @property
    def search(self) -> Search:
        """How clients fill their trials."""
        return self.terms.study.facts.search

    @property
    def asked(self) -> int:
        """How many clients are asked."""
        return self.terms.clients

    def sum(self, query: Query) -> Mapping[str, IntArray]:
        """Opens the sum of all clients' answers."""
        opened, terms = self._next(query), self.terms
        self.record.disclosures += of_sum(query, opened, terms.seal, terms.clients, terms.noise, terms.privacy)
        return {name: np.array(values, dtype=np.int64) for name, values in opened.blocks.items()}

    def unopened(self, query: Query) -> Unopened:
        """The sum of all clients' answers, not opened yet."""
        return Unopened(query, self._form)

    def _form(self, query: Query, form: Form) -> IntArray | FloatArray:
        """Opens a form of the sum: computed by the seal, if it can, else from the sum."""
        if self.terms.privacy is not None or not self.terms.seal.computes:
            return form.of(self.sum(query))
        opened = self._next(query, form=form)
        self.record.disclosures.append(of_form(query, opened, form, self.terms.seal))
        return np.array(opened.blocks[form.block])

    def consult(self, query: Query, choose: Choose) -> int:
        """Opens the answers to questions about sums that stay hidden."""
        opened = self._next(query, choose=choose)
        self.record.disclosures += of_tests(query, opened, self.terms.seal, self.terms.noise, self.terms.privacy)
        return choose(RecordedOracle(opened.blocks[ANSWERS], len(self.candidates)))

    def gather(self, query: Query) -> Mapping[Id, Mapping[str, IntArray]]:
        """Opens every client's own answer."""
        if self.terms.privacy is not None or not self.terms.seal.shows_each:
            raise HushtuneError("every client's own answer is opened under seal 'clear' and without epsilon only")
        opened = self._next(query, each=True)
        self.record.disclosures.append(of_gathered(query, opened, self.terms.seal))
        return opened.arrays()

    def noise_variance(self) -> float:
        """Variance of the noise in each entry of the last opened sum."""
        return self.record.opened[-1].noise_variance

    def answered(self) -> int:
        """How many answers are in the last opened sum."""
        return self.record.opened[-1].answered

    def leave_out(self, client: Id, reason: str) -> None:
        """Says that a client's own answer, though opened, does not count."""
        self.record.left_out[client] = reason

    def note(self, name: str, value: Note) -> None:
        """Adds to what the result says."""
        self.record.notes[name] = value

    # ---- steps ---------------------------------------------------------------------------------------

    def _next(self, query: Query, form: Form | None = None, each: bool = False, choose: Choose | None = None) -> Opened:
        """The next step's opening: what an interrupted run has on record, or what clients say."""
        step = len(self.record.opened)
        if bool(query.bound.tests) != (choose is not None):
            raise HushtuneError("sums that are tested are never opened, and those that are opened are not tested")
        if not self.terms.announced(query, step):
            raise HushtuneError(f"a method asked for a sum (step {step}) that its `bounds` did not announce")
        kept = self._folder.opening(step)
        opened, dropped, late = kept or self.opener.open(query, step, form, each, choose)
        self._account.opened(step, now=kept is None)
        if kept is None:
            self._folder.keep(opened, dropped, late)
        self.record.opened.append(opened)
        self.record.dropped.update(dropped)
        self.record.late.update(late)
        for client, reason in dropped.items():
            self._observer.dropped(client, reason)
        self._observer.opened(step + 1, self.terms.openings, query.name)
        self._check(query, opened)
        return opened

    def _check(self, query: Query, opened: Opened) -> None:
        """Aborts, with the opening on record, if it is nothing that clients who follow the protocol can have sent."""
        terms = self.terms
        try:
            check_possible(query, opened, terms.voters, terms.noise, terms.honest)
        except BoundError as error:
            raise AbortedError(
                f"what was opened of '{query.name}' is nothing that {counted(opened.answered, 'client')} can send, "
                f"whatever the noise: {error}; a client does not follow the protocol"
            ) from None

    def result(self, config: Config, seconds: dict[str, float]) -> Result:
        """The run's outcome, with its books closed."""
        terms, record, roster = self.terms, self.record, self._federation.roster
        return Result(
            config=config,
            index=place_of(config, terms.candidates),
            method=terms.study.method,
            search=self.search,
            seal=terms.seal,
            privacy=terms.privacy,
            events=terms.events,
            spent=terms.spent,
            rule=terms.rule,
            noise=terms.noise,
            honest=terms.honest,
            disclosures=[*record.disclosures, CHOSEN],
            asked=terms.clients,
            pinned=roster.pinned,
            nodes=roster.nodes if terms.seal.served_by else (),
            dropped=record.dropped,
            late=record.late,
            left_out=record.left_out,
            notes=record.notes,
            opened=record.opened,
            candidates=terms.candidates,
            seconds=seconds,
            run=self.id,
            ledger=self._account.note(),
            traffic=self._federation.traffic.per_client(terms.clients),
            simulation=None,
            hushtune=__version__,
        )


def place_of(config: Config, candidates: Candidates) -> int | None:
    """A config's place among the candidates; None if it is another one, which a client found."""
    try:
        return candidates.index(config)
    except ValueError:
        return None
