"""report.html: what a run chose, opened, cost and revealed; comparison.html: several runs side by side."""

from __future__ import annotations

import os
from pathlib import Path

from hushtune.core.checks import kind
from hushtune.core.errors import SettingError
from hushtune.core.files import replace
from hushtune.review.beside import digest_of
from hushtune.review.comparison.table import ARMS, FILE, Comparison
from hushtune.review.pages import comparison
from hushtune.review.pages.result import page
from hushtune.review.verification import recomputed
from hushtune.run.result import Result

PICTURE = "comparison.svg"


def report(folder: str | os.PathLike[str]) -> Path:
    """Writes report.html beside result.json: one self-contained file, computed from what the result recorded.

    Everything in it was opened already or is public, so it may be read by whoever may read the result. In a
    comparison's folder: comparison.html and comparison.svg, and the report of each of its runs.

    Args:
        folder: one that `hushtune run` or `hushtune compare` wrote, or that was given to `tune` or `compare` as
            `folder`, or to `Result.save`.
    """
    kind("folder", folder, str, os.PathLike, optional=False)
    return _comparison(Path(folder)) if (Path(folder) / FILE).exists() else _run(Path(folder))


def _run(folder: Path) -> Path:
    path, result = folder / "report.html", Result.load(folder)
    written = (folder / "result.json").read_bytes()
    try:
        content = page(result, recomputed(result, written), digest_of(written))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise SettingError(f"{path.with_name('result.json')} is damaged: {type(error).__name__}: {error}") from None
    replace(path, content)
    return path


def _comparison(folder: Path) -> Path:
    found = Comparison.load(folder)
    for arm in found.ran:
        if arm.folder is not None:
            _run(folder / ARMS / arm.folder)
    if drawn := comparison.scores_picture(found):
        replace(folder / PICTURE, drawn)
    path = folder / "comparison.html"
    replace(path, comparison.page(found))
    return path
