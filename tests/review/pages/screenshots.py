"""Pictures of a run's report: python screenshots.py RUN_FOLDER PICTURES_FOLDER"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from chromium import chromium, show


def main(run: Path, pictures: Path) -> None:
    for name, dark in (("report-light", False), ("report-dark", True)):
        with chromium(size=(1000, 1390)) as browser:
            scheme = {"features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]}
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", scheme)
            show(browser, run / "report.html")
            browser.save_screenshot(str(pictures / f"{name}.png"))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
