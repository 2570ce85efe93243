"""A curator answers charged questions about sums, and shows nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.client.harness import Loss
from tests.conftest import Make

import hushtune as ht
from hushtune.client.rows import WHOLE
from hushtune.core.errors import BoundError, HushtuneError
from hushtune.core.randomness import Randomness, SimulatedRandomness, SystemRandomness
from hushtune.federation.local import LocalFederation
from hushtune.methods.base import Openings
from hushtune.privacy.bounds import Bound, KHot, Scores
from hushtune.privacy.events.answers import PureTests
from hushtune.privacy.noise import selection
from hushtune.privacy.noise.base import Noise
from hushtune.run.replay import Replay
from hushtune.run.result import Opened
from hushtune.run.simulation import Shortcut
from hushtune.seals.curator import CuratorOracle
from hushtune.seals.oracle import MECHANISMS, NONE, Oracle, RecordedOracle

SUMS = np.array([300, 700, 500, 0])
CURATOR = ht.Curator()


def made(tests: int = 3, scale: float = 10.0, randomness: Randomness | None = None, **bound: Any) -> CuratorOracle:
    scores = Scores(**{"length": 4, "tests": tests, "steps": 100, "sensitivity": 100, **bound})
    return CuratorOracle(SUMS, scores, 10, Noise(scale, "curator"), randomness or SystemRandomness())


def tune(clients: list[ht.Client], candidates: ht.Candidates, method: Any, **changes: Any) -> ht.Result:
    settings: dict[str, Any] = {"privacy": ht.Privacy(5.0), "seal": CURATOR, "observer": ht.Silent(), "jobs": 1}
    return ht.tune(clients, candidates, method=method, **{**settings, **changes})


# ---- the curator itself ------------------------------------------------------------------------------


def test_no_more_tests_than_announced() -> None:
    oracle = made(tests=2)
    oracle.above_threshold(Fraction(1, 2), [0, 1, 2, 3])
    oracle.noisy_max("exponential")
    for again in (lambda: oracle.above_threshold(Fraction(1, 2), [0]), lambda: oracle.noisy_max("permute-and-flip")):
        with pytest.raises(HushtuneError, match="more answers than the 2 that"):
            again()
    assert len(oracle.answers) == 2


def test_a_test_counts_even_if_its_answer_is_not_taken() -> None:
    """An order that would look at what is taken from it: a copy is used, and the test is counted."""

    class Nosy(list[int]):
        seen: list[Any] = []  # noqa: RUF012

        def __getitem__(self, at: Any) -> Any:
            self.seen.append(at)
            raise ValueError("not this one")

    oracle = made(tests=1)
    assert oracle.above_threshold(Fraction(-9), Nosy([3, 1])) == 3
    with pytest.raises(HushtuneError):
        oracle.above_threshold(Fraction(-9), Nosy([3, 1]))
    assert Nosy.seen == []


def test_there_is_nothing_to_be_had_but_answers() -> None:
    assert [name for name in dir(made()) if not name.startswith("_")] == ["above_threshold", "answers", "noisy_max"]
    assert "700" not in repr(made())


@pytest.mark.parametrize("scale", [10.0, 9.0001])
def test_answers_are_the_mechanisms_own_with_noise_rounded_up(scale: float) -> None:
    """The level is a mean score: times units and steps. A fraction of a step of noise counts as a whole one."""
    order = [2, 0, 3, 1]
    for seed in range(30):

        def source(seed: int = seed) -> SimulatedRandomness:
            return SimulatedRandomness(seed, "curated")

        place = selection.above_threshold(SUMS, 500, 10, order, source())
        oracle = made(scale=scale, randomness=source())
        assert oracle.above_threshold(Fraction(1, 2), order) == place
        assert oracle.answers == [NONE if place is None else place]
        for name, mechanism in (
            ("permute-and-flip", selection.permute_and_flip),
            ("exponential", selection.exponential),
        ):
            oracle = made(scale=scale, randomness=source())
            assert oracle.noisy_max(name) == mechanism(SUMS, 10, source())  # type: ignore[arg-type]
        oracle = made(scale=scale, randomness=source())
        assert oracle.noisy_max("geometric") == selection.noisiest(SUMS, scale, source())


def test_levels_are_compared_as_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A third of 1,000 is 333, and two thirds are 667: no float is in between."""
    seen: list[Any] = []
    monkeypatch.setattr(
        selection, "above_threshold", lambda sums, threshold, scale, *rest: seen.append((threshold, scale))
    )
    oracle = made(scale=2.0**53 / 4 + 0.5, tests=3)
    for level in (Fraction(1, 3), Fraction(2, 3), Fraction(10**30 + 1, 10**30)):
        oracle.above_threshold(level, [0])
    assert [type(value) for pair in seen for value in pair] == [int] * 6
    assert [threshold for threshold, _ in seen] == [333, 667, 1000]


def test_an_answer_is_a_plain_integer_whatever_the_order_is_made_of() -> None:
    oracle = made()
    oracle.above_threshold(Fraction(-9), np.array([3, 1]))  # type: ignore[arg-type]
    assert json.loads(json.dumps(oracle.answers)) == [3]


@pytest.mark.parametrize("bound", [Scores(4, 3, 100, 100, only_max=True), KHot(1, 4, 3)], ids=str)
def test_a_threshold_is_not_tested_where_only_maxima_were_announced(bound: Bound) -> None:
    oracle = CuratorOracle(SUMS, bound, 10, Noise(10.0, "curator"), SystemRandomness())
    with pytest.raises(HushtuneError, match="announced noisy maxima only"):
        oracle.above_threshold(Fraction(1, 2), [0, 1, 2, 3])
    assert oracle.noisy_max("permute-and-flip") in range(4)


@pytest.mark.parametrize("mechanism", [None, *CURATOR.mechanisms])
def test_where_nothing_can_change_a_maximum_is_exact(mechanism: Any) -> None:
    for sums, place in ((np.array([7, 7]), 0), (np.array([7, 8, 8]), 1)):
        bound = KHot(len(sums), len(sums), 1)
        assert CuratorOracle(sums, bound, 7, Noise(0.0, "curator"), SystemRandomness()).noisy_max(mechanism) == place


def test_without_a_name_the_seals_own_mechanism_is_used() -> None:
    for seed in range(30):
        given = [made(randomness=SimulatedRandomness(seed, "own")) for _ in range(2)]
        assert given[0].noisy_max() == given[1].noisy_max(CURATOR.mechanisms[0])
        known = CURATOR.oracle(
            SUMS, Scores(4, 3, 100, 100), 10, Noise(10.0, "curator"), SimulatedRandomness(seed, "own")
        )
        assert known.noisy_max() == given[0].answers[0]


def test_who_has_mechanisms_has_them_by_the_names_that_there_are() -> None:
    assert set(CURATOR.mechanisms) == set(MECHANISMS)
    assert ht.Masked.mechanisms == ht.Clear.mechanisms == ht.Threshold.mechanisms == ()
    with pytest.raises(ht.SettingError, match="seal 'masked' answers no questions about sums"):
        ht.Masked().oracle(SUMS, Scores(4, 3, 100, 100), 10, Noise(10.0), SystemRandomness())


def test_no_noise_is_refused() -> None:
    with pytest.raises(ht.SettingError, match="scale"):
        made(scale=0.0).above_threshold(Fraction(1, 2), [0])


# ---- answers on record -------------------------------------------------------------------------------


def test_recorded_answers_are_given_once_more_in_their_order() -> None:
    again = RecordedOracle([2, NONE, 1], 4)
    assert again.above_threshold(Fraction(1), []) == 2
    assert again.above_threshold(Fraction(1), []) is None
    with pytest.raises(ht.SettingError, match="1 answers that its method does not ask for"):
        again.check_end()
    assert again.noisy_max("exponential") == 1
    again.check_end()
    with pytest.raises(ht.SettingError, match="does not hold the openings"):
        again.noisy_max("exponential")


@pytest.mark.parametrize("answers", [[4], [-2], [1.0], [True], ["1"], [None], "01"])
def test_answers_that_cannot_be_are_refused(answers: Any) -> None:
    with pytest.raises(ht.SettingError, match="does not have the answers"):
        RecordedOracle(answers, 4)


def test_a_noisy_maximum_is_never_nothing() -> None:
    with pytest.raises(ht.SettingError):
        RecordedOracle([NONE], 4).noisy_max("exponential")


@pytest.mark.parametrize("answers", [[1, 1], []])
def test_a_replay_has_exactly_the_answers_that_are_asked_for(candidates: ht.Candidates, answers: list[int]) -> None:
    method = ht.NoisyMax(units=3)
    opened = [Opened("candidate-scores", {"answers": answers}, 0.0, 3)]
    with pytest.raises(ht.SettingError):
        method.run(Replay("0" * 32, candidates, ht.Search(), 3, opened))


# ---- the bound ---------------------------------------------------------------------------------------


def test_scores_are_between_zero_and_their_steps() -> None:
    bound = Scores(3, 1, 100, 100)
    assert bound.check([0, 50, 100]).tolist() == [0, 50, 100]
    assert bound.default(SystemRandomness()).tolist() == [0, 0, 0]
    for vector in ([0, 1, 101], [-1, 0, 0], [0, 0], [0.0, 1.0, 2.0], [0, np.nan, 0], [[0, 0, 0]]):
        with pytest.raises(BoundError):
            bound.check(vector)


@pytest.mark.parametrize("change", ["replace-one", "zero-out"])
def test_the_event_follows_from_sensitivity_and_scale(change: Any) -> None:
    noise = Noise(400.0, "curator")
    assert Scores(3, 5, 100, 100).event(noise, change) == PureTests(0.5, 5)
    assert Scores(3, 5, 100, 800).event(noise, change) == PureTests(4.0, 5)
    assert Scores(3, 5, 100, 100).event(Noise(0.0, "curator"), change).bare
    with pytest.raises(ht.SettingError, match="use seal 'curator' or 'quorum'"):
        Scores(3, 5, 100, 100).event(Noise(400.0), change)


@pytest.mark.parametrize(
    "fields",
    [
        {"length": 0},
        {"tests": 0},
        {"tests": 2.0},
        {"tests": 2**21},
        {"steps": 0},
        {"sensitivity": 99},
        {"sensitivity": 0},
        {"sensitivity": 100.5},
        {"sensitivity": True},
    ],
)
def test_bounds_that_make_no_sense_are_refused(fields: dict[str, Any]) -> None:
    """Above all a sensitivity below what one unit's own scores can do."""
    with pytest.raises(ht.SettingError):
        Scores(**{"length": 3, "tests": 1, "steps": 100, "sensitivity": 100, **fields})


# ---- within a run ------------------------------------------------------------------------------------


Ask = Callable[[Any, Any], int]


def ask(how: Ask) -> ht.NoisyMax:
    """A method that asks what it is told to, and chooses the place that comes of it."""

    class Asking(ht.NoisyMax):
        def run(self, run: Openings) -> ht.Config:
            return run.candidates[how(self, run)]

    return Asking()


def _scores(method: Any, run: Any, **changes: Any) -> Any:
    return replace(method.query(run.candidates, run.search.seed), **changes)


def test_a_method_that_asks_more_than_it_announced_is_stopped(
    make_clients: Make, candidates: ht.Candidates, tmp_path: Path
) -> None:
    def greedy(made: Oracle) -> int:
        return [made.noisy_max("exponential") for _ in range(2)][-1]

    method = ask(lambda method, run: run.consult(_scores(method, run), greedy))
    with pytest.raises(HushtuneError, match="more answers than the 1 that"):
        tune(make_clients(3), candidates, method, folder=tmp_path / "run")
    (kept,) = json.loads((tmp_path / "run" / "run.json").read_text())["opened"]
    assert len(kept["opened"]["blocks"]["answers"]) == 1  # so that asking again gives no other answer


@pytest.mark.parametrize("changes", [{"tests": 2}, {"sensitivity": 2048}, {"tests": 19, "sensitivity": 4096}])
def test_a_method_cannot_announce_one_thing_and_ask_another(
    make_clients: Make, candidates: ht.Candidates, changes: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalFederation, "exchange", None)  # nobody is asked
    method = ask(lambda method, run: run.consult(_scores(method, run, **changes), lambda c: c.noisy_max("exponential")))
    with pytest.raises(HushtuneError, match="did not announce"):
        tune(make_clients(3), candidates, method)


def test_scores_are_curated_once(make_clients: Make, candidates: ht.Candidates) -> None:
    def twice(method: Any, run: Any) -> int:
        query = _scores(method, run)
        return int([run.consult(query, lambda c: c.noisy_max("exponential")) for _ in range(2)][-1])

    with pytest.raises(HushtuneError, match="did not announce"):
        tune(make_clients(3), candidates, ask(twice))


def test_answers_that_were_seen_are_not_drawn_again(
    make_clients: Make, candidates: ht.Candidates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A method fails after it was answered; the same command once more is no second test at the price of one."""
    drawn = []

    def counted(*args: Any) -> int:
        drawn.append(selection.exponential(*args))
        return drawn[-1]

    def failing(made: Oracle) -> int:
        place = made.noisy_max("exponential")
        if len(drawn) == 1:
            raise RuntimeError("whatever it is")
        return place

    monkeypatch.setitem(MECHANISMS, "exponential", counted)
    method = ask(lambda method, run: run.consult(_scores(method, run), failing))
    for _ in range(2):
        with suppress(RuntimeError, HushtuneError):
            tune(make_clients(3), candidates, method, folder=tmp_path / "run")
    assert len(drawn) == 1


@pytest.mark.parametrize("how", ["sum", "sealed", "gather"])
def test_a_method_cannot_read_the_sums(make_clients: Make, candidates: ht.Candidates, how: str) -> None:
    """Tests were paid for. A noisy sum of all scores costs far more than that, a sum as it is has no price."""
    seen: list[Any] = []

    def read(method: Any, run: Any) -> int:
        query = _scores(method, run)
        seen.append(run.unopened(query)["scores"].open() if how == "sealed" else getattr(run, how)(query))
        return 0

    with pytest.raises(HushtuneError):
        tune(make_clients(3), candidates, ask(read))
    assert not seen


def test_a_level_is_a_share_of_all_units_whoever_drops_out(
    make_clients: Make, candidates: ht.Candidates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is missing counts with scores of 0: how many there are is public, and no threshold moves with it."""
    seen: list[int] = []

    class Watched(CuratorOracle):
        def __init__(self, sums: Any, bound: Scores, units: int, *rest: Any) -> None:
            seen.append(units)
            super().__init__(sums, bound, units, *rest)

    clients = make_clients(10)
    clients[3].policy = ht.Policy(opt_out=True)
    monkeypatch.setattr("hushtune.seals.curator.CuratorOracle", Watched)
    result = tune(clients, candidates, ht.ProposeTest())
    assert list(result.dropped) == ["client-03"]
    assert seen == [10]


def test_a_simulations_shortcut_asks_the_same(make_clients: Make, candidates: ht.Candidates, home: Path) -> None:
    federation = LocalFederation(make_clients(6), home, None, 1, 1)
    parties = list(federation.parties.values())
    method = ht.NoisyMax(units=6)
    shortcut = Shortcut(parties, WHOLE, candidates, ht.Search(), CURATOR, Noise(1.0, "curator"), 5, 2)
    query = method.query(candidates, 0)
    chosen = [shortcut.consult(query, lambda c: c.noisy_max("permute-and-flip")) for _ in range(5)]
    assert [candidates[place]["x"] for place in chosen] == pytest.approx([0.3] * 5)  # hardly any noise


def test_who_learns_what(make_clients: Make, candidates: ht.Candidates) -> None:
    result = tune(make_clients(4), candidates, ht.NoisyMax())
    own, answers, chosen = result.disclosures
    assert (own.to, own.shape, own.epsilon) == ("server", (4, 11), None)
    assert (answers.shape, answers.epsilon) == ((1,), pytest.approx(5.0, rel=1e-3))
    assert chosen.epsilon == 0
    assert result.per_candidate() is None
    assert result.opened[0].noise_variance == 0
    assert list(result.opened[0].blocks) == ["answers"]
    with pytest.raises(ht.SettingError, match="one opened value per candidate"):
        result.to_optuna()


def test_a_single_answer_about_a_single_candidate_is_no_value_of_it(make_clients: Make) -> None:
    only = ht.Space(x=ht.Float(0.0, 1.0)).candidates([{"x": 0.3}])
    result = tune(make_clients(3), only, ht.NoisyMax())
    assert result.opened[0].blocks == {"answers": [0]}
    assert result.per_candidate() is None


def test_everything_else_a_run_shows_is_the_same_whatever_clients_hold(
    candidates: ht.Candidates, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Good and bad scores, an error, no number, losses outside: only answers may differ, and what follows from them."""
    outcomes = [np.linspace(0, 1, 11), np.ones(11), RuntimeError("secret"), np.full(11, np.nan), np.full(11, 77.7)]
    shown = []
    for at, outcome in enumerate(outcomes):
        clients = [ht.Client((np.zeros((2, 1)), np.zeros(2)), Loss(outcome)) for _ in range(3)]
        with caplog.at_level(0):
            folder = tmp_path / f"{at}"
            result = tune(
                clients, candidates, ht.NoisyMax(), folder=folder, home=tmp_path / f"home {at}", observer=ht.Bars()
            )
        raw = result.to_json()
        text = json.dumps(raw) + (folder / "run.json").read_text() + "".join(capfd.readouterr()) + caplog.text
        assert "secret" not in text
        assert "77.7" not in text
        for own in ("run", "config", "index", "opened", "notes", "seconds", "ledger", "traffic"):
            raw.pop(own)
        shown.append(json.dumps(raw))
    assert len(set(shown)) == 1
