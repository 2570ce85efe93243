"""An empty environment in a temporary folder, and what a user does there: install, run commands, run a script."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_OURS = ("PYTHON", "VIRTUAL_ENV", "HUSHTUNE")  # settings that would let this checkout, or its state, leak in


@dataclass(frozen=True)
class Dist:
    """What is published."""

    wheel: Path
    sdist: Path


def build(source: Path, out: Path) -> Dist:
    """Wheel and sdist as `make dist` makes them: the wheel from the sdist."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(source)]
    subprocess.run(command, check=True, capture_output=True, cwd=out.parent, env=_clean())
    (wheel,), (sdist,) = out.glob("*.whl"), out.glob("*.tar.gz")
    return Dist(wheel, sdist)


class Place:
    """One environment, and a folder to work in that holds nothing of this repository."""

    def __init__(self, folder: Path, python: str = sys.executable) -> None:
        self.venv, self.work = folder / "venv", folder / "work"
        self.work.mkdir(parents=True)
        subprocess.run([python, "-m", "venv", str(self.venv)], check=True, env=_clean())

    def install(self, *what: str) -> None:
        """By pip, as a user would; modules are compiled when they are first used, which saves a minute for PyTorch."""
        done = self.run("pip", "install", "--quiet", "--no-compile", *what)
        assert done.returncode == 0, done.stderr

    def run(self, program: str, *arguments: str | Path, seconds: float = 1800) -> subprocess.CompletedProcess[str]:
        """A program of the environment."""
        return subprocess.run(
            [str(self.venv / "bin" / program), *map(str, arguments)],
            capture_output=True,
            text=True,
            cwd=self.work,
            env={**_clean(), "HUSHTUNE_HOME": str(self.work / "home"), "HUSHTUNE_MHE": str(self.work / "mhe")},
            timeout=seconds,
            check=False,
        )

    def hushtune(self, *arguments: str | Path) -> str:
        """What a command that must succeed prints."""
        done = self.run("hushtune", *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def refusal(self, program: str, *arguments: str | Path) -> str:
        """The one line that a command says which must fail: exit code 2, no traceback, no output."""
        done = self.run(program, *arguments)
        assert (done.returncode, done.stdout) == (2, ""), done.stdout + done.stderr
        (line,) = done.stderr.splitlines()
        return line

    def unpack(self, dist: Dist, folder: str) -> None:
        """A folder of the sdist, into the folder to work in: what a clone has beside the installed package."""
        with tarfile.open(dist.sdist) as archive:
            archive.extractall(self.work / "sdist", filter="data")
        (source,) = (self.work / "sdist").iterdir()
        shutil.copytree(source / folder, self.work / folder, dirs_exist_ok=True)

    def script(self, code: str) -> str:
        """What a Python script that must succeed prints; a file, so that it can be imported by worker processes."""
        path = self.write("script.py", code)
        done = self.run("python", path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def write(self, name: str, text: str) -> Path:
        """A file in the folder to work in."""
        path = self.work / name
        path.write_text(textwrap.dedent(text))
        return path


def interpreter(version: str) -> str | None:
    """A Python of this version that runs, on the path or among pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    found = [shutil.which(f"python{version}"), *sorted(map(str, pyenv.glob(f"{version}.*/bin/python")))]
    for python in filter(None, found):
        if subprocess.run([python, "--version"], capture_output=True, check=False).returncode == 0:
            return python
    return None


def _clean() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    return {**kept, "PYTHONNOUSERSITE": "1"}
