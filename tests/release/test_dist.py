"""What is in the wheel and in the sdist, and that both are the same whoever builds them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
from tests.release.place import ROOT, Dist, build

import hushtune as ht

pytestmark = pytest.mark.release

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
JUNK = {"__pycache__", ".venv", ".git", "runs", "site", "dist", "build", ".hushtune", ".hypothesis"}
SOURCES = {"src", "experiments", "tests", "tools", "docs", "examples", "locks", ".ci"}
FILES = {
    "Makefile",
    "mkdocs.yml",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "README.md",
    "LICENSE",
    "pyproject.toml",
}


def metadata(dist: Dist) -> Message:
    with zipfile.ZipFile(dist.wheel) as wheel:
        (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
        return Parser().parsestr(wheel.read(name).decode())


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(dist: Dist) -> None:
    source = ROOT / "src"
    wanted = {str(path.relative_to(source)) for path in source.rglob("*") if path.is_file()}
    wanted = {name for name in wanted if not JUNK & set(Path(name).parts) and "egg-info" not in name}
    about = f"hushtune-{ht.__version__}.dist-info"
    wanted |= {f"{about}/{name}" for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")}
    with zipfile.ZipFile(dist.wheel) as wheel:
        assert set(wheel.namelist()) == wanted
        assert wheel.read(f"{about}/entry_points.txt").decode() == "[console_scripts]\nhushtune = hushtune.cli:main\n"
        assert wheel.read(f"{about}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()
    assert {"hushtune/py.typed", "hushtune/review/pages/style.css"} <= wanted


def test_experiments_are_in_the_sdist_only(dist: Dist) -> None:
    with zipfile.ZipFile(dist.wheel) as wheel:
        names = wheel.namelist()
    assert {name.partition("/")[0] for name in names} == {"hushtune", f"hushtune-{ht.__version__}.dist-info"}
    assert [name for name in names if "experiments" in name or name.startswith("hushtune/bench")] == []
    with tarfile.open(dist.sdist) as archive:
        held = {Path(*Path(name).parts[1:]) for name in archive.getnames() if name.endswith(".py")}
    wanted = {path.relative_to(ROOT) for path in (ROOT / "experiments").rglob("*.py")}
    assert len(wanted) > 40
    assert {path for path in held if path.parts[0] == "experiments"} == wanted


def test_metadata_say_what_pyproject_says(dist: Dist) -> None:
    found = metadata(dist)
    assert found["Version"] == ht.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+)?", ht.__version__)  # a release, or on the way to one
    assert found["License-Expression"] == "Apache-2.0"
    assert found["Requires-Python"] == PROJECT["requires-python"]
    assert set(found.get_all("Provides-Extra", [])) == set(PROJECT["optional-dependencies"])
    plain = [line for line in found.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert len(plain) == len(PROJECT["dependencies"])
    assert str(found.get_payload()).strip() == (ROOT / "README.md").read_text().strip()
    assert dist.wheel.name == f"hushtune-{ht.__version__}-py3-none-any.whl"
    assert dist.sdist.name == f"hushtune-{ht.__version__}.tar.gz"


def test_the_sdist_holds_sources_and_no_junk(dist: Dist) -> None:
    with tarfile.open(dist.sdist) as archive:
        names = [Path(*Path(name).parts[1:]) for name in archive.getnames()]
    assert {name.parts[0] for name in names} == SOURCES | FILES | {"PKG-INFO", ".gitignore"}
    assert [name for name in names if JUNK & set(name.parts) or name.suffix in (".pyc", ".db")] == []
    assert dist.sdist.stat().st_size < 5_000_000


def test_another_folder_gives_the_same_bytes(dist: Dist, tmp_path: Path) -> None:
    with tarfile.open(dist.sdist) as archive:
        archive.extractall(tmp_path / "elsewhere", filter="data")
    (source,) = (tmp_path / "elsewhere").iterdir()
    (source / "README.md").touch()
    again = build(source, tmp_path / "again")
    assert again.wheel.read_bytes() == dist.wheel.read_bytes()
    assert again.sdist.read_bytes() == dist.sdist.read_bytes()


def test_another_folder_gives_the_same_sbom_which_names_the_wheels_requirements(dist: Dist, tmp_path: Path) -> None:
    with tarfile.open(dist.sdist) as archive:
        archive.extractall(tmp_path / "elsewhere", filter="data")
    (source,) = (tmp_path / "elsewhere").iterdir()
    found = []
    for at, folder in enumerate((ROOT, source)):
        (tmp_path / str(at)).mkdir()
        command = [sys.executable, str(folder / "tools" / "sbom.py"), str(tmp_path / str(at))]
        subprocess.run(command, check=True, cwd=tmp_path)
        found.append((tmp_path / str(at) / f"hushtune-{ht.__version__}.cdx.json").read_bytes())
    assert found[0] == found[1]
    raw = json.loads(found[0])
    parts = {part["name"] for part in raw["components"] if part["scope"] == "required"}
    plain = [line for line in metadata(dist).get_all("Requires-Dist", []) if "extra ==" not in line]
    assert {re.split(r"[<>=!~\[ ]", line)[0] for line in plain} <= parts
    assert raw["metadata"]["component"]["version"] == ht.__version__
