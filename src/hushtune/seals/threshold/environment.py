"""Where OpenFHE is: its wheels hold one interpreter's module each, so it gets a Python environment of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

from hushtune.core.errors import MissingExtraError, SettingError

WHEELS = {(3, 10): "openfhe==1.6.1.0.22.4", (3, 12): "openfhe==1.6.1.0.24.4"}
"""Which release holds which interpreter's module; the second needs a newer C++ library than Debian 12 has."""

NUMPY = "numpy==2.2.6"
"""What OpenFHE needs, and the process that uses it."""

DIGESTS = {
    (3, 10): {
        WHEELS[3, 10]: "1968d9e803c423fdefda872124a08ae773dacd506473a1e25575d31d12e3e968",
        NUMPY: "fc7b73d02efb0e18c000e9ad8b83480dfcd5dfd11065997ed4c6747470ae8915",
    },
    (3, 12): {
        WHEELS[3, 12]: "8fcd65a0862d6640a255408b55a0df639790bac2cce2aec5f7df810b53af043a",
        NUMPY: "fd83c01228a688733f1ded5201c678f0c53ecc1006ffbc404db9f7a899ac6249",
    },
}
"""SHA-256 of all that is installed: the wheels for x86_64 Linux, which is all that OpenFHE has wheels for."""

_VARIABLE = "HUSHTUNE_MHE"
_MARK = "made-by-hushtune-mhe-setup"  # what has no such file is not removed
_WANTED = " or ".join(".".join(map(str, version)) for version in WHEELS)
_SAY = Callable[[str], None]


def folder() -> Path:
    """The environment's folder: $HUSHTUNE_MHE, else hushtune/mhe among the user's data."""
    if given := os.environ.get(_VARIABLE):
        return Path(given)
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "hushtune" / "mhe"


def interpreter() -> Path:
    """The Python that OpenFHE can be imported in; MissingExtraError says how to get one."""
    found = folder() / "bin" / "python"
    if found.exists() and _imports(found):
        return found
    if sys.version_info[:2] in WHEELS and _imports(Path(sys.executable)):
        return Path(sys.executable)
    raise MissingExtraError(
        f"seal 'threshold' needs OpenFHE in a Python of its own, but {folder()} holds none: run `hushtune mhe setup` "
        "(or, under CPython 3.12, `pip install 'hushtune[mhe]'`)"
    )


def setup(python: str | None = None, say: _SAY = print) -> Path:
    """Makes the environment, with the first interpreter in which OpenFHE can be imported.

    A file whose SHA-256 is not the one known here is not installed.

    Args:
        python: an interpreter to take. Default: any that can be found.
        say: told what is done.
    """
    place = folder()
    made = place / "bin" / "python"
    _imports.cache_clear()
    if made.exists() and _imports(made):
        say(f"{place} is there already, and OpenFHE can be imported in it")
        return made
    if place.exists() and not (place / _MARK).exists() and (not place.is_dir() or any(place.iterdir())):
        raise SettingError(f"{place} exists and was not made by `hushtune mhe setup`; remove it, or set ${_VARIABLE}")
    candidates = [Path(python)] if python is not None else list(_interpreters())
    tried = []
    for candidate in candidates:
        version = _version(candidate)
        if version not in WHEELS:
            tried.append(f"{candidate} is " + (".".join(map(str, version)) if version else "no Python"))
            continue
        say(f"making {place} with {candidate}")
        if (reason := _make(place, candidate, version, say)) is None:
            _imports.cache_clear()
            say(f"OpenFHE can be imported in {made}")
            return made
        say(reason)
        tried.append(f"{candidate}: {reason}")
        shutil.rmtree(place, ignore_errors=True)
    found = "; ".join(tried) or "none was found"
    raise SettingError(
        f"OpenFHE's wheels are for CPython {_WANTED}, but {found}; install one (for instance `pyenv install 3.10`, or "
        "your system's package python3.12) and run `hushtune mhe setup --python PATH`"
    )


def _make(place: Path, python: Path, version: tuple[int, int], say: _SAY) -> str | None:
    """None if all went well, else why not."""
    wheel, locked = WHEELS[version], place / "locked.txt"
    try:
        place.mkdir(parents=True, exist_ok=True)
        (place / _MARK).touch()
    except OSError as error:
        return f"{place} cannot be written ({error.strerror})"
    if reason := _failed([str(python), "-m", "venv", str(place)]):
        return f"no environment could be made ({reason})"
    say(f"installing {wheel}")
    lines = [f"{wanted} --hash=sha256:{digest}\n" for wanted, digest in DIGESTS[version].items()]
    locked.write_text("".join(lines), encoding="utf-8")
    pip = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if reason := _failed([*pip, "--require-hashes", "--no-deps", "--only-binary", ":all:", "-r", str(locked)]):
        return f"{wheel} could not be installed ({reason})"
    if reason := _failed([str(place / "bin" / "python"), "-c", "import openfhe"]):
        return f"{wheel} cannot be imported ({reason})"
    return None


def _failed(command: list[str]) -> str | None:
    """The last line a command that failed said."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        return str(error.strerror)
    if done.returncode == 0:
        return None
    return (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()[-1][:200]


@lru_cache(maxsize=8)
def _imports(python: Path) -> bool:
    return _failed([str(python), "-c", "import openfhe"]) is None


def _version(python: Path) -> tuple[int, int] | None:
    try:
        done = subprocess.run([str(python), "--version"], capture_output=True, text=True, check=False)
    except OSError:
        return None
    found = re.search(r"Python (\d+)\.(\d+)", done.stdout + done.stderr)
    return (int(found[1]), int(found[2])) if found else None


def _interpreters() -> Iterator[Path]:
    """Pythons of the right versions: this one, those on the path, those of pyenv and uv."""
    if sys.version_info[:2] in WHEELS:
        yield Path(sys.executable)
    for major, minor in sorted(WHEELS, reverse=True):
        if found := shutil.which(f"python{major}.{minor}"):
            yield Path(found)
        for root in (
            Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions",
            Path.home() / ".local" / "share" / "uv" / "python",
        ):
            for version in sorted(root.glob(f"*{major}.{minor}.*"), reverse=True):
                if (version / "bin" / "python").exists():
                    yield version / "bin" / "python"
