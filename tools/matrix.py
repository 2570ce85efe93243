"""The matrix method x seal x noise, made by running the conformance suite: `make matrix`.

Writes docs/matrix.md, and README.md between two comments. `tests/testing/test_matrix.py` runs every cell again.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import hushtune as ht
from hushtune.methods.base import Method
from hushtune.testing import Cell, Outcome, cells

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "matrix.md"
README = ROOT / "README.md"
BEGIN, END = "<!-- the matrix: written by `make matrix` -->", "<!-- end of the matrix -->"
SEALS = ("masked", "quorum", "threshold", "clear", "curator")
NOISES = ("exact", "client", "record")
Outcomes = dict[tuple[str, str, str], Outcome]


@dataclass(frozen=True)
class Row:
    """A method as the matrix shows it, with settings that make it cheap."""

    label: str
    paper: str
    page: str
    method: Method


ROWS = (
    Row("Vote", "DP-HYPE", "vote", ht.Vote(k=2, opens="sum")),
    Row('Vote(opens="winner")', "the winner only", "vote", ht.Vote(k=2, opens="winner")),
    Row("Surface", "FLoRA", "surface", ht.Surface()),
    Row('Combine("mean")', "PrivTuna", "combine", ht.Combine(most=2)),
    Row('Combine("dbscan")', "PrivTuna", "combine", ht.Combine("dbscan", most=2, cell=0.34)),
    Row("Thompson", "DP-FTS-DE", "thompson", ht.Thompson(iterations=1, initial=2, features=8)),
    Row("ProposeTest", "propose-test", "propose-test", ht.ProposeTest(granularity=0.5)),
    Row("NoisyMax", "noisy maximum", "propose-test", ht.NoisyMax()),
)
CELLS: dict[tuple[str, str, str], Cell] = {
    (row.label, cell.seal.name, cell.noise): cell for row in ROWS for cell in cells(row.method)
}

_INTRO = """# Method x seal x noise

Method, seal and noise are chosen independently. This page says what that comes to for every combination. `make matrix`
writes it by running the conformance suite of `hushtune.testing` over a made-up federation of a few clients, and
`make test` fails if a cell turns out otherwise. [Extending](extending.md) says what a working cell has passed, and how
to run the same suite over a method of your own.

- **exact**: no epsilon, exact values are opened. **client**, **record**: (epsilon, delta)-differential privacy for each
  client, or for each record (each client's rows are split between two voters, if the method takes `voters`).
- A refused cell is refused by `tune` with the line given here, before anything is written or spent.
- The last column is the suite that vouches for the cell. Seal `threshold` needs OpenFHE, so its working cells are run
  by `make test-mhe`, with the same checks; `make test` checks that without OpenFHE they are refused with a hint how to
  get it. Seal `quorum` starts node processes for every run: `make test-quorum` has its working cells.
- With epsilon, a working cell includes a measurement of the noise under its seal and unit, in sums and in answers about
  hidden sums, both of the suite's own. Not measured by cells: a method's own openings, which are too short for that,
  and the coins of secret sampling, which `tests/client/test_sampling.py` has.
- What is opened can differ from cell to cell. Seals `clear` and `curator` show the server more than is opened: every
  client's own contribution.
"""


_KEY = """*exact*: no epsilon; *client*, *record*: whom the noise protects. `Masked`, the default, `Quorum` and
`Threshold` show the server no single contribution; `Clear` and `Curator` show it all of them, as the statement says.
Tests run every cell; [the matrix](docs/matrix.md) has what each one opens, and its refusals in full."""


def suite_of(key: tuple[str, str, str], outcome: Outcome) -> str:
    """Which suite vouches for a cell."""
    slow = {"threshold": "make test-mhe", "quorum": "make test-quorum"}
    return slow.get(key[1], "make test") if outcome.state == "works" else "make test"


def line(key: tuple[str, str, str], outcome: Outcome) -> str:
    """A cell's line in docs/matrix.md."""
    _, seal, noise = key
    said = "; ".join(outcome.opened) if outcome.state == "works" else outcome.reason
    return f"| {seal} | {noise} | {outcome.state} | {said} | `{suite_of(key, outcome)}` |"


def page(outcomes: Outcomes) -> str:
    """docs/matrix.md."""
    parts = [_INTRO]
    for row in ROWS:
        lines = [line((row.label, s, n), outcomes[row.label, s, n]) for s in SEALS for n in NOISES]
        head = (
            "| seal | noise | outcome | what is opened, or why it is refused | vouched for by |\n|---|---|---|---|---|"
        )
        parts.append(f"## {row.label}\n\n[{row.paper}](methods/{row.page}.md)\n\n{head}\n" + "\n".join(lines))
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def parsed(text: str) -> Outcomes:
    """The outcomes that docs/matrix.md states."""
    found: Outcomes = {}
    label = ""
    for row in text.splitlines():
        if row.startswith("## "):
            label = row.removeprefix("## ")
        parts = [part.strip() for part in row.strip("|").split("|")]
        if label and len(parts) == 5 and parts[0] in SEALS:
            seal, noise, state, said, _ = parts
            works = state == "works"
            opened = tuple(said.split("; ")) if works else ()
            found[label, seal, noise] = Outcome(state, "" if works else said, opened)  # type: ignore[arg-type]
    return found


def short(outcome: Outcome, method: str) -> str:
    """A refusal's constraint, without the value got and the method's name."""
    return outcome.reason.split(", but got")[0].replace(f"method '{method}'", "the method")


def table(outcomes: Outcomes) -> str:
    """README's part."""
    reasons: list[str] = []
    lines = ["| method | what is opened | " + " | ".join(f"`{seal.title()}`" for seal in SEALS) + " |"]
    lines.append("|---|---|" + "---|" * len(SEALS))
    for row in ROWS:
        own = [_cell({n: outcomes[row.label, s, n] for n in NOISES}, row.method.name, reasons) for s in SEALS]
        lines.append(
            f"| [`{row.label}`](docs/methods/{row.page}.md) ({row.paper}) | {_least(row, outcomes)} | "
            + " | ".join(own)
            + " |"
        )
    said = " ".join(f"({number}) {reason}." for number, reason in enumerate(reasons, 1))
    return "\n".join([*lines, "", f"{_KEY} Refused: {said}"])


def _cell(noises: dict[str, Outcome], method: str, reasons: list[str]) -> str:
    """One seal's cell: what works, and the number of the reason for what does not."""
    why: dict[str, int] = {}
    for noise, outcome in noises.items():
        if outcome.state == "refused":
            reason = short(outcome, method)
            if reason not in reasons:
                reasons.append(reason)
            why[noise] = reasons.index(reason) + 1
    works = " · ".join(noise for noise in noises if noise not in why)
    numbers = ", ".join(f"({number})" for number in dict.fromkeys(why.values()))
    return " ".join(part for part in (works or "–", numbers) if part)


def _least(row: Row, outcomes: Outcomes) -> str:
    """What is opened with noise under the default seal, or else under the first that works."""
    order = [(seal, noise) for seal in SEALS for noise in ("client", "exact")]
    return "; ".join(next(o.opened for s, n in order if (o := outcomes[row.label, s, n]).state == "works"))


def in_readme(text: str, outcomes: Outcomes) -> str:
    """README with its part written anew."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{table(outcomes)}\n{END}{after}"


def main() -> int:
    """Runs every cell and writes both files."""
    outcomes: Outcomes = {}
    for key, cell in CELLS.items():
        outcomes[key] = outcome = cell.check()
        print(f"{' '.join(key)}: {outcome}", flush=True)
        if outcome.state == "missing":
            print("the matrix needs every cell: run `make matrix`, which gets OpenFHE first", file=sys.stderr)
            return 1
    PAGE.write_text(page(outcomes), encoding="utf-8")
    README.write_text(in_readme(README.read_text(encoding="utf-8"), outcomes), encoding="utf-8")
    print(f"written: {PAGE.relative_to(ROOT)}, README.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
