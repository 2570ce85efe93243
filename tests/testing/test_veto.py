"""examples/veto, as somebody uses it who has hushtune installed and writes a method of their own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
VETO = ROOT / "examples" / "veto"


def run(*command: str, cwd: Path, path: list[Path]) -> subprocess.CompletedProcess[str]:
    """A command with further folders that Python imports from."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run([sys.executable, *command], cwd=cwd, env=env, capture_output=True, text=True, check=False)


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder that says of the package what an installer writes down about it."""
    project = tomllib.loads((VETO / "pyproject.toml").read_text())["project"]
    info = tmp_path / "site" / f"hushtune_veto-{project['version']}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    points = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in names.items())
        for group, names in project["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("\n".join(points))
    return info.parent


def own_tests(folder: Path, *chosen: str) -> str:
    """What the example's own tests print, away from this repository's settings."""
    own = shutil.copytree(VETO, folder / "veto")
    done = run("-m", "pytest", "-q", "-p", "no:xdist", *chosen, cwd=own, path=[])
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_its_own_tests_pass(tmp_path: Path) -> None:
    assert "12 passed, 3 deselected" in own_tests(tmp_path, "-k", "not quorum")


@pytest.mark.long  # node processes, which do not know the method
def test_nodes_check_ballots_of_a_method_that_they_do_not_know(tmp_path: Path) -> None:
    assert "3 passed, 12 deselected" in own_tests(tmp_path, "-k", "quorum")


@pytest.mark.long  # test_plugins has the lookup
def test_studies_and_verify_find_it_once_it_is_installed(tmp_path: Path, installed: Path) -> None:
    hushtune, folder = ("-c", "from hushtune.cli import main; main()"), tmp_path / "run"
    found = run(*hushtune, "run", str(VETO / "study.toml"), "--out", str(folder), cwd=tmp_path, path=[VETO, installed])
    assert found.returncode == 0, found.stderr
    assert json.loads((folder / "result.json").read_text())["method"] == {"name": "veto", "k": 1, "voters": 1}
    assert "summed vetoes, one entry per candidate" in (folder / "report.html").read_text()
    verified = run(*hushtune, "verify", str(folder), cwd=tmp_path, path=[VETO, installed])
    assert verified.returncode == 0, verified.stdout
    alone = run(*hushtune, "verify", str(folder), cwd=tmp_path, path=[VETO])
    assert alone.returncode == 2
    assert "method must be one of" in alone.stderr


IMPORTS = """
import sys
import hushtune as ht
for number in range(5):
    try:
        ht.verify(f"run-{number}")
    except ht.SettingError as error:
        print("must be one of" in str(error), "hushtune_veto" in sys.modules)
"""


def test_a_foreign_result_imports_nothing_that_was_not_installed(tmp_path: Path) -> None:
    """The module lies where Python would find it; but a result only ever names what was installed as a method."""
    from tests.conftest import distance

    import hushtune as ht

    clients = [ht.Client(([[0.0]] * 4, [0.3] * 4), distance) for _ in range(3)]
    grid = ht.Space(x=ht.Float(0.0, 1.0)).grid(x=3)
    raw = ht.tune(clients, grid, method=ht.Vote(1), observer=ht.Silent(), jobs=1).to_json()
    for number, name in enumerate(["hushtune_veto:Veto", "hushtune_veto.Veto", "veto", ["veto"], None]):
        raw["method"] = {"name": name, "k": 1, "voters": 1}
        (tmp_path / f"run-{number}").mkdir()
        (tmp_path / f"run-{number}" / "result.json").write_text(json.dumps(raw))
    done = run("-c", IMPORTS, cwd=tmp_path, path=[VETO])
    assert done.stdout.split() == ["True", "False"] * 5, done.stderr
