"""Epsilons and deltas that a person reads are never too low: the same few helpers write them everywhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "hushtune"
HELPERS = {"up", "down", "as_set", "figure", "budget_text", "_amount"}
ROUNDING = {"round", "format"}
LATER = re.compile(r"\{[^{}]*(epsilon|delta|spent)[^{}]*:[^{}]+\}")  # for str.format
COST = re.compile(r"epsilon|(^|_)delta|^(eps|renyi|cost|spent)$")


def names_in(node: ast.AST) -> set[str]:
    """Whatever names a value: variables, attributes, and keys as in row["spent"]."""
    found = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name):
            found.add(inner.id)
        elif isinstance(inner, ast.Attribute):
            found.add(inner.attr)
        elif isinstance(inner, ast.Subscript) and isinstance(inner.slice, ast.Constant):
            found.add(str(inner.slice.value))
    return found


def called(node: ast.AST) -> str:
    name = node.func if isinstance(node, ast.Call) else None
    return name.id if isinstance(name, ast.Name) else ""


def is_cost(node: ast.AST) -> bool:
    return any(COST.search(name) for name in names_in(node))


def written_by_a_helper(node: ast.AST) -> bool:
    """A helper's text, or one of several texts, all of them a helper's or fixed ones."""
    if isinstance(node, ast.IfExp):
        return all(written_by_a_helper(one) or isinstance(one, ast.Constant) for one in (node.body, node.orelse))
    return called(node) in HELPERS


def faults(tree: ast.AST) -> Iterator[int]:
    """Lines where a cost is put into a text with another number of digits than a helper would give it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FormattedValue) and node.format_spec is not None:  # without one, no digit is lost
            product = isinstance(node.value, ast.BinOp) and "scale" in names_in(node.value)  # a sensitivity, not a cost
            fault = is_cost(node.value) and not written_by_a_helper(node.value) and not product
        elif isinstance(node, ast.Constant):
            fault = isinstance(node.value, str) and LATER.search(node.value) is not None
        elif isinstance(node, ast.Call):
            fault = called(node) in ROUNDING and any(is_cost(argument) for argument in node.args)
        else:
            fault = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and is_cost(node.right)
        if fault:
            yield node.lineno


def test_no_epsilon_or_delta_is_written_without_the_helpers() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{line}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line in faults(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        'f"{privacy.epsilon:g}"',
        'f"{result.spent.delta:.3g}"',
        "f\"{row['spent']:.3g}\"",
        'f"{cost:.4g}"',
        'f"epsilon {epsilon:.2f}"',
        '"{epsilon:.2f}".format(epsilon=1.0)',
        'f"{epsilon_of(events, 0.1):.4g}"',
        "round(budget.epsilon, 3)",
        'format(delta, ".3g")',
        '"%g" % privacy.epsilon',
        'f"{up(a) if a else spent.epsilon:.3g}"',
    ],
)
def test_such_a_line_is_found(line: str) -> None:
    assert list(faults(ast.parse(line))) == [1]


@pytest.mark.parametrize("line", ['f"{up(x.epsilon)}"', 'f"{down(left.delta, 3)}"', 'f"{scale:.4g}"', "round(rate, 3)"])
def test_others_are_not(line: str) -> None:
    assert not list(faults(ast.parse(line)))
