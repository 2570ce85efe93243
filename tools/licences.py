"""Writes docs/licences.md: every package that hushtune or one of its extras installs, and its licence.

Everything comes from the metadata of installed packages, so all extras must be installed (`make licences` sees to it).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from hushtune.core.errors import SettingError
from hushtune.seals.threshold.environment import WHEELS, interpreter

EXTRAS = {
    "torch": "PyTorch objectives, federated training of networks",
    "dpsgd": "private training",
    "files": "records in tables of pandas and pyarrow",
    "flower": "clients on machines of their own",
}
HEADER = "| package | version wanted | version seen | licence |\n|---|---|---|---|\n"
LONGEST = 60  # characters; some packages put the whole text into the field for its name
INTRO = """# Licences of dependencies

hushtune itself is under Apache-2.0. This page lists what `pip install hushtune` and its extras bring with them, as the
packages' own metadata state it; `make licences` writes it from what is installed (CPython {python}, Linux). A bold
package is named by hushtune, with the versions it accepts; the others are needed by those. Tools for tests,
documentation and building are not part of an installation and not listed; extra `quorum` is one of them: an oracle for
tests, while the seal `Quorum` needs the core only.

No package is copied into hushtune. PyTorch was seen in its CPU build: builds with CUDA also install NVIDIA's libraries,
under NVIDIA's own licences.
"""


def licence(found: Distribution) -> str:
    """The expression, else the classifiers, else the first line of the old field."""
    about = found.metadata
    if "License-Expression" in about:
        return about["License-Expression"]
    named = [line.rpartition(" :: ")[2] for line in about.get_all("Classifier", []) if line.startswith("License ::")]
    if named := [name for name in named if name != "OSI Approved"]:
        return ", ".join(named)
    lines = (about["License"] or "").strip().splitlines()
    return lines[0].strip()[:LONGEST] if lines else "not stated in its metadata"


def needed(found: Distribution, extras: frozenset[str]) -> Iterator[Requirement]:
    """What a package with these extras asks for on this machine."""
    for line in found.requires or []:
        wanted = Requirement(line)
        if wanted.marker is None or any(wanted.marker.evaluate({"extra": extra}) for extra in (extras or {""})):
            yield wanted


def closure(start: list[Requirement]) -> dict[str, Distribution]:
    """All that the requirements install, by name."""
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    todo = list(start)
    while todo:
        wanted = todo.pop()
        key = (canonicalize_name(wanted.name), frozenset(wanted.extras))
        if key not in seen:
            seen.add(key)
            found[key[0]] = distribution(wanted.name)
            todo.extend(needed(found[key[0]], key[1]))
    return found


def table(direct: list[Requirement], left_out: set[str]) -> tuple[str, set[str]]:
    """Rows of a group, named packages first, without those that an earlier table has; and the names listed."""
    wanted: dict[str, str] = {canonicalize_name(one.name): versions(one) for one in direct}
    found = closure(direct)
    names = sorted(
        (name for name in found if name in wanted or name not in left_out), key=lambda n: (n not in wanted, n)
    )
    return HEADER + "".join(row(name, wanted.get(name), found[name]) for name in names), set(found)


def versions(requirement: Requirement) -> str:
    """The versions it accepts, lowest first."""
    return ",".join(sorted(str(requirement.specifier).split(","), reverse=True))


def row(name: str, wanted: str | None, found: Distribution) -> str:
    """One package."""
    shown = f"| {name} | |" if wanted is None else f"| **{name}** | {wanted} |"
    return f"{shown} {found.version} | {licence(found)} |\n"


def openfhe() -> str:
    """OpenFHE's row, from the environment that `hushtune mhe setup` made."""
    folder = interpreter().parent.parent
    for found in distributions(path=[str(path) for path in folder.glob("lib/python*/site-packages")]):
        if canonicalize_name(found.name) == "openfhe":
            wanted = " or ".join(spec.removeprefix("openfhe") for spec in WHEELS.values())
            return HEADER + row("openfhe", wanted, found)
    raise SettingError(f"{folder} must hold OpenFHE, but its packages do not name it; run `hushtune mhe setup` again")


def page() -> str:
    """The whole page."""
    own = [Requirement(line) for line in distribution("hushtune").requires or []]
    core = [wanted for wanted in own if wanted.marker is None]
    text, listed = table(core, set())
    parts = [
        INTRO.format(python=".".join(map(str, sys.version_info[:2]))),
        f"## Core: `pip install hushtune`\n\n{text}",
    ]
    for extra, what in EXTRAS.items():
        direct = [w for w in own if w.marker is not None and w.marker.evaluate({"extra": extra})]
        text, _ = table(direct, listed)
        parts.append(f"## Extra `{extra}`: {what}\n\nBeside what core has.\n\n{text}")
    parts.append(
        f"## Extra `mhe`, and `hushtune mhe setup`: seal `Threshold`\n\nIn a process of its own.\n\n{openfhe()}"
    )
    return "\n".join(parts)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
