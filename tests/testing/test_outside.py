"""A seal and a transport from outside the package: their own tests, away from this repository's settings."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("name", ["ring", "letters"])
def test_its_own_tests_pass(name: str, tmp_path: Path) -> None:
    own = shutil.copytree(EXAMPLES / name, tmp_path / name)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=own, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout
    assert (own / f"hushtune_{name}.py").exists()  # one file, beside its tests
