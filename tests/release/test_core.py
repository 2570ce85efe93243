"""The wheel alone, in an environment and a folder that know nothing of this repository."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path

import pytest
from tests.release.place import ROOT, Dist, Place, interpreter

import hushtune as ht

pytestmark = pytest.mark.release

STUDY = """
    [data]
    name = "digits"
    clients = 12
    rows = 600

    [space]
    C = { type = "float", low = 1e-2, high = 1e3, log = true }

    [candidates]
    grid = { C = 6 }

    [objective]
    estimator = "sklearn.svm.SVC"

    [method]
    name = "vote"

    [privacy]
    epsilon = 3.0
    delta = 1e-3
"""
EXAMPLE = """
    import hushtune as ht
    from hushtune.data import load
    from hushtune.data.splits import shares
    from sklearn.svm import SVC

    if __name__ == "__main__":
        space = ht.Space(C=ht.Float(1e-2, 1e3, log=True), gamma=ht.Float(1e-4, 10.0, log=True))
        objective = ht.SklearnObjective(SVC())
        parts = shares("dirichlet:5", load("digits").train, clients=20, seed=0)
        clients = [ht.Client(rows, objective, name=f"site-{n}") for n, rows in enumerate(parts)]
        settings = {"method": ht.Vote(), "privacy": ht.Privacy(2.0), "observer": ht.Silent()}
        result = ht.tune(clients, space.grid(C=3, gamma=3), **settings)
        result.save("runs/example")
        ht.report("runs/example")
        assert all(check.holds for check in ht.verify("runs/example"))
        print(result.spent.epsilon)
"""
HEAVY = {"numpy", "scipy", "sklearn", "optuna", "dp_accounting", "cryptography"}


def others() -> list[str]:
    """Versions of Python that pyproject names, but for the one that runs the other tests."""
    named = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    versions = [line.rpartition(" ")[2] for line in named if line.startswith("Programming Language :: Python :: 3.")]
    return [version for version in versions if version != f"3.{sys.version_info.minor}"]


def a_run_and_all_that_follows(place: Place) -> None:
    study = place.write("study.toml", STUDY)
    said = place.hushtune("run", study, "--out", "runs/first", "--quiet")
    assert "Guarantee: (3, 0.001)" in said
    raw = json.loads((place.work / "runs" / "first" / "result.json").read_text())
    assert 0 < raw["spent"]["epsilon"] <= 3.0
    assert raw["hushtune"] == ht.__version__
    assert json.loads(place.hushtune("verify", "runs/first", "--json"))["holds"]
    (place.work / "runs" / "first" / "report.html").unlink()
    assert place.hushtune("report", "runs/first").strip() == "runs/first/report.html"
    assert "<style>" in (place.work / "runs" / "first" / "report.html").read_text()  # style.css came along
    ledgers = json.loads(place.hushtune("ledger", "show", "--json"))["ledgers"]
    assert len(ledgers) == 12 + 1
    assert all(len(ledger["charges"]) == 1 for ledger in ledgers)
    assert "ledger" in place.refusal("hushtune", "run", study, "--out", "runs/second", "--quiet")


def test_it_is_installed_and_whole(core: Place) -> None:
    checked = core.run("pip", "check")
    assert checked.stdout.strip() == "No broken requirements found.", checked.stdout
    where = Path(core.script("import hushtune; print(hushtune.__file__)").strip())
    assert core.venv in where.parents
    assert ROOT not in where.parents
    assert str(ROOT) not in core.script("import sys; print(sys.path)")
    assert core.hushtune("--version") == f"hushtune {ht.__version__}\n"
    shown = core.hushtune("--help")
    assert all(command in shown for command in ("run", "plan", "verify", "report", "ledger"))
    assert "bench" not in shown
    assert core.run("python", "-I", "-c", "import experiments").returncode == 1


def test_every_module_that_needs_no_extra_can_be_imported(core: Place) -> None:
    said = core.script(
        """
        import importlib, pkgutil, hushtune
        for module in pkgutil.walk_packages(hushtune.__path__, "hushtune."):
            try:
                importlib.import_module(module.name)
            except ImportError as error:
                print(module.name, error.name or error, sep=": ")
        """
    )
    for line in said.splitlines():
        module, _, why = line.partition(": ")
        assert why.partition(".")[0] in ("torch", "flwr", "pandas", "pyarrow") or "hushtune[" in why, module


def test_importing_and_help_load_nothing_heavy(core: Place) -> None:
    """Which is what makes them fast, on any machine."""
    for module in ("hushtune", "hushtune.cli.app"):
        loaded = core.script(f"import sys, {module}; print(*{{name.partition('.')[0] for name in sys.modules}})")
        assert set(loaded.split()) & HEAVY == set(), module


def test_a_private_run_is_verified_reported_and_charged(core: Place) -> None:
    a_run_and_all_that_follows(core)


def test_a_plan_needs_no_data(core: Place) -> None:
    told = json.loads(core.hushtune("plan", "--clients", "100", "--candidates", "20", "--repetitions", "50", "--json"))
    assert told["privacy"]["epsilon"] == 1.0
    assert told["sigma"] > 1.0
    assert 0 <= told["success"] <= 1


def test_the_example_of_the_readme_works_in_a_smaller_form(core: Place) -> None:
    assert 0 < float(core.script(EXAMPLE)) <= 2.0
    assert (core.work / "runs" / "example" / "report.html").exists()


@pytest.mark.parametrize("version", others())
def test_other_versions_of_python_run_it_too(version: str, dist: Dist, tmp_path: Path) -> None:
    python = interpreter(version)
    if python is None:
        pytest.skip(f"no python{version} was found on the path, or among pyenv's")
    place = Place(tmp_path / "place", python)
    place.install(str(dist.wheel))
    assert f"Python {version}." in place.run("python", "--version").stdout
    a_run_and_all_that_follows(place)
