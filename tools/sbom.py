"""Writes the SBOM of a release, hushtune-VERSION.cdx.json, in CycloneDX 1.5, from the locks: same sources, same bytes.

It has no date and no serial number, since both would differ from one build to the next.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from locks import ROOT, UNHASHED, Pin, names, project, read
from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from hushtune import __version__
from hushtune.seals.threshold.environment import DIGESTS

TOOLS = {"test", "browser", "release", "docs", "dev", "build"}  # for those who work on hushtune
_ROW = re.compile(r"^\| \*{0,2}([a-z0-9-]+)\*{0,2} \|[^|]*\| (\S+) \| (.+?) \|$", re.MULTILINE)


def licences() -> dict[str, str]:
    """By package, as docs/licences.md has them."""
    page = (ROOT / "docs" / "licences.md").read_text(encoding="utf-8")
    return {name: licence for name, _, licence in _ROW.findall(page) if not licence.startswith("not stated")}


def licence(text: str) -> dict[str, Any]:
    """An SPDX expression if it is one, else a name."""
    try:
        return {"expression": str(canonicalize_license_expression(text))}
    except InvalidLicenseExpression:
        return {"license": {"name": text}}


def purl(name: str, version: str) -> str:
    """The package's address among all packages."""
    return f"pkg:pypi/{name}@{version}"


def named(requirement: str) -> str:
    """Which package a requirement is for."""
    return canonicalize_name(Requirement(requirement).name)


def component(name: str, pin: Pin, groups: list[str], known: dict[str, str]) -> dict[str, Any]:
    """One package. Its digests are those of every file that was published of this version."""
    scope = "required" if "core" in groups else "excluded" if set(groups) <= TOOLS else "optional"
    made: dict[str, Any] = {
        "type": "library",
        "bom-ref": purl(name, pin.version),
        "name": name,
        "version": pin.version,
        "scope": scope,
        "purl": purl(name, pin.version),
        "properties": [{"name": "hushtune:lock", "value": group} for group in groups],
    }
    if pin.digests:
        made["hashes"] = [{"alg": "SHA-256", "content": digest} for digest in pin.digests]
    if name in known:
        made["licenses"] = [licence(known[name])]
    return made


def pins() -> dict[tuple[str, Pin], list[str]]:
    """Every package, and the locks it is in."""
    found: dict[tuple[str, Pin], list[str]] = {}
    for group in names():
        for name, pin in read(group).items():
            found.setdefault((name, pin), []).append(group)
    for extra, lines in project()["project"]["optional-dependencies"].items():
        for line in lines:
            if line.startswith(f"{UNHASHED}=="):
                found.setdefault((UNHASHED, Pin(line.partition("==")[2], ())), []).append(extra)
    for wheel in sorted({wheel for wheels in DIGESTS.values() for wheel in wheels}):
        name, _, version = wheel.partition("==")
        digests = tuple(wheels[wheel] for wheels in DIGESTS.values() if wheel in wheels)
        found[name, Pin(version, digests)] = ["mhe"]
    return found


def document() -> dict[str, Any]:
    """The whole SBOM."""
    known = licences()
    parts = [component(name, pin, groups, known) for (name, pin), groups in pins().items()]
    parts.sort(key=lambda part: str(part["bom-ref"]))
    own = purl("hushtune", __version__)
    about = project()["project"]
    direct = [purl(name, read("core")[name].version) for name in sorted(map(named, about["dependencies"]))]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": own,
                "name": "hushtune",
                "version": __version__,
                "description": about["description"],
                "licenses": [{"expression": about["license"]}],
                "purl": own,
            },
            "properties": [{"name": "hushtune:platform", "value": "CPython 3.11, Linux x86_64"}],
        },
        "components": parts,
        "dependencies": [{"ref": own, "dependsOn": direct}],
    }


def main(folder: Path) -> None:
    """Writes it beside wheel and sdist."""
    text = json.dumps(document(), indent=2, ensure_ascii=False) + "\n"
    (folder / f"hushtune-{__version__}.cdx.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
