"""Python in docs that needs Flower, and the app in examples/flower-vote, on a grid that calls the clients directly."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Context, RecordDict
from tests.federation.flower.direct import DirectGrid
from tests.pages import ROOT, pages_of, run

import hushtune as ht

pytestmark = pytest.mark.flower


def nodes(folder: Path) -> list[dict[str, Any]]:
    """Ten nodes, whose operators have set the policy that examples/flower-vote shows."""
    text = (ROOT / "examples" / "flower-vote" / "README.md").read_text()
    (shown,) = re.findall(r"```toml\n(# policy.toml.*?)```", text, re.DOTALL)
    (folder / "policy.toml").write_text(shown)
    common = {"num-partitions": 10, "hushtune-jobs": 1, "hushtune-policy": str(folder / "policy.toml")}
    return [{"partition-id": at, **common} for at in range(10)]


def test_the_pages_run_and_tune(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    scope = {page: run(page) for page in pages_of("flower")}["docs/flower.md"]
    scope["main"](DirectGrid(scope["app"], nodes(tmp_path)), Context(1, 1, {}, RecordDict(), {}))
    printed = capsys.readouterr().out
    assert "10 clients were asked, 10 answered, each with 5 voters" in printed
    assert "Guarantee: (1, 1e-05)-differential privacy for each record" in printed


def test_the_example_tunes_and_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its own settings, from its own pyproject; Flower's FedAvg sends its messages through the same grid."""
    import tomllib

    monkeypatch.syspath_prepend(str(ROOT / "examples" / "flower-vote"))
    from flower_vote import client_app, server_app

    config = tomllib.loads((ROOT / "examples" / "flower-vote" / "pyproject.toml").read_text())["tool"]["flwr"]["app"]
    server_app.main(DirectGrid(client_app.app, nodes(tmp_path)), Context(1, 1, {}, RecordDict(), config["config"]))
    printed = capsys.readouterr().out
    assert "Guarantee: (1, 1e-05)-differential privacy for each record" in printed
    chosen, middle = re.findall(r"accuracy after 10 rounds of FedAvg: (0\.\d+)", printed)
    assert float(chosen) > float(middle)
    for name in [name for name in sys.modules if name.startswith("flower_vote")]:
        del sys.modules[name]


def test_plan_says_why_the_example_protects_records() -> None:
    hopeless = ht.plan(10, 24, privacy=ht.Privacy(1.0), observer=ht.Silent())
    fine = ht.plan(10, 24, privacy=ht.Privacy(1.0, unit="record"), method=ht.Vote(voters=10), observer=ht.Silent())
    assert hopeless.verdict.startswith("HOPELESS")
    assert fine.verdict.startswith("Likely to work")
