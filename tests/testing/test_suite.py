"""The conformance suite finds what is wrong: each of these breaks one rule, and is told which."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import pytest

import hushtune as ht
from hushtune.client import failures, release
from hushtune.client.query import Query, register
from hushtune.core.errors import RefusedError
from hushtune.federation import local
from hushtune.methods.base import Facts, Method, Openings
from hushtune.methods.propose_test.method import STEPS, CandidateScores
from hushtune.methods.vote.ballots import TopVotes
from hushtune.privacy.bounds import AtMost, Ball, Bound, Box, KHot, Scores, Tally
from hushtune.privacy.noise.base import Noise
from hushtune.run import tuning
from hushtune.run.result import Opened
from hushtune.seals import clear
from hushtune.seals.plain import protect
from hushtune.testing import Outcome, cells, check_bound, check_query, check_seal, records, room

GRID = ht.Space(x=ht.Float(0.0, 1.0)).grid(x=6)


def check(method: Any, noise: str = "exact", seal: ht.Clear | ht.Masked | ht.Curator = ht.Clear()) -> Outcome:  # noqa: B008
    (cell,) = (cell for cell in cells(method, seals=[seal]) if cell.noise == noise)
    return cell.check()


@dataclass(frozen=True)
class Announces(ht.Vote):
    name: ClassVar[str] = "test-announces"

    def bounds(self, candidates: ht.Candidates) -> tuple[Bound, ...]:
        return super().bounds(candidates) * 2


@dataclass(frozen=True)
class Guesses(ht.Vote):
    name: ClassVar[str] = "test-guesses"
    made: ClassVar[list[int]] = []

    def run(self, run: Openings) -> ht.Config:
        super().run(run)
        self.made.append(1)
        return run.candidates[len(self.made) % len(run.candidates)]  # not from what was opened


@dataclass(frozen=True)
class Late(ht.Vote):
    name: ClassVar[str] = "test-late"

    def run(self, run: Openings) -> ht.Config:
        super().run(run)
        raise ht.SettingError("this should have been said before")


@dataclass(frozen=True)
class Wordy(ht.Vote):
    name: ClassVar[str] = "test-wordy"

    def settled(self, facts: Facts) -> ht.Vote:
        raise ht.SettingError("no\nno")


@dataclass(frozen=True)
class Breaks(ht.Vote):
    name: ClassVar[str] = "test-breaks"

    def run(self, run: Openings) -> ht.Config:
        raise ZeroDivisionError("a method's own fault")


@dataclass(frozen=True)
class Outside(ht.Vote):
    name: ClassVar[str] = "test-outside"

    def run(self, run: Openings) -> ht.Config:
        super().run(run)
        return {"x": 7.0}


@dataclass(frozen=True)
class Forgets(ht.Vote):
    """Has a field that JSON changes."""

    order: Any = ((1, 2),)  # its type does not say that it is a tuple
    name: ClassVar[str] = "test-forgets"


@dataclass(frozen=True)
class Slow(ht.Vote):
    """Notes something that does not follow from openings."""

    name: ClassVar[str] = "test-notes"
    runs: ClassVar[list[int]] = []

    def run(self, run: Openings) -> ht.Config:
        self.runs.append(1)
        run.note("runs", float(len(self.runs)))
        return super().run(run)


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (Announces(k=2), r"`bounds` announces \['KHot', 'KHot'\], but the method opens \['KHot'\]"),
        (Guesses(k=2), "from the same openings the method decides"),
        (
            Late(k=2),
            "neither a result nor a refusal: SpentError: .* this should have been said before; 1 of 1 openings",
        ),
        (Wordy(k=2), "a refusal must be one line"),
        (Breaks(k=2), "neither a result nor a refusal: ZeroDivisionError: a method's own fault"),
        (Outside(k=2), r"\{'x': 7.0\} is not a config of the space"),
        (Forgets(k=2), "method 'test-forgets' is another one once it was JSON"),
        (Slow(k=2), "`verify` must hold, but: what it noted"),
    ],
)
def test_what_a_method_may_not_do(method: Any, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check(method)


def test_a_method_that_is_not_frozen() -> None:
    @dataclass
    class Loose(Method):
        name: ClassVar[str] = "test-loose"

        def bounds(self, candidates: ht.Candidates) -> tuple[Bound, ...]:
            return ht.Vote(k=2, opens="sum").bounds(candidates)

        def run(self, run: Openings) -> ht.Config:
            return ht.Vote(k=2, opens="sum").run(run)

    with pytest.raises(AssertionError, match="Loose must be frozen"):
        check(Loose())


def test_an_answer_that_always_breaks_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """With epsilon nobody would see that: a default stands in for every answer."""
    monkeypatch.setattr(TopVotes, "answer", lambda self, party: np.ones(6, dtype=np.int64))
    with pytest.raises(AssertionError, match=r"a client could not answer: .* exactly 2 ones"):
        check(ht.Vote(k=2), "client")


def test_a_failure_that_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    real = release._answer

    def honest(query: Any, party: Any, private: bool, asked: bytes) -> Any:
        if party.failure is not None:
            raise RefusedError("objective failed")
        return real(query, party, private, asked)

    monkeypatch.setattr(release, "_answer", honest)
    with pytest.raises(
        AssertionError, match="a check could not be made: AbortedError: .* client-01: refused: objective"
    ):
        check(ht.Vote(k=2), "client")
    tolerant = ht.Clear(dropouts=0.2)
    with pytest.raises(
        AssertionError, match=r"must leave no trace, but it shows in \['disclosures', 'clients', 'opened'"
    ):
        check(ht.Vote(k=2), "client", tolerant)


def test_a_failure_that_an_observer_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    real = ht.Search._score

    def skipping(self: ht.Search, *given: Any) -> Iterator[Any]:
        for party, part, outcome in real(self, *given):
            if isinstance(outcome, failures.Failure):
                failures.fail(party, self.seed, "", outcome)  # and never counted
            else:
                yield party, part, outcome

    monkeypatch.setattr(ht.Search, "_score", skipping)
    monkeypatch.setattr(tuning, "shown", lambda observer, private: observer)  # else only public numbers are shown
    with pytest.raises(AssertionError, match="an observer must be told the same whoever fails"):
        check(ht.Vote(k=2), "client")


def test_ledgers_that_take_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ht.Ledger, "_admit", lambda self, db, charge: True)
    with pytest.raises(AssertionError, match="a second run must be refused"):
        check(ht.Vote(k=2), "client")


def test_a_verification_that_finds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "verify", lambda folder: [])
    with pytest.raises(AssertionError, match="`verify` must find out about a missing opening"):
        check(ht.Vote(k=2))


def test_a_simulation_that_does_not_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    real, seeds = room.Simulation, iter(range(9))
    monkeypatch.setattr(room, "Simulation", lambda seed: real(next(seeds)))
    with pytest.raises(AssertionError, match="must repeat itself, but its opened"):
        check(ht.Vote(k=2), "client")


def test_a_sum_that_is_not_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    real = room.Room.begin

    def off_by_one(self: Any) -> None:
        real(self)
        first: Opened = self.result.opened[0]
        votes = [count + (at == 0) - (at == 1) for at, count in enumerate(first.blocks["votes"])]
        self.result.opened[0] = replace(first, blocks={"votes": votes})
        self.result.save(self.folder)
        state = json.loads((self.folder / "run.json").read_text())
        state["opened"][0]["opened"]["blocks"]["votes"] = votes
        (self.folder / "run.json").write_text(json.dumps(state))

    monkeypatch.setattr(room.Room, "begin", off_by_one)
    with pytest.raises(AssertionError, match="the sum of 'top-votes' must be exact"):
        check(ht.Vote(k=2, decode="argmax"), "exact", ht.Masked())


@register
@dataclass(frozen=True)
class Listed(Query):
    """A query that can be wrong in several ways."""

    numbers: Any = (1, 2)
    length: int = 4
    words: str = "numbers"
    name: ClassVar[str] = "test-listed"
    version: ClassVar[int] = 1

    @property
    def meaning(self) -> str:
        return self.words

    @property
    def blocks(self) -> Mapping[str, int]:
        return {"first": 1, "rest": self.length - 1}

    @property
    def bound(self) -> Ball:
        return Ball(3, 4)

    @property
    def scored(self) -> tuple[ht.Search, ht.Candidates]:
        return ht.Search(), GRID

    def answer(self, party: Any) -> Any:
        return np.zeros(4, dtype=np.int64)


@dataclass(frozen=True)
class Tupled(Listed):
    name: ClassVar[str] = "test-tupled"

    def __post_init__(self) -> None:
        object.__setattr__(self, "numbers", tuple(self.numbers))


@dataclass(frozen=True)
class Unhashable(Listed):
    numbers: list[int] = field(default_factory=list)


def test_what_a_query_may_not_be() -> None:
    with pytest.raises(AssertionError, match=r"'test-tupled' cannot be read again: .* is it registered\?"):
        check_query(Tupled())
    register(Tupled)
    check_query(Tupled())
    with pytest.raises(AssertionError, match="'test-listed' is another one once it was JSON"):
        check_query(Listed())
    with pytest.raises(AssertionError, match=r"blocks .* must add up to the bound's length 4"):
        check_query(Tupled(length=5))
    with pytest.raises(AssertionError, match="must say what its vector means"):
        check_query(Tupled(words=" "))
    with pytest.raises(AssertionError, match="must be hashable"):
        check_query(Unhashable())


@pytest.mark.parametrize(
    "query", [TopVotes(2, GRID, 0), CandidateScores(GRID, 0, (0.0, 1.0), 1, STEPS)], ids=lambda query: query.name
)
def test_a_client_that_sends_what_no_bound_allows(query: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    check_query(query)
    monkeypatch.setattr(release, "_answer", lambda query, party, private, asked: query.answer(party))
    with pytest.raises(AssertionError, match=f"'{query.name}': a client sent what .* does not allow"):
        check_query(query)


BOUNDS = [
    KHot(2, 6),
    KHot(5, 6),
    AtMost(2, 6),
    AtMost(5, 6),
    Ball(9, 5),
    Ball(1, 1),
    Box(7, 3),
    Box(7, 3, (2,)),
    Tally(4, 3, 2, 3),
    Tally(4, 1, 2, 3, single=True),
    Scores(5, 2, 16, 16),
    Scores(5, 2, 16, 16, only_max=True),
    KHot(2, 6, 1),
    KHot(6, 6, 2),
    AtMost(2, 6, 1),
    AtMost(1, 1, 1),
]


@pytest.mark.parametrize("bound", BOUNDS, ids=str)
def test_hushtunes_own_bounds(bound: Bound) -> None:
    check_bound(bound)


@dataclass(frozen=True)
class Cheap(AtMost):
    """Forgets that a replaced ballot changes two sets of counts."""

    def event(self, noise: Noise, change: Any) -> Any:
        return AtMost(self.k, self.length, self.tests).event(noise, "zero-out")


@dataclass(frozen=True)
class Halved(Scores):
    """Takes tests against a threshold for noisy maxima of scores that are left out."""

    def event(self, noise: Noise, change: Any) -> Any:
        return Scores(self.length, self.tests, self.steps, self.sensitivity, True).event(noise, "zero-out")


@dataclass(frozen=True)
class Once(KHot):
    """Charges a single answer, however many are announced."""

    def event(self, noise: Noise, change: Any) -> Any:
        return KHot(self.k, self.length, 1).event(noise, change)


@dataclass(frozen=True)
class Rounds(Ball):
    def check(self, vector: Any) -> Any:
        return super().check(np.rint(np.nan_to_num(np.asarray(vector, dtype=float), posinf=0.0)).astype(np.int64))


@dataclass(frozen=True)
class Wide(Ball):
    @property
    def largest(self) -> int:
        return self.norm - 1


@dataclass(frozen=True)
class Strict(Ball):
    def default(self, randomness: Any) -> Any:
        return np.full(self.length, self.norm + 1)


@dataclass(frozen=True)
class Fixed(AtMost):
    @property
    def total(self) -> int:  # type: ignore[override]
        return 0


@pytest.mark.parametrize(
    ("bound", "message"),
    [
        (Cheap(2, 6), "is more than SkellamShift"),
        (Cheap(5, 80), "is more than SkellamShift"),
        (Cheap(5, 100), "is more than SkellamShift"),
        (Cheap(3, 70), "is more than SkellamShift"),
        (Cheap(10, 200), "is more than SkellamShift"),
        (Cheap(2, 6, 1), "is more than PureTests"),
        (Halved(5, 2, 16, 16), "is more than PureTests"),
        (Halved(5, 2, 16, 16, only_max=True), "is more than PureTests"),
        (Once(2, 6, 3), "3 tests cost 1 answers"),
        (Rounds(9, 5), "must refuse NaN"),
        (Wide(9, 5), "must refuse an entry above its largest"),
        (Strict(9, 5), "refuses its own default"),
        (Fixed(2, 6), "says that entries add up to 0, but lets"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_a_bound_may_not_do(bound: Bound, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_bound(bound)


@pytest.mark.parametrize("seal", [ht.Clear(), ht.Masked(), ht.Curator()], ids=lambda seal: seal.name)
def test_hushtunes_own_seals(seal: Any) -> None:
    """The threshold seal's are in tests/testing/test_cells_mhe.py."""
    check_seal(seal)


def test_a_seal_that_adds_up_wrongly(monkeypatch: pytest.MonkeyPatch) -> None:
    real = clear.summed
    monkeypatch.setattr(clear, "summed", lambda *given: real(*given) + 1)
    with pytest.raises(AssertionError, match="sum 1 of 10 clients' vectors is off by 1"):
        check_seal(ht.Clear())


def test_a_seal_that_opens_too_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ht.Clear, "needed", lambda self, clients: clients // 2)
    with pytest.raises(AssertionError, match="with 2 of 10 clients silent from trip 1 on nothing must be opened"):
        check_seal(ht.Clear())


def test_a_seal_that_says_something_else_the_second_time(monkeypatch: pytest.MonkeyPatch) -> None:
    real, seen = local.respond, set()

    def forgetful(message: bytes, party: Any, roster: Any) -> bytes:
        again = (message, party.id) in seen
        seen.add((message, party.id))
        return protect(np.arange(5)) if again else real(message, party, roster)

    monkeypatch.setattr(local, "respond", forgetful)
    with pytest.raises(AssertionError, match="the same message must get the same bytes or a refusal, but from"):
        check_seal(ht.Clear())
