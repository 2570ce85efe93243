"""Tuning by tests of hidden sums: propose-test with doubling (Ding and Wu 2022), and one noisy maximum."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np

from hushtune.client.party import Party
from hushtune.client.query import Query, register
from hushtune.client.rows import MOST_VOTERS
from hushtune.client.search.base import LARGEST_SEED, Search
from hushtune.core.arrays import FloatArray, IntArray
from hushtune.core.checks import integer, kind, number
from hushtune.core.errors import ObjectiveError, SettingError
from hushtune.core.space import Candidates, Config
from hushtune.core.words import as_set, up
from hushtune.methods.base import Facts, Method, Openings, check_secret
from hushtune.methods.contributions import loss_range
from hushtune.methods.figures import Figure, Told
from hushtune.methods.prior import Prior, alone, said
from hushtune.methods.propose_test.doubling import going, level, most_tests, moved, room
from hushtune.methods.propose_test.figures import figures_of
from hushtune.privacy.accounting import epsilon_of
from hushtune.privacy.bounds import Scores
from hushtune.privacy.events.answers import PureTests
from hushtune.privacy.guarantee import Privacy
from hushtune.privacy.noise import geometric
from hushtune.seals.base import Seal
from hushtune.seals.ends import check_added
from hushtune.seals.oracle import Mechanism, Oracle, drawn

if TYPE_CHECKING:
    from hushtune.methods.plan import Plan, Prospect

STEPS = 1_024  # of the integer grid, from the worst score to the best
_STOPS = ("worst-case", "filter")
Validation = Literal["own", "public"] | int


@register
@dataclass(frozen=True)
class CandidateScores(Query):
    """A unit's score of every candidate, from 0 to 1, for a curator or nodes who test their sums.

    Args:
        candidates: the public candidates.
        seed: the public seed with which candidates were scored.
        losses: the losses that are scored 1 and 0.
        tests: how many tests are made of their sums, at most.
        sensitivity: by how much one privacy unit can change a sum, in steps of the integer grid.
        only_max: whether noisy maxima are all that is asked for, and no test against a threshold.
        added: public scores that are added before the winner is found; empty: none.
    """

    candidates: Candidates
    seed: int
    losses: tuple[float, float]
    tests: int
    sensitivity: int
    only_max: bool = False
    added: tuple[int, ...] = ()
    name: ClassVar[str] = "candidate-scores"
    version: ClassVar[int] = 3
    meaning: ClassVar[str] = "scores, one entry per candidate"
    per_candidate: ClassVar[bool] = False  # what is opened are answers about them

    def __post_init__(self) -> None:
        integer("seed", self.seed, 0, LARGEST_SEED)
        object.__setattr__(self, "losses", loss_range(self.losses))
        if self.added:
            check_added(self.added, self.bound)

    @property
    def scored(self) -> tuple[Search, Candidates]:
        """A search that scores all candidates."""
        return Search(self.seed), self.candidates

    @property
    def blocks(self) -> Mapping[str, int]:
        """One score per candidate."""
        return {"scores": len(self.candidates)}

    @property
    def bound(self) -> Scores:
        """Each between 0 and 1."""
        return Scores(len(self.candidates), self.tests, STEPS, self.sensitivity, self.only_max)

    def answer(self, party: Party) -> Any:
        """Scores on the integer grid. What failed is scored 0; a loss outside its range is refused, not clipped."""
        return scores_of(party.losses(self.candidates.configs, self.seed), self.losses)


def scores_of(losses: FloatArray, ends: tuple[float, float]) -> IntArray:
    """Scores on the integer grid, shape (candidates,)."""
    best, worst = ends
    known = np.isfinite(losses)
    outside = losses[known][(losses[known] < best) | (losses[known] > worst)]
    if outside.size:
        raise ObjectiveError(f"losses must be in [{best:g}, {worst:g}], but got {outside[0]:g}: give other `losses`")
    scores = np.where(known, (worst - losses) / (worst - best), 0.0)
    steps: IntArray = np.floor(scores * STEPS + 0.5).astype(np.int64)
    return steps


class _Tested(Method):
    """What both methods share: units are scored, and whoever keeps the sums secret tests them."""

    validation: Validation
    losses: tuple[float, float]

    @property
    def consults(self) -> bool:
        """No sum of scores is ever opened."""
        return True

    def _check(self) -> None:
        object.__setattr__(self, "voters", integer("voters", self.voters, 1, MOST_VOTERS))
        if isinstance(self.validation, bool) or not (
            self.validation in ("own", "public") or (isinstance(self.validation, int) and self.validation >= 1)
        ):
            raise SettingError(
                "validation must be 'own', 'public', or the number of protected rows that all units are scored on, "
                f"but got {self.validation!r}"
            )
        object.__setattr__(self, "losses", loss_range(self.losses))

    @property
    def scored_on(self) -> str:
        """As the statement says it."""
        if self.validation == "own":
            return "rows of each unit's own, which the guarantee covers like all its rows."
        if self.validation == "public":
            return "rows that were declared PUBLIC. The guarantee does not cover them."
        return (
            f"{self.validation} protected rows that all units share. The guarantee covers them, if a score is a mean "
            "over them: one of them then moves every unit's score by 1/rows."
        )

    def figures(self, told: Told) -> list[Figure]:
        """The answers, test by test."""
        return figures_of(told)

    def _guarded(self, facts: Facts) -> Privacy:
        """The guarantee, if there is one and somebody who keeps the sums secret."""
        if facts.privacy is None:
            raise SettingError(f"method '{self.name}' needs privacy: without, take the best candidate")
        check_secret(f"method '{self.name}'", facts.seal)
        if isinstance(self.validation, int) and facts.privacy.unit != "record":
            raise SettingError(
                f"protected rows to score on (validation={self.validation}) are for unit='record', but got "
                f"unit='{facts.privacy.unit}'"
            )
        return facts.privacy

    def sensitivity(self, units: int) -> int:
        """In steps. One unit's scores change by the whole range at most.

        A protected row that all units are scored on changes each one's score by 1/rows, if scores are means over rows,
        and each row's own lies in the range too; on the grid, by that many steps and less than one more.
        """
        if not isinstance(self.validation, int):
            return STEPS
        return max(STEPS, units * min(STEPS, STEPS // self.validation + 1))

    def plan(self, prospect: Prospect) -> Plan:
        """How far the chosen candidate is below the best one."""
        from hushtune.methods.propose_test.plan import expect_selection

        return expect_selection(prospect)


@dataclass(frozen=True)
class ProposeTest(_Tested):
    """Propose-test tuning with doubling step (Ding and Wu 2022), Algorithm 1.

    A threshold is proposed; if a candidate's noisy mean score reaches the noisy threshold, it becomes the choice and
    the next step up is twice as large, else half as large. Ends at 1 or when the step is 0.

    How many tests there are depends on the data, so the guarantee counts T of them: the worst case, or as many as
    epsilon pays for. Its noise is what epsilon takes for T tests.

    Privacy: unit "client", or "record" with `voters`; every relation, because a unit that changes, appears or
    disappears moves the sum of each candidate's scores by their whole range at most (by more, if all are scored on
    the same protected rows: `validation`). Somebody must keep the sums secret and test them: a trusted curator
    (`Curator`), or a quorum of nodes none of which sees them (`Quorum`). One test is (epsilon0, 0)-private however many
    candidates there are (AboveThreshold; Dwork and Roth 2014, Theorem 3.23), and T of them cost what optimal
    composition says (Kairouz, Oh, Viswanath 2015, Theorem 3.3), whatever they answered and however many were made.

    Args:
        voters: into how many parts each client splits its rows (the paper's partitions), with unit="record"; 1: each
            client is one.
        granularity: g, the smallest gain of a threshold, from 1e-4 to below 1.
        start: u0, where thresholds begin, from 0 to below 1.
        stop: "worst-case": T is 2 ceil((1 - u0) / g) - 1, which no run exceeds. "filter": the run stops when tests of
            `epsilon0` each have used up epsilon.
        epsilon0: of one test, for stop="filter": it says how many tests there may be. Their noise is then what all of
            epsilon takes for so many, which is no more.
        tests: T. Default: what follows from the above.
        default: the place of the candidate that is chosen if no test is passed.
        validation: which rows units are scored on: their "own", "public" ones, or protected ones that all share: then
            how many, and losses must be means over them, of rows whose own losses lie in `losses`.
        losses: the losses that are scored 1 and 0; others are refused.
        units: how many units are scored. It follows from clients and voters.
    """

    voters: int = 1
    granularity: float = 0.1
    start: float = 0.0
    stop: Literal["worst-case", "filter"] = "worst-case"
    epsilon0: float | None = None
    tests: int | None = None
    default: int = 0
    validation: Validation = "own"
    losses: tuple[float, float] = (0.0, 1.0)
    units: int | None = None
    name: ClassVar[str] = "propose-test"

    def drawn(self, seal: Seal, scale: float) -> str:
        """Of AboveThreshold, on the level and on each score."""
        return f"discrete Laplace noise of scale {scale:.4g} on each threshold, and of twice that on each score"

    def __post_init__(self) -> None:
        self._check()
        object.__setattr__(self, "granularity", number("granularity", self.granularity, 1e-4, 1, "[)"))
        object.__setattr__(self, "start", number("start", self.start, 0, 1, "[)"))
        if self.stop not in _STOPS:
            raise SettingError(f"stop must be one of {list(_STOPS)}, but got {self.stop!r}")
        if (self.stop == "filter") != (self.epsilon0 is not None):
            raise SettingError(
                "epsilon0 is for stop='filter', which needs it; in the worst case it follows from epsilon, but got "
                f"stop='{self.stop}', epsilon0={self.epsilon0}"
            )
        if self.epsilon0 is not None:
            object.__setattr__(self, "epsilon0", number("epsilon0", self.epsilon0, 1e-6, 50))
        if self.tests is not None:
            integer("tests", self.tests, 1, most_tests(room(self.granularity, self.start)))
        object.__setattr__(self, "default", integer("default", self.default, 0))

    def settled(self, facts: Facts) -> ProposeTest:
        """With its number of tests."""
        privacy = self._guarded(facts)
        if self.default >= len(facts.candidates):
            raise SettingError(f"`default < {len(facts.candidates)}` candidates must hold, but got {self.default}")
        tests = self.tests
        if tests is None:
            tests = most_tests(room(self.granularity, self.start))
            if self.epsilon0 is not None:
                tests = affordable(self.epsilon0, privacy, tests)
        return replace(self, tests=tests, units=facts.clients * self.voters)

    def query(self, candidates: Candidates, seed: int) -> CandidateScores:
        """What each unit is asked.

        Args:
            candidates: the public list.
            seed: the public seed with which they are scored.
        """
        if self.tests is None or self.units is None:
            raise SettingError("tests and units are not settled; ask `settled` first")
        return CandidateScores(candidates, seed, self.losses, self.tests, self.sensitivity(self.units))

    def bounds(self, candidates: Candidates) -> tuple[Scores, ...]:
        """All tests, of one sum."""
        return (self.query(candidates, 0).bound,)

    def run(self, run: Openings) -> Config:
        """Algorithm 1; candidates are visited in a public random order, another one for every test."""
        most = room(self.granularity, self.start)
        units, made, found = 0, 0, self.default

        def choose(oracle: Oracle) -> int:
            nonlocal units, made, found
            units, step, made, found = 0, 1, 0, self.default
            while going(units, step, most) and made < (self.tests or 0):
                order = public_order(run.id, made, len(run.candidates))
                place = oracle.above_threshold(level(units, step, self.granularity, self.start), order)
                if place is not None:
                    found = place
                units, step = (int(value) for value in moved(units, step, place is not None))
                made += 1
            return found

        place = run.consult(self.query(run.candidates, run.search.seed), choose)
        run.note("tests made", float(made))
        run.note("threshold reached, which is no estimate of a score", self.start + units * self.granularity)
        return run.candidates[place]


@dataclass(frozen=True)
class NoisyMax(_Tested):
    """One noisy maximum over the same mean scores.

    Privacy: unit and relation as for `ProposeTest`; as there, a trusted curator (`Curator`) or a quorum of nodes
    (`Quorum`) keeps the sums secret. The one answer is (epsilon0, 0)-private: by McKenna and Sheldon 2020, Theorem 1,
    by McSherry and Talwar 2007, or as report noisy max (Dwork and Roth 2014, Claim 3.9; proof:
    `hushtune.privacy.noise.geometric`). Coins and noise are exact; epsilon0 is the largest for which the answer is
    (epsilon, delta)-private as well. With neighbours="zero-out" it takes half the noise: all scores that a client takes
    away are 0 or more.

    Args:
        voters: as for `ProposeTest`.
        mechanism: "permute-and-flip" (McKenna and Sheldon 2020), which is never worse on average than "exponential"
            (McSherry and Talwar 2007); or "geometric", noise on each score, which nodes can draw together. Default:
            the seal's own choice, "permute-and-flip" of a curator and "geometric" of nodes.
        validation: as for `ProposeTest`.
        losses: as for `ProposeTest`.
        units: how many units are scored. It follows from clients and voters.
        prior: what is believed of the candidates beforehand, which must be PUBLIC: its voters' scores are added to the
            sums.
    """

    voters: int = 1
    mechanism: Mechanism | None = None
    validation: Validation = "own"
    losses: tuple[float, float] = (0.0, 1.0)
    units: int | None = None
    prior: Prior | None = None
    name: ClassVar[str] = "noisy-max"

    def drawn(self, seal: Seal, scale: float) -> str:
        """What its mechanism draws."""
        return drawn(self.mechanism or seal.mechanisms[0], scale)

    def __post_init__(self) -> None:
        self._check()
        kind("prior", self.prior, Prior)
        if self.mechanism not in (None, *get_args(Mechanism)):
            raise SettingError(f"mechanism must be one of {list(get_args(Mechanism))}, but got {self.mechanism!r}")

    def settled(self, facts: Facts) -> NoisyMax:
        """With its mechanism, its number of units, and its prior's shares."""
        privacy, known = self._guarded(facts), facts.seal.mechanisms
        mechanism, units = self.mechanism or known[0], facts.clients * self.voters
        if mechanism not in known:
            raise SettingError(
                f"mechanism must be one of {list(known)} under seal '{facts.seal.name}', but got '{mechanism}'"
            )
        if mechanism == "geometric":
            geometric.winner_rate(privacy.epsilon, 2 * self.sensitivity(units))  # refuses what cannot be drawn
        prior = self.prior and self.prior.settled(facts.candidates)
        return replace(self, mechanism=mechanism, units=units, prior=prior)

    def query(self, candidates: Candidates, seed: int) -> CandidateScores:
        """What each unit is asked.

        Args:
            candidates: the public list.
            seed: the public seed with which they are scored.
        """
        if self.units is None:
            raise SettingError("units are not settled; ask `settled` first")
        added = self.prior.scores(STEPS) if self.prior is not None else ()
        sensitivity = self.sensitivity(self.units)
        return CandidateScores(candidates, seed, self.losses, 1, sensitivity, only_max=True, added=added)

    def bounds(self, candidates: Candidates) -> tuple[Scores, ...]:
        """One bound: all candidates are scored once, and one of them is chosen."""
        return (self.query(candidates, 0).bound,)

    def run(self, run: Openings) -> Config:
        """The candidate that the noisy maximum gives."""
        query = self.query(run.candidates, run.search.seed)
        return run.candidates[run.consult(query, lambda oracle: oracle.noisy_max(self.mechanism))]

    def beside(self, candidates: Candidates) -> Mapping[str, Config]:
        """What the prior would have chosen."""
        return alone(self.prior, candidates)

    def rests_on(self, voters: int) -> tuple[str, ...]:
        """What the prior is."""
        return said(self.prior, voters)


def affordable(epsilon0: float, privacy: Privacy, most: int) -> int:
    """The privacy filter for tests of one cost: how many epsilon pays for under optimal composition, at most `most`.

    Because every test costs the same whatever was answered before, the fully adaptive filter is a number that is known
    beforehand, and all of it is charged beforehand.
    """

    def cost(tests: int) -> float:
        return epsilon_of((PureTests(epsilon0, tests),), privacy.delta)

    if cost(1) > privacy.epsilon:
        raise SettingError(
            f"epsilon={as_set(privacy.epsilon)} does not pay for one test of epsilon0={as_set(epsilon0)}: at least "
            f"epsilon={up(cost(1))} would, or a smaller epsilon0"
        )
    low, high = 1, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if cost(middle) <= privacy.epsilon else (low, middle - 1)
    return low


def public_order(run: str, test: int, size: int) -> list[int]:
    """A permutation that anybody can compute from the run's id: no candidate is favoured by its place in the list."""
    seed = int.from_bytes(hashlib.sha256(f"hushtune order {run} {test}".encode()).digest(), "big")
    return [int(place) for place in np.random.default_rng(seed).permutation(size)]
