"""`fit`: one owner tunes a model on rows of its own and publishes model and config under one guarantee."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushtune.client.client import Client
from hushtune.client.request import parts_of
from hushtune.client.rows import Rows
from hushtune.client.search.base import Search
from hushtune.client.simulation import Simulation
from hushtune.core.checks import integer, kind, number
from hushtune.core.errors import ObjectiveError, SettingError
from hushtune.core.observer import Bars, Observer, Silent, shown, told_failures
from hushtune.core.randomness import Randomness, drawn_from
from hushtune.core.space import Candidates
from hushtune.federation.local import LocalFederation, default_home
from hushtune.methods.propose_test.method import NoisyMax, ProposeTest, scores_of
from hushtune.methods.study import Study
from hushtune.privacy.accounting import rule_from_json, rule_to_json
from hushtune.privacy.calibration import Training, noise_for, rule_of
from hushtune.privacy.charges import charge_of
from hushtune.privacy.events.sums import Event
from hushtune.privacy.events.training import TrainingSteps
from hushtune.privacy.guarantee import Privacy
from hushtune.privacy.ledger import Ledger
from hushtune.privacy.noise import gaussian
from hushtune.run.account import note_of
from hushtune.run.folder import RunFolder
from hushtune.run.result import LedgerNote, Result
from hushtune.run.tuning import conduct
from hushtune.seals.curator import Curator
from hushtune.training.fitted import Fitted
from hushtune.training.parts import PartScores, Rehearsal
from hushtune.training.strategies import RepeatAndSelect, TryAll, Untuned, score_noise, trying_to_json

if TYPE_CHECKING:
    from hushtune.training.dpsgd import DPSGD

By = ProposeTest | NoisyMax | RepeatAndSelect | TryAll | Untuned
_OWN = "own"  # the name that the one owner of all rows goes by


def fit(
    data: Rows | tuple[Any, Any],
    candidates: Candidates,
    *,
    method: By,
    trainer: DPSGD,
    privacy: Privacy,
    validation: Rows | tuple[Any, Any] | None = None,
    public: bool = False,
    share: float = 0.2,
    rehearse: bool = True,
    simulation: Simulation | None = None,
    ledger: Ledger | None = None,
    folder: str | Path | None = None,
    home: str | Path | None = None,
    jobs: int | None = None,
    observer: Observer = Bars(),
) -> Fitted:
    """Chooses a config and trains a model with it, both under one (epsilon, delta), charged once.

    Privacy: unit "record", neighbours "add-remove", for who sees model, config and statement; the owner of the rows is
    trusted. DP-SGD's steps (Abadi et al. 2016) and the events of the choice are composed together. The number of rows
    to train on is PUBLIC, unless the trainer is given another one to go by (`DPSGD(rows=...)`); with `ProposeTest` and
    `NoisyMax` so is the number of rows in `validation`.

    Args:
        data: the private rows to train on. How many there are is public, unless `trainer` has `rows`.
        candidates: the public list to choose from. All must cost the same: batch and epochs are the trainer's.
        method: `ProposeTest(voters=...)` or `NoisyMax(voters=...)`, which score candidates on parts of the rows without
            noise and test the means; `RepeatAndSelect()`, `TryAll()` or `Untuned()`, which train privately.
        trainer: DP-SGD with its public settings; `rows` is the public number of rows that its rate and steps follow
            from.
        privacy: the guarantee for model and config together, unit "record", neighbours "add-remove".
        validation: rows to score on, other ones than `data`. Default: parts are scored on rows of their own; methods
            that compare privately trained models need some.
        public: whether the rows in `validation` are public. If not, they are protected like the others.
        share: of epsilon, for the choice of `ProposeTest` and `NoisyMax`; training has the rest.
        rehearse: whether parts are trained with as many steps and as much noise as the model will be; else as the
            trainer's objective says, without noise.
        simulation: marks the run as a simulation: seeded, never charged.
        ledger: the owner's ledger. Default: one under `home`. Made, if need be, with this run's limits.
        folder: where model, statement and state are kept; the same call with the same folder resumes.
        home: folder of the ledger and of cached trials. Default: $HUSHTUNE_HOME, else .hushtune in the current folder.
        jobs: processes for scoring parts. Default: one per core.
        observer: who watches; `Silent()` for no bars. Of `RepeatAndSelect` nobody is told anything: the time it takes
            would tell how many runs there were.

    Raises:
        SettingError: a setting breaks a constraint; nothing was spent.
        BudgetError: the ledger's limit would be exceeded; nothing was spent.
    """
    rows, held = _rows("data", data), None if validation is None else _rows("validation", validation)
    for name, value, wanted in (("simulation", simulation, Simulation), ("ledger", ledger, Ledger)):
        kind(name, value, wanted)
    kind("observer", observer, Observer, optional=False)
    for name, flag in (("public", public), ("rehearse", rehearse)):
        kind(name, flag, bool, optional=False)
    if jobs is not None:
        integer("jobs", jobs, 1, 1024)
    _check(rows, candidates, method, trainer, privacy, held, public, share)
    seed = simulation.seed if simulation is not None else None
    place = Path(folder) if folder is not None else None
    if place is not None and (place / "fitted.json").exists():
        raise SettingError(f"{place} holds a finished model; choose another folder, or remove it")
    books = None if seed is not None else ledger or Ledger((Path(home) if home else default_home()) / "ledger.db")
    observer = Silent() if isinstance(method, RepeatAndSelect) else shown(observer, private=True)
    if seed is None:
        observer.keep_no_times()
    owner = _Owner(rows, candidates, trainer, privacy, held, public, share, rehearse, books, place, seed, observer)
    with told_failures(observer):
        if isinstance(method, ProposeTest | NoisyMax):
            fitted = owner.tested(method, Path(home) if home is not None else None, jobs)
        else:
            fitted = owner.tried(method)
        owner.release(fitted)
    observer.done(fitted.config)
    return fitted


def _rows(name: str, given: Any) -> Rows:
    rows = Rows(*given) if isinstance(given, tuple) and len(given) == 2 else given
    if not isinstance(rows, Rows) or not len(rows):
        raise SettingError(f"{name} must be Rows(X, y) or (X, y) with at least one row, but got {type(given).__name__}")
    return rows


def _check(
    rows: Rows,
    candidates: Any,
    method: Any,
    trainer: Any,
    privacy: Any,
    validation: Rows | None,
    public: bool,
    share: Any,
) -> None:
    kind("privacy", privacy, Privacy, optional=False)
    kind("method", method, ProposeTest, NoisyMax, RepeatAndSelect, TryAll, Untuned)
    if not isinstance(candidates, Candidates):
        raise SettingError(f"candidates must be a finite public list, but got {type(candidates).__name__}")
    if not hasattr(trainer, "train"):
        raise SettingError(f"trainer must be DPSGD(...), but got {type(trainer).__name__}")
    number("share", share, 0, 1, "()")
    if privacy.unit != "record" or privacy.neighbours != "add-remove":
        raise SettingError(
            "DP-SGD samples rows, which is private for rows that are added or removed: give "
            f"Privacy(..., unit='record', neighbours='add-remove'), but got '{privacy.unit}', '{privacy.neighbours}'"
        )
    if rows.subjects is not None:
        raise SettingError("DP-SGD protects single rows, but these name subjects; keep one row of each, without names")
    voters = getattr(method, "voters", 1)
    if voters > len(rows):
        raise SettingError(f"`voters <= rows` must hold, but got voters={voters}, rows={len(rows)}")
    if validation is not None and not public and not trainer.counts:
        raise SettingError(
            "rows to score on are protected by counting right answers, but the objective has a metric of its own: "
            "leave `metric` out, or give public rows and public=True"
        )
    if validation is None and (public or getattr(method, "scores", False)):
        why = "public=True is about them" if public else f"method '{method.name}' compares trained models"
        raise SettingError(f"give rows to score on as `validation`: {why}")
    trainer.check(candidates, rows, validation)


@dataclass(frozen=True)
class _Owner:
    """Who holds all rows, and is trusted with them."""

    rows: Rows
    candidates: Candidates
    trainer: DPSGD
    privacy: Privacy
    validation: Rows | None
    public: bool
    share: float
    rehearse: bool
    ledger: Ledger | None
    folder: Path | None
    seed: int | None
    observer: Observer

    def tested(self, method: ProposeTest | NoisyMax, home: Path | None, jobs: int | None) -> Fitted:
        """Scores parts, lets the curator test the means, and trains once."""
        scored: Any = "own" if self.validation is None else "public" if self.public else len(self.validation)
        method = replace(method, validation=scored)
        rehearsal = self._rehearsal() if self.rehearse else None
        scores = PartScores(self.trainer.objective, self.validation, rehearsal)
        client = Client(self.rows, scores, name=_OWN, ledger=self.ledger)
        folder = self.folder / "tuning" if self.folder is not None else None
        state = self._state(method.to_json())
        if folder is not None and (folder / "result.json").exists():
            state.begin()
            result = self._earlier(Result.load(folder))
        else:
            federation = LocalFederation([client], home, None, self.seed, jobs)

            def ready() -> None:
                self._try_out(federation, method)
                state.begin()

            training = self._training()
            study = Study(self.candidates, method, training.before(self.privacy), Curator(), Search()).settled(1)
            result = conduct(
                federation,
                study,
                self.ledger,
                folder,
                self.observer,
                self.seed,
                training=training,
                privacy=self.privacy,
                ready=ready,
            )
        trained = result.events[-1]
        assert isinstance(trained, TrainingSteps)
        with self.observer.phase("private training", trained.steps) as advance:
            model = self.trainer.train(result.config, self.rows, trained.multiplier, self.seed, advance)
        return self._fitted(
            result.index,
            model,
            result.method.to_json(),
            result.events,
            rule_to_json(result.rule),
            result.run,
            result.ledger,
            result,
        )

    def _training(self) -> Training:
        rows = len(self.rows)
        return Training(self.trainer.rate(rows), self.trainer.steps(rows), self.share)

    def _rehearsal(self) -> Rehearsal:
        """From public facts only: the noise that training takes with all of epsilon, whatever the choice costs, so that
        scores serve all ways to choose."""
        training = self._training().event((), self.privacy, rule_of(self.ledger, self.privacy))
        return self.trainer.rehearsal(training.multiplier, len(self.rows))

    def _try_out(self, federation: LocalFederation, method: ProposeTest | NoisyMax) -> None:
        """Scores all parts beforehand, and tells the owner, who holds the data, if that fails. Nothing is spent yet."""
        parts = parts_of(method.voters_each, self.privacy)
        federation.check(self.candidates.space, parts)
        federation.score(Search(), self.candidates, self.observer, True, parts)
        (party,) = federation.parties.values()
        for part in party.parts(parts):
            if not part.silent:
                try:
                    scores_of(part.losses(self.candidates.configs, 0), method.losses)
                except ObjectiveError as error:
                    raise ObjectiveError(f"a part of the rows cannot be scored, nothing was spent: {error}") from None

    def _earlier(self, result: Result) -> Result:
        """The choice that an interrupted call with the same settings has made already, if it was paid for."""
        known = [] if self.ledger is None or not self.ledger.exists else self.ledger.entries()
        if result.privacy != self.privacy:
            raise SettingError(f"{self.folder} holds a choice made under another guarantee; choose another folder")
        if self.ledger is not None and result.run not in [entry.charge.run for entry in known]:
            raise SettingError(f"{self.folder} holds a choice that the ledger does not know; choose another folder")
        return result

    def tried(self, method: RepeatAndSelect | TryAll | Untuned) -> Fitted:
        """Trains privately, once or often, and keeps one model."""
        rows, protected = len(self.rows), self.validation is not None and not self.public
        rate, steps = self.trainer.rate(rows), self.trainer.steps(rows)
        rule, size = rule_of(self.ledger, self.privacy), len(self.candidates)

        def events(multiplier: float) -> tuple[Event, ...]:
            return method.events(TrainingSteps(multiplier, rate, steps), size, protected)

        def cost(multiplier: float) -> float:
            return rule.spent([(events(multiplier), self.privacy.delta)], self.privacy.delta).epsilon

        multiplier = noise_for(cost, self.privacy, rate, steps)
        state, new = self._state(trying_to_json(method)), False
        charge = charge_of(state.run, method.name, events(multiplier), self.privacy)
        if self.ledger is not None and self.ledger.exists and self.ledger.limit() is not None:
            self.ledger.check(charge)
        state.begin()
        if self.ledger is not None:
            new = self.ledger.ensure(self.privacy)
            self.ledger.reserve(charge)
            self.observer.spent(cost(multiplier), self.privacy.delta)
        randomness = drawn_from(self.seed, "private runs")

        noise = 0.0
        if protected and not isinstance(method, Untuned):
            noise = score_noise(TrainingSteps(multiplier, rate, steps), method.scoring)

        def attempt(place: int) -> tuple[Any, float]:
            drawn = None if self.seed is None else int.from_bytes(randomness.bytes(7), "big")
            model = self.trainer.train(self.candidates[place], self.rows, multiplier, drawn, advance)
            return model, self._score(model, noise, randomness)

        with self.observer.phase("private training", steps * (size if method.scores else 1)) as advance:
            index, model = method.choose(attempt, size, randomness)
        if index is None:  # no run at all
            index, model = 0, self.trainer.untrained(self.candidates[0])
        if self.ledger is not None:
            self.ledger.mark_opened(state.run)
        note = note_of(self.ledger, state.run, new)
        return self._fitted(
            index,
            model,
            trying_to_json(method),
            events(multiplier),
            rule_to_json(rule),
            state.run,
            note,
            None,
        )

    def _score(self, model: Any, noise: float, randomness: Randomness) -> float:
        """Right answers among the rows to score on, with noise if those are protected."""
        if self.validation is None:
            return 0.0
        right = round(self.trainer.score(model, self.validation) * len(self.validation))
        return float(right + gaussian.sample(noise, 1, randomness)[0])

    def _state(self, method: dict[str, Any]) -> RunFolder:
        """The folder, if it is free or holds an unfinished call with the same settings."""
        settings = {
            "candidates": self.candidates.to_json(),
            "method": method,
            "privacy": self.privacy.to_json(),
            "trainer": self.trainer.to_json(),
            "how": [self.public, self.share, self.rehearse, self.seed],
            "rows": [len(self.rows), len(self.validation or ())],  # the data itself leaves no trace in the folder
        }
        return RunFolder(self.folder, settings, None, self.seed is not None)

    def release(self, fitted: Fitted) -> None:
        """One model leaves for one charge: its digest is on record before it is written or given back."""
        if self.ledger is not None:
            digest = sha256(fitted.weights).digest()
            if self.ledger.commit(None, fitted.run, "model", b"model", digest) != digest:
                raise SettingError("a model of this run was published already; begin another one in a new folder")
        if self.folder is not None:
            fitted.save(self.folder)

    def _fitted(
        self,
        index: int | None,
        model: Any,
        method: dict[str, Any],
        events: tuple[Event, ...],
        rule: dict[str, Any],
        run: str,
        note: LedgerNote | None,
        tuning: Result | None,
    ) -> Fitted:
        spent = rule_from_json(rule).spent([(events, self.privacy.delta)], self.privacy.delta)
        scored = "none" if method["name"] == Untuned.name else "own"
        if self.validation is not None and scored == "own":
            scored = "public" if self.public else "protected"
        assert index is not None
        return Fitted(
            self.candidates[index],
            index,
            model,
            method,
            self.trainer.to_json(),
            self.privacy,
            events,
            spent,
            rule,
            scored,
            self.trainer.secure(),
            self.seed,
            run,
            note,
            self.trainer.dumped(model),
            tuning,
        )
