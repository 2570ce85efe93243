"""Debian's Chromium, headless, driven by its own driver; no network."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.support.ui import WebDriverWait

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)


@contextmanager
def chromium(*flags: str, size: tuple[int, int] = (1000, 1400)) -> Iterator[webdriver.Chrome]:
    """A browser; a plain message if there is none on this machine."""
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if browser is None or driver is None:
        raise RuntimeError(
            "no chromium and chromedriver found: install the Debian packages chromium and chromium-driver"
        )
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for flag in (*FLAGS, *flags, f"--window-size={size[0]},{size[1]}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    found = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        yield found
    finally:
        found.quit()


def show(browser: webdriver.Chrome, page: Path) -> None:
    """Open a page of ours and wait for its title: right after `get`, printing can still meet the empty document."""
    browser.get(page.resolve().as_uri())
    WebDriverWait(browser, 10).until(lambda found: found.title.startswith("hushtune "))
