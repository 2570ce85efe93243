"""Installs this folder and some of its extras into the environment whose Python runs this.

CPython 3.11 on Linux (x86_64) gets what locks/ names, each file checked against its digest, and nothing is built but
hushtune itself. Other interpreters get what fits the ranges in pyproject.toml.
"""

from __future__ import annotations

import platform
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
UNHASHED = "torch"  # tools/locks.py says why


def locked() -> bool:
    """Whether the locks are for this interpreter."""
    here = (sys.implementation.name, sys.version_info[:2], sys.platform, platform.machine())
    return here == ("cpython", (3, 11), "linux", "x86_64")


def commands(extras: list[str], by_lock: bool) -> list[list[str]]:
    """What is to be given to pip, in this order."""
    if not by_lock:
        return [["install", "--editable", f".[{','.join(extras)}]" if extras else "."]]
    about = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    unhashed = sorted({line for extra in extras for line in about[extra] if line.startswith(UNHASHED)})
    files = [f"locks/{name}.txt" for name in ("build", "core", *extras) if (ROOT / "locks" / f"{name}.txt").exists()]
    given = [part for file in files for part in ("--requirement", file)]
    return [
        ["install", "--require-hashes", "--no-deps", "--only-binary", ":all:", *given],
        *([["install", *unhashed]] if unhashed else []),
        ["install", "--no-deps", "--no-build-isolation", "--editable", "."],
        ["check"],  # whatever is needed was locked
    ]


def main(extras: list[str]) -> int:
    """The exit code of the first command that failed, or 0."""
    for command in commands(extras, locked()):
        quiet = ["--quiet", "--disable-pip-version-check"]
        done = subprocess.run([sys.executable, "-m", "pip", *quiet, *command], cwd=ROOT, check=False)
        if done.returncode != 0:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
