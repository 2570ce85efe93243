"""comparison.html in a real browser: renders, shows every combination, links lead to its reports."""

from __future__ import annotations

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


@ht.objective
def distance(config: ht.Config, data: Any) -> float:
    return abs(float(config["x"]) - float(np.mean(data.y)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("compared")
    clients = [ht.Client((np.zeros((4, 1)), np.full(4, 0.3)), distance) for _ in range(10)]
    ht.compare(
        clients,
        ht.Space(x=ht.Float(0.0, 1.0)).grid(x=6),
        methods=[ht.Vote(k=1), ht.NoisyMax()],
        seals=[ht.Masked(), ht.Curator()],
        privacies=[ht.Privacy(4.0), None],
        simulation=ht.Simulation(0, ht.Client((np.zeros((8, 1)), np.full(8, 0.3)), distance), 3),
        home=home,
        folder=home / "out",
        observer=ht.Silent(),
        jobs=1,
    )
    ht.report(home / "out")
    return home / "out"


@pytest.fixture(scope="module")
def page(folder: Path) -> Iterator[Any]:
    with chromium() as found:
        show(found, folder / "comparison.html")
        yield found


def test_it_renders_without_console_errors_and_needs_no_network(page: Any, folder: Path) -> None:
    assert page.title == "hushtune comparison"
    assert [entry for entry in page.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []
    assert page.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert "http" not in (folder / "comparison.html").read_text().replace("http://www.w3.org/2000/svg", "")


def test_every_combination_is_there(page: Any, folder: Path) -> None:
    found = ht.Comparison.load(folder)
    assert len(page.find_elements(By.CSS_SELECTOR, "#arms tbody tr")) == len(found.ran) == 4
    assert len(page.find_elements(By.CSS_SELECTOR, "#refused tbody tr")) == 4
    picture = page.find_element(By.CSS_SELECTOR, "#picture svg")
    assert picture.size["width"] > 500
    assert len(picture.find_elements(By.TAG_NAME, "circle")) >= 4
    links = [link.get_attribute("href") for link in page.find_elements(By.CSS_SELECTOR, "#learned a")]
    assert len(links) == 4
    assert all((folder / "arms" / link.split("/arms/")[1]).exists() for link in links)


def test_a_narrow_screen_has_no_sideways_scrolling(page: Any) -> None:
    phone = {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    try:
        assert page.execute_script("return document.documentElement.scrollWidth") <= 400
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
