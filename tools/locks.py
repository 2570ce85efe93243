"""Writes locks/: for each extra, the versions and SHA-256 digests that CPython 3.11 on Linux (x86_64) installs.

All extras are resolved together, so one environment can hold them. A version that is locked and still fits stays;
`--upgrade` takes the newest. PyTorch has no digest: which of its builds a machine gets depends on where it gets it, and
a build for one kind of hardware is another file than the next. What every build of it needs is locked.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LOCKS = ROOT / "locks"
UNHASHED = "torch"
_TORCH_NEEDS = [  # whatever the build
    "filelock",
    "fsspec>=0.8.5",
    "jinja2",
    "networkx>=2.5.1",
    "setuptools>=77.0.3",
    "sympy>=1.13.3",
    "typing-extensions>=4.10.0",
]
_EDITABLE = "editables>=0.5,<1"  # hatchling asks for it when it installs a folder as it is
_PIN = re.compile(r"^([a-z0-9][a-z0-9-]*)==(\S+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", re.MULTILINE)


@dataclass(frozen=True)
class Pin:
    """One package: its version, and the digests of its published files."""

    version: str
    digests: tuple[str, ...]

    def line(self, name: str) -> str:
        """As a lock file has it."""
        return " \\\n    ".join([f"{name}=={self.version}", *(f"--hash=sha256:{digest}" for digest in self.digests)])


def parsed(text: str) -> dict[str, Pin]:
    """The packages of a lock file, without those of files it refers to."""
    return {name: Pin(version, tuple(re.findall(r"[0-9a-f]{64}", rest))) for name, version, rest in _PIN.findall(text)}


def read(name: str) -> dict[str, Pin]:
    """What a lock adds; `core` is what all others begin with, `build` what installing this folder takes."""
    return parsed((LOCKS / f"{name}.txt").read_text(encoding="utf-8"))


def names() -> list[str]:
    """Of all locks."""
    return sorted(path.stem for path in LOCKS.glob("*.txt"))


def project() -> dict[str, Any]:
    """What pyproject.toml says."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def groups(about: Mapping[str, Any]) -> dict[str, tuple[list[str], list[str]]]:
    """For each lock, the extras in it and what else must be there."""
    core = about["project"]["dependencies"]
    found = {extra: ([extra], core) for extra in about["project"]["optional-dependencies"]}
    return {"core": ([], core), **found, "build": ([], [*about["build-system"]["requires"], _EDITABLE])}


def settings(about: Mapping[str, Any]) -> str:
    """uv's: what it is to believe of PyTorch, whose builds differ in what they need."""
    (version,) = {
        line.removeprefix(f"{UNHASHED}==")
        for lines in about["project"]["optional-dependencies"].values()
        for line in lines
        if line.startswith(f"{UNHASHED}==")
    }
    return f'[[dependency-metadata]]\nname = "{UNHASHED}"\nversion = "{version}"\nrequires-dist = {_TORCH_NEEDS}\n'


def resolve(work: Path, out: Path, extras: list[str], beside: list[str], pins: Path | None) -> dict[str, Pin]:
    """What uv finds for some extras; what is in the file `out` already stays if it can."""
    asked = work / "beside.in"
    asked.write_text("\n".join(beside), encoding="utf-8")
    sources = [*(["pyproject.toml"] if extras else []), str(asked)]
    command = ["uv", "pip", "compile", "--quiet", *sources, "--output-file", str(out)]
    command += ["--config-file", str(work / "uv.toml"), "--python-version", "3.11", "--python-platform", "linux"]
    command += ["--generate-hashes", "--no-annotate", "--no-header", "--no-emit-package", UNHASHED]
    command += ["--prerelease", "disallow", "--only-binary", ":all:"]
    command += [part for extra in extras for part in ("--extra", extra)]
    command += ["--constraint", str(pins)] if pins is not None else []
    subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    return parsed(out.read_text(encoding="utf-8"))


def write(name: str, found: Mapping[str, Pin]) -> None:
    """One lock."""
    head = f"# {name}: CPython 3.11 on Linux; `make locks` writes it, CONTRIBUTING.md says more\n"
    if name not in ("core", "build"):
        head += "-r core.txt\n"
    body = "".join(pin.line(package) + "\n" for package, pin in sorted(found.items()))
    (LOCKS / f"{name}.txt").write_text(head + body, encoding="utf-8")


def main(upgrade: bool) -> None:
    """All locks anew."""
    about = project()
    wanted = groups(about)
    before = "" if upgrade else "".join(path.read_text(encoding="utf-8") for path in sorted(LOCKS.glob("*.txt")))
    with tempfile.TemporaryDirectory() as made:
        work = Path(made)
        (work / "uv.toml").write_text(settings(about), encoding="utf-8")
        out, pins = work / "all.txt", work / "pins.txt"
        out.write_text("".join(pin.line(name) + "\n" for name, pin in parsed(before).items()), encoding="utf-8")
        extras = [extra for parts, _ in wanted.values() for extra in parts]
        beside = sorted({line for _, parts in wanted.values() for line in parts})
        together = resolve(work, out, extras, beside, None)
        pins.write_text("".join(f"{name}=={pin.version}\n" for name, pin in together.items()), encoding="utf-8")
        found = {name: resolve(work, work / f"{name}.out", *parts, pins) for name, parts in wanted.items()}
    LOCKS.mkdir(exist_ok=True)
    for path in LOCKS.glob("*.txt"):
        path.unlink()
    for name, packages in found.items():
        left = packages if name in ("core", "build") else {k: v for k, v in packages.items() if k not in found["core"]}
        if left:
            write(name, left)


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--upgrade", action="store_true", help="take the newest versions, whatever was locked")
    main(options.parse_args().upgrade)
