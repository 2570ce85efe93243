"""report.html in a real browser: renders, shows the data, matches result.json, runs nothing that users named."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from selenium.webdriver.common.by import By

import hushtune as ht

sys.path.insert(0, str(Path(__file__).parent))
from chromium import chromium, show

pytestmark = pytest.mark.browser

EVIL = "</title><script>document.title='owned';alert(1)</script><img src=x onerror=alert(2)>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@ht.objective
def distance(config: ht.Config, data: Any) -> float:
    return abs(float(config["x"]) - float(np.mean(data.y))) + (config["kind"] != "plain")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real run with a dropped client, and names that would run if they were not escaped."""
    home = tmp_path_factory.mktemp("run")
    space = ht.Space(x=ht.Float(0.0, 1.0), kind=ht.Choice(["plain", EVIL]))
    rng = np.random.default_rng(0)
    clients = [ht.Client((np.zeros((4, 1)), rng.normal(0.3, 0.02, 4)), distance) for _ in range(12)]
    clients[3].policy = ht.Policy(opt_out=True)
    ht.tune(
        clients,
        space.grid(x=9),
        method=ht.Vote(3, decode="smooth"),
        privacy=ht.Privacy(2.0),
        home=home,
        folder=home / "out",
        observer=ht.Silent(),
        jobs=1,
    )
    ht.report(home / "out")
    return home / "out"


@pytest.fixture
def page(browser: Any, folder: Path) -> Any:
    show(browser, folder / "report.html")
    return browser


def cells(page: Any, section: str) -> list[list[str]]:
    rows = page.find_elements(By.CSS_SELECTOR, f"#{section} tbody tr")
    return [[cell.text for cell in row.find_elements(By.TAG_NAME, "td")] for row in rows]


def test_it_renders_without_console_errors_and_needs_no_network(page: Any, folder: Path) -> None:
    assert page.title.startswith("hushtune run ")
    assert [entry for entry in page.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []
    loaded = page.execute_script("return performance.getEntriesByType('resource').map(e => e.name)")
    assert [name for name in loaded if not name.startswith("data:")] == []
    text = (folder / "report.html").read_text()
    assert "http://" not in text
    assert "https://" not in text


def test_nothing_that_users_named_runs(page: Any) -> None:
    assert page.title != "owned"
    assert page.find_elements(By.TAG_NAME, "script") == []
    assert page.find_elements(By.TAG_NAME, "img") == []
    assert "onerror=alert(2)" in page.find_element(By.ID, "candidates").get_attribute("textContent")


def test_plots_have_data(page: Any, folder: Path) -> None:
    result = ht.Result.load(folder)
    count = len(result.candidates)
    assert len(page.find_elements(By.CSS_SELECTOR, "#plot-counts g.candidate")) == count
    assert len(page.find_elements(By.CSS_SELECTOR, "#plot-counts .opened.chosen")) == 1
    assert len(page.find_elements(By.CSS_SELECTOR, "#plot-parallel .candidate-line")) == count
    assert len(page.find_elements(By.CSS_SELECTOR, "#plot-parallel .candidate-line.chosen")) == 1
    assert result.seconds == {}  # a real run with an epsilon keeps no times
    assert not page.find_elements(By.ID, "plot-time")
    for name in ("plot-counts", "plot-parallel"):
        size = page.find_element(By.ID, name).size
        assert size["width"] > 500
        assert size["height"] > 50
    heights = page.execute_script(
        "return [...document.querySelectorAll('#plot-counts .opened')].map(c => c.getBoundingClientRect().y)"
    )
    assert heights == sorted(heights)  # the largest count first, so highest on the page


def test_tables_match_the_result(page: Any, folder: Path) -> None:
    raw = json.loads((folder / "result.json").read_text())
    shown = cells(page, "disclosures")
    assert [row[:2] for row in shown] == [[d["to"], d["what"]] for d in raw["disclosures"]]
    assert [row[3] for row in shown] == [d["mechanism"] for d in raw["disclosures"]]
    assert float(shown[0][4]) == pytest.approx(raw["disclosures"][0]["epsilon"], rel=1e-3)
    chosen = dict(cells(page, "chosen"))
    assert float(chosen["x"]) == pytest.approx(raw["config"]["x"], rel=1e-5)
    people = dict(cells(page, "clients")[:4])
    assert (people["asked"], people["answered"], people["dropped"]) == ("12", "11", "1")
    assert cells(page, "clients")[-1] == ["client-03", raw["clients"]["dropped"][0]["reason"]]
    budget = dict(cells(page, "budget"))
    assert budget["limit"] == "epsilon 2, delta 1e-05"
    assert budget["spent before this run"].startswith("epsilon 0,")
    assert page.find_element(By.CSS_SELECTOR, "#statement pre").text == raw["statement"]
    assert {row[1] for row in cells(page, "verify")} == {"holds"}


def test_light_and_dark(page: Any) -> None:
    found = []
    for scheme in ("light", "dark"):
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        found.append(page.execute_script("return getComputedStyle(document.body).backgroundColor"))
    assert found == ["rgb(255, 255, 255)", "rgb(18, 24, 31)"]


def test_it_prints_on_paper(page: Any) -> None:
    pdf = base64.b64decode(page.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"])
    assert pdf.startswith(b"%PDF")
    assert len(pdf) > 20_000


def test_a_narrow_screen_has_no_sideways_scrolling(page: Any) -> None:
    phone = {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    try:
        assert page.execute_script("return document.documentElement.scrollWidth") <= 400
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
