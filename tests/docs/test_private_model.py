"""The example, as a user runs it; and fit with the real trainer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import hushtune as ht

pytestmark = pytest.mark.dpsgd

ROOT = Path(__file__).parents[2]


def test_the_example_publishes_a_model_that_works(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "private_model.py"), str(tmp_path / "model")],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
        cwd=tmp_path,
    )
    assert "Guarantee, for model and config together: (4, 1e-05)-differential privacy" in done.stdout
    kept = json.loads((tmp_path / "model" / "fitted.json").read_text())
    assert kept["spent"]["epsilon"] <= 4.0
    weights = torch.load(tmp_path / "model" / "model.pt", weights_only=True)
    network = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.Tanh(), torch.nn.Linear(32, 10))
    network.load_state_dict(weights)
    from hushtune.data import load

    test = load("digits").test
    said = network(torch.tensor(np.asarray(test.X), dtype=torch.float32)).argmax(1).numpy()
    assert (said == test.y).mean() > 0.6  # a random guess is right once in ten
    assert len(ht.Ledger(tmp_path / "runs" / "home" / "ledger.db").entries()) == 1


def test_one_network_is_returned_by_every_way_to_choose(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = ht.Rows(rng.normal(size=(300, 4)), rng.integers(0, 2, 300))
    held = ht.Rows(rng.normal(size=(50, 4)), rng.integers(0, 2, 50))
    objective = ht.TorchObjective(lambda: torch.nn.Linear(4, 1), loss="logistic", epochs=2)
    candidates = ht.Space(lr=ht.Float(0.1, 1.0), clip=ht.Float(0.5, 2.0)).grid(lr=2, clip=2)
    for number, method in enumerate(
        (ht.NoisyMax(voters=5), ht.ProposeTest(voters=5), ht.RepeatAndSelect(2.0), ht.TryAll(), ht.Untuned(1))
    ):
        fitted = ht.fit(
            rows,
            candidates,
            method=method,
            trainer=ht.DPSGD(objective, batch=30, epochs=1),
            privacy=ht.Privacy(4.0, 1e-5, "record", "add-remove"),
            validation=held,
            home=tmp_path / str(number),
            jobs=1,
            observer=ht.Silent(),
        )
        assert isinstance(fitted.model, torch.nn.Linear)
        assert fitted.config in list(candidates.configs)
