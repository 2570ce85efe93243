"""A module imports only from its own row or those below it (docs/architecture.md)."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from types import ModuleType

import hushtune

ROOT = Path(hushtune.__file__).parent
PAGE = Path(__file__).parents[1] / "docs" / "architecture.md"


def rows() -> list[list[str]]:
    """The rows of the page's table, lowest first."""
    table = PAGE.read_text().partition("## Layers")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (`[^|]*`) \| ", table, re.MULTILINE)
    return [re.findall(r"`([\w.]+)`", cell) for cell in reversed(cells)]


ROWS = rows()  # a package name stands for all its modules, unless a module is named itself


def row(module: str) -> int:
    parts = module.split(".")
    for size in range(len(parts), 0, -1):
        for number, names in enumerate(ROWS):
            if ".".join(parts[:size]) in names:
                return number
    raise AssertionError(f"module {module} is in no row: add it to the table of docs/architecture.md")


def modules() -> dict[str, Path]:
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix("__init__").rstrip(".")
        if name:
            found[name] = path
    return found


def imports(path: Path) -> set[str]:
    """Every hushtune module a file imports, wherever the import stands."""
    known, found = modules(), set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        found |= {name.removeprefix("hushtune.") for name in names if name.startswith("hushtune.")}
    return {name for name in found if name in known}


def test_every_module_is_in_a_row_and_imports_downwards() -> None:
    wrong = [
        f"{name} (row {row(name)}) imports {other} (row {row(other)})"
        for name, path in modules().items()
        for other in imports(path)
        if row(other) > row(name)
    ]
    assert wrong == []


def test_no_public_name_is_hidden_by_a_module_of_the_same_name() -> None:
    import hushtune.cli.app
    import hushtune.study
    import hushtune.verification

    assert hushtune.cli.app
    for name in hushtune.__all__:
        assert not isinstance(getattr(hushtune, name), ModuleType), name


def test_every_name_in_the_table_is_a_module_and_there_once() -> None:
    named = [name for names in ROWS for name in names]
    assert len(ROWS) == 9
    assert len(set(named)) == len(named)
    assert [name for name in named if name not in modules()] == []


def test_files_that_the_page_and_its_pictures_name_exist() -> None:
    pictures = [PAGE.parent / name for name in re.findall(r"\((pictures/[\w-]+\.svg)\)", PAGE.read_text())]
    assert len(pictures) == 3
    for source in (PAGE, *pictures):
        for name in re.findall(r"[\w/]+\.py\b", source.read_text()):
            assert (ROOT.parents[1] / name).exists() or list(ROOT.rglob(name)), f"{source.name} names {name}"


def test_the_rule_can_fail() -> None:
    assert row("privacy.release") > row("privacy.noise")
    assert row("methods.vote") > row("run")
    assert "privacy.accounting" in imports(modules()["bounds"])


def test_only_release_asks_a_query_about_data() -> None:
    """`query.answer` is called in one place, and `contribution` only there and in marked simulations."""
    callers = [name for name, path in modules().items() if ".answer(" in path.read_text()]
    assert callers == ["privacy.release"]
    users = [name for name, path in modules().items() if "contribution(query" in path.read_text()]
    assert sorted(users) == ["privacy.release", "simulation"]


def test_seeded_randomness_is_made_only_for_simulations() -> None:
    makers = [name for name, path in modules().items() if "SimulatedRandomness(" in path.read_text()]
    assert sorted(makers) == ["federation.endpoint", "federation.local", "simulation"]
    for name, path in modules().items():
        if name.startswith(("privacy", "seals", "mhe")):
            assert "default_rng" not in path.read_text()
            assert "np.random" not in path.read_text()
