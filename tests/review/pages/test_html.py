from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import pytest

from hushtune.review.pages.html import document, listing, note, section, table

NASTY = "<script src='//x'>\"&</script>"


class Loads(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href", "action", "srcset")]

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize(
    "made",
    [
        document(NASTY, []),
        table([NASTY], [[NASTY, 3]]),
        listing([NASTY, NASTY]),
        note(NASTY),
    ],
    ids=["title", "table", "listing", "note"],
)
def test_what_a_user_named_is_text_and_never_markup(made: str) -> None:
    page = Loads()
    page.feed(made)
    assert "script" not in page.tags
    assert NASTY in page.text


def test_a_page_loads_nothing_else() -> None:
    page = Loads()
    page.feed(document("title", [section("a", "A", note("text"))]))
    assert page.addresses == ["data:,"]
    assert "@import" not in document("title", [])
    assert "url(" not in document("title", [])


def test_a_section_without_content_is_left_out() -> None:
    assert section("a", "A") == ""
    assert section("a", "A", "one", "two").startswith('<section id="a">\n<h2>A</h2>\none\ntwo')


def test_a_table_has_a_cell_for_each_value() -> None:
    made = table(["name", "value"], [["a", 1], ["b", 2.5]])
    assert made.count("<tr>") == 3
    assert made.count("<td>") == 4
    assert "<td>2.5</td>" in made
