"""The threshold seal on a SuperLink and SuperNodes as real processes, with a sidecar beside each."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.federation.flower.deployment import Deployment

import hushtune as ht

pytestmark = pytest.mark.mhe


def test_three_nodes_open_a_sum_together(tmp_path: Path) -> None:
    with Deployment(tmp_path / "deployment") as deployment:
        deployment.ensure(dict.fromkeys(range(3), ""))
        (tmp_path / "pace").mkdir()
        run = deployment.submit(
            pace=tmp_path / "pace",
            out=tmp_path / "out",
            hushtune_seal="threshold",
            hushtune_dropouts=0.0,
            hushtune_nodes=3,
            hushtune_timeout=240.0,
        )
        assert "completed" in deployment.finished(run), (deployment.folder / "link.log").read_text()[-3000:]
    result = ht.Result.load(tmp_path / "out")
    assert result.seal.name == "threshold"
    assert result.opened[0].blocks["votes"] == [1, 1, 1, 0, 0]
    assert result.traffic is not None
    assert result.traffic["trips"] == 3  # keys, input, decrypt
    assert all(check.holds for check in ht.verify(tmp_path / "out"))
    assert not list(tmp_path.glob("deployment/node-*/clients/*/mhe/*/*"))  # every sidecar has ended
