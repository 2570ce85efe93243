"""report.html: what a run chose, opened, cost and revealed, as one file that needs nothing else."""

from __future__ import annotations

import os
from pathlib import Path

from hushtune.errors import SettingError
from hushtune.files import replace
from hushtune.reporting.page import page
from hushtune.result import Result
from hushtune.verification import verify


def report(folder: str | os.PathLike[str]) -> Path:
    """Writes report.html beside result.json: one self-contained file, computed from what the result recorded.

    Everything in it was opened already or is public, so it may be read by whoever may read the result.

    Args:
        folder: one that `hushtune run` wrote, or that was given to `tune` as `folder` or to `Result.save`.
    """
    path, result = Path(folder) / "report.html", Result.load(folder)
    try:
        content = page(result, verify(folder))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise SettingError(f"{path.with_name('result.json')} is damaged: {type(error).__name__}: {error}") from None
    replace(path, content)
    return path
