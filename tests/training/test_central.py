"""`fit`: one charge for choice and training; nothing tells how many runs there were. Training is a stand-in."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.watched import Watched

import hushtune as ht
from hushtune.core.arrays import FloatArray
from hushtune.core.observer import Advance, together
from hushtune.core.space import Config
from hushtune.privacy.accounting import epsilon_of
from hushtune.privacy.events.answers import PureTests
from hushtune.privacy.events.sums import GaussianVector
from hushtune.privacy.events.training import SelectedRuns, TrainingSteps
from hushtune.training.parts import PartScores, Rehearsal

SPACE = ht.Space(lr=ht.Float(0.1, 1.0))
CANDIDATES = SPACE.candidates([{"lr": lr} for lr in (0.1, 0.4, 0.7, 1.0)])
PRIVACY = ht.Privacy(3.0, 1e-5, "record", "add-remove")
ROWS = ht.Rows(np.arange(200.0)[:, None], np.zeros(200, dtype=int))
HELD = ht.Rows(np.arange(60.0)[:, None] + 1_000, np.zeros(60, dtype=int))


@dataclass(frozen=True)
class Best:
    """Losses on a part: the learning rate .7 is best."""

    scale: float = 1.0
    batch: int = 0
    epochs: int = 0
    clip: float | None = None
    noise: float = 0.0
    validation: float = 0.2

    def losses(self, configs: list[Config], data: Any, seed: int) -> FloatArray:
        return self.scale * np.array([abs(config["lr"] - 0.7) for config in configs])


@dataclass
class Trainer:
    """Trains nothing: a model is its config, and is right about all rows if its learning rate is .7."""

    objective: Any = field(default_factory=Best)
    calls: list[tuple[Config, float, int | None]] = field(default_factory=list)
    rehearsed: list[float] = field(default_factory=list)
    fails: int = 0
    counts: bool = True

    def check(self, candidates: Any, rows: Any, validation: Any) -> None:
        pass

    def rate(self, rows: int) -> float:
        return 1.0  # whose cost is computed fast; sampling is the real trainer's business

    def steps(self, rows: int) -> int:
        return 5

    def train(self, config: Config, data: Any, multiplier: float, seed: int | None, advance: Advance) -> Config:
        advance(5)
        self.calls.append((config, multiplier, seed))
        if len(self.calls) == self.fails:
            raise KeyboardInterrupt
        return config

    def rehearsal(self, multiplier: float, rows: int) -> Rehearsal:
        self.rehearsed.append(multiplier)
        return Rehearsal(16, 4, 2, 1.0, multiplier)

    def untrained(self, config: Config) -> str:
        return "untrained"

    def score(self, model: Any, rows: Any) -> float:
        return 1 - abs(model["lr"] - 0.7)

    def secure(self) -> bool:
        return False

    def dumped(self, model: Any) -> bytes:
        return json.dumps(model).encode()

    def to_json(self) -> dict[str, Any]:
        return {"name": "stand-in"}


def fit(tmp_path: Path, method: Any, trainer: Trainer | None = None, **changes: Any) -> ht.Fitted:
    given: dict[str, Any] = {"privacy": PRIVACY, "validation": HELD, "home": tmp_path / "home", "jobs": 1}
    given["observer"] = ht.Silent()
    return ht.fit(ROWS, CANDIDATES, method=method, trainer=trainer or Trainer(), **{**given, **changes})  # type: ignore[arg-type]


METHODS = [
    ht.NoisyMax(voters=40),
    ht.ProposeTest(voters=40),
    ht.ProposeTest(voters=40, stop="filter", epsilon0=0.1),
    ht.RepeatAndSelect(),
    ht.RepeatAndSelect(shape=None),
    ht.TryAll(),
    ht.Untuned(2),
]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: f"{method.name} {getattr(method, 'stop', '')}")
def test_one_charge_covers_choice_and_training(tmp_path: Path, method: Any) -> None:
    fitted = fit(tmp_path, method, folder=tmp_path / "model")
    (entry,) = ht.Ledger(tmp_path / "home" / "ledger.db").entries()
    assert entry.charge.events == fitted.events
    assert entry.charge.run == fitted.run
    assert 0.99 * 3.0 < epsilon_of(fitted.events, 1e-5) <= 3.0
    kept = json.loads((tmp_path / "model" / "fitted.json").read_text())
    assert kept["spent"]["epsilon"] == pytest.approx(fitted.spent.epsilon)
    assert kept["config"] == fitted.config == CANDIDATES[fitted.index or 0]
    assert (tmp_path / "model" / "statement.txt").read_text() == fitted.statement + "\n"
    assert (tmp_path / "model" / "model.pt").exists()
    with pytest.raises(ht.BudgetError):
        fit(tmp_path, method, folder=tmp_path / "second")
    assert not (tmp_path / "second" / "run.json").exists()
    with pytest.raises(ht.SettingError, match="holds a finished model"):
        fit(tmp_path, method, folder=tmp_path / "model")


def test_tests_and_training_are_composed_tightly(tmp_path: Path) -> None:
    fitted = fit(tmp_path, ht.NoisyMax(voters=40))
    tests, training = fitted.events
    assert isinstance(tests, PureTests)
    assert isinstance(training, TrainingSteps)
    assert epsilon_of((tests,), 1e-5) == pytest.approx(0.2 * 3.0, rel=1e-3)
    assert epsilon_of((tests,), 1e-5) + epsilon_of((training,), 1e-5) > 3.0 >= epsilon_of(fitted.events, 1e-5)
    assert fitted.tuning is not None
    assert "includes the training that follows: 5 steps" in fitted.tuning.statement


def test_a_ledger_under_renyi_divergences_takes_the_whole(tmp_path: Path) -> None:
    ledger = ht.Ledger.new(
        tmp_path / "ledger.db", epsilon=3.0, delta=1e-5, unit="record", neighbours="add-remove", rule="renyi"
    )
    fitted = fit(tmp_path, METHODS[0], ledger=ledger)
    assert fitted.rule["name"] == "renyi"
    assert fitted.spent.epsilon <= 3.0
    assert ledger.spent().epsilon <= 3.0


def test_the_choice_can_be_verified(tmp_path: Path) -> None:
    for number, method in enumerate(METHODS[:3]):
        fit(tmp_path / str(number), method, folder=tmp_path / str(number))
        assert [check for check in ht.verify(tmp_path / str(number) / "tuning") if not check.holds] == []


def test_a_filter_counts_on_its_share_of_epsilon(tmp_path: Path) -> None:
    fitted = fit(tmp_path, METHODS[2])
    event = fitted.events[0]
    assert isinstance(event, PureTests)
    assert 1 <= event.times < 19
    assert epsilon_of((event,), 1e-5) <= 0.2 * 3.0


@pytest.mark.parametrize("method", [METHODS[0], METHODS[3], METHODS[5], METHODS[6]], ids=lambda method: method.name)
def test_an_interrupted_training_is_not_charged_again(tmp_path: Path, method: Any) -> None:
    with pytest.raises(KeyboardInterrupt):
        fit(tmp_path, method, Trainer(fails=1), folder=tmp_path / "model")
    ledger = ht.Ledger(tmp_path / "home" / "ledger.db")
    (before,) = ledger.entries()
    assert not (tmp_path / "model" / "model.pt").exists()
    fitted = fit(tmp_path, method, folder=tmp_path / "model")
    (after,) = ledger.entries()
    assert after.charge == before.charge
    assert fitted.run == before.charge.run


def test_an_interrupted_choice_goes_on_with_the_same_settings_only(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        fit(tmp_path, METHODS[0], Trainer(fails=1), folder=tmp_path / "model")
    for changes in (
        {"method": ht.NoisyMax(voters=20)},
        {"share": 0.3},
        {"simulation": ht.Simulation(0)},
        {"rehearse": False},
    ):
        with pytest.raises(ht.SettingError, match="other settings"):
            fit(tmp_path, **{"method": METHODS[0], "folder": tmp_path / "model", **changes})
    answers = json.loads((tmp_path / "model" / "tuning" / "result.json").read_text())["opened"][0]["blocks"]
    fitted = fit(tmp_path, METHODS[0], folder=tmp_path / "model")
    assert fitted.tuning is not None
    assert fitted.tuning.opened[0].blocks == answers


@pytest.mark.parametrize("method", [METHODS[0], METHODS[3], METHODS[6]], ids=lambda method: method.name)
def test_a_second_model_is_never_published_for_one_charge(
    tmp_path: Path, method: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed while it writes: what may have been seen is all that will be."""
    with monkeypatch.context() as patch:
        patch.setattr(ht.Fitted, "save", lambda *a: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            fit(tmp_path, method, folder=tmp_path / "model")

    class Other(Trainer):
        def dumped(self, model: Any) -> bytes:
            return b"other noise"

    with pytest.raises(ht.SettingError, match="published already"):
        fit(tmp_path, method, Other(), folder=tmp_path / "model")


def test_a_simulated_choice_is_not_taken_for_a_real_one(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        fit(tmp_path, METHODS[0], Trainer(fails=1), folder=tmp_path / "model", simulation=ht.Simulation(0))
    with pytest.raises(ht.SettingError, match="other settings"):
        fit(tmp_path, METHODS[0], folder=tmp_path / "model")
    (tmp_path / "model" / "run.json").unlink()
    with pytest.raises(ht.SettingError, match="the ledger does not know"):
        fit(tmp_path, METHODS[0], folder=tmp_path / "model")


@pytest.mark.parametrize("method", [METHODS[0], ht.TryAll(), ht.Untuned()])
def test_an_observer_is_told_of_the_cost_and_the_training(tmp_path: Path, method: Any) -> None:
    watched = Watched()
    fitted = fit(tmp_path, method, observer=watched)
    (spent,), phases = watched.kinds("spent"), watched.kinds("phase")
    assert spent == ("spent", fitted.spent.epsilon, fitted.spent.delta)
    assert phases[-1][1] == "private training"
    assert watched.events.index(spent) < watched.events.index(phases[-1])
    assert len(watched.kinds("opened")) == (method is METHODS[0])
    assert watched.kinds("done") == [("done", fitted.config)]
    assert watched.events[-1] == ("done", fitted.config)
    with pytest.raises(ht.BudgetError) as caught:
        fit(tmp_path, method, observer=watched)
    assert watched.events[-1] == ("failed", str(caught.value))


# ---- repeat and select -------------------------------------------------------------------------------


def test_nothing_tells_how_many_runs_there_were(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes, files, counts, watched = set(), set(), set(), Watched()
    for seed in range(8):
        trainer, place = Trainer(), tmp_path / str(seed)
        given = {"simulation": ht.Simulation(seed), "folder": place / "m"}
        fitted = fit(place, ht.RepeatAndSelect(), trainer, observer=together(watched, ht.Bars()), **given)
        counts.add(len(trainer.calls))
        kept = json.loads((place / "m" / "fitted.json").read_text())
        files.add(tuple(sorted(str(path.relative_to(place)) for path in place.rglob("*") if path.is_file())))
        sizes.add(json.dumps({**kept, "simulation": 0, "config": 0, "index": 0, "run": 0}))
        assert "seconds" not in json.dumps(kept)
        assert fitted.tuning is None
    assert len(counts) > 3
    assert len(files) == len(sizes) == 1
    assert capsys.readouterr() == ("", "")
    assert watched.events == []  # who is told when something happens can tell how long it took


def test_every_run_has_fresh_noise_and_a_candidate_drawn_anew(tmp_path: Path) -> None:
    trainer = Trainer()
    fit(tmp_path, ht.RepeatAndSelect(mean=500.0, shape=None), trainer, simulation=ht.Simulation(1), privacy=LARGE)
    seeds = [seed for _, _, seed in trainer.calls]
    assert None not in seeds
    assert len(set(seeds)) == len(seeds) > 300
    drawn = [config["lr"] for config, _, _ in trainer.calls]
    assert {drawn.count(lr) > 60 for lr in (0.1, 0.4, 0.7, 1.0)} == {True}
    real = Trainer()
    fit(tmp_path, ht.RepeatAndSelect(), real)
    assert {seed for _, _, seed in real.calls} <= {None}


LARGE = ht.Privacy(20.0, 1e-5, "record", "add-remove")


def test_no_run_at_all_has_an_outcome(tmp_path: Path) -> None:
    for seed in range(60):
        trainer = Trainer()
        fitted = fit(tmp_path, ht.RepeatAndSelect(1.0, None), trainer, simulation=ht.Simulation(seed), privacy=LARGE)
        if not trainer.calls:
            assert fitted.model == "untrained"
            assert fitted.index == 0
            return
    raise AssertionError("a Poisson number of mean 1 was never 0 in 60 draws, whose chance is below 1e-11")


def test_scores_of_protected_rows_are_paid_for_and_noisy(tmp_path: Path) -> None:
    (public,) = fit(tmp_path / "a", ht.RepeatAndSelect(), public=True).events
    (protected,) = fit(tmp_path / "b", ht.RepeatAndSelect()).events
    assert isinstance(public, SelectedRuns)
    assert isinstance(protected, SelectedRuns)
    assert public.score == 0 < protected.score
    assert protected.multiplier > public.multiplier
    assert len(fit(tmp_path / "c", ht.TryAll(), public=True).events) == 1
    scored = fit(tmp_path / "d", ht.TryAll()).events[1:]
    assert len(scored) == len(CANDIDATES)
    assert isinstance(scored[0], GaussianVector)
    quiet = [fit(tmp_path, ht.TryAll(), simulation=ht.Simulation(s), public=True).config["lr"] for s in range(10)]
    tight = replace(PRIVACY, epsilon=0.1)
    loud = [fit(tmp_path, ht.TryAll(), simulation=ht.Simulation(s), privacy=tight).config["lr"] for s in range(20)]
    assert set(quiet) == {0.7}
    assert len(set(loud)) > 1


# ---- what is said ------------------------------------------------------------------------------------


def test_statements_say_what_is_trusted_and_what_is_not_covered(tmp_path: Path) -> None:
    selected = fit(tmp_path / "a", ht.RepeatAndSelect()).statement
    assert "the best of a secret number of runs (truncated negative binomial of shape 1, mean 10)" in selected
    assert "how many runs there were" in selected
    assert "It is NOT a cryptographic generator" in selected
    assert "The owner's ledger: NEW" in selected
    tested = fit(tmp_path / "b", ht.NoisyMax(voters=40), public=True).statement
    assert "Scored on: rows that were declared PUBLIC" in tested
    assert "how many runs there were" not in tested
    own = fit(tmp_path / "c", ht.NoisyMax(voters=40), validation=None).statement
    assert "Scored on: rows of each part's own" in own
    simulated = fit(tmp_path / "d", ht.Untuned(), simulation=ht.Simulation(0))
    assert simulated.statement.startswith("SIMULATION")
    assert not (tmp_path / "d" / "home" / "ledger.db").exists()
    counted = "how many rows there are to train on: that number is PUBLIC"
    assert all(counted in said for said in (selected, tested, own, simulated.statement))


class Told(Trainer):
    def to_json(self) -> dict[str, Any]:
        return {"name": "stand-in", "rows": 1000}


def test_the_number_of_rows_is_said_to_be_public_unless_another_one_is_given(tmp_path: Path) -> None:
    scored = "how many rows are scored on: that number is PUBLIC"
    given = fit(tmp_path / "a", ht.TryAll(), Told()).statement
    assert "the PUBLIC number of rows, 1000, that rate and steps follow from" in given
    assert "how many rows there are to train on" not in given
    assert scored not in given
    fitted = fit(tmp_path / "b", ht.NoisyMax(voters=40))
    assert scored in fitted.statement
    assert fitted.tuning is not None
    assert "how many rows there are to train on: that number is PUBLIC" in fitted.tuning.statement
    assert "PUBLIC" in str(ht.fit.__doc__)


def test_lines_that_watch_a_fit_have_no_times(tmp_path: Path) -> None:
    stream = StringIO()
    fit(tmp_path, ht.Untuned(), observer=ht.JsonLines(stream))
    first, *others = [json.loads(line)["time"] for line in stream.getvalue().splitlines()]
    assert first is not None
    assert set(others) == {None}


# ---- bad input ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"privacy": ht.Privacy(1.0)}, "unit='record', neighbours='add-remove'"),
        ({"privacy": ht.Privacy(1.0, unit="record")}, "neighbours='add-remove'"),
        ({"method": ht.NoisyMax(voters=201)}, "`voters <= rows` must hold, but got voters=201, rows=200"),
        ({"method": ht.Vote()}, "method"),
        ({"method": ht.TryAll(), "validation": None}, "give rows to score on"),
        ({"method": ht.Untuned(4)}, "`place < 4` candidates must hold, but got 4"),
        ({"method": ht.ProposeTest(voters=4, stop="filter", epsilon0=2.0)}, "does not pay for one test"),
        ({"method": ht.RepeatAndSelect(1e4), "privacy": replace(PRIVACY, epsilon=0.01)}, "too little for this method"),
        ({"share": 1.0}, "share"),
        ({"public": "no"}, "public"),
        ({"public": True, "validation": None}, "public=True is about them"),
        ({"simulation": True}, "simulation"),
        ({"ledger": "x"}, "ledger"),
        ({"jobs": 0}, "jobs"),
        ({"data": (np.zeros((3, 1)),)}, "data must be Rows"),
        ({"trainer": Trainer(counts=False)}, "protected by counting right answers"),
        ({"trainer": object()}, "trainer must be DPSGD"),
        ({"data": ht.Rows(np.zeros((0, 1)), np.zeros(0))}, "at least one row"),
        ({"data": replace(ROWS, subjects=np.arange(200))}, "name subjects"),
        ({"validation": (np.zeros((0, 1)), np.zeros(0))}, "at least one row"),
        ({"candidates": SPACE}, "finite public list"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_spent(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"data": ROWS, "candidates": CANDIDATES, "method": METHODS[0], "trainer": Trainer()}
    given |= {"privacy": PRIVACY, "validation": HELD, "home": tmp_path / "home", "observer": ht.Silent(), **changes}
    with pytest.raises(ht.SettingError, match=message):
        ht.fit(given.pop("data"), given.pop("candidates"), **given)
    assert not (tmp_path / "home" / "ledger.db").exists()


def test_the_owner_is_told_if_parts_cannot_be_scored(tmp_path: Path) -> None:
    with pytest.raises(ht.HushtuneError, match=r"nothing was spent: losses must be in \[0, 1\], but got 3"):
        fit(tmp_path, METHODS[0], Trainer(Best(scale=5.0)))
    assert not (tmp_path / "home" / "ledger.db").exists()


def test_configs_that_differ_in_clipping_alone_are_scored_once() -> None:
    seen: list[int] = []

    class Counting(Best):
        def losses(self, configs: list[Config], data: Any, seed: int) -> FloatArray:
            seen.append(len(configs))
            return super().losses(configs, data, seed)

    configs = [{"lr": lr, "clip": clip} for lr in (0.1, 0.7) for clip in (1.0, 2.0)]
    assert PartScores(Counting()).losses(configs, ROWS, 0).tolist() == pytest.approx([0.6, 0.6, 0.0, 0.0])
    assert seen == [2]


def test_parts_rehearse_the_training_that_follows(tmp_path: Path) -> None:
    trainer = Trainer()
    fitted = fit(tmp_path, METHODS[0], trainer)
    training = fitted.events[-1]
    assert isinstance(training, TrainingSteps)
    (noise,) = trainer.rehearsed
    assert 0.8 * training.multiplier < noise < training.multiplier
    assert epsilon_of((TrainingSteps(noise, training.rate, training.steps),), 1e-5) == pytest.approx(3.0, rel=1e-3)
    plain = Trainer()
    fit(tmp_path / "plain", METHODS[0], plain, rehearse=False)
    assert plain.rehearsed == []
    seen: list[Any] = []

    @dataclass(frozen=True)
    class Seeing(Best):
        def losses(self, configs: list[Config], data: Any, seed: int) -> FloatArray:
            seen.append((self.batch, self.epochs, self.clip, self.noise, len(data.train), len(np.unique(data.train.X))))
            assert not set(data.train.X.ravel()) & set(data.test.X.ravel())
            return super().losses(configs, data, seed)

    rehearsal = Rehearsal(batch=16, steps=10, epochs=3, clip=2.0, noise=0.5)
    for part in (ROWS.take(np.arange(5)), ROWS.take(np.arange(40))):
        PartScores(Seeing(), rehearsal=rehearsal).losses([{"lr": 0.1}], part, 0)
    assert seen == [(4, 3, 2.0, 0.5, 40, 4), (16, 3, 2.0, 0.5, 160, 32)]


@dataclass(frozen=True)
class Noting(Best):
    """Writes down which rows a part has."""

    file: str = ""

    def losses(self, configs: list[Config], data: Any, seed: int) -> FloatArray:
        with Path(self.file).open("a") as file:
            file.write(f"{sorted(data.train.X[:, 0].tolist())}\n")
        return super().losses(configs, data, seed)

    def fingerprint(self) -> str:
        return "noting"


def test_parts_are_the_owners_secret_and_the_same_in_every_call(tmp_path: Path) -> None:
    """A second call scores nothing again; at another home the same rows share parts with others."""

    def parts(home: str, call: str) -> set[str]:
        file = tmp_path / call
        file.touch()
        trainer, ledger = Trainer(Noting(file=str(file))), ht.Ledger(tmp_path / f"{call}.db")
        fit(tmp_path, ht.NoisyMax(voters=40), trainer, home=tmp_path / home, ledger=ledger, rehearse=False)
        return set(file.read_text().splitlines())

    first = parts("home", "first")
    assert len(first) > 30
    assert parts("home", "second") == set()
    assert len(first & parts("other", "third")) < 5  # parts of one row may be the same; five with chance 1e-12
    assert len(list(tmp_path.glob("*/clients/*/secret.key"))) == 2
