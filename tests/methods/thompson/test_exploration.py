"""Agents' trials: where they begin, what they try next, and what happens when something fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hushtune as ht
from hushtune.client.party import Party
from hushtune.core.observer import unseen
from hushtune.core.space import config_key
from hushtune.federation.local import LocalFederation
from hushtune.methods.thompson.exploration import Exploration, Explorers, surface
from hushtune.methods.thompson.regions import regions_of

SPACE = ht.Space(x=ht.Float(0.0, 1.0), y=ht.Float(0.0, 1.0))
CANDIDATES = SPACE.sample(64)
RUN = "a" * 32


class Bowl:
    """Best at (.3, .7); counts what it is asked, and fails where it is told to."""

    def __init__(self, fails: Callable[[ht.Config], bool] = lambda config: False, error: Any = None) -> None:
        self.fails, self.error = fails, error

    def fingerprint(self) -> str:
        return "bowl"

    def losses(self, configs: Sequence[ht.Config], data: Any, seed: int) -> Any:
        with open(data[0], "a") as log:
            log.writelines(f"{config_key(config)}\n" for config in configs)
        if self.error is not None:
            raise self.error
        found = [(config["x"] - 0.3) ** 2 + (config["y"] - 0.7) ** 2 for config in configs]
        return np.array([np.nan if self.fails(c) else loss for c, loss in zip(configs, found, strict=True)])


def explorers(**changes: Any) -> Explorers:
    settings: dict[str, Any] = {
        "candidates": CANDIDATES,
        "seed": 0,
        "run": RUN,
        "number": 3,
        "shared": (),
        "initial": 4,
        "regions": 2,
        "features": 10,
        "lengthscale": 0.3,
        "decay": 1.0,
        "losses": (0.0, 1.0),
        "refine": False,
    }
    return Explorers(**{**settings, **changes})


def parties(tmp_path: Path, count: int = 4, seed: int = 5, objective: Any = None) -> list[Party]:
    clients = [ht.Client([str(tmp_path / f"calls-{at}")], objective or Bowl()) for at in range(count)]
    return list(LocalFederation(clients, tmp_path / "home", seed=seed, jobs=1).parties.values())


def fill(query: Explorers, those: Sequence[Party], private: bool = True) -> list[int]:
    """What a bar shows, but for steps of nothing."""
    shown: list[int] = []

    def advance(done: int, who: int | None = None, /) -> None:
        shown.append(done)

    search, domain = query.scored
    search.fill(those, domain, 1, advance, private)
    assert sum(shown) == search.work(len(those), domain)
    return [count for count in shown if count]


def found(query: Explorers, party: Party) -> list[tuple[ht.Config, float]]:
    return Exploration(0, query=query).found(party)


def calls(tmp_path: Path, at: int = 0) -> list[str]:
    return (tmp_path / f"calls-{at}").read_text().splitlines()


def test_agents_begin_in_their_own_sub_regions(tmp_path: Path) -> None:
    query = explorers(number=0)
    those = parties(tmp_path)
    fill(query, those)
    for at, party in enumerate(those):
        configs = [config for config, _ in found(query, party)]
        assert set(regions_of(SPACE, SPACE.encode(configs), 2).tolist()) == {at % 2}
        assert len({config_key(config) for config in configs}) == 4


def test_a_sub_region_with_too_few_points_is_left(tmp_path: Path) -> None:
    few = SPACE.candidates([{"x": 0.1, "y": 0.5}, {"x": 0.8, "y": 0.5}, {"x": 0.9, "y": 0.5}])
    query = explorers(candidates=few, number=0, initial=3)
    those = parties(tmp_path)
    fill(query, those)
    assert found(query, those[0])[0][0]["x"] == 0.1
    assert len(found(query, those[0])) == 3


def test_nothing_is_scored_twice_and_nothing_repeats(tmp_path: Path) -> None:
    those = parties(tmp_path)
    for number in (0, 1, 2, 2, 5):
        fill(explorers(number=number), those)
    assert len(calls(tmp_path)) == len(set(calls(tmp_path))) == 9


def test_an_agent_that_missed_iterations_makes_up_for_them(tmp_path: Path) -> None:
    those = parties(tmp_path)
    fill(explorers(number=1), those[:2])
    fill(explorers(number=4), those)
    assert [len(found(explorers(), party)) for party in those] == [8, 8, 8, 8]


def test_agents_together_try_what_each_tries_alone(tmp_path: Path) -> None:
    shared = tuple(np.random.default_rng(0).normal(size=20).tolist())
    for refine in (False, True):
        query = explorers(run=f"{int(refine)}" * 32, number=4, shared=shared, refine=refine)
        together, alone = parties(tmp_path / "t", seed=9), parties(tmp_path / "a", seed=9)
        for folder in ("t", "a"):
            (tmp_path / folder).mkdir(exist_ok=True)
        fill(query, together)
        for party in alone:
            fill(query, [party])
        assert [found(query, p) for p in together] == [found(query, p) for p in alone]


def test_runs_keep_their_trials_apart(tmp_path: Path) -> None:
    those = parties(tmp_path)
    fill(explorers(), those)
    assert found(explorers(run="b" * 32), those[0]) == []


def test_with_full_chance_agents_follow_the_vectors(tmp_path: Path) -> None:
    """decay=0: every iteration takes the best untried point of the surface that was sent."""
    shared = tuple(np.random.default_rng(1).normal(size=20).tolist())
    query = explorers(number=2, shared=shared, decay=0.0)
    those = parties(tmp_path)
    fill(query, those)
    scores = surface(query, CANDIDATES.encoded)
    for party in those:
        trials = [CANDIDATES.index(config) for config, _ in found(query, party)]
        left = [at for at in np.argsort(-scores) if at not in trials[:4]]
        assert trials[4:] == left[:2]


def test_alone_agents_find_the_best_point(tmp_path: Path) -> None:
    query = explorers(number=25)
    those = parties(tmp_path)
    fill(query, those)
    best = min((config["x"] - 0.3) ** 2 + (config["y"] - 0.7) ** 2 for config in CANDIDATES)
    assert all(min(loss for _, loss in found(query, party)) == pytest.approx(best) for party in those)


def test_refined_points_lie_between_the_candidates(tmp_path: Path) -> None:
    mixed = ht.Space(x=ht.Float(0.0, 1.0), y=ht.Float(0.0, 1.0), n=ht.Int(1, 3), kind=ht.Choice(["a", "b"]))
    query = explorers(candidates=mixed.sample(32), number=6, refine=True)
    those = parties(tmp_path)
    fill(query, those)
    tried = [config for config, _ in found(query, those[0])]
    known = {config_key(config) for config in mixed.sample(32)}
    assert all(mixed.has(config) for config in tried)
    assert any(config_key(config) not in known for config in tried)
    assert len({config_key(config) for config in tried}) == len(tried)


def test_what_has_no_loss_is_counted_locally_and_kept_out(tmp_path: Path) -> None:
    those = parties(tmp_path, objective=Bowl(fails=lambda config: config["x"] < 0.5))
    query = explorers(number=6)
    fill(query, those)
    trials = found(query, those[0])
    assert len(trials) == 10
    _, values = query.observed(trials)
    assert np.isnan(values).any()
    log = (those[0].folder / "client.log").read_text()
    assert "4 of 4 new configs have no finite loss" in log


def test_an_agent_without_any_loss_has_nothing_to_say(tmp_path: Path) -> None:
    those = parties(tmp_path, objective=Bowl(fails=lambda config: True))
    query = explorers()
    fill(query, those)
    with pytest.raises(ht.HushtuneError, match="no config has a finite loss"):
        query.trials(those[0])


def test_a_failing_objective_stays_inside_and_is_not_tried_again(tmp_path: Path) -> None:
    those = parties(tmp_path, objective=Bowl(error=RuntimeError("secret 42")))
    query = explorers()
    fill(query, those)
    assert all(party.failure is not None for party in those)
    assert "secret 42" in (those[0].folder / "client.log").read_text()
    before = len(calls(tmp_path))
    fill(query, parties(tmp_path, objective=Bowl(error=RuntimeError("secret 42"))))
    assert len(calls(tmp_path)) == before
    with pytest.raises(ht.HushtuneError):
        query.trials(those[0])


def test_a_bar_shows_the_same_numbers_whoever_fails(tmp_path: Path) -> None:
    shown: list[list[list[int]]] = []
    for name, failing in (("none", ()), ("some", (0, 2))):
        (tmp_path / name).mkdir()
        those = parties(tmp_path / name)
        for at in failing:
            those[at].client.objective = Bowl(error=RuntimeError("secret 42"))
        shown.append([fill(explorers(number=number), those) for number in (0, 1, 2)])
        assert [at for at, party in enumerate(those) if party.failure is not None] == list(failing)
    assert shown == [[[4, 4, 4, 4], [16, 1, 1, 1, 1], [20, 1, 1, 1, 1]]] * 2


def test_a_client_with_a_study_only_brings_its_trials(tmp_path: Path) -> None:
    import optuna

    study = optuna.create_study()
    for x in (0.1, 0.5, 0.9):
        trial = optuna.trial.create_trial(params={"x": x, "y": 0.5}, distributions=SPACE.knobs, value=x)
        study.add_trial(trial)
    client = ht.Client(trials=study)
    (party,) = LocalFederation([client], tmp_path / "home", seed=0).parties.values()
    query = explorers(regions=1)
    fill(query, [party])
    assert len(query.trials(party)) == 3


def test_answering_makes_up_for_missing_trials(tmp_path: Path) -> None:
    (party,) = parties(tmp_path, count=1)
    assert len(explorers(regions=1).trials(party)) == 7


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shared": (1.0, 2.0)}, "shared must be 20 finite numbers"),
        ({"shared": (float("nan"),) * 20}, "shared must be 20 finite numbers"),
        ({"number": 1_001}, "number"),
        ({"number": -1}, "number"),
        ({"initial": 0}, "initial"),
        ({"regions": 0}, "regions"),
        ({"features": 0}, "features"),
        ({"lengthscale": 0.0}, "lengthscale"),
        ({"decay": -1.0}, "decay"),
        ({"losses": (1.0, 0.0)}, "smallest < largest"),
        ({"seed": -1}, "seed"),
    ],
)
def test_impossible_requests_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ht.SettingError, match=message):
        explorers(**changes)


def test_unseen_advances_are_allowed(tmp_path: Path) -> None:
    (party,) = parties(tmp_path, count=1)
    search, domain = explorers(regions=1).scored
    search.fill([party], domain, 1, unseen, private=False, apart=True)
    assert len(found(explorers(regions=1), party)) == 7
