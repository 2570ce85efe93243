"""Examples in docs that need PyTorch."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.pages import pages_of, run

import hushtune as ht
from hushtune.data import load

pytestmark = pytest.mark.torch


def test_the_pages_run_and_their_objective_scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scope = {page: run(page) for page in pages_of("torch")}["docs/objectives.md"]
    data = load("digits").train.take(range(900))
    losses = scope["objective"].losses(scope["space"].sample(6).configs, ht.Rows(data.X, data.y), 0)
    assert losses.min() < 0.5
