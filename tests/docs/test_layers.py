"""Packages import in one direction only (docs/architecture.md), and what else the layout promises."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import hushtune

ROOT = Path(hushtune.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
DECISIONS = PAGE.with_name("decisions.md")
CONTRIBUTING = PAGE.parents[1] / "CONTRIBUTING.md"
PICTURES = [PAGE.parent / name for name in re.findall(r"\((pictures/[\w-]+\.svg)\)", PAGE.read_text())]


def order() -> list[str]:
    """The packages of the page's table, lowest first."""
    table = PAGE.read_text().partition("## Layers")[2].partition("\n## ")[0]
    return re.findall(r"^\| `(\w+)` \| ", table, re.MULTILINE)


ORDER = order()
ALIASES = {"flower": "federation"}  # a public import path that re-exports from that package, and nothing else


def package(module: str) -> str:
    top = module.partition(".")[0]
    return ALIASES.get(top, top)


@cache
def modules() -> dict[str, Path]:
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix("__init__").rstrip(".")
        if name:
            found[name] = path
    return found


@cache
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


def wrong_imports(order: list[str]) -> list[str]:
    """Imports that go from a package to one that does not stand before it; there can be no cycle without one."""
    place = {name: number for number, name in enumerate(order)}
    return [
        f"{name} imports {other}"
        for name, path in modules().items()
        for other in imports(path)
        if not name.startswith("_") and not other.startswith("_") and place[package(other)] > place[package(name)]
    ]


def test_packages_import_only_from_those_before_them() -> None:
    assert wrong_imports(ORDER) == []


def test_the_rule_can_fail() -> None:
    assert wrong_imports(ORDER[::-1]) != []


def test_the_table_names_every_entry_of_the_package_once() -> None:
    entries = {path.stem for path in ROOT.iterdir() if not path.name.startswith("_") and path.suffix in ("", ".py")}
    assert sorted(ORDER) == sorted(entries - set(ALIASES))
    assert len(ORDER) == 12


def test_no_module_has_the_name_of_a_function_that_its_package_re_exports() -> None:
    """Else importing the module would hide the function."""
    known = modules()
    for name in ["", *known]:
        stub = ROOT.joinpath(*name.split(".")) / "__init__.pyi" if name else ROOT / "__init__.pyi"
        for node in ast.parse(stub.read_text()).body if stub.exists() else []:
            assert isinstance(node, ast.ImportFrom)
            for alias in node.names:
                own = f"{name}.{alias.name}".lstrip(".")
                assert own not in known or node.module == f"hushtune.{name}".rstrip("."), own


def test_every_public_name_can_be_loaded_and_has_one_home() -> None:
    for name in hushtune.__all__:  # without an extra
        assert getattr(hushtune, name) is not None
    assert not {"DPSGD", "TorchObjective", "flower", "data"} & set(hushtune.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        hushtune.nothing  # noqa: B018
    assert hushtune.Vote.__module__ == "hushtune.methods.vote.method"


def test_the_page_has_its_pictures() -> None:
    assert len(PICTURES) == 4


@pytest.mark.parametrize("source", [PAGE, DECISIONS, CONTRIBUTING, *PICTURES], ids=lambda source: source.name)
def test_files_and_folders_that_the_pages_and_their_pictures_name_exist(source: Path) -> None:
    for name in re.findall(r"[\w/]+\.py\b|(?<=`)\w+/[\w/]+/(?=`)", source.read_text()):
        known = (ROOT.parents[1] / name).exists() or list(ROOT.rglob(name))
        assert known or "/NAME/" in name or name.endswith("/NAME.py"), f"{source.name} names {name}"


def test_every_decision_says_where_in_the_code_it_is_and_is_in_the_contents() -> None:
    contents, *decisions = re.split(r"^## ", DECISIONS.read_text(), flags=re.MULTILINE)
    titles = [decision.partition("\n")[0] for decision in decisions]
    anchors = ["-".join(re.sub(r"[^\w -]", "", title).lower().split()) for title in titles]
    assert re.findall(r"\]\(#([\w-]+)\)", contents) == anchors
    placed = [re.search(r"^In the code: `(src|tests|tools)/", decision, re.MULTILINE) for decision in decisions]
    assert [title for title, place in zip(titles, placed, strict=True) if place is None] == []


def test_only_release_asks_a_query_about_data() -> None:
    """`query.answer` is called in one place, and `contribution` only there and in marked simulations."""
    callers = [name for name, path in modules().items() if ".answer(" in path.read_text()]
    assert callers == ["client.release"]
    users = [name for name, path in modules().items() if "contribution(query" in path.read_text()]
    assert sorted(users) == ["client.release", "run.simulation"]


def test_one_module_hands_tasks_to_other_processes() -> None:
    """A second pool would need its own answer to workers that die, to Ctrl-C and to a parent that is killed."""
    pools = re.compile(r"\b(joblib|loky|multiprocessing|concurrent\.futures)\b")
    experiments = {path.stem: path for path in (PAGE.parents[1] / "experiments").rglob("*.py")}
    users = [name for name, path in {**experiments, **modules()}.items() if pools.search(path.read_text())]
    assert sorted(users) == ["core.processes.pool", "core.processes.serving", "core.processes.worker"]


def test_one_module_decides_what_a_failure_is() -> None:
    """Nobody else sets a unit's failure, or catches whatever an objective may raise."""
    for words in (".failure =", "put_failure(", "has_failure(", "format_exc("):
        users = [name for name, path in modules().items() if words in path.read_text()]
        assert sorted(set(users) - {"client.trials", "core.processes.serving"}) == ["client.failures"], words


def test_seeded_randomness_is_made_only_for_simulations() -> None:
    makers = [name for name, path in modules().items() if "SimulatedRandomness(" in path.read_text()]
    assert sorted(makers) == [
        "core.randomness",
        "federation.endpoint",
        "federation.local",
        "federation.nodes.local",
        "run.simulation",
    ]
    users = [name for name, path in modules().items() if "drawn_from(" in path.read_text()]
    assert sorted(users) == ["core.randomness", "run.opening", "testing.seals", "training.central"]
    for name, path in modules().items():
        if name.startswith(("privacy", "seals")):
            assert "default_rng" not in path.read_text()
            assert "np.random" not in path.read_text()


def test_nothing_is_unpickled_that_a_peer_may_have_sent() -> None:
    """What crosses between organisations is JSON and bytes of stated lengths; pickles could run code."""
    loads = {"pickle", "cloudpickle", "dill", "marshal", "shelve", "joblib"}
    peers = [path for name, path in modules().items() if name.startswith(("seals.", "federation.", "core.wire"))]
    assert len(peers) > 50
    for path in peers:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not loads & {name.partition(".")[0] for name in names}, path
            assert not (isinstance(node, ast.keyword) and node.arg == "allow_pickle"), path
