"""Which commands the pages show: lines of shell blocks, and commands in backticks."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SHELL = ("", "sh", "bash", "console")
OTHER = ("python", "toml", "json", "text", "mermaid")
PROGRAMS = (
    *("hushtune", "make", "pip", "python", ".venv/bin/python", "pytest", "pre-commit"),
    *("flwr", "flower-superlink", "flower-supernode", "mkdocs", "ruff", "mypy", ".ci/run"),
    *("docker", "git", "openssl", "ssh-keygen", "printf", "cd", "export"),
)
INLINE = tuple(name for name in PROGRAMS if name not in ("cd", "export", "printf", "git"))
FENCE = re.compile(r"^ *(`{3,}|~{3,}) *([^\s`]*)")
SPAN = re.compile(r"(?<!`)(`+)(?!`)((?:(?!\n[ \t]*\n).)+?)(?<!`)\1(?!`)", re.DOTALL)
UNSEEN = re.compile(r"<!--.*?-->", re.DOTALL)
ASSIGNMENTS = re.compile(r"^(?:[A-Z_]+=\S+\s+)*")
COMMENT = re.compile(r"(?:^|\s+)#(?:\s.*)?$")


class PageError(Exception):
    """A page shows something that is neither a command nor marked as anything else."""


@dataclass(frozen=True)
class Block:
    """A fenced block; `line` is where its content begins."""

    language: str
    line: int
    lines: list[str]


@dataclass(frozen=True)
class Shown:
    """A command as a page shows it: on one line, without comments."""

    page: str
    line: int
    text: str
    inline: bool = False

    @property
    def place(self) -> str:
        """For messages."""
        return f"{self.page}:{self.line}"


def files(root: Path) -> list[str]:
    """The work tree as git sees it, with what is new and not ignored."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    return sorted({name for name in listed.stdout.split("\0") if name and (root / name).is_file()})


def pages(root: Path) -> list[str]:
    """README first, then CONTRIBUTING, docs/ and the examples' READMEs: the order in which commands run."""
    found = [root / "README.md", root / "CONTRIBUTING.md"]
    found += sorted((root / "docs").rglob("*.md")) + sorted((root / "examples").rglob("README.md"))
    return [path.relative_to(root).as_posix() for path in found]


def taken_apart(text: str) -> tuple[list[Block], str]:
    """The fenced blocks, and the rest with the blocks' lines left empty."""
    blocks: list[Block] = []
    prose: list[str] = []
    marks = ""
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if not marks and fence:
            marks = fence[1]
            blocks.append(Block(fence[2], number + 1, []))
        elif marks and fence and fence[1].startswith(marks) and not fence[2]:
            marks = ""
        elif marks:
            blocks[-1].lines.append(line)
        prose.append("" if marks or fence else line)
    return blocks, "\n".join(prose)


def commands(root: Path, page: str) -> list[Shown]:
    """All commands of a page, in its order."""
    blocks, prose = taken_apart((root / page).read_text(encoding="utf-8"))
    shown = [command for block in blocks for command in _of_block(page, block)]
    return sorted([*shown, *_of_prose(page, prose)], key=lambda command: command.line)


def _of_block(page: str, block: Block) -> Iterator[Shown]:
    if block.language in OTHER:
        return
    if block.language not in SHELL:
        raise PageError(f"{page}:{block.line}: a block must be one of {SHELL + OTHER}, but is {block.language!r}")
    begun = ""
    for number, line in _typed(block):
        begun = f"{begun} {COMMENT.sub('', line).strip()}".strip()
        if begun.endswith("\\"):
            begun = begun[:-1].rstrip()
        elif begun:
            if program(begun) not in PROGRAMS:
                raise PageError(
                    f"{page}:{number}: a block without a language must hold commands, but got {begun!r}: "
                    "mark it ```text, ```toml or ```python, or add its program to PROGRAMS"
                )
            yield Shown(page, number, begun)
            begun = ""


def _typed(block: Block) -> Iterator[tuple[int, str]]:
    """The numbered lines that somebody types: all, or in a console those after a $, to the end of the command."""
    goes_on = False
    for number, line in enumerate(block.lines, block.line):
        if block.language != "console" or goes_on:
            yield number, line
        elif line.startswith("$ "):
            yield number, line[2:]
        goes_on = line.endswith("\\") and (goes_on or line.startswith("$ "))


def _of_prose(page: str, prose: str) -> Iterator[Shown]:
    prose = UNSEEN.sub(lambda found: "\n" * found[0].count("\n"), prose)
    for span in SPAN.finditer(prose):
        text = " ".join(span[2].split())
        command = ASSIGNMENTS.sub("", text)
        if command == ".ci/run" or any(command.startswith(f"{name} ") for name in INLINE):
            yield Shown(page, prose.count("\n", 0, span.start()) + 1, text, inline=True)


def program(command: str) -> str:
    """Its first word, settings of variables left out."""
    return ASSIGNMENTS.sub("", command).split(maxsplit=1)[0]
