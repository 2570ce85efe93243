"""Start-up stays light: what `import hushtune` and `hushtune --help` must not load."""

from __future__ import annotations

import subprocess
import sys

import pytest

from experiments.speed.basics import STARTS

HEAVY = {"numpy", "scipy", "sklearn", "pandas", "joblib", "optuna", "dp_accounting", "cryptography", "torch", "flwr"}


def loaded(program: str) -> set[str]:
    """Those of the heavy modules that a program loads, in a process of its own."""
    watch = f"import atexit, sys; atexit.register(lambda: print(*({HEAVY} & sys.modules.keys()), file=sys.stderr))\n"
    done = subprocess.run([sys.executable, "-c", watch + program], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


@pytest.mark.parametrize("name", ["import hushtune", "hushtune --help"])
def test_nothing_heavy_is_loaded(name: str) -> None:
    assert loaded(STARTS[name]) == set()


def test_tune_loads_no_extra_and_no_model_library() -> None:
    assert loaded(STARTS["import hushtune; hushtune.tune"]) == {"numpy", "optuna", "cryptography"}


def test_the_check_can_fail() -> None:
    assert loaded("import numpy, scipy") == {"numpy", "scipy"}
