"""No module of hushtune imports what only POSIX has, not even inside a function, unless it asks for the platform."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "hushtune"
MODULES = sorted(SOURCE.rglob("*.py"))
POSIX = {
    "crypt", "curses", "fcntl", "grp", "nis", "ossaudiodev", "posix", "pty", "pwd", "readline", "resource", "spwd",
    "syslog", "termios", "tty",
}  # fmt: skip
ASKS = {("sys", "platform"), ("os", "name")}


def asks(test: ast.expr) -> bool:
    """Whether a condition asks for the platform."""
    found = [node for node in ast.walk(test) if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)]
    return any((node.value.id, node.attr) in ASKS for node in found if isinstance(node.value, ast.Name))


def imported(node: ast.AST) -> Iterator[str]:
    """Modules that are imported anywhere below a node, but for those behind a question for the platform."""
    if isinstance(node, ast.If) and asks(node.test):
        return
    if isinstance(node, ast.Import):
        yield from (name.name.partition(".")[0] for name in node.names)
    elif isinstance(node, ast.ImportFrom) and node.level == 0:
        yield (node.module or "").partition(".")[0]
    elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called in ("import_module", "__import__"):
            yield str(node.args[0].value).partition(".")[0]
    for child in ast.iter_child_nodes(node):
        yield from imported(child)


def test_nothing_that_only_posix_has_is_imported() -> None:
    assert len(MODULES) > 100
    found = {
        str(path.relative_to(SOURCE)): names
        for path in MODULES
        if (names := POSIX & set(imported(ast.parse(path.read_text(encoding="utf-8")))))
    }
    assert found == {}


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("import fcntl", True),
        ("from fcntl import flock", True),
        ("def late():\n    import os, resource", True),
        ("try:\n    import pwd\nexcept ImportError:\n    pwd = None", True),
        ("from importlib import import_module\nimport_module('termios')", True),
        ("if TYPE_CHECKING:\n    import tty", True),
        ("import sys\nif sys.platform != 'win32':\n    import fcntl", False),
        ("import os\nif os.name == 'posix':\n    import grp", False),
        ("from . import pwd", False),
        ("import os, select, signal", False),
    ],
)
def test_every_way_to_import_is_seen(code: str, found: bool) -> None:
    assert bool(POSIX & set(imported(ast.parse(code)))) == found
