"""Comparisons: all combinations from the same trials, each run or refused, never charged."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.conftest import Make, distance
from tests.watched import Watched

import hushtune as ht
from hushtune.client.trials import Passing, TrialStore
from hushtune.review.comparison.arms import label_of
from hushtune.run.folder import claimed

PRIVACIES = (ht.Privacy(20.0), None)


def compared(make_clients: Make, candidates: ht.Candidates, **changes: Any) -> ht.Comparison:
    whole = ht.Client((np.zeros((8, 1)), np.full(8, 0.3)), distance)
    settings: dict[str, Any] = {
        "methods": [ht.Vote(k=1), ht.NoisyMax()],
        "seals": [ht.Masked(), ht.Curator()],
        "privacies": PRIVACIES,
        "simulation": ht.Simulation(0, whole, draws=3),
        "observer": ht.Silent(),
        "jobs": 1,
    }
    return ht.compare(make_clients(10), candidates, **{**settings, **changes})


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison's folder; tests work on copies."""
    folder = tmp_path_factory.mktemp("kept") / "compared"
    rng = np.random.default_rng(10)
    clients = [ht.Client((np.zeros((4, 1)), rng.normal(0.3, 0.02, 4)), distance) for _ in range(10)]
    candidates = ht.Space(x=ht.Float(0.0, 1.0)).grid(x=11)
    compared(lambda _: clients, candidates, folder=folder, home=folder.parent / "home")
    return folder


@pytest.fixture
def found(make_clients: Make, candidates: ht.Candidates) -> ht.Comparison:
    return compared(make_clients, candidates)


def test_an_observer_sees_one_comparison_not_its_runs(make_clients: Make, candidates: ht.Candidates) -> None:
    watched = Watched()
    compared(make_clients, candidates, observer=watched)
    assert [event[:3] for event in watched.kinds("phase")] == [("phase", "scoring", 110), ("phase", "comparing", 8)]
    assert {event[0] for event in watched.events} == {"phase", "advance", "end", "done"}
    assert watched.events[-1] == ("done", None)
    with pytest.raises(ht.SettingError) as caught:
        compared(make_clients, candidates, observer=watched, methods=[ht.NoisyMax()], seals=[ht.Masked()])
    assert watched.events[-1] == ("failed", str(caught.value))


def test_every_combination_is_run_or_refused_with_its_reason(found: ht.Comparison) -> None:
    assert len(found.arms) == 8
    assert all((arm.result is None) == (arm.refused is not None) for arm in found.arms)
    refused = {(arm.method, arm.seal, arm.privacy): arm.refused for arm in found.arms if arm.refused}
    assert "needs somebody who keeps the sums secret" in refused["noisy-max", "masked", PRIVACIES[0]]
    assert "is for a server that adds noise" in refused["vote(k=1)", "curator", None]
    assert [(arm.method, arm.seal) for arm in found.ran] == [
        ("vote(k=1)", "masked"),
        ("vote(k=1)", "masked"),
        ("vote(k=1)", "curator"),
        ("noisy-max", "curator"),
    ]


def test_scores_are_of_what_is_chosen_over_draws_of_the_noise(found: ht.Comparison) -> None:
    noisy, exact = found.ran[:2]
    assert len(noisy.scores) == 3
    assert len(exact.scores) == 1
    assert exact.result is not None
    assert exact.scores[0] == pytest.approx(1 - abs(exact.result.config["x"] - 0.3))
    assert found.reference["opt"] == pytest.approx(1.0)
    assert found.reference["random_guess"] < exact.scores[0] <= found.reference["opt"]
    assert noisy.score == pytest.approx(np.mean(noisy.scores))
    assert exact.deviation is None


def test_draws_of_the_noise_differ(make_clients: Make, candidates: ht.Candidates) -> None:
    loud = compared(make_clients, candidates, methods=[ht.Vote(k=1)], privacies=[ht.Privacy(0.5)])
    assert all(len(set(arm.scores)) > 1 for arm in loud.ran)
    quiet = compared(make_clients, candidates, methods=[ht.Vote(k=1)], privacies=[ht.Privacy(20.0)])
    assert min(arm.score or 0 for arm in quiet.ran) > max(arm.score or 1 for arm in loud.ran)


def test_rows_say_who_learned_what_and_what_it_took(found: ht.Comparison) -> None:
    masked, _, curator, _ = (arm.row() for arm in found.ran)
    assert masked["server sees"] == "nothing more"
    assert curator["server sees"] == "each client's own votes, one entry per candidate (exact)"
    assert masked["all see"] == curator["all see"] == "summed votes, one entry per candidate"
    assert masked["spent"] <= 20.0
    assert masked["messages"] == 8  # four trips
    assert curator["messages"] == 2
    assert masked["bytes"] > curator["bytes"] > 0
    assert (masked["unit"], masked["neighbours"], masked["delta"]) == ("client", "replace-one", 1e-5)
    json.dumps(found.to_json(), allow_nan=False)


def test_nothing_is_scored_twice(make_clients: Make, candidates: ht.Candidates, tmp_path: Path) -> None:
    log = tmp_path / "scored"

    @ht.objective
    def counted(config: ht.Config, data: ht.Rows) -> float:
        with log.open("a") as file:
            file.write("x")
        return float(abs(config["x"] - np.mean(data.y)))

    clients = [ht.Client(client.data, counted) for client in make_clients(10)]
    methods = [ht.Vote(k=1), ht.Combine(), ht.Thompson(iterations=2, initial=2, features=8)]
    ht.compare(
        clients,
        candidates,
        methods=methods,
        seals=[ht.Clear()],
        privacies=PRIVACIES,
        simulation=ht.Simulation(0),
        observer=ht.Silent(),
        jobs=1,
    )
    assert len(log.read_text()) == 10 * len(candidates)


def test_agents_explore_anew_in_every_draw(make_clients: Make, candidates: ht.Candidates) -> None:
    method = ht.Thompson(iterations=2, initial=2, features=8)
    arms = compared(make_clients, candidates, methods=[method], seals=[ht.Curator()], privacies=[ht.Privacy(20.0)]).arms
    again = compared(make_clients, candidates, methods=[method], seals=[ht.Curator()], privacies=[ht.Privacy(20.0)])
    assert arms[0].refused is None
    assert len(arms[0].scores) == 3
    assert arms[0].scores == again.arms[0].scores


def test_no_ledger_is_charged(found: ht.Comparison, home: Path) -> None:
    assert not list(home.rglob("ledger*"))
    assert all(arm.result is not None and arm.result.simulation is not None for arm in found.ran)


def test_a_folder_goes_on_where_it_was_interrupted(
    make_clients: Make, candidates: ht.Candidates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "compared"
    first = compared(make_clients, candidates, folder=folder)
    (folder / "comparison.json").unlink()
    last = max((folder / "arms").iterdir(), key=lambda path: path.name)
    for file in last.iterdir():
        file.unlink()
    ran = []
    real = ht.tune
    monkeypatch.setattr(
        "hushtune.review.comparison.arms.tune", lambda *args, **more: ran.append(1) or real(*args, **more)
    )
    again = compared(make_clients, candidates, folder=folder)
    assert len(ran) == 1
    assert [arm.scores for arm in again.arms] == [arm.scores for arm in first.arms]
    assert again.reference == first.reference
    kept = ht.Comparison.load(folder)
    assert kept.rows == again.rows
    compared(make_clients, candidates, folder=folder, simulation=ht.Simulation(1, draws=3))
    assert len(ran) > 1  # another seed is another run


def test_the_page_shows_all_arms_and_what_was_refused(
    make_clients: Make, candidates: ht.Candidates, tmp_path: Path
) -> None:
    folder = tmp_path / "compared"
    found = compared(make_clients, candidates, folder=folder, methods=[ht.Vote(k=1), ht.NoisyMax()])
    page = ht.report(folder)
    content = page.read_text()
    assert page.name == "comparison.html"
    for arm in found.ran:
        assert arm.folder is not None
        assert f"arms/{arm.folder}/report.html" in content
        assert (folder / "arms" / arm.folder / "report.html").exists()
    assert "needs somebody who keeps the sums secret" in content
    assert "SIMULATION" in content
    assert "<script" not in content
    assert (folder / "comparison.svg").read_text().count("<polyline") >= 4


def test_without_a_reference_there_are_no_scores(make_clients: Make, candidates: ht.Candidates, tmp_path: Path) -> None:
    found = compared(make_clients, candidates, simulation=ht.Simulation(0), folder=tmp_path / "compared")
    assert all(arm.score is None for arm in found.arms)
    assert found.reference == {}
    assert "there are no scores" in ht.report(tmp_path / "compared").read_text()
    assert "vote" in found.table()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"methods": []}, "methods must be a list with at least one entry"),
        ({"seals": ht.Masked()}, "seals must be a list"),
        ({"seals": ["masked"]}, "each of seals must be a Seal"),
        ({"privacies": [1.0]}, "each of privacies must be a Privacy"),
        ({"simulation": None}, "simulation must be a Simulation"),
        ({"methods": [ht.NoisyMax()], "seals": [ht.Masked()]}, "every combination is refused; the first: method"),
    ],
)
def test_bad_arguments_are_one_line(
    make_clients: Make, candidates: ht.Candidates, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(ht.SettingError, match=words):
        compared(make_clients, candidates, **changes)


def test_labels_name_the_settings_that_are_not_the_defaults() -> None:
    assert label_of(ht.Vote()) == "vote"
    assert label_of(ht.Vote(decode="argmax", k=3)) == "vote(k=3, decode=argmax)"
    assert label_of(ht.Masked()) == "masked"
    assert label_of(ht.Masked(dropouts=0.3)) == "masked(dropouts=0.3)"
    arm = ht.Arm("vote", "masked", ht.Privacy(1.0, 1e-6, "record"))
    assert arm.guarantee == "1 per record delta 1e-06"


def damaged(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    path = folder / "comparison.json"
    raw = json.loads(path.read_text())
    path.write_text(json.dumps(change(raw) or raw))


DAMAGE: dict[str, Callable[[dict[str, Any]], Any]] = {
    "outside": lambda raw: raw["arms"][0].update(folder="../../outside"),
    "absolute": lambda raw: raw["arms"][0].update(folder="/tmp"),
    "itself": lambda raw: raw["arms"][0].update(folder=".."),
    "no name": lambda raw: raw["arms"][0].update(folder=None),
    "no arms": lambda raw: raw.update(arms=[]),
    "NaN": lambda raw: raw["arms"][0].update(scores=[float("nan")]),
    "words": lambda raw: raw["arms"][0].update(scores=["high"]),
    "huge": lambda raw: raw["arms"][0].update(scores=[1e308]),
    "reference": lambda raw: raw.update(reference=[1]),
    "schema": lambda raw: raw.update(schema=7),
    "a list": lambda raw: [1],
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_or_hostile_folder_is_refused(kept: Path, name: str, tmp_path: Path) -> None:
    folder = tmp_path / "inside" / "copy"
    shutil.copytree(kept, folder)
    damaged(folder, DAMAGE[name])
    (tmp_path / "outside").mkdir()
    shutil.copy(next((kept / "arms").glob("*/result.json")), tmp_path / "outside" / "result.json")
    with pytest.raises(ht.SettingError) as caught:
        ht.report(folder)
    assert len(str(caught.value).splitlines()) == 1
    assert not (tmp_path / "outside" / "report.html").exists()


def test_a_folder_behind_a_link_is_refused(kept: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(kept, folder)
    shutil.move(folder / "arms", tmp_path / "elsewhere")
    (folder / "arms").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ht.SettingError, match="below arms/"):
        ht.report(folder)


def test_what_is_damaged_is_made_anew(
    kept: Path, make_clients: Make, candidates: ht.Candidates, tmp_path: Path
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(kept, folder)
    before = ht.Comparison.load(folder)
    first, second = sorted((folder / "arms").iterdir())[:2]
    (first / "result.json").write_text("{")
    (second / "scores.json").write_text("[NaN]")
    again = compared(make_clients, candidates, folder=folder)
    assert [arm.refused for arm in again.arms] == [arm.refused for arm in before.arms]
    assert [arm.scores for arm in again.arms] == [arm.scores for arm in before.arms]


def test_only_settings_are_refused(make_clients: Make, candidates: ht.Candidates, tmp_path: Path) -> None:
    clients = [ht.Client(c.data, c.objective, policy=ht.Policy(opt_out=True)) for c in make_clients(10)]
    settings: dict[str, Any] = {
        "methods": [ht.Vote(k=1)],
        "seals": [ht.Masked()],
        "privacies": PRIVACIES,
        "observer": ht.Silent(),
    }
    with pytest.raises(ht.AbortedError):
        ht.compare(clients, candidates, simulation=ht.Simulation(0), **settings)
    (tmp_path / "file").touch()
    with pytest.raises(ht.SettingError, match="cannot be written"):
        compared(make_clients, candidates, folder=tmp_path / "file")


def test_a_folder_holds_one_kind_and_has_one_process(
    kept: Path, make_clients: Make, candidates: ht.Candidates, tmp_path: Path
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(kept, folder)
    with pytest.raises(ht.SettingError, match="holds a comparison"):
        ht.tune(make_clients(10), candidates, method=ht.Vote(k=1), folder=folder, observer=ht.Silent())
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").touch()
    with pytest.raises(ht.SettingError, match="holds a run"):
        compared(make_clients, candidates, folder=tmp_path / "run")
    held = claimed(folder, "comparison.json")
    with pytest.raises(ht.SettingError, match="another process"):
        compared(make_clients, candidates, folder=folder)
    held.close()


def test_another_reference_is_scored_anew(make_clients: Make, candidates: ht.Candidates, tmp_path: Path) -> None:
    centre = tmp_path / "centre"

    def load() -> Any:
        return np.zeros((8, 1)), np.full(8, float(centre.read_text()))

    found = []
    for value in ("0.3", "0.9"):
        centre.write_text(value)
        simulation = ht.Simulation(0, ht.Client(load, distance), 2)
        settings = {"methods": [ht.Vote(k=1)], "privacies": [None], "seals": [ht.Clear()]}
        found.append(compared(make_clients, candidates, simulation=simulation, folder=tmp_path / "c", **settings))
    assert found[0].arms[0].score != found[1].arms[0].score


def test_scores_of_any_size_are_drawn(kept: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(kept, folder)
    damaged(folder, lambda raw: raw["arms"][0].update(scores=[-1e6, 1e6]))
    ht.report(folder)
    assert (folder / "comparison.svg").read_text().count("<text") < 60


def test_a_passing_store_knows_what_is_kept_and_keeps_no_searches(tmp_path: Path) -> None:
    kept = TrialStore(tmp_path / "trials.db")
    kept.put("d", "o", 0, [{"x": 1}], np.array([0.5]))
    kept.put_failure("d", "bad", 0, "a")
    passing = Passing(kept)
    assert passing.get("d", "o", 0) == kept.get("d", "o", 0)
    passing.put("d", "o", 0, [{"x": 2}], np.array([0.25]))
    assert len(passing.get("d", "o", 0)) == len(kept.get("d", "o", 0)) == 2
    passing.put_search("d", "o", "s", 0, [({"x": 1}, 0.5), ({"x": 2}, 0.25)])
    passing.put_search("d", "o", "s", 1, [({"x": 9}, 0.0), ({"x": 3}, 0.125)])  # as in a file, what is there stays
    kept.put_search("d", "o", "s", 0, [({"x": 1}, 0.5), ({"x": 2}, 0.25)])
    kept.put_search("d", "o", "s", 1, [({"x": 9}, 0.0), ({"x": 3}, 0.125)])
    assert passing.get_search("d", "o", "s") == kept.get_search("d", "o", "s")
    assert passing.has_failure("d", "bad", 0, "a")
    assert not passing.has_failure("d", "o", 0, "a")
    passing.put_failure("d", "o", 0, "a")
    assert passing.has_failure("d", "o", 0, "a")
    assert kept.has_failure("d", "o", 0, "a")
    passing.put_search("d", "o", "other", 0, [({"x": 1}, 0.5)])
    assert kept.get_search("d", "o", "other") == []


def test_a_priors_own_choice_stands_beside_and_equal_labels_are_told_apart(
    make_clients: Make, candidates: ht.Candidates, tmp_path: Path
) -> None:
    near, far = ht.Prior.near({"x": 0.3}, 4), ht.Prior.near({"x": 1.0}, 4, source="an old table")
    methods = [ht.Vote(opens="winner", prior=prior) for prior in (near, far, None)]
    found = compared(make_clients, candidates, methods=methods, seals=[ht.Curator(), ht.Quorum()], folder=tmp_path)
    assert len({arm.method for arm in found.arms}) == 3
    assert found.arms[4].method == 'vote(opens=winner, prior=4 voters, from "an old table")'
    by_prior = {arm.method: dict(arm.beside) for arm in found.ran}
    own, old, none = by_prior.values()
    assert none == {}
    assert own["the public prior alone"] > old["the public prior alone"]
    text = found.table()
    assert "Without asking anybody:\n" in text
    assert f'the public prior alone chooses {{"x": 1.0}}, which scores {old["the public prior alone"]:.3f}' in text
    again = ht.Comparison.load(tmp_path)
    assert again.table() == text
    assert {arm.method: dict(arm.beside) for arm in again.ran} == by_prior
    assert "Without asking anybody" in ht.report(tmp_path).read_text()


def test_records_have_the_methods_own_voters_and_it_is_said(candidates: ht.Candidates) -> None:
    rng = np.random.default_rng(0)
    clients = [ht.Client((np.zeros((60, 1)), rng.normal(0.3, 0.02, 60)), distance) for _ in range(4)]
    privacy = ht.Privacy(2.0, unit="record")
    found = compared(
        lambda _: clients,
        candidates,
        methods=[ht.Vote(), ht.Vote(voters=2)],
        seals=[ht.Masked(), ht.Quorum()],
        privacies=[privacy],
    )
    usual, _, two, _ = found.ran
    assert usual.voters > two.voters == 2
    assert usual.guarantee == f"2 per record, {usual.voters} voters each"
    assert found.rows[0]["voters"] == usual.voters
    assert f"2 per record, {usual.voters} voters each" in found.table()
