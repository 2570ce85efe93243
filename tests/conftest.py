from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

import hushtune as ht

EXTRAS = ("browser", "dpsgd", "files", "flower", "mhe", "quorum", "release", "torch")
_MARKED = re.compile(rf"^pytestmark = pytest\.mark\.({'|'.join(EXTRAS)})$", re.MULTILINE)

# The same examples in every run, and no limits of time: what one machine finds every machine finds.
settings.register_profile("repeated", derandomize=True, database=None, deadline=None)
settings.register_profile("new", max_examples=1_000, deadline=None)
settings.load_profile(os.environ.get("HUSHTUNE_EXAMPLES", "repeated"))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves out files whose mark names an extra, unless `-m` asks for it: they import what may not be installed."""
    if collection_path.suffix != ".py":
        return None
    found = _MARKED.search(collection_path.read_text(encoding="utf-8"))
    return True if found and found[1] not in config.option.markexpr.split() else None


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test has a home of its own: no test touches a real ledger."""
    path = tmp_path / "home"
    monkeypatch.setenv("HUSHTUNE_HOME", str(path))
    return path


@ht.objective
def distance(config: ht.Config, data: ht.Rows) -> float:
    """Best where x is the mean of the client's labels."""
    return float(abs(config["x"] - np.mean(data.y)))


@pytest.fixture
def candidates() -> ht.Candidates:
    return ht.Space(x=ht.Float(0.0, 1.0)).grid(x=11)


def clients_around(count: int, objective: ht.Objective = distance, centre: float = 0.3) -> list[ht.Client]:
    """Clients that nearly agree on where the best config is."""
    rng = np.random.default_rng(count)
    rows = [rng.normal(centre, 0.02, 4) for _ in range(count)]
    return [ht.Client((np.zeros((4, 1)), y), objective) for y in rows]


@pytest.fixture
def make_clients() -> Callable[..., list[ht.Client]]:
    return clients_around


Make = Callable[..., list[ht.Client]]
PRIVACY = ht.Privacy(3.0)


def tune(clients: list[ht.Client], candidates: ht.Candidates, **changes: Any) -> ht.Result:
    settings: dict[str, Any] = {"method": ht.Vote(1), "privacy": PRIVACY, "observer": ht.Silent(), "jobs": 1}
    return ht.tune(clients, candidates, **{**settings, **changes})
