"""The SBOM names every locked package with its version, digests and, where it is known, its licence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import locks
import pytest
import sbom

import hushtune as ht
from hushtune.seals.threshold.environment import DIGESTS


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    return sbom.document()


def test_every_locked_package_is_in_it_once(made: dict[str, Any]) -> None:
    parts = {part["purl"]: part for part in made["components"]}
    assert len(parts) == len(made["components"])
    for group in locks.names():
        for name, pin in locks.read(group).items():
            part = parts.pop(f"pkg:pypi/{name}@{pin.version}", None) or next(
                part for part in made["components"] if part["purl"] == f"pkg:pypi/{name}@{pin.version}"
            )
            assert {"name": "hushtune:lock", "value": group} in part["properties"]
            assert [found["content"] for found in part["hashes"]] == list(pin.digests)
            assert {found["alg"] for found in part["hashes"]} == {"SHA-256"}
    assert sorted(part["name"] for part in parts.values()) == ["numpy", "openfhe", "openfhe", "torch"]
    assert "hashes" not in next(part for part in parts.values() if part["name"] == "torch")
    known = {digest for wheels in DIGESTS.values() for digest in wheels.values()}
    assert known == {found["content"] for part in parts.values() for found in part.get("hashes", [])}


def test_scopes_tell_what_an_installation_holds(made: dict[str, Any]) -> None:
    scopes = {part["name"]: part["scope"] for part in made["components"] if part["purl"] != "pkg:pypi/numpy@2.2.6"}
    assert {name for name, scope in scopes.items() if scope == "required"} == set(locks.read("core"))
    assert (scopes["torch"], scopes["flwr"], scopes["openfhe"], scopes["opacus"]) == ("optional",) * 4
    assert (scopes["pytest"], scopes["ruff"], scopes["mkdocs"], scopes["hatchling"]) == ("excluded",) * 4
    (root,) = made["dependencies"]
    assert root["ref"] == made["metadata"]["component"]["purl"] == f"pkg:pypi/hushtune@{ht.__version__}"
    assert len(root["dependsOn"]) == len(locks.project()["project"]["dependencies"])


def test_every_package_of_an_installation_has_a_licence(made: dict[str, Any]) -> None:
    needed = [part for part in made["components"] if part["scope"] == "required"]
    assert [part["name"] for part in needed if "licenses" not in part] == []
    for part in made["components"]:
        for found in part.get("licenses", []):
            assert len(found) == 1
            assert found.get("expression") or found["license"]["name"]
    assert sbom.licence("MIT") == {"expression": "MIT"}
    assert sbom.licence("BSD License") == {"license": {"name": "BSD License"}}


def test_it_has_the_form_of_cyclonedx_and_the_same_bytes_each_time(tmp_path: Path) -> None:
    texts = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        sbom.main(tmp_path / name)
        texts.append((tmp_path / name / f"hushtune-{ht.__version__}.cdx.json").read_bytes())
    assert texts[0] == texts[1]
    found = json.loads(texts[0])
    assert (found["bomFormat"], found["specVersion"], found["version"]) == ("CycloneDX", "1.5", 1)
    assert "timestamp" not in found["metadata"]
    assert all({"type", "bom-ref", "name", "version", "purl"} <= set(part) for part in found["components"])
