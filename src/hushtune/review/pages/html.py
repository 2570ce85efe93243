"""Pieces of pages. Everything that a user named goes through `escape`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from typing import Any


def document(title: str, sections: Sequence[str], about: str = "") -> str:
    """A whole file that loads nothing else.

    Args:
        title: of the page.
        sections: its parts, as HTML.
        about: further tags for its head.
    """
    style = files("hushtune.review.pages").joinpath("style.css").read_text(encoding="utf-8")
    body = "\n".join(sections)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<link rel="icon" href="data:,">\n'
        f"{about}<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def section(name: str, title: str, *content: str) -> str:
    """A titled part of a page; nothing without content."""
    if not content:
        return ""
    return f'<section id="{name}">\n<h2>{title}</h2>\n' + "\n".join(content) + "\n</section>"


def table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table of texts."""
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    body = "\n".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="wide"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>'


def listing(items: Iterable[str]) -> str:
    """A list of texts."""
    return "<ul>" + "".join(f"<li>{escape(item)}</li>" for item in items) + "</ul>"


def note(text: str) -> str:
    """A paragraph in small letters."""
    return f'<p class="note">{escape(text)}</p>'
