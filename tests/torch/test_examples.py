"""Examples in docs that need PyTorch."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import hushtune as ht
from hushtune.data import load

ROOT = Path(__file__).parent.parent.parent


def test_the_example_runs_and_scores() -> None:
    scope: dict[str, Any] = {"__name__": "example"}
    for code in re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "objectives.md").read_text(), re.DOTALL):
        exec(compile(code, "objectives.md", "exec"), scope)
    data = load("digits").train.take(range(900))
    losses = scope["objective"].losses(scope["space"].sample(6).configs, ht.Rows(data.X, data.y), 0)
    assert losses.min() < 0.5
