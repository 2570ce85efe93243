"""report.html: what a run chose, opened, cost and revealed, as one file that needs nothing else."""

from __future__ import annotations

import os
from pathlib import Path

from hushtune.files import replace
from hushtune.reporting.page import page
from hushtune.result import Result
from hushtune.verification import verify


def report(folder: str | os.PathLike[str]) -> Path:
    """Writes report.html beside result.json: one self-contained file, computed from what the result recorded.

    Everything in it was opened already or is public, so it may be read by whoever may read the result.
    """
    path = Path(folder) / "report.html"
    replace(path, page(Result.load(folder), verify(folder)))
    return path
