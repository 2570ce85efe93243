"""docs/licences.md names everything that an installation brings: a new dependency needs `make licences`."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "licences.md").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TOOLS = {"test", "quorum", "browser", "release", "docs", "dev"}  # extras for those who work on hushtune
ROW = re.compile(r"\| \*\*(\S+)\*\* \| (.+?) \| (\S+) \| (.+?) \|")
WANTED = {"core": PROJECT["dependencies"]} | {
    extra: wanted for extra, wanted in PROJECT["optional-dependencies"].items() if extra not in TOOLS
}


def listed(group: str) -> dict[str, tuple[str, str, str]]:
    """Named packages of a section: versions wanted, version seen, licence."""
    title = "## Core" if group == "core" else f"## Extra `{group}`"
    (section,) = [part for part in re.split(r"(?m)^(?=## )", PAGE) if part.startswith(title)]
    return {name: (wanted, seen, licence) for name, wanted, seen, licence in ROW.findall(section)}


@pytest.mark.parametrize("group", sorted(WANTED))
def test_every_dependency_is_listed_with_its_versions_and_a_licence(group: str) -> None:
    rows = listed(group)
    assert len(rows) == len(WANTED[group])
    for line in WANTED[group]:
        requirement = Requirement(line)
        wanted, seen, licence = rows[requirement.name]
        assert all(part in wanted for part in str(requirement.specifier).split(",")), requirement.name
        assert group == "mhe" or requirement.specifier.contains(seen), requirement.name
        assert licence != "not stated in its metadata"
