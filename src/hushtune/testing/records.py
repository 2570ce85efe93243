"""What is checked of a run's folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hushtune.review.verification import STATED, verify
from hushtune.run.result import Result
from hushtune.testing.values import expect

Raw = dict[str, Any]


def check_saved(folder: Path, result: Result) -> None:
    """result.json holds the result, and all it claims follows from its records."""
    loaded, made = Result.load(folder).to_json(), json.loads(json.dumps(result.to_json()))
    differing = [name for name in made if json.loads(json.dumps(loaded))[name] != made[name]]
    expect(not differing, f"result.json must hold the result, but differs in {differing}")
    wrong = [f"{check.claim} ({check.detail})" for check in verify(folder) if not check.holds]
    expect(not wrong, f"`verify` must hold, but: {'; '.join(wrong)}")


def check_tampering(folder: Path, copy: Path) -> None:
    """A copy that claims something else is found out."""
    original = (folder / "result.json").read_text(encoding="utf-8")
    private = json.loads(original)["privacy"] is not None
    for name, change in {**_ALWAYS, **(_PRIVATE if private else _EXACT)}.items():
        raw = json.loads(original)
        change(raw)
        copy.mkdir(exist_ok=True)
        (copy / "result.json").write_text(json.dumps(raw), encoding="utf-8")
        figures = [check.holds for check in verify(copy) if check.claim != STATED]  # they alone must give it away
        expect(not all(figures), f"`verify` must find out about {name}")


def _halved(*path: str) -> Callable[[Raw], None]:
    def change(raw: Raw) -> None:
        for key in path[:-1]:
            raw = raw[key]
        raw[path[-1]] /= 2

    return change


def _without_opening(raw: Raw) -> None:
    raw["opened"].pop()


def _without_disclosure(raw: Raw) -> None:
    raw["disclosures"].pop(0)


def _claimed(raw: Raw) -> None:
    raw["privacy"] = {"epsilon": 1.0, "delta": 1e-5, "unit": "client", "neighbours": "replace-one"}
    raw["spent"] = {"epsilon": 1.0, "delta": 1e-5}


_ALWAYS = {
    "a missing opening": _without_opening,
    "a missing disclosure": _without_disclosure,
}
_PRIVATE = {
    "half the noise": _halved("noise", "scale"),
    "half the epsilon": _halved("spent", "epsilon"),
}
_EXACT = {"an epsilon that nobody paid for": _claimed}
