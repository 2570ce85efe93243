"""docs/reference: every public name is on a page, and its docstring says what each parameter is.

Sources are read, not imported, so that names behind extras (PyTorch, Opacus, Flower) are checked too.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src"
PAGES = ROOT / "docs" / "reference"
DIRECTIVE = re.compile(r"^::: ([\w.]+)$", re.MULTILINE)
FROM = re.compile(r"from (hushtune\.(?:data|training|flower|testing)[\w.]*) import ([\w, ]+)")
DOTTED = re.compile(r"\b(hushtune\.flower\.\w+)\(")
Function = ast.FunctionDef | ast.AsyncFunctionDef
PROTOCOLS = (
    "hushtune.privacy.bounds.Bound",
    "hushtune.client.objectives.base.Objective",
)  # their words hold for all of their kind


@cache
def tree(module: str) -> ast.Module:
    place = SOURCES.joinpath(*module.split("."))
    files = [place / "__init__.pyi", place / "__init__.py", place.with_suffix(".py")]  # a stub lists public names
    return ast.parse(next(file for file in files if file.exists()).read_text())


def is_module(path: str) -> bool:
    place = SOURCES.joinpath(*path.split("."))
    return (place / "__init__.py").exists() or place.with_suffix(".py").exists()


def imported(module: str, name: str) -> str | None:
    """Where a module has a name from, if it imports it from this package."""
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hushtune"):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return f"{node.module}.{alias.name}"
    return None


@cache
def found(path: str) -> tuple[str, ast.stmt, str]:
    """The module, the statement and the docstring that define a dotted name."""
    module, name = path.rsplit(".", 1)
    assert is_module(module), f"{path}: there is no module {module}"
    body = tree(module).body
    for place, node in reversed(list(enumerate(body))):  # the last one: overloads come before
        if isinstance(node, ast.ClassDef | Function) and node.name == name:
            return module, node, ast.get_docstring(node) or ""
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
            after = body[place + 1] if place + 1 < len(body) else None
            said = after.value if isinstance(after, ast.Expr) else None
            text = said.value if isinstance(said, ast.Constant) and isinstance(said.value, str) else ""
            return module, node, text
    source = imported(module, name)
    assert source is not None, f"{path} is nowhere defined"
    return found(source)


def bases(module: str, node: ast.ClassDef) -> Iterator[tuple[str, ast.ClassDef]]:
    """The classes of this package that a class derives from, itself first."""
    yield module, node
    for base in node.bases:
        if isinstance(base, ast.Name) and (
            base.id in {n.name for n in tree(module).body if isinstance(n, ast.ClassDef)} or imported(module, base.id)
        ):
            place, parent, _ = found(f"{module}.{base.id}")
            assert isinstance(parent, ast.ClassDef)
            yield from bases(place, parent)


def parameters(function: Function) -> set[str]:
    given = function.args
    named = [*given.posonlyargs, *given.args, *given.kwonlyargs, *(a for a in (given.vararg, given.kwarg) if a)]
    return {a.arg for a in named if a.arg not in ("self", "cls") and not a.arg.startswith("_")}


def described(text: str) -> set[str]:
    """The names that a docstring's Args section describes."""
    section = re.search(r"^Args:\n((?:    .*\n)+)", text + "\n", re.MULTILINE)
    return set(re.findall(r"^    (\w+): \S", section[1], re.MULTILINE)) if section else set()


def is_dataclass(node: ast.ClassDef) -> bool:
    """Whether its fields are what its constructor takes."""
    named = any(ast.unparse(base) == "NamedTuple" for base in node.bases)
    return named or any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)


def fields(module: str, node: ast.ClassDef) -> set[str]:
    """What the constructor takes."""
    names: set[str] = set()
    for _, own in bases(module, node):
        for item in own.body:
            if isinstance(item, Function) and item.name == "__init__":
                return names | parameters(item)
            if is_dataclass(own) and isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                hidden = "ClassVar" in ast.unparse(item.annotation) or "init=False" in ast.unparse(item)
                names |= set() if hidden else {item.target.id}
    return {name for name in names if not name.startswith("_")}


def inherited(module: str, node: ast.ClassDef, name: str) -> Iterator[str]:
    """What a method's docstring says, here, in the classes it overrides, or in the protocol that it is of."""
    agreed = [found(path)[1] for path in PROTOCOLS if module.startswith(path.rsplit(".", 2)[0])]
    for own in [*(own for _, own in bases(module, node)), *agreed]:
        for item in own.body if isinstance(own, ast.ClassDef) else []:
            if isinstance(item, Function) and item.name == name:
                yield ast.get_docstring(item) or ""


def gaps_of_class(path: str, module: str, node: ast.ClassDef, text: str) -> list[str]:
    wanted = fields(module, node)
    said = described(text)
    before = set().union(*(described(ast.get_docstring(own) or "") for _, own in bases(module, node)))
    gaps = [f"{path}: `{name}` is in no Args section" for name in sorted(wanted - said - before)]
    gaps += [f"{path}: describes `{name}`, which it does not take" for name in sorted(said - wanted)]
    for item in node.body:
        if not isinstance(item, Function) or item.name.startswith("_"):
            continue
        own = f"{path}.{item.name}"
        if not ast.get_docstring(item):
            gaps.append(f"{own} has no docstring")
        known = set().union(*(described(words) for words in inherited(module, node, item.name)))
        gaps += [f"{own}: `{name}` is in no Args section" for name in sorted(parameters(item) - known)]
    return gaps


def gaps(path: str) -> list[str]:
    """What a reader of the page would miss."""
    module, node, text = found(path)
    if not text:
        return [f"{path} has no docstring"]
    if isinstance(node, Function):
        missing, more = parameters(node) - described(text), described(text) - parameters(node)
        return [f"{path}: `{n}` is in no Args section" for n in sorted(missing)] + [f"{path}: no `{n}`" for n in more]
    if not isinstance(node, ast.ClassDef):
        return []
    if node.name.endswith("Error"):
        return [] if re.search(r"\braised\b", text, re.IGNORECASE) else [f"{path} does not say when it is raised"]
    return gaps_of_class(path, module, node, text)


def on_pages() -> list[str]:
    return [path for page in sorted(PAGES.glob("*.md")) for path in DIRECTIVE.findall(page.read_text())]


def public() -> set[str]:
    """What hushtune's stub lists, and what docs and examples take from the public modules."""
    names = {f"hushtune.{name}" for name in listed_in("hushtune") if not name.startswith("__")}
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.py")]
    for page in pages:
        text = page.read_text()
        for module, listed in FROM.findall(text):
            names |= {f"{module}.{name.strip()}" for name in listed.split(",")}
        names |= set(DOTTED.findall(text))
    for module in ("hushtune.training", "hushtune.testing"):
        names |= {f"{module}.{name}" for name in listed_in(module) if name not in listed_in("hushtune")}
    return {name for name in names if not is_module(name)}


def listed_in(module: str) -> list[str]:
    """The names that a module, or the stub of a package, makes public."""
    if (SOURCES.joinpath(*module.split(".")) / "__init__.pyi").exists():
        return [alias.name for node in tree(module).body if isinstance(node, ast.ImportFrom) for alias in node.names]
    for node in tree(module).body if is_module(module) else []:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return [str(name) for name in ast.literal_eval(node.value)]
    return []


def test_every_public_name_is_on_a_page_once() -> None:
    listed = on_pages()
    assert sorted(public() - set(listed)) == []
    assert len(set(listed)) == len(listed)


@pytest.mark.parametrize("path", on_pages())
def test_its_docstring_is_complete(path: str) -> None:
    assert gaps(path) == []


SAMPLE = '''
class Base:
    def __init__(self, a, b):
        """Made."""
    def call(self, x):
        """Calls.

        Args:
            x: in seconds.
        """

@dataclass
class Child(Base):
    """A child.

    Args:
        c: a count,
            in words: many.
        z: nothing.
    """
    c: int
    d: float = 1.0
    name: ClassVar[str] = "child"
    def call(self, x):
        """Otherwise."""
    def other(self, y):
        """Does."""
    def silent(self): ...
'''


def test_the_checks_can_fail() -> None:
    assert gaps("hushtune.client.release.respond") != []  # not public, and has no Args section
    base, child = ast.parse(SAMPLE).body
    assert isinstance(base, ast.ClassDef)
    assert isinstance(child, ast.ClassDef)
    child.bases = []
    text = ast.get_docstring(child) or ""
    assert described(text) == {"c", "z"}
    said = " ".join(gaps_of_class("Child", "hushtune.core.errors", child, text))
    for gap in ("`d` is in no", "describes `z`", "other: `y`", "silent has no docstring", "call: `x`"):
        assert gap in said
    assert "a and b" not in said
    assert gaps_of_class("Base", "hushtune.core.errors", base, "Args:\n    a: one.\n    b: two.") == []
