"""docs/results/README.md: every figure stands in a page that its row or item links to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "results" / "README.md"
LINK = re.compile(r"\]\(([^)#]+\.md)[^)]*\)")
NUMBER = re.compile(r"(?<![\w^.])\d*\.?\d+(?:,\d{3})*(?![\w^]|\.\d)")


def figures(text: str) -> set[str]:
    """Numbers as they are read: `0.847` and `.847` are the same, `1,000` is one; code and links do not count."""
    plain = re.sub(r"\]\([^)]*\)|`[^`]*`", " ", text).replace("epsilon0", "")
    return {found.replace(",", "").lstrip("0") or "0" for found in NUMBER.findall(plain)}


def claims() -> list[str]:
    """Rows of tables and items of lists; commands and plain paragraphs state no figures."""
    return [line for line in PAGE.read_text().splitlines() if line.startswith(("| ", "- ")) and figures(line)]


def missing(claim: str, pages: list[Path]) -> set[str]:
    stated = set().union(*(figures(re.sub("[`*]", "", page.read_text())) for page in pages))
    return figures(claim) - stated


@pytest.mark.parametrize("claim", claims(), ids=lambda claim: claim[:40])
def test_every_figure_stands_in_a_page_it_links_to(claim: str) -> None:
    pages = [PAGE.parent / target for target in LINK.findall(claim)]
    assert pages, "a figure needs a link to the page it is from"
    assert missing(claim, pages) == set()


def test_the_check_can_fail() -> None:
    page = PAGE.parent / "dp-hype.md"
    assert missing("| Adult .847, 100 clients | [a](dp-hype.md)", [page]) == set()
    assert missing("| Adult .8473 |", [page]) == {".8473"}
    assert figures("1,000 clients, 2^14, `k=7`, 0.5, epsilon0, [x](y3.md)") == {"1000", ".5"}


def test_every_page_of_results_is_linked_from_it() -> None:
    linked = {(PAGE.parent / target).resolve() for target in LINK.findall(PAGE.read_text())}
    pages = {page for page in PAGE.parent.glob("*.md") if "tables" not in page.name and "ballots" not in page.name}
    assert pages - linked - {PAGE} == set()
