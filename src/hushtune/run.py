"""One run: asks for private sums, keeps the books, and lets a method decide from what was opened."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np

from hushtune._version import __version__
from hushtune.bounds import Bound, Scores
from hushtune.calibration import Training, calibrate, plan_of, rule_of
from hushtune.curated import ANSWERS, Choose, CuratedScores, Recorded
from hushtune.disclosures import CHOICE, Disclosure, of_form, of_gathered, of_sum, of_tests
from hushtune.errors import AbortedError, HushtuneError, SpentError, described
from hushtune.federation.base import Dropped, Federation
from hushtune.forms import Form
from hushtune.method import Note
from hushtune.privacy.accounting import Budget, Sums, rule_to_json
from hushtune.privacy.charges import Charge, charge_of
from hushtune.privacy.events import Event
from hushtune.privacy.guarantee import Privacy
from hushtune.privacy.ledger import Ledger
from hushtune.privacy.request import Request, parts_of
from hushtune.privacy.skellam import IntArray
from hushtune.progress import Progress
from hushtune.query import Query, in_blocks
from hushtune.result import LedgerNote, Opened, Result
from hushtune.roster import Id
from hushtune.runfolder import Kept, RunFolder
from hushtune.sealed import Sealed
from hushtune.seals.base import Seal, Session, largest_sum, sum_bits
from hushtune.seals.clear import ClearSession
from hushtune.seals.threshold import Threshold
from hushtune.seals.threshold_server import ThresholdServer
from hushtune.search import Search
from hushtune.simulation import drawn_from
from hushtune.space import Candidates, Config, Domain, FloatArray

_LABELS = {"masked": "secure sum: ", "threshold": "encrypted: "}


class Run:
    """The server's side of one run. Reserves before it asks for inputs, and opens nothing that is not in its plan."""

    def __init__(
        self,
        folder: RunFolder,
        candidates: Candidates,
        search: Search,
        federation: Federation,
        seal: Seal,
        privacy: Privacy | None,
        bounds: tuple[Bound, ...],
        voters: int,
        ledger: Ledger | None,
        progress: Progress,
        seed: int | None,
        wanted: Budget | None = None,
        training: Training | None = None,
    ) -> None:
        self.id = folder.run
        self.candidates = candidates
        self.search = search
        self.asked = len(federation.roster)
        self.opened: list[Opened] = []
        self.notes: dict[str, Note] = {}
        self.disclosures: list[Disclosure] = []
        self.dropped: dict[Id, str] = {}
        self.late: dict[Id, str] = {}
        self.left_out: dict[Id, str] = {}
        self._federation = federation
        self._seal = seal
        self._privacy = privacy
        self._bounds = bounds
        self._voters = voters
        self._ledger = ledger
        self._folder = folder
        self._progress = progress
        self._seed = seed  # of a marked simulation
        self._wanted = wanted  # what was asked for, if the ledger had less left
        self._scored: tuple[Search, Domain] | None = None
        self._spent = False  # whether the ledger has the run: from then on an error says what was opened
        self._openings = 0  # of this run and of the one it resumes; one may have been made and not kept
        self.seconds_scoring = 0.0
        self.rule = rule_of(ledger, privacy)
        self.noise = seal.noise(0.0)
        self.plan: tuple[Event, ...] = ()
        if privacy is not None:
            if training is None:
                self.noise = calibrate(bounds, privacy, self.rule, seal.noise_at)
            else:  # a share is only a share: what counts under the ledger's rule is the whole
                self.noise = calibrate(bounds, training.before(privacy), Sums(), seal.noise_at)
            self.plan = plan_of(bounds, privacy, self.noise)
        if training is not None and privacy is not None:
            self.plan = (*self.plan, training.event(self.plan, privacy, self.rule))
        self._ledger_is_new = False

        self.honest = seal.honest(len(federation.roster))
        self._session: Session | ThresholdServer | None = None

    @property
    def share_variance(self) -> Fraction:
        """Variance of one client's noise share."""
        return self.noise.share_variance(self.honest)

    def charge(self) -> Charge:
        """What the whole run costs."""
        return charge_of(self.id, "run", self.plan, self._privacy)

    def check_budget(self) -> None:
        """Refuses a run that would overspend, before anybody spends time on scoring."""
        if self._ledger is not None and self._ledger.exists and self._ledger.limit() is not None:
            self._ledger.check(self.charge())

    def _reserve(self) -> None:
        if self._ledger is not None:
            self._ledger_is_new |= self._ledger.ensure(self._privacy)
            self._ledger.reserve(self.charge())
            self._spent = True

    @contextmanager
    def accounted(self) -> Iterator[None]:
        """Has whatever ends a run say what was opened by then; raises SpentError for what is no abort."""
        try:
            yield
        except AbortedError as error:
            raise AbortedError(f"{error}; {self._revealed()}") from None
        except (HushtuneError, OSError) as error:
            if self._ledger is None or not (self._spent or self._openings):
                raise
            raise SpentError(
                f"the run failed after its cost was reserved: {described(error)}; {self._revealed()}; see the ledgers"
            ) from error

    def _revealed(self) -> str:
        """What was opened so far."""
        if not self._openings:
            return "nothing was opened"
        return f"{self._openings} of {len(self._bounds)} openings had been made, and count as spent"

    def sum(self, query: Query) -> Mapping[str, IntArray]:
        """Opens the sum of all clients' answers."""
        opened = self._next(query, gathered=False)
        self.disclosures += of_sum(query, opened, self._seal, self.honest, self.noise, self._privacy)
        return {name: np.array(values, dtype=np.int64) for name, values in opened.blocks.items()}

    def sealed(self, query: Query) -> Sealed:
        """The sum of all clients' answers, not opened yet."""
        return Sealed(query, self._form)

    def _form(self, query: Query, form: Form) -> IntArray | FloatArray:
        """Opens a form of the sum: computed by the seal, if it can, else from the sum."""
        if self._privacy is not None or not self._seal.computes:
            return form.of(self.sum(query))
        opened = self._next(query, gathered=False, form=form)
        self.disclosures.append(of_form(query, opened, form))
        return np.array(opened.blocks[form.block])

    def curate(self, query: Query, choose: Choose) -> int:
        """Opens the answers to tests that a trusted curator makes."""
        opened = self._next(query, gathered=False, choose=choose)
        self.disclosures += of_tests(query, opened, self.noise, self._privacy)
        return choose(Recorded(opened.blocks[ANSWERS], len(self.candidates)))

    def gather(self, query: Query) -> Mapping[Id, Mapping[str, IntArray]]:
        """Opens every client's own answer."""
        if self._privacy is not None or self._seal.name != "clear":
            raise HushtuneError("every client's own answer is opened under seal 'clear' and without epsilon only")
        opened = self._next(query, gathered=True)
        self.disclosures.append(of_gathered(query, opened))
        return opened.arrays()

    def _next(self, query: Query, gathered: bool, form: Form | None = None, choose: Choose | None = None) -> Opened:
        """The next step's opening: what an interrupted run has on record, or what clients say."""
        step = len(self.opened)
        if isinstance(query.bound, Scores) != (choose is not None):
            raise HushtuneError("scores are tested by a curator and never opened, and nothing else is tested")
        if not self._announced(query, step):
            raise HushtuneError(f"a method asked for a sum (step {step}) that its `bounds` did not announce")
        kept = self._folder.opening(step)
        opened, dropped, late = kept if kept is not None else self._open(query, step, gathered, form, choose)
        self._openings = step + 1
        if kept is None:
            self._folder.keep(opened, dropped, late)
        self.opened.append(opened)
        self.dropped.update(dropped)
        self.late.update(late)
        return opened

    def _announced(self, query: Query, step: int) -> bool:
        """Whether a sum is one that the plan has, at the cost it has there; its length may follow from earlier ones."""
        if step >= len(self._bounds):
            return False
        if self._privacy is None:
            return type(query.bound) is type(self._bounds[step])
        return query.bound.event(self.noise, self._privacy.change) == self.plan[step]

    def leave_out(self, client: Id, reason: str) -> None:
        """Says that a client's own answer, though opened, does not count."""
        self.left_out[client] = reason

    def note(self, name: str, value: Note) -> None:
        """Adds to what the result says."""
        self.notes[name] = value

    def _exchange(self, name: str, out: Mapping[Id, bytes]) -> Mapping[Id, bytes | Dropped]:
        which = f"{len(self.opened) + 1} of {len(self._bounds)}: " if len(self._bounds) > 1 else ""
        return self._federation.exchange(which + _LABELS.get(self._seal.name, "") + name, out, self._progress)

    def _open(self, query: Query, step: int, gathered: bool, form: Form | None, choose: Choose | None) -> Kept:
        roster = self._federation.roster
        self._score(query)
        request = Request(
            self.id, step, roster.digest(), query, form, self._seal, self.noise, self._privacy, self._voters, self.plan
        )
        message = request.to_bytes()
        if self._session is None:
            self._session = self._seal.session(self.id, roster, request.terms(), self._folder.first_round())
        if gathered:
            assert isinstance(self._session, ClearSession)
            own, dropped = self._session.gather(message, query.bound.length, self._exchange, self._reserve)
            self._enough(dropped)
            each = {client: _plain(query, vector) for client, vector in own.items()}
            return Opened(query.name, {}, 0.0, len(each), each), dropped, {}
        last = step == len(self._bounds) - 1
        if isinstance(self._session, ThresholdServer):
            return self._computed(self._session, message, query, form, last)
        bits = sum_bits(len(roster), self._voters, query.bound, self.share_variance)
        total, dropped, late = self._session.sum(message, query.bound.length, bits, self._exchange, last, self._reserve)
        answered = self._enough(dropped)
        drawn = drawn_from(self._seed, f"curator {step}")
        if choose is not None:
            assert isinstance(query.bound, Scores)  # `_next` has seen to that
            curated = CuratedScores(total, query.bound, len(roster) * self._voters, self.noise, drawn)
            opened = Opened(query.name, {ANSWERS: curated.answers}, 0.0, answered)
            try:
                choose(curated)
            except BaseException:  # what was answered is on record: a second call gets no other answers
                self._openings = step + 1
                self._folder.keep(opened, dropped, late)
                raise
            return opened, dropped, late
        total = total + self.noise.curated(len(total), drawn)
        variance = self.noise.opened_variance(self.honest, answered)
        return Opened(query.name, _plain(query, total), variance, answered), dropped, late

    def _score(self, query: Query) -> None:
        """Has clients fill the trials that an answer looks up, unless they have just done so."""
        if query.scored == self._scored:
            return
        start = time.monotonic()
        parts = parts_of(self._voters, self._privacy)
        self._federation.score(*query.scored, self._progress, self._privacy is not None, parts)
        self._scored = query.scored
        self.seconds_scoring += time.monotonic() - start

    def _computed(self, session: ThresholdServer, message: bytes, query: Query, form: Form | None, last: bool) -> Kept:
        """What a seal computes before it opens; nobody is missing then."""
        assert isinstance(self._seal, Threshold)
        largest = largest_sum(self.asked, self._voters, query.bound, self.share_variance)
        length = query.bound.length if form is None else form.length(query)
        values = session.open(message, form, length, largest, self._exchange, last, self._reserve)
        blocks: dict[str, list[Any]] = _plain(query, np.rint(values).astype(np.int64)) if form is None else {}
        if form is not None:
            blocks[form.block] = values.tolist() if form.over is not None else np.rint(values).astype(int).tolist()
        bits = self._seal.bits(self._seal.circuit(form, self.asked, largest, length), form, self.asked, length)
        variance, said = (
            self.noise.opened_variance(self.honest, self._enough({})),
            form.to_json() if form is not None else None,
        )
        return Opened(query.name, blocks, variance, self.asked, form=said, smudging=round(bits, 1)), {}, {}

    def _enough(self, dropped: Mapping[Id, str]) -> int:
        """How many answered; too few are an error."""
        clients = len(self._federation.roster)
        answered, needed = clients - len(dropped), self._seal.needed(clients)
        if answered < needed:
            raise AbortedError(
                f"{needed} of {clients} clients must answer (dropouts={self._seal.dropouts:g}), "
                f"but got {answered}; {_some(dropped)}"
            )
        if self._ledger is not None:
            self._ledger.mark_opened(self.id)
        return answered

    def noise_variance(self) -> float:
        """Variance of the noise in each entry of the last opened sum."""
        return self.opened[-1].noise_variance

    def answered(self) -> int:
        """How many answers are in the last opened sum."""
        return self.opened[-1].answered

    def result(self, config: Config, method: dict[str, Any], seconds: dict[str, float]) -> Result:
        """The run's outcome, with its books closed."""
        spent = Budget(0.0, 0.0)
        if self._privacy is not None:
            spent = self.rule.spent([(self.plan, self._privacy.delta)], self._privacy.delta)
        return Result(
            config=config,
            index=place_of(config, self.candidates),
            method=method,
            search=self.search.to_json(),
            seal=self._seal.to_json(),
            privacy=self._privacy,
            plan=self.plan,
            spent=spent,
            rule=rule_to_json(self.rule),
            noise={"scale": self.noise.scale, "honest": self.honest},
            disclosures=[*self.disclosures, CHOICE],
            asked=len(self._federation.roster),
            pinned=self._federation.roster.pinned,
            dropped=self.dropped,
            late=self.late,
            left_out=self.left_out,
            notes=self.notes,
            opened=self.opened,
            candidates=self.candidates,
            seconds=seconds,
            run=self.id,
            ledger=note_of(self._ledger, self.id, self._ledger_is_new, self._wanted),
            simulation=None,
            hushtune=__version__,
        )


def note_of(ledger: Ledger | None, run: str, new: bool, wanted: Budget | None = None) -> LedgerNote | None:
    """What a result says about the coordinator's ledger."""
    if ledger is None:
        return None
    charges = [entry.charge for entry in ledger.entries()]
    return LedgerNote(
        new=new,
        rule=ledger.terms().rule.name,
        before=ledger.spent(without=run),
        runs=len(charges),
        exact=sum(charge.exact for charge in charges),
        limit=ledger.limit(),
        spent=ledger.spent(),
        left=ledger.left(),
        wanted=wanted,
    )


def _some(dropped: Mapping[Id, str], most: int = 3) -> str:
    shown = "; ".join(f"{id_}: {reason}" for id_, reason in list(dropped.items())[:most])
    return shown + (f"; and {len(dropped) - most} more" if len(dropped) > most else "")


def _plain(query: Query, vector: IntArray) -> dict[str, list[int]]:
    return {name: part.tolist() for name, part in in_blocks(query, vector).items()}


def place_of(config: Config, candidates: Candidates) -> int | None:
    """A config's place among the candidates; None if it is another one, which a client found."""
    try:
        return candidates.index(config)
    except ValueError:
        return None
