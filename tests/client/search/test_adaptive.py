from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from tests.client.search.test_base import Broken, Fatal, parties
from tests.watched import Watched

import hushtune as ht
from hushtune.client.party import Party
from hushtune.client.search.adaptive import Adaptive, search_on
from hushtune.core.observer import shown

SPACE = ht.Space(x=ht.Float(-5.0, 5.0), n=ht.Int(1, 40), kind=ht.Choice(["a", "b"]), lr=ht.Float(1e-4, 1.0, log=True))
CANDIDATES = SPACE.sample(8)


class Bowl:
    """Best at x = the client's first label, kind 'b'."""

    def losses(self, configs: list[ht.Config], data: Any, seed: int) -> np.ndarray:
        return np.array([(c["x"] - data.y[0]) ** 2 + (c["kind"] == "a") + c["n"] / 40 for c in configs])


class Patchy(Bowl):
    """Fails for half of the configs."""

    def losses(self, configs: list[ht.Config], data: Any, seed: int) -> np.ndarray:
        return np.where([c["kind"] == "a" for c in configs], np.nan, super().losses(configs, data, seed))


def fill(
    search: ht.Search,
    found: list[Party],
    jobs: int = 1,
    private: bool = False,
    apart: bool = False,
    space: ht.Space = SPACE,
) -> list[int]:
    watched = Watched()
    with shown(watched, private).phase("searching", search.work(len(found), space)) as advance:
        search.fill(found, space, jobs, advance, private, apart)
    advances = watched.kinds("advance")
    assert not private or {who for *_, who in advances} <= {None}  # in a private run nobody sees how far each client is
    return [done for _, done, _ in advances]


def test_how_far_each_client_is_may_be_seen_without_epsilon(tmp_path: Path) -> None:
    own: dict[int | None, int] = {}

    def advance(count: int, who: int | None = None, /) -> None:
        own[who] = own.get(who, 0) + count

    ht.Search.adaptive(10).fill(parties(tmp_path, Bowl(), Bowl()), SPACE, 1, advance, private=False)
    assert own == {0: 10, 1: 10}


def key(search: ht.Search) -> str:
    assert isinstance(search, Adaptive)
    return search.key(SPACE)


@pytest.mark.parametrize(("jobs", "apart"), [(1, False), (1, True), (2, False)])
def test_every_client_has_its_trials_whatever_the_processes(tmp_path: Path, jobs: int, apart: bool) -> None:
    search = ht.Search.adaptive(trials=25, seed=3)
    found = parties(tmp_path, Bowl(), Bowl(), Bowl())
    assert sum(fill(search, found, jobs, apart=apart)) == search.work(3, CANDIDATES) == 75
    for at, party in enumerate(found):
        trials = party.searched(key(search))
        assert len(trials) == 25
        expected = search_on(Bowl(), party.data, SPACE, [], 25, "tpe", 3)
        assert trials == expected
        assert min(loss for _, loss in trials) < 1.0
        assert abs(min(trials, key=lambda trial: trial[1])[0]["x"] - at) < 1.5


def test_a_search_that_was_interrupted_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    class Interrupted(Bowl):
        def losses(self, configs: list[ht.Config], data: Any, seed: int) -> np.ndarray:
            calls.append(1)
            if len(calls) == 14:
                raise KeyboardInterrupt
            return super().losses(configs, data, seed)

        def fingerprint(self) -> str:
            return "bowl"

    from tests.observed import Observed

    calls = Observed()
    search = ht.Search.adaptive(trials=30)
    with pytest.raises(KeyboardInterrupt):
        fill(search, parties(tmp_path, Interrupted()))
    (party,) = parties(tmp_path, Interrupted())
    assert len(party.searched(key(search))) == 12  # pieces of three
    done = fill(search, [party])
    assert done[0] == 12
    assert sum(done) == 30
    assert party.searched(key(search)) == search_on(Bowl(), party.data, SPACE, [], 30, "tpe", 0)
    assert len(calls) == 14 + 18  # the piece that was cut off was done again, and nothing else


def test_a_longer_search_goes_on_from_a_shorter_one(tmp_path: Path) -> None:
    found = parties(tmp_path, Bowl())
    fill(ht.Search.adaptive(trials=12), found)
    short = found[0].searched(key(ht.Search.adaptive()))
    assert fill(ht.Search.adaptive(trials=20), found)[0] == 12
    longer = found[0].searched(key(ht.Search.adaptive()))
    assert longer[:12] == short
    assert len(longer) == 20
    assert [count for count in fill(ht.Search.adaptive(trials=20), found) if count] == [20]  # nothing is left to do


def test_samplers_and_seeds_are_searches_of_their_own(tmp_path: Path) -> None:
    found = parties(tmp_path, Bowl())
    searches = [ht.Search.adaptive(5), ht.Search.adaptive(5, sampler="random"), ht.Search.adaptive(5, seed=1)]
    for search in searches:
        fill(search, found)
    trials = [found[0].searched(key(search)) for search in searches]
    assert all(len(each) == 5 for each in trials)
    assert trials[0] != trials[2]


def test_a_config_that_fails_is_kept_as_such_and_the_search_goes_on(tmp_path: Path) -> None:
    found = parties(tmp_path, Patchy())
    search = ht.Search.adaptive(20)
    fill(search, found)
    trials = found[0].searched(key(search))
    failed = [config for config, loss in trials if np.isnan(loss)]
    assert 0 < len(failed) < 20
    assert all(config["kind"] == "a" for config in failed)
    again = fill(search, parties(tmp_path, Patchy()))
    assert [count for count in again if count] == [20]


@pytest.mark.parametrize("objective", [Broken(), pytest.param(Fatal(), marks=pytest.mark.long)])
def test_a_client_whose_objective_fails_keeps_the_reason_and_the_others_go_on(tmp_path: Path, objective: Any) -> None:
    found = parties(tmp_path, Bowl(), objective, Bowl())
    search = ht.Search.adaptive(12)
    assert sum(fill(search, found, jobs=2, private=True)) == 36
    assert [party.failure is None for party in found] == [True, False, True]
    assert [len(party.searched(key(search))) for party in found] == [12, 0, 12]
    again = parties(tmp_path, Bowl(), objective, Bowl())
    assert sum(fill(search, again, private=True)) == 36  # not tried again in a private run
    assert again[1].failure == "the objective failed in an earlier run; remove trials.db to try again"


def brought(tmp_path: Path, objective: Any, **changes: Any) -> Party:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(0))
    study.optimize(lambda trial: trial.suggest_float("x", -5, 5) ** 2, n_trials=4)
    for x in (7.0, -9.0):  # outside the space that is tuned
        wide = {"x": optuna.distributions.FloatDistribution(-10, 10)}
        study.add_trial(optuna.trial.create_trial(params={"x": x}, distributions=wide, value=0.0))
    words = {"x": optuna.distributions.CategoricalDistribution(["fast", "slow"])}
    study.add_trial(optuna.trial.create_trial(params={"x": "fast"}, distributions=words, value=0.0))
    (party,) = parties(tmp_path, objective)
    party.client.trials = study
    return party


class Line(Bowl):
    def losses(self, configs: list[ht.Config], data: Any, seed: int) -> np.ndarray:
        return np.array([(c["x"] - 1) ** 2 for c in configs])


def test_a_search_goes_on_from_the_study_that_a_client_brings(tmp_path: Path) -> None:
    search, space = ht.Search.adaptive(10), ht.Space(x=ht.Float(-5.0, 5.0))
    assert isinstance(search, Adaptive)
    party = brought(tmp_path, Line())
    assert sum(fill(search, [party], space=space)) == 10
    found = search.found(party, space)
    assert [loss for _, loss in found[:4]] == [trial.value for trial in party.client.trials.trials[:4]]
    assert found[4:] == search_on(Line(), party.data, space, found[:4], 6, "tpe", 0)
    assert ht.Search.adaptive(3).found(party, space) == found[:4]  # what is known is not left out


def test_a_study_alone_is_its_clients_search(tmp_path: Path) -> None:
    search, space = ht.Search.adaptive(10), ht.Space(x=ht.Float(-5.0, 5.0))
    assert isinstance(search, Adaptive)
    party = brought(tmp_path, Line())
    party.client.objective = None
    assert sum(fill(search, [party], space=space)) == 10
    assert len(search.found(party, space)) == 4
    assert search.found(party, SPACE) == []  # a study of another space is none


def test_two_processes_that_search_at_once_find_the_same(tmp_path: Path) -> None:
    search = ht.Search.adaptive(5)
    one, other = (parties(tmp_path, Bowl())[0] for _ in range(2))
    fill(search, [one])
    trials = one.searched(key(search))
    other.keep_search(key(search), 0, trials[:3])  # the slower one writes what is there already
    other.keep_search(key(search), 3, [({"x": 9.0, "n": 1, "kind": "a", "lr": 0.1}, 0.5)])
    assert other.searched(key(search)) == trials


class Stops(Bowl):
    """Works for a while."""

    def losses(self, configs: list[ht.Config], data: Any, seed: int) -> np.ndarray:
        self.calls = getattr(self, "calls", 0) + 1
        if self.calls > 2:
            raise RuntimeError("no more")
        return super().losses(configs, data, seed)


@pytest.mark.parametrize("trials", [20, 25])
@pytest.mark.parametrize("bad", [Broken(), Stops()])
def test_a_private_bar_shows_the_same_numbers_whoever_fails(tmp_path: Path, bad: Any, trials: int) -> None:
    search = ht.Search.adaptive(trials)
    shown = []
    for name, objectives in (
        ("good", [Bowl()] * 4),
        ("bad", [bad, Bowl(), bad, Bowl()]),
        ("worse", [bad, bad, bad, Bowl()]),
    ):
        done = fill(search, parties(tmp_path / name, *objectives), private=True)
        shown.append([count for count in done if count])
        again = fill(search, parties(tmp_path / name, *objectives), private=True)
        assert again == done  # what was done before is not to be seen either
    assert sum(shown[0]) == 4 * trials
    assert shown == [shown[0]] * 3
    assert sum(fill(search, parties(tmp_path / "none", bad, bad), private=True)) == 2 * trials


def test_optuna_speaks_as_before(tmp_path: Path) -> None:
    before = optuna.logging.get_verbosity()
    fill(ht.Search.adaptive(2), parties(tmp_path, Bowl()))
    assert optuna.logging.get_verbosity() == before


def test_an_objective_that_cannot_be_copied_is_a_failure_like_any_other(tmp_path: Path) -> None:
    class Locked(Bowl):
        def __deepcopy__(self, memo: Any) -> Any:
            raise TypeError("cannot be copied")

        def __reduce__(self) -> Any:
            raise TypeError("cannot be pickled")

    found = parties(tmp_path, Bowl(), Locked())
    assert sum(fill(ht.Search.adaptive(4), found, private=True)) == 8
    assert found[1].failure is not None


def test_a_missing_library_is_named_when_it_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    search = ht.Search.adaptive(2, "gp")  # may be spoken of, as in a result that is verified
    with pytest.raises(ht.HushtuneError, match="needs PyTorch"):
        fill(search, parties(tmp_path, Bowl()))


def test_numpys_numbers_are_numbers() -> None:
    assert ht.Search.adaptive(np.int64(5), seed=np.int64(3)).to_json() == {"seed": 3, "trials": 5, "sampler": "tpe"}
    assert type(ht.Search.adaptive(np.int64(5)).to_json()["trials"]) is int


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"trials": 0}, "1 <= trials"), ({"sampler": "cma"}, "sampler must be one of"), ({"seed": -1}, "0 <= seed")],
)
def test_bad_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ht.SettingError, match=message):
        ht.Search.adaptive(**settings)


def test_a_client_without_data_is_a_failure_that_stays_inside(tmp_path: Path) -> None:
    def unreadable() -> Any:
        raise FileNotFoundError("nowhere")

    found = parties(tmp_path, Bowl(), Bowl())
    found[1].client.data = unreadable
    assert sum(fill(ht.Search.adaptive(10), found, private=True)) == 20
    assert "nowhere" in str(found[1].failure)


def test_a_vote_needs_every_candidate_scored(tmp_path: Path) -> None:
    clients = [ht.Client((np.zeros((1, 1)), np.zeros(1)), Bowl()) for _ in range(3)]
    with pytest.raises(ht.SettingError, match="method 'vote' does not take Search.adaptive"):
        ht.tune(
            clients, CANDIDATES, method=ht.Vote(), search=ht.Search.adaptive(5), home=tmp_path, observer=ht.Silent()
        )
