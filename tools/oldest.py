"""Prints constraints for pip: the oldest version of every package that hushtune and its extra `test` accept."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
_BOUND = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?>=([^,; ]+)(?:,<[^,; ]+)?$")


def oldest(lines: list[str]) -> list[str]:
    """One constraint for each requirement; each must have a lower bound."""
    found = []
    for line in lines:
        bound = _BOUND.match(line)
        if bound is None:
            raise SystemExit(
                f"a requirement must be of the form 'name>=lowest,<next', but got {line!r}; mend pyproject.toml"
            )
        found.append(f"{bound[1]}=={bound[2]}")
    return found


def main() -> None:
    """The constraints, one to a line."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    print("\n".join(oldest([*project["dependencies"], *project["optional-dependencies"]["test"]])))


if __name__ == "__main__":
    main()
