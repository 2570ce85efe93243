"""Tests lie where their modules do: `src/hushtune/a/b.py` has `tests/a/test_b.py`, `experiments/a/b.py` has
`tests/experiments/a/test_b.py`. A module that another file covers stands in tests/mirror.toml."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
LIST = ROOT / "tests" / "mirror.toml"


class Entry(NamedTuple):
    by: str
    through: str | None = None


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def modules() -> dict[str, Path]:
    """All modules with something to run; not those that hold names only, such as types or what they re-export."""
    found = {}
    for top, folder in (("hushtune", ROOT / "src" / "hushtune"), ("experiments", ROOT / "experiments")):
        for path in sorted(folder.rglob("*.py")):
            name = ".".join((top, *path.relative_to(folder).with_suffix("").parts)).removesuffix(".__init__")
            if any(isinstance(node, ast.FunctionDef | ast.ClassDef) for node in ast.walk(tree(path))):
                found[name] = path
    return found


def place(module: str, path: Path) -> str:
    """Where its tests belong; those of a package's own `__init__.py` in a file of the package's name."""
    folders = module.split(".")[:-1] if path.name != "__init__.py" else module.split(".")
    return "/".join(["tests", *folders, f"test_{module.rpartition('.')[2].strip('_')}.py"]).replace("/hushtune/", "/")


def public() -> dict[str, set[str]]:
    """The modules that give each name that a package re-exports; `ht.Vote` is such a name."""
    homes: dict[str, set[str]] = {}
    for package in (ROOT / "src" / "hushtune").rglob("__init__.py*"):
        for node in tree(package).body if package.suffix in (".py", ".pyi") else []:
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    homes.setdefault(alias.asname or alias.name, set()).add(node.module)
    return homes


PUBLIC = public()


@cache
def reached(test: Path) -> frozenset[str]:
    """The modules that a test file, or a helper beside the tests that it imports, names, imports or takes names of."""
    found = set(re.findall(r"\b(?:hushtune|experiments)(?:\.\w+)+", test.read_text(encoding="utf-8")))
    for node in ast.walk(tree(test)):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            for alias in node.names:
                if node.module.startswith("hushtune"):
                    found |= PUBLIC.get(alias.name, set())
            helper = ROOT.joinpath(*node.module.split(".")).with_suffix(".py")
            if node.module.startswith("tests.") and helper.exists():
                found |= reached(helper)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "ht":
            found |= PUBLIC.get(node.attr, set())
    longer = {name.rpartition(".")[0] for name in found}  # a function that is named with its module
    return frozenset(found | longer)


def trouble(known: dict[str, Path], listed: dict[str, Entry], root: Path = ROOT) -> list[str]:
    """What is wrong, in words."""
    found = [f"{name}: there is no such module" for name in listed if name not in known]
    for name, path in known.items():
        own = place(name, path)
        if (root / own).exists():
            found += [f"{name}: has {own}, so it need not be listed"] if name in listed else []
            continue
        if name not in listed:
            found.append(f"{name}: has neither {own} nor an entry in tests/mirror.toml")
            continue
        by, through = listed[name]
        test = root / by
        if not test.name.startswith("test_") or not test.is_file():
            found.append(f"{name}: {by} is no file of tests")
        elif through is None and name not in reached(test):
            found.append(f"{name}: {by} neither imports nor names it: say through which word it gets there")
        elif through is not None and name in reached(test):
            found.append(f"{name}: {by} imports or names it: no word is needed")
        elif through is not None and not (through in test.read_text() and through in path.read_text()):
            found.append(f"{name}: '{through}' must stand in {by} and in the module")
    return found


def listed() -> dict[str, Entry]:
    raw = tomllib.loads(LIST.read_text(encoding="utf-8"))
    return {name: Entry(value) if isinstance(value, str) else Entry(**value) for name, value in raw["covered"].items()}


def test_every_module_has_its_tests_in_their_place_or_says_where_they_are() -> None:
    assert trouble(modules(), listed()) == []


def test_the_rule_can_fail() -> None:
    known, given = modules(), listed()
    some, entry = next((name, entry) for name, entry in given.items() if entry.through is None)
    word, through = next((name, entry) for name, entry in given.items() if entry.through is not None)
    for changed, message in (
        ({name: one for name, one in given.items() if name != some}, "has neither"),
        ({**given, some: Entry("tests/none/test_none.py")}, "is no file of tests"),
        ({**given, some: Entry("tests/conftest.py")}, "is no file of tests"),
        ({**given, some: Entry("tests/docs/test_mirror.py")}, "neither imports nor names it"),
        ({**given, some: Entry(entry.by, "def")}, "no word is needed"),
        ({**given, word: Entry(through.by)}, "say through which word"),
        ({**given, word: Entry(through.by, "no such word")}, "must stand in"),
        ({**given, "hushtune.core.codec": entry}, "need not be listed"),
        ({**given, "hushtune.core.nothing": entry}, "there is no such module"),
    ):
        (found,) = trouble(known, changed)
        assert message in found


def test_no_file_of_tests_is_without_a_place() -> None:
    """Each lies in a folder of the source tree, or in one of the few that are about the project as a whole."""
    folders = {Path(place(name, path)).parent for name, path in modules().items()}
    others = {Path("tests", name) for name in ("docs", "release", "tools")} | {Path("tests/federation/flower")}
    lost = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("test_*.py")
        if path.relative_to(ROOT).parent not in folders | others
    ]
    assert lost == []
