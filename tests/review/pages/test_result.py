"""The page without a browser: every section, whatever a run was like; well-formed, and escaped."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hushtune as ht
from hushtune.review.pages.result import page

SECTIONS = {
    "chosen",
    "counts",
    "candidates",
    "disclosures",
    "budget",
    "clients",
    "time",
    "not-covered",
    "statement",
    "verify",
}
VOID = {"meta", "link"}


class Reader(HTMLParser):
    """Checks that tags nest, and collects them."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert not reader.open
    return reader


@pytest.mark.parametrize(
    ("centres", "advice"), [((0.3, 0.3), "any surface will do"), ((0.0, 0.9), "Surface(&#x27;mplm&#x27;)")]
)
def test_pairs_that_were_opened_are_shown_by_knob(tmp_path: Path, centres: tuple[float, float], advice: str) -> None:
    space = ht.Space(x=ht.Float(0.2, 1.0), kind=ht.Choice(["<a>", "b"]))

    class Bowl:
        def losses(self, configs: Any, data: Any, seed: int) -> np.ndarray:
            return np.array([min(1.0, abs(c["x"] - data.y[0]) + data.y[0] / 2) for c in configs])

    parties = [
        ht.Client((np.zeros((2, 1)), np.full(2, centre)), Bowl(), name=f"p{at}") for at, centre in enumerate(centres)
    ]
    search = ht.Search.adaptive(5)
    folder = tmp_path / "run"
    ht.tune(
        parties, space, method=ht.Surface(), seal=ht.Clear(), search=search, folder=folder, observer=ht.Silent(), jobs=1
    )
    text = ht.report(folder).read_text()
    reader = read(text)
    assert {attrs["id"] for tag, attrs in reader.tags if tag == "section"} == SECTIONS - {"candidates"}
    assert sum(tag == "circle" for tag, _ in reader.tags) == 2 * 2 * 5
    assert advice in text
    assert "&lt;a&gt;" in text


def clients(count: int, objective: ht.Objective) -> list[ht.Client]:
    return [ht.Client((np.zeros((2, 1)), np.full(2, 0.3)), objective) for _ in range(count)]


@ht.objective
def distance(config: ht.Config, data: Any) -> float:
    return abs(float(config["<b>x&"]) - float(np.mean(data.y)))


def test_what_agents_shared_is_shown_beside_noise_alone(tmp_path: Path) -> None:
    for name, privacy, seal in (
        ("noisy", ht.Privacy(8.0, 1e-3, neighbours="zero-out"), ht.Curator()),
        ("exact", None, ht.Clear()),
    ):
        method = ht.Thompson(iterations=2, initial=2, features=7, final="surface")
        settings: dict[str, Any] = {
            "privacy": privacy,
            "seal": seal,
            "home": tmp_path / name,
            "observer": ht.Silent(),
            "jobs": 1,
        }
        folder = tmp_path / name / "run"
        ht.tune(clients(4, distance), SPACE.grid(**{"<b>x&": 7}), method=method, folder=folder, **settings)
        text = ht.report(folder).read_text()
        reader = read(text)
        assert any(attrs.get("id") == "plot-loudness" for _, attrs in reader.tags)
        assert ("noise alone" in text) == (privacy is not None)
        assert "their own trials" in text[text.index("What is not covered") :]
        assert "plot-counts" not in text  # as many features as candidates, but they are not about them


SPACE = ht.Space(**{"<b>x&": ht.Float(0.0, 1.0)})


def test_a_curators_answers_are_shown_and_nothing_else(tmp_path: Path) -> None:
    result = ht.tune(
        clients(6, distance),
        SPACE.grid(**{"<b>x&": 7}),
        method=ht.ProposeTest(granularity=0.3),
        privacy=ht.Privacy(20.0, 1e-3),
        seal=ht.Curator(),
        home=tmp_path,
        folder=tmp_path / "out",
        observer=ht.Silent(),
        jobs=1,
    )
    text = ht.report(tmp_path / "out").read_text()
    answers = result.opened[0].blocks["answers"]
    shown = text[text.index("What was opened") : text.index("Who learned what")]
    assert shown.count("candidate ") - shown.count("no candidate is") == sum(place >= 0 for place in answers)
    assert shown.count("no candidate is above the threshold") == answers.count(-1)
    assert "&lt;b&gt;x&amp;" in shown
    assert "plot-counts" not in text
    assert "DOES NOT HOLD" not in text


@pytest.mark.parametrize(
    "settings",
    [
        {"privacy": None},
        pytest.param({"privacy": ht.Privacy(3.0), "seal": ht.Clear()}, marks=pytest.mark.long),
        {"privacy": ht.Privacy(3.0), "simulation": ht.Simulation(1)},
    ],
    ids=["exact", "clear", "simulation"],
)
def test_every_kind_of_run_has_every_section(tmp_path: Path, settings: dict[str, Any]) -> None:
    result = ht.tune(
        clients(4, distance),
        SPACE.grid(**{"<b>x&": 7}),
        method=ht.Vote(2),
        home=tmp_path,
        folder=tmp_path / "out",
        observer=ht.Silent(),
        jobs=1,
        **settings,
    )
    path = ht.report(tmp_path / "out")
    text = path.read_text()
    tags = read(text).tags
    assert {attrs["id"] for tag, attrs in tags if tag == "section"} == SECTIONS
    assert not any(tag in ("script", "b>x") for tag, _ in tags)
    assert sum(attrs.get("class") == "candidate" for _, attrs in tags) == 7
    assert "&lt;b&gt;x&amp;" in text
    assert ("SIMULATION" in text) == (result.simulation is not None)
    assert "DOES NOT HOLD" not in text


def test_more_candidates_than_fit_are_cut_but_the_chosen_one_stays(tmp_path: Path) -> None:
    result = ht.tune(
        clients(4, distance),
        SPACE.sample(300),
        method=ht.Vote(2),
        privacy=ht.Privacy(3.0),
        home=tmp_path,
        observer=ht.Silent(),
        jobs=1,
    )
    result.index = int(np.argmin(result.opened[0].blocks["votes"]))
    result.config = result.candidates[result.index]
    text = page(result, [], "0" * 64)
    assert "(120 of 300 shown)" in text
    assert text.count('class="opened chosen"') == 1
    read(text)


def test_a_folder_without_a_result(tmp_path: Path) -> None:
    with pytest.raises(ht.SettingError, match="does not exist"):
        ht.report(tmp_path)


def test_a_damaged_result_gives_one_line(tmp_path: Path) -> None:
    import json

    ht.tune(clients(4, distance), SPACE.grid(**{"<b>x&": 7}), method=ht.Vote(2), home=tmp_path, folder=tmp_path / "out")
    raw = json.loads((tmp_path / "out" / "result.json").read_text())
    for change in ({"index": 77}, {"seconds": {"score": "long"}}, {"method": {"name": "vote", "k": 2, "voters": "x"}}):
        (tmp_path / "out" / "result.json").write_text(json.dumps({**raw, **change}))
        with pytest.raises(ht.SettingError, match="result.json"):
            ht.report(tmp_path / "out")


def _spread(config: ht.Config, data: Any) -> float:
    far = abs(config["x"] - data.y[0]) + 0.3 * (config.get("kind") == "a") + abs(config.get("z", 0.5) - 0.5)
    return float(min(1.0, far))


@pytest.mark.parametrize(
    ("strategy", "knobs"),
    [
        ("mean", {}),
        ("dbscan", {}),
        ("dbscan", {"kind": ht.Choice(["a", "<b>"])}),
        ("dbscan", {"y": ht.Float(0, 1), "z": ht.Float(0, 1)}),
    ],
    ids=["a mean", "one knob", "a choice", "three knobs"],
)
def test_a_combined_run_shows_cells_of_two_knobs_and_its_clusters(strategy: Any, knobs: Any, tmp_path: Path) -> None:
    space = ht.Space(x=ht.Float(0, 1), **knobs)
    grid = space.sample(49)  # as many as a grid of two numbers has cells: they are not what was opened
    clients = [ht.Client((np.zeros((2, 1)), np.array([y, y])), ht.objective(_spread)) for y in (0.2, 0.25, 0.8)]
    result = ht.tune(
        clients, grid, method=ht.Combine(strategy, cell=0.25), observer=ht.Silent(), jobs=1, folder=tmp_path / "run"
    )
    text = page(result, ht.verify(tmp_path / "run"), "0" * 64)
    reader = read(text)
    cells = [attrs for tag, attrs in reader.tags if tag == "rect" and "cell" in str(attrs.get("class"))]
    assert len(cells) == (8 if strategy == "dbscan" and "kind" in knobs else 0)
    assert "mean score" in text
    assert "All candidates" not in text
    assert result.per_candidate() is None
    with pytest.raises(ht.SettingError, match="one opened value per candidate"):
        result.to_optuna()
