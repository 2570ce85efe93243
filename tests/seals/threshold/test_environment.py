"""Finding a Python for OpenFHE, and saying what to do if there is none."""

from __future__ import annotations

import os
import re
import stat
import sys
import zipfile
from pathlib import Path

import pytest

import hushtune as ht
from hushtune.core.errors import MissingExtraError, SettingError
from hushtune.seals.threshold import environment


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HUSHTUNE_MHE", str(tmp_path / "mhe"))
    return tmp_path / "mhe"


def python(path: Path, version: str, works: bool = True) -> Path:
    """A stand-in for an interpreter: says its version, makes an environment that is a copy of itself."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "#!/bin/sh\n"
        f'case "$1 $2" in\n"--version ") echo "Python {version}" ;;\n'
        f'"-m venv") mkdir -p "$3/bin"; cp "$0" "$3/bin/python" ;;\n'
        f'"-c import openfhe") {"true" if works else "echo no libstdc++ >&2; false"} ;;\nesac\n'
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_setup_takes_what_works_and_says_what_it_did(tmp_path: Path, place: Path) -> None:
    said: list[str] = []
    found = environment.setup(str(python(tmp_path / "python3.10", "3.10.4")), said.append)
    assert found == place / "bin" / "python"
    assert said == [
        f"making {place} with {tmp_path / 'python3.10'}",
        "installing openfhe==1.6.1.0.22.4",
        f"OpenFHE can be imported in {found}",
    ]
    assert environment.interpreter() == found
    environment.setup(None, said.append)
    assert said[-1] == f"{place} is there already, and OpenFHE can be imported in it"


@pytest.mark.parametrize("version", sorted(environment.WHEELS))
def test_every_file_it_installs_must_have_its_known_digest(
    version: tuple[int, int], tmp_path: Path, place: Path
) -> None:
    stand_in = python(tmp_path / "python", f"{version[0]}.{version[1]}.4")
    script = stand_in.read_text().replace("esac", f'"-m pip") echo "$@" >{tmp_path / "pip"} ;;\nesac')
    stand_in.write_text(script)
    environment.setup(str(stand_in), lambda line: None)
    given = (tmp_path / "pip").read_text().split()
    assert {"--require-hashes", "--no-deps", "--only-binary"} < set(given)
    assert Path(given[-1]) == place / "locked.txt"
    lines = (place / "locked.txt").read_text().splitlines()
    assert lines[0].split()[0] == environment.WHEELS[version]
    assert all(re.fullmatch(r"(openfhe|numpy)==[0-9.]+ --hash=sha256:[0-9a-f]{64}", line) for line in lines)
    assert len(lines) == 2
    assert not [part for part in given if part.startswith("openfhe")]  # nothing beside what the file names


def test_a_file_with_another_digest_is_not_installed(
    tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the real pip, from a folder."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    with zipfile.ZipFile(folder / "openfhe-1.6.1.0.22.4-py3-none-any.whl", "w") as wheel:
        wheel.writestr("openfhe.py", "")
        wheel.writestr("openfhe-1.6.1.0.22.4.dist-info/METADATA", "Metadata-Version: 2.1\nName: openfhe\nVersion: 1\n")
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setattr(environment, "_version", lambda candidate: (3, 10))
    with pytest.raises(SettingError, match=r"openfhe==1\.6\.1\.0\.22\.4 could not be installed"):
        environment.setup(sys.executable, lambda line: None)
    assert not place.exists()


def test_other_versions_and_broken_wheels_are_named_with_what_to_install(tmp_path: Path, place: Path) -> None:
    with pytest.raises(
        SettingError, match=r"for CPython 3.10 or 3.12, but .*python3 is 3.11; install one .*pyenv install 3.10"
    ):
        environment.setup(str(python(tmp_path / "python3", "3.11.2")))
    said: list[str] = []
    with pytest.raises(SettingError, match=r"1.6.1.0.24.4 cannot be imported \(no libstdc\+\+\)"):
        environment.setup(str(python(tmp_path / "python3.12", "3.12.1", works=False)), said.append)
    assert not place.exists()
    with pytest.raises(SettingError, match="nowhere is no Python"):
        environment.setup(str(tmp_path / "nowhere"))


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path: Path, place: Path) -> None:
    place.mkdir()
    (place / "thesis").touch()
    with pytest.raises(SettingError, match="was not made by `hushtune mhe setup`"):
        environment.setup(str(python(tmp_path / "python3.10", "3.10.4", works=False)))
    assert (place / "thesis").exists()
    (place / "thesis").unlink()
    with pytest.raises(SettingError, match="cannot be imported"):
        environment.setup(str(tmp_path / "python3.10"))


def test_interpreters_are_looked_for_on_the_path_and_among_pyenvs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin") + os.pathsep + os.environ["PATH"])
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.setenv("HOME", str(tmp_path))
    first = python(tmp_path / "bin" / "python3.12", "3.12.1", works=False)
    second = python(tmp_path / "pyenv" / "versions" / "3.10.9" / "bin" / "python", "3.10.9")
    tried = list(environment._interpreters())
    assert tried.index(first) < tried.index(second)
    said: list[str] = []
    monkeypatch.setattr(environment, "_interpreters", lambda: iter([first, second]))
    environment.setup(None, said.append)
    assert any("cannot be imported" in line for line in said)
    assert said[-1].startswith("OpenFHE can be imported")


@pytest.mark.skipif(sys.version_info[:2] in environment.WHEELS, reason="this interpreter may have OpenFHE itself")
def test_without_openfhe_a_run_is_refused_before_anything_is_scored(place: Path) -> None:
    space = ht.Space(x=ht.Float(0.0, 1.0))

    @ht.objective
    def never(config: ht.Config, data: object) -> float:
        raise AssertionError

    clients = [ht.Client(([[0.0]], [0.0]), never) for _ in range(3)]
    with pytest.raises(
        MissingExtraError,
        match=f"needs OpenFHE in a Python of its own, but {place} holds none: run `hushtune mhe setup`",
    ):
        ht.tune(clients, space.grid(x=3), method=ht.Combine(), seal=ht.Threshold(), observer=ht.Silent())
